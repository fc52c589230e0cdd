// SPDX-License-Identifier: Apache-2.0
#include <mezzo/codegen/llvm/emit_kernel.h>

#include <mezzo/codegen/llvm/emit_families.h>
#include <mezzo/codegen/llvm/orc.h>
#include <mezzo/ir/plan.h>

namespace mezzo::codegen {

namespace {

CpuKernel emit(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol) {
  switch (ir::family_of(kernel)) {
    case ir::Family::Elementwise:
    case ir::Family::Movement:
      return emit_elementwise(module, kernel, symbol);
    case ir::Family::Optimizer:
      return emit_optimizer(module, kernel, symbol);
    case ir::Family::Rows:
    case ir::Family::RowsColumns:
      return emit_rows(module, kernel, symbol);
    case ir::Family::Columns:
      return emit_columns(module, kernel, symbol);
    case ir::Family::Scan:
      return emit_scan(module, kernel, symbol);
    case ir::Family::Sort:
      return emit_sort(module, kernel, symbol);
    case ir::Family::Matmul:
      return emit_matmul_kernel(module, kernel, symbol);
    case ir::Family::Scatter:
      return emit_scatter(module, kernel, symbol);
  }
  return {};
}

}  // namespace

CpuKernel compile_cpu_kernel(const ir::Op& kernel, const ir::Target& target,
                             const std::string& symbol) {
  ModuleBuilder module(symbol, target);
  CpuKernel result = emit(module, kernel, symbol);
  result.object = compile_module(std::move(module));
  return result;
}

std::string cpu_kernel_text(const ir::Op& kernel, const ir::Target& target,
                            const std::string& symbol, bool assembly) {
  ModuleBuilder module(symbol, target);
  emit(module, kernel, symbol);
  return assembly ? assembly_text(std::move(module)) : optimized_llvm_text(std::move(module));
}

}  // namespace mezzo::codegen
