// SPDX-License-Identifier: Apache-2.0
// Loads and stores of vectors of any element type in its compute type (f64 for f64, i64 for
// integers, else f32), with the exact conversions that the target does best. Internal to
// codegen/llvm.
#pragma once

#include <mezzo/ir/dtype.h>

#include <vector>

namespace llvm {
class IRBuilderBase;
class Type;
class Value;
}  // namespace llvm

namespace mezzo::codegen {

/// The type that arithmetic on elements of a float `type` runs in: double for f64, else float.
llvm::Type* compute_type(llvm::IRBuilderBase& b, ir::DType type);
/// The type of one element of a float `type` in memory; bf16 is i16.
llvm::Type* storage_type(llvm::IRBuilderBase& b, ir::DType type);

/// `lanes` elements at element `index` of `base` as stored; where `mask` (null: all) is off nothing
/// is read and the lane is zero.
llvm::Value* load_raw(llvm::IRBuilderBase& b, ir::DType type, llvm::Value* base, llvm::Value* index,
                      int lanes, llvm::Value* mask);
/// The same in the compute type.
llvm::Value* load_vector(llvm::IRBuilderBase& b, ir::DType type, llvm::Value* base,
                         llvm::Value* index, int lanes, llvm::Value* mask);

/// A stored vector in its compute type, and a compute vector (float or double) rounded once to the
/// stored type.
llvm::Value* widen(llvm::IRBuilderBase& b, ir::DType type, llvm::Value* raw);
llvm::Value* narrow(llvm::IRBuilderBase& b, ir::DType type, llvm::Value* value);

/// Stores the lanes that are on, rounded once to `type`.
void store_vector(llvm::IRBuilderBase& b, ir::DType type, llvm::Value* base, llvm::Value* index,
                  llvm::Value* value, llvm::Value* mask);

/// Transposes rows.size() vectors of as many lanes (2, 4 or 8) in registers.
std::vector<llvm::Value*> transpose(llvm::IRBuilderBase& b, std::vector<llvm::Value*> rows);

}  // namespace mezzo::codegen
