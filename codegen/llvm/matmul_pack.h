// SPDX-License-Identifier: Apache-2.0
// Packing of one panel of an operand: `width` rows of A or columns of B, k-major, zeros outside the
// matrix. Internal to codegen/llvm.
#pragma once

#include <mezzo/codegen/llvm/emit_matmul.h>

namespace mezzo::codegen {

struct PackOperand {
  MatmulLoad load;
  /// Unset: nothing is fetched early.
  MatmulPrefetch prefetch;
  /// Stored with k along the rows of memory, so that packing transposes.
  bool k_contiguous = false;
  /// Elements of a panel side by side (mr or nr).
  int width = 0;
  /// Length of the matrix along that side.
  int64_t extent = 0;
  /// Pairs of bf16 along k.
  bool pairs = false;
  ir::DType compute = ir::DType::F32;
};

/// Writes elements [start, start + width) x k [k0, k0 + length) to `panel`, one step of k after the
/// other. Steps up to the next multiple of 8 of `length`, and where `width` does not divide into
/// vectors the first elements behind the panel, may be overwritten; with full vectors nothing
/// outside is.
void emit_pack(KernelFrame& frame, const PackOperand& operand, llvm::Value* batch,
               llvm::Value* start, llvm::Value* k0, llvm::Value* length, llvm::Value* panel);

}  // namespace mezzo::codegen
