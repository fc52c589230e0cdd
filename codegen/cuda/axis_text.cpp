// SPDX-License-Identifier: Apache-2.0
#include <mezzo/codegen/cuda/axis_text.h>

namespace mezzo::codegen {

AxisSpace::AxisSpace(const ir::Shape& shape, int64_t axis)
    : shape(shape), axis(static_cast<size_t>(axis)), length(shape[static_cast<int>(axis)]) {
  for (int64_t dim : outer_dims()) outer *= dim;
  for (int64_t dim : inner_dims()) inner *= dim;
}

TextCoordinates AxisSpace::coordinates(RegionText& region, const std::string& prefix, Level level,
                                       const TextIndex& along) const {
  const TextIndex before{.base = "outer", .multiple = 1, .level = level};
  const TextIndex behind{.base = "i", .multiple = 1, .level = level};
  TextCoordinates at = region.decompose(outer_dims(), prefix + "k", before, "");
  at.push_back(length == 1 ? TextIndex{} : along);
  const TextCoordinates rest = region.decompose(inner_dims(), prefix + "m", behind, "");
  at.insert(at.end(), rest.begin(), rest.end());
  return at;
}

}  // namespace mezzo::codegen
