// SPDX-License-Identifier: Apache-2.0
#include <ops/gradient_cases.h>

namespace mezzo::test {

using ir::Attrs;
using ir::OpKind;
using ir::Shape;

std::vector<GradientCase> norm_gradient_cases() {
  std::vector<GradientCase> cases;
  for (OpKind kind : {OpKind::LayerNorm, OpKind::RmsNorm}) {
    const bool centred = kind == OpKind::LayerNorm;
    const OpKind back = centred ? OpKind::LayerNormGrad : OpKind::RmsNormGrad;
    cases.push_back({kind, {{3, 5}}, {{"axis", 1}}});
    cases.push_back({kind, {{3, 5}, {5}}, {{"axis", 1}, {"eps", 0.1}}});
    cases.push_back({kind, {{2, 3, 4}, {3, 4}}, {{"axis", 1}}});
    cases.push_back({kind, {{6}, {6}}, {{"axis", 0}}});
    cases.push_back({kind, {{0, 3}, {3}}, {{"axis", 1}}});
    cases.push_back({back, {{3, 4}, {3, 4}}, {{"axis", 1}, {"eps", 0.1}}});
    cases.push_back({back, {{2, 4}, {2, 4}, {4}}, {{"axis", 1}, {"eps", 0.1}}});
  }
  cases.push_back({OpKind::LayerNorm, {{3, 5}, {5}, {5}}, {{"axis", 1}}});
  cases.push_back({OpKind::LayerNorm, {{9, 11}, {11}, {11}}, {{"axis", 1}}});
  cases.push_back({OpKind::GroupNorm, {{2, 3, 6}}, {{"groups", 2}}});
  cases.push_back({OpKind::GroupNorm, {{2, 2, 2, 4}, {4}, {4}}, {{"groups", 2}}});
  cases.push_back({OpKind::GroupNorm, {{3, 6}, {6}, {6}}, {{"groups", 1}}});
  cases.push_back({OpKind::GroupNorm, {{2, 3, 4}, {4}, {4}}, {{"groups", 4}, {"eps", 0.1}}});
  cases.push_back(
      {OpKind::GroupNormGrad, {{2, 2, 4}, {2, 2, 4}, {4}}, {{"groups", 2}, {"eps", 0.1}}});
  cases.push_back({OpKind::BatchNorm, {{5, 3}}, Attrs{}});
  cases.push_back({OpKind::BatchNorm, {{3, 2, 2, 3}, {3}, {3}}, {{"eps", 0.1}}});
  cases.push_back({OpKind::BatchNormGrad, {{4, 2}, {4, 2}, {2}, {2}, {2}, {2}}, {{"eps", 0.1}}});
  cases.push_back({OpKind::BatchNormGrad, {{3, 2, 2}, {3, 2, 2}, {2}, {2}, {2}}, {{"eps", 0.1}}});
  cases.push_back({OpKind::BatchNormInference, {{4, 3}, {3}, {3}}, Attrs{}});
  cases.push_back({OpKind::BatchNormInference, {{2, 3, 2}, {2}, {2}, {2}, {2}}, {{"eps", 0.1}}});
  return cases;
}

}  // namespace mezzo::test
