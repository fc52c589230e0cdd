// SPDX-License-Identifier: Apache-2.0
// dce: removes ops whose results nobody reads, from the last op to the first, inside kernels too.
// Ops with effects stay, and so do values that an attribute names.
//
// before:
//   func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
//     %0 = exp %x : tensor<4xf32>
//     %1 = neg %0 : tensor<4xf32>
//     %2 = relu %x : tensor<4xf32>
//     return %2 : tensor<4xf32>
//   }
// after:
//   func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
//     %0 = relu %x : tensor<4xf32>
//     return %0 : tensor<4xf32>
//   }
#include <mezzo/passes/pass.h>
#include <mezzo/passes/rewrite.h>

namespace mezzo::passes {

namespace {

/// Users stand after their operands, so one walk from the end sees every chain die.
bool remove_unused(ir::Region& region, References& references) {
  bool changed = false;
  for (ir::Op* op = region.back(); op;) {
    ir::Op* earlier = op->previous();
    if (is_removable(*op, references)) {
      references.drop(*op);
      op->erase();
      changed = true;
    } else if (op->body()) {
      changed |= remove_unused(*op->body(), references);
    }
    op = earlier;
  }
  return changed;
}

}  // namespace

bool dce(ir::Module& module, PassContext&) {
  bool changed = false;
  for (const auto& function : module.functions()) {
    References references(*function);
    changed |= remove_unused(function->body(), references);
  }
  return changed;
}

}  // namespace mezzo::passes
