// SPDX-License-Identifier: Apache-2.0
// One emitter a family; each adds the functions of a kernel to a module and says how they are
// launched. Internal to codegen/llvm.
#pragma once

#include <mezzo/codegen/llvm/emit_kernel.h>
#include <mezzo/codegen/llvm/module_builder.h>
#include <mezzo/codegen/llvm/region_emitter.h>

namespace mezzo::codegen {

/// Launches, scratch and workspace; the object is filled in later.
CpuKernel emit_elementwise(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol);
CpuKernel emit_optimizer(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol);
/// Rows and rows_columns.
CpuKernel emit_rows(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol);
CpuKernel emit_scan(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol);
CpuKernel emit_sort(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol);
CpuKernel emit_columns(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol);
CpuKernel emit_matmul_kernel(ModuleBuilder& module, const ir::Op& kernel,
                             const std::string& symbol);

CpuKernel emit_scatter(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol);

class ColumnParts;
/// The second launch of a rows_columns kernel, which adds up what the parts of the rows have left
/// in the workspace and stores the column values.
KernelLaunch emit_column_totals(ModuleBuilder& module, const ir::Op& kernel,
                                const ColumnParts& parts, const std::string& symbol);

/// Runs `body` for all positions [begin, end) along the vector axis: full vectors first, then one
/// vector under a mask. `body` gets the index of the first lane; the emitter's lanes and mask are
/// set around it.
void vector_loop(RegionEmitter& emitter, llvm::Value* begin, llvm::Value* end, int lanes,
                 const std::function<void(llvm::Value*)>& body);

/// Index per axis of the row-major position `linear` in `dims`.
std::vector<llvm::Value*> delinearize(RegionEmitter& emitter, llvm::Value* linear,
                                      std::span<const int64_t> dims);

}  // namespace mezzo::codegen
