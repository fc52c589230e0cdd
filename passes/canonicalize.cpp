// SPDX-License-Identifier: Apache-2.0
// canonicalize: simplifies by rules that hold for every value, NaN, infinities, -0 and 16-bit
// rounding included. x*0, x-x, x/x are not touched for floats; casts of the user stay; before
// autodiff nothing that a gradient could see (relu, maximum, where, abs, pow, stop_gradient) is
// exchanged for another. Also removes ops that nobody reads.
//
// before:
//   func @f(%x: tensor<3x3xf32>, %w: tensor<3x3xf32>) -> tensor<3x3xf32> {
//     %one = constant {value = 1.0} : tensor<f32>
//     %0 = mul %x, %one : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
//     %1 = transpose %w {perm = [1, 0]} : tensor<3x3xf32>
//     %2 = matmul %0, %1 : tensor<3x3xf32>
//     return %2 : tensor<3x3xf32>
//   }
// after:
//   func @f(%x: tensor<3x3xf32>, %w: tensor<3x3xf32>) -> tensor<3x3xf32> {
//     %0 = matmul %x, %w {transpose_b = true} : tensor<3x3xf32>
//     return %0 : tensor<3x3xf32>
//   }
#include <mezzo/passes/canonicalize_rules.h>
#include <mezzo/passes/pass.h>

namespace mezzo::passes {

bool canonicalize(ir::Module& module, PassContext&) {
  std::vector<RewriteRule> rules(algebra_rules().begin(), algebra_rules().end());
  rules.insert(rules.end(), view_rules().begin(), view_rules().end());
  bool differentiated = module.stage() >= ir::Stage::Differentiated;
  bool changed = false;
  for (const auto& function : module.functions())
    changed |= rewrite(function->body(), rules, differentiated);
  return changed;
}

}  // namespace mezzo::passes
