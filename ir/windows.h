// SPDX-License-Identifier: Apache-2.0
// Windows that move along the axes of places of a tensor [batch, places ..., channels]: the
// geometry of convolution and pooling.
#pragma once

#include <mezzo/ir/attr.h>
#include <mezzo/ir/shape.h>

#include <span>
#include <vector>

namespace mezzo::ir {

/// Windows along one axis. The axis is longer by `low` and `high` elements of padding; window `p`
/// starts `stride * p` elements behind the start of the padding, and its elements are `dilation`
/// apart.
struct WindowAxis {
  int64_t length = 1;  // of the axis, without padding
  int64_t window = 1;  // elements of a window
  int64_t stride = 1, low = 0, high = 0, dilation = 1;

  /// Elements from the first to the last of a window.
  int64_t reach() const { return dilation * (window - 1) + 1; }
  /// Number of windows; 0 or less where none fits.
  int64_t places() const {
    const int64_t room = length + low + high - reach();
    return room < 0 ? 0 : room / stride + 1;
  }
  /// The place in the axis of element `element` of window `place`; in the padding it lies outside
  /// [0, length).
  int64_t at(int64_t place, int64_t element) const {
    return place * stride + element * dilation - low;
  }
  bool has(int64_t index) const { return index >= 0 && index < length; }
  /// Every element of every window lies in the axis.
  bool stays_inside() const { return low == 0 && at(places() - 1, window - 1) < length; }
};

/// The axes of places, whose lengths and windows are given, by the attributes strides, low, high
/// and, where the op has it, dilations. Each list must have as many entries as there are axes.
std::vector<WindowAxis> window_axes(const Attrs& attrs, std::span<const int64_t> lengths,
                                    std::span<const int64_t> windows);

/// [batch, places ..., channels].
Shape windowed_shape(int64_t batch, std::span<const WindowAxis> axes, int64_t channels);

/// The lengths between the first and the last axis.
std::span<const int64_t> places_of(const Shape& shape);

}  // namespace mezzo::ir
