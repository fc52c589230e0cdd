// SPDX-License-Identifier: Apache-2.0
// Register-tile products: the inner loop of every matrix product, the same code for all shapes.
// Internal to codegen/llvm.
#pragma once

#include <mezzo/codegen/llvm/module_builder.h>
#include <mezzo/ir/dtype.h>

namespace mezzo::codegen {

/// What identifies a microkernel on a target.
struct MicrokernelSpec {
  /// F32, F64, or BF16: pairs along k through the bf16 dot product of AVX512-BF16.
  ir::DType type = ir::DType::F32;
  /// Rows and columns of the register tile; nr is a multiple of the vector's lanes.
  int mr = 6, nr = 16;
};

/// Name of the function, `mezzo_mk_f32_6x16`.
std::string microkernel_name(const MicrokernelSpec& spec);

/// `void mk(const void* a, const void* b, i64 k, acc* c, i64 ldc, i64 accumulate)`: c[mr x nr] = or
/// += a·b. `a` holds mr elements a step of k, `b` nr; a BF16 step is a pair of k, so `k` counts
/// pairs. `c` is f32 (f64). Internal to the module; a second call gives the same function.
llvm::Function* emit_microkernel(ModuleBuilder& module, const MicrokernelSpec& spec);

/// Kernel `name` that runs the microkernel once a task, always on the same panels of `k` steps in
/// its scratch (A, then B, then C, each 64-byte aligned): the machine's own ceiling, to divide by.
void emit_microkernel_loop(ModuleBuilder& module, const MicrokernelSpec& spec, int64_t k,
                           const std::string& name);

}  // namespace mezzo::codegen
