// SPDX-License-Identifier: Apache-2.0
// Kernels of a module as CUDA text, for tests.
#pragma once

#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/verifier.h>
#include <mezzo/passes/pass.h>

#include <memory>
#include <string>
#include <vector>

namespace mezzo::test {

/// Fuses and plans a module of primitive ops for a target.
inline void plan_for(ir::Module& module, const std::string& target) {
  passes::PassContext context;
  context.target = ir::target_by_name(target);
  passes::fuse(module, context);
  module.set_stage(ir::Stage::Fused);
  passes::plan_kernels(module, context);
}

/// The pipeline `infer` for a target: of any traced module, down to planned kernels. `rounding` is
/// `as-written` or `excess`.
void compile_passes(ir::Module& module, const std::string& target,
                    const std::string& rounding = "as-written");

/// A planned kernel alone in a function `@f` whose parameters are its operands.
std::unique_ptr<ir::Module> alone(const ir::Op& kernel);

inline std::vector<const ir::Op*> kernels_of(const ir::Module& module) {
  std::vector<const ir::Op*> kernels;
  for (const auto& function : module.functions())
    for (ir::Op& op : function->body())
      if (op.kind() == ir::OpKind::Kernel) kernels.push_back(&op);
  return kernels;
}

}  // namespace mezzo::test
