// SPDX-License-Identifier: Apache-2.0
// `remap`: a tensor read at an affine function of the result's index. Along axis i of x element
// (multiples[i] * a + minor_multiples[i] * b + offsets[i]) / divisors[i] is read, where a and b are
// the indices along the axes axes[i] and minor_axes[i] of the result, 0 for axis -1. Where the
// quotient is no whole number or lies outside of x the result is 0 (-inf with `lowest`); with
// `clamp` it is rounded down and the nearest element of x is read.
#pragma once

#include <mezzo/ir/graph.h>

#include <vector>

namespace mezzo::ir {

struct RemapAxis {
  /// Axes of the result; -1: none.
  int64_t axis = -1, minor = -1;
  int64_t multiple = 1, minor_multiple = 0, offset = 0, divisor = 1;
};

/// The attributes of a remap op, one entry for each axis of its operand.
std::vector<RemapAxis> remap_axes(const Op& op);

/// Least and greatest numerator of an axis over all indices of a result of that shape.
struct RemapRange {
  int64_t least = 0, most = 0;
};
RemapRange remap_range(const RemapAxis& axis, const Shape& result);

/// Every index of the result reads an element along an axis of that length, and no division is
/// needed for it.
bool stays_inside(const RemapAxis& axis, const Shape& result, int64_t length);

}  // namespace mezzo::ir
