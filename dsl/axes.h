// SPDX-License-Identifier: Apache-2.0
// Axes as users count them and as attributes do. What is out of range stays so, for the shape rule
// to report. Inside the library only.
#pragma once

#include <mezzo/dsl/tensor.h>

#include <algorithm>

namespace mezzo::detail {

/// An axis counted from the start.
inline int64_t from_start(int64_t axis, int rank) {
  return axis < 0 && axis >= -rank ? axis + rank : axis;
}

/// Axes of a reduction in ascending order; all where none is named.
inline Axes reduced_axes(Axes axes, int rank) {
  if (axes.empty())
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  for (int64_t& axis : axes) axis = from_start(axis, rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

}  // namespace mezzo::detail
