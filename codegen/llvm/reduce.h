// SPDX-License-Identifier: Apache-2.0
// One reduction over a loop of vectors: accumulators on the stack (which become registers), lanes
// folded at the end. Internal to codegen/llvm.
#pragma once

#include <mezzo/codegen/llvm/region_emitter.h>

namespace mezzo::codegen {

/// One more factor of a product of doubles. A product of finite numbers that leaves the range stays
/// out of it until a 0 makes it 0, however its factors are grouped.
llvm::Value* running_product(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y);
/// The number that a running product stands for: infinite where it has left the range.
llvm::Value* settled_product(llvm::IRBuilderBase& b, llvm::Value* product);

/// Sums, and what a scatter_add adds at one place, accumulate in the wide type of their element
/// type: f32 for 16-bit and f32, f64 for f64, i64 for integers. A float sum restarts every
/// kSumBlock vectors and adds the block to a total in f64, which keeps the error of a lane within
/// the bound of 256 terms whatever the length. Products of floats accumulate in f64. max and min
/// compare keys of floats, of which NaN wins; argmax takes the first maximum, or the first NaN.
class Reducer {
 public:
  Reducer(RegionEmitter& emitter, const ir::Op& op, int lanes);
  const ir::Op& op() const { return op_; }

  /// Makes the accumulators empty.
  void begin();
  /// Takes one vector; `position` is the linear index of its first lane among the reduced elements.
  /// Lanes that the emitter's mask turns off do not count.
  void add(llvm::Value* value, llvm::Value* position);
  /// The reduced scalar, or a vector when `fold_lanes` is false, not rounded to the element type.
  /// `count`: elements.
  llvm::Value* finish(int64_t count, bool fold_lanes = true);

  // Where accumulators stand in memory, one a column, instead of in the function.

  /// Bytes of an accumulator of one lane.
  static int64_t accumulator_bytes(const ir::Op& op);
  llvm::Type* accumulator_type(int lanes);
  /// A vector of accumulators that have seen nothing.
  llvm::Value* empty();
  /// The accumulators with one more vector; at most kSumBlock.
  llvm::Value* with(llvm::Value* accumulators, llvm::Value* value);
  /// Takes a vector of accumulators after begin().
  void add_accumulators(llvm::Value* accumulators);

 private:
  /// A vector of elements as accumulators hold them.
  llvm::Value* widened(llvm::Value* value);
  llvm::Value* combine(llvm::Value* x, llvm::Value* y);
  llvm::Value* fold(llvm::Value* vector);
  void start_group();
  void take_group();
  void add_factor(llvm::Value* value);
  void add_argmax(llvm::Value* value, llvm::Value* position);
  llvm::Value* finish_argmax();
  llvm::Value* better(llvm::Value* value, llvm::Value* index, llvm::Value* than,
                      llvm::Value* than_index);

  RegionEmitter& emitter_;
  const ir::Op& op_;
  int lanes_;
  ir::DType dtype_;        // of the operand
  ir::DType accumulated_;  // of the accumulator
  llvm::Value* accumulator_ = nullptr;
  llvm::Value* total_ = nullptr;    // f64, float sums only
  llvm::Value* group_ = nullptr;    // f64, products of narrower floats only
  llvm::Value* counter_ = nullptr;  // vectors in the block or the group
  llvm::Value* index_ = nullptr;    // argmax
};

}  // namespace mezzo::codegen
