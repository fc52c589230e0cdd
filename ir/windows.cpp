// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/windows.h>

namespace mezzo::ir {

std::vector<WindowAxis> window_axes(const Attrs& attrs, std::span<const int64_t> lengths,
                                    std::span<const int64_t> windows) {
  const std::vector<int64_t> strides = attrs.get_ints("strides"), low = attrs.get_ints("low"),
                             high = attrs.get_ints("high"),
                             dilations = attrs.has("dilations")
                                             ? attrs.get_ints("dilations")
                                             : std::vector<int64_t>(lengths.size(), 1);
  std::vector<WindowAxis> axes;
  for (size_t i = 0; i < lengths.size(); ++i)
    axes.push_back({lengths[i], windows[i], strides[i], low[i], high[i], dilations[i]});
  return axes;
}

Shape windowed_shape(int64_t batch, std::span<const WindowAxis> axes, int64_t channels) {
  std::vector<int64_t> dims{batch};
  for (const WindowAxis& axis : axes) dims.push_back(axis.places());
  dims.push_back(channels);
  return Shape(std::span<const int64_t>(dims));
}

std::span<const int64_t> places_of(const Shape& shape) {
  return shape.dims().subspan(1, static_cast<size_t>(shape.rank() - 2));
}

}  // namespace mezzo::ir
