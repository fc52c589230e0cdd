// SPDX-License-Identifier: Apache-2.0
// A space around the axis that a kernel runs along, as CUDA text. Used by scans and by order.
#pragma once

#include <mezzo/codegen/cuda/region_text.h>

#include <cstdint>
#include <span>
#include <string>

namespace mezzo::codegen {

struct AxisSpace {
  ir::Shape shape;
  size_t axis;
  int64_t outer = 1, length = 1, inner = 1;

  AxisSpace(const ir::Shape& shape, int64_t axis);
  int64_t lines() const { return outer * inner; }
  std::span<const int64_t> outer_dims() const { return shape.dims().first(axis); }
  std::span<const int64_t> inner_dims() const { return shape.dims().subspan(axis + 1); }

  /// Coordinates of element `along` of the line that the names `outer` and `i` stand for, which
  /// are known at `level`; their parts get names that start with `prefix`.
  TextCoordinates coordinates(RegionText& region, const std::string& prefix, Level level,
                              const TextIndex& along) const;
};

}  // namespace mezzo::codegen
