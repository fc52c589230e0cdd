// SPDX-License-Identifier: Apache-2.0
// A matrix product as kernel functions: tasks over blocks of C, packing with a prologue, the
// register-tile kernel, an epilogue on the finished tile. Knows nothing of the graph; the hooks do.
// Internal to codegen/llvm.
#pragma once

#include <mezzo/codegen/llvm/module_builder.h>
#include <mezzo/ir/matmul_plan.h>

#include <functional>

namespace mezzo::codegen {

using ir::MatmulScratch;
using ir::MatmulSpec;

/// Gives `lanes` elements of a stored operand, [row][column] to [row][column + lanes - 1], in the
/// compute type. Where `mask` (null: all on) is off nothing may be read and the lane must be zero;
/// row and column may be outside there.
using MatmulLoad =
    std::function<llvm::Value*(KernelFrame& frame, llvm::Value* batch, llvm::Value* row,
                               llvm::Value* column, int lanes, llvm::Value* mask)>;

/// Takes finished accumulators of C, [row][column] onwards, one vector in the compute type; stores
/// lanes that are on.
using MatmulStore = std::function<void(KernelFrame& frame, llvm::Value* batch, llvm::Value* row,
                                       llvm::Value* column, llvm::Value* acc, llvm::Value* mask)>;

/// Tells the caches that [row][column] onwards will be read or written soon; the place may be
/// outside the matrix.
using MatmulPrefetch = std::function<void(KernelFrame& frame, llvm::Value* batch, llvm::Value* row,
                                          llvm::Value* column)>;

struct MatmulHooks {
  /// Unset: buffer 0 (A), buffer 1 (B) and buffer 2 (C), converted.
  MatmulLoad load_a, load_b;
  MatmulStore store;
  /// Unset: nothing is fetched early.
  MatmulPrefetch prefetch_a, prefetch_b, prefetch_c;
  /// Called first and last in every function, for what is set up and written once.
  std::function<void(KernelFrame&)> start, finish;
  /// Buffer that holds the workspace, if `workspace_bytes` is not 0.
  int workspace_buffer = 3;
};

/// The launches of kernel `name`, in order: `name.pack`, `name`, `name.reduce`, of which only
/// `name` is always there.
std::vector<KernelLaunch> matmul_launches(const MatmulSpec& spec, const std::string& name);

/// Adds the functions that `matmul_launches(spec, name)` lists to the module.
void emit_matmul(ModuleBuilder& module, const MatmulSpec& spec, const std::string& name,
                 const MatmulHooks& hooks = {});

/// The operand or result `[batch][rows][columns]` in buffer `buffer`, as a hook; `shared`: one
/// matrix for all.
MatmulLoad load_from_buffer(int buffer, ir::DType type, int64_t rows, int64_t columns, bool shared);
MatmulStore store_to_buffer(int buffer, ir::DType type, int64_t rows, int64_t columns);

}  // namespace mezzo::codegen
