// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/remap.h>

#include <algorithm>

namespace mezzo::ir {

std::vector<RemapAxis> remap_axes(const Op& op) {
  const std::vector<int64_t> axes = op.ints_attr("axes"), multiples = op.ints_attr("multiples"),
                             offsets = op.ints_attr("offsets"), divisors = op.ints_attr("divisors"),
                             minors = op.attrs().get_ints("minor_axes"),
                             minor_multiples = op.attrs().get_ints("minor_multiples");
  std::vector<RemapAxis> out;
  for (size_t i = 0; i < axes.size(); ++i)
    out.push_back({.axis = axes[i],
                   .minor = minors.empty() ? -1 : minors[i],
                   .multiple = multiples[i],
                   .minor_multiple = minors.empty() ? 0 : minor_multiples[i],
                   .offset = offsets[i],
                   .divisor = divisors[i]});
  return out;
}

RemapRange remap_range(const RemapAxis& axis, const Shape& result) {
  RemapRange range{axis.offset, axis.offset};
  auto add = [&](int64_t along, int64_t multiple) {
    if (along < 0) return;
    const int64_t farthest = multiple * std::max<int64_t>(0, result[static_cast<int>(along)] - 1);
    (farthest < 0 ? range.least : range.most) += farthest;
  };
  add(axis.axis, axis.multiple);
  add(axis.minor, axis.minor_multiple);
  return range;
}

bool stays_inside(const RemapAxis& axis, const Shape& result, int64_t length) {
  const RemapRange range = remap_range(axis, result);
  return axis.divisor == 1 && range.least >= 0 && range.most < length;
}

}  // namespace mezzo::ir
