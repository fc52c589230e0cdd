// SPDX-License-Identifier: Apache-2.0
// Evaluates values of a kernel's region as LLVM vectors. Evaluation is on demand, from a result
// down to the loads: each value is asked for at coordinates, one index an axis, and views are
// nothing but arithmetic on coordinates. What every emitter of a family adds is the loops. Internal
// to codegen/llvm.
#pragma once

#include <mezzo/codegen/llvm/module_builder.h>
#include <mezzo/ir/graph.h>

#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace mezzo::codegen {

/// Index along one axis: `base + stride * lane`, stride in elements of that axis; the base is a
/// vector where lanes stand in no such line.
struct AxisIndex {
  llvm::Value* base = nullptr;  // i64, or a vector of them: each lane has its own
  int64_t stride = 0;
  /// Where it is known of all lanes that are on, they lie in [least, beyond); else beyond < 0.
  int64_t least = 0, beyond = -1;
  auto operator<=>(const AxisIndex&) const = default;
};
using Coordinates = std::vector<AxisIndex>;

/// A value at coordinates. Floats are in the compute type (float, or double for f64), already
/// rounded to their element type; integers in their own width; bool as i1. A scalar when no
/// coordinate varies by lane, else a vector.
class RegionEmitter {
 public:
  RegionEmitter(KernelFrame& frame, const ir::Op& kernel);

  /// Lanes of vectors that vary, and which of them are on (null: all). Masked-off lanes are never
  /// read, stored or flagged.
  void set_lanes(int lanes, llvm::Value* mask) {
    lanes_ = lanes;
    mask_ = mask;
  }
  int lanes() const { return lanes_; }
  llvm::Value* mask() const { return mask_; }

  llvm::Value* eval(ir::Value value, const Coordinates& at);
  /// As a vector of all lanes.
  llvm::Value* eval_vector(ir::Value value, const Coordinates& at);
  /// Presets the value of an op wherever it is asked for in this scope: a reduction's result, a
  /// product's accumulator. Rounds to the op's element type and flags it when `rounded` is false.
  void preset(ir::Value value, llvm::Value* computed, bool rounded = true);
  void forget(ir::Value value) { presets_.erase(value.def()); }
  /// Every one-element value of the region that does not depend on the loops, once, before them.
  void eval_scalars();

  /// Stores a kernel result (yield number `index`) at coordinates that vary along the last axis
  /// only.
  void store(int index, llvm::Value* value, const Coordinates& at);

  /// Asks the caches for what `value` at `at` will read of the kernel's parameters: through casts,
  /// views and other ops of one operand, whose coordinates may be outside the tensor.
  void prefetch_parameters(ir::Value value, const Coordinates& at);
  /// Asks the caches for the place of a kernel result that will be written.
  void prefetch_result(int index, const Coordinates& at);

  /// Values computed inside a scope are forgotten at its end (they may not dominate what follows).
  class Scope {
   public:
    explicit Scope(RegionEmitter& emitter) : emitter_(emitter) { emitter_.known_.emplace_back(); }
    ~Scope() { emitter_.known_.pop_back(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RegionEmitter& emitter_;
  };

  /// ORs what the flagged ops saw into their words; call once, at the end of the function.
  void write_flags();

  /// An index as i64 and whether it is outside of [0, size), which is flagged.
  std::pair<llvm::Value*, llvm::Value*> checked_index(ir::Value indices, const Coordinates& at,
                                                      int64_t size);

  /// Coordinates of an operand of `op` that is asked for at `at` (not for reductions and products).
  Coordinates operand_coordinates(const ir::Op& op, int operand, const Coordinates& at);
  /// All coordinates 0.
  Coordinates origin(const ir::Shape& shape);

  KernelFrame& frame() { return frame_; }
  const ir::Op& kernel() const { return kernel_; }
  llvm::IRBuilderBase& builder() { return frame_.builder(); }
  llvm::Value* index(int64_t value);

  // Arithmetic on evaluated values, shared with the reductions.
  /// Elementwise op on operands of equal lanes; not rounded.
  llvm::Value* compute(const ir::Op& op, std::vector<llvm::Value*> operands);
  /// maximum or minimum by the op table's rules, in the compute type of `dtype`.
  llvm::Value* extremum(bool maximum, ir::DType dtype, llvm::Value* x, llvm::Value* y);
  llvm::Type* compute_type_of(ir::DType dtype, int lanes);
  llvm::Value* splat(llvm::Value* value, int lanes);
  /// Rounded to `dtype`; the same value for types that the compute type holds exactly.
  llvm::Value* round(ir::DType dtype, llvm::Value* value);
  llvm::Value* convert(ir::DType from, ir::DType to, llvm::Value* value);
  /// Flags of an op whose unrounded and rounded results are given.
  void flag(const ir::Op& op, const std::vector<llvm::Value*>& operands, llvm::Value* unrounded,
            llvm::Value* rounded);

 private:
  using Key = std::pair<const ir::ValueDef*, Coordinates>;

  llvm::Value* eval_op(const ir::Op& op, const Coordinates& at);
  llvm::Value* load(ir::Value parameter, const Coordinates& at);
  void prefetch(int buffer, ir::Value value, const Coordinates& at, bool write);
  llvm::Value* load_at(ir::DType dtype, llvm::Value* base, llvm::Value* offset, int64_t stride);
  llvm::Value* pad(const ir::Op& op, const Coordinates& at);
  llvm::Value* concat(const ir::Op& op, const Coordinates& at);
  void store_part(llvm::Value* slot, const ir::Op& op, const Coordinates& at, size_t part);
  llvm::Value* gather(const ir::Op& op, const Coordinates& at);
  llvm::Value* remap(const ir::Op& op, const Coordinates& at);
  llvm::Value* iota(const ir::Op& op, const Coordinates& at);
  llvm::Value* random(const ir::Op& op, const Coordinates& at);
  llvm::Value* random_element(const ir::Op& op, llvm::Value* element, llvm::Value* seed,
                              llvm::Value* step);
  llvm::Value* check_index(const ir::Op& op, llvm::Value* value);
  /// An index as i64, and whether it is outside of [0, size).
  std::pair<llvm::Value*, llvm::Value*> outside(ir::DType dtype, llvm::Value* value, int64_t size);
  void raise_range(llvm::Value* bad);
  /// On the stack, where mem2reg finds it; zero when the function starts.
  llvm::Value* zeroed_slot(llvm::Type* type);
  llvm::Value* constant(const ir::Op& op);
  /// floor_div or remainder; nothing traps, in no lane.
  llvm::Value* divide_integers(bool quotient, bool is_unsigned, llvm::Value* x, llvm::Value* y);
  llvm::Value* compute_integer(const ir::Op& op, const std::vector<llvm::Value*>& operands);
  /// An i64 as one that a double holds: correct where only a rounding to 16 bits follows.
  llvm::Value* shorten_to_double(llvm::Value* value);
  llvm::Value* any_lane(llvm::Value* condition);
  void accumulate(const ir::Op& op, unsigned bit, llvm::Value* condition);
  void watch_magnitude(const ir::Op& op, llvm::Value* value);
  /// The index differs from lane to lane.
  static bool varies(const AxisIndex& axis);
  static bool uniform(const Coordinates& at);
  /// Row-major linear index, a vector where each lane has its own, and its stride by lane.
  std::pair<llvm::Value*, int64_t> linear(const ir::Shape& shape, const Coordinates& at);
  /// Index along one axis as a vector of i64.
  llvm::Value* lane_indices(const AxisIndex& axis);

  KernelFrame& frame_;
  const ir::Op& kernel_;
  int lanes_ = 1;
  llvm::Value* mask_ = nullptr;
  std::vector<std::map<Key, llvm::Value*>> known_;
  /// (word, lanes, bit) -> accumulator on the stack, a mask of i32
  std::map<std::tuple<int64_t, int, unsigned>, llvm::Value*> flags_;
  /// (word, lanes) -> the largest magnitude so far, on the stack
  std::map<std::pair<int64_t, int>, llvm::Value*> magnitudes_;
  llvm::Value* range_flag_ = nullptr;
  std::unordered_map<const ir::Op*, int> slots_;
  std::unordered_map<const ir::ValueDef*, llvm::Value*> presets_;
};

}  // namespace mezzo::codegen
