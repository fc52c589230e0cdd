// SPDX-License-Identifier: Apache-2.0
// Inside the interpreter: what the evaluation of one op sees, the functions that evaluate the rows
// of ops.def, and the walk over a shape that they share.
#pragma once

#include <mezzo/ir/error.h>
#include <mezzo/ir/flags.h>
#include <mezzo/ir/interpreter.h>
#include <mezzo/ir/verdict.h>

#include <array>
#include <concepts>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace mezzo::ir {

/// The state of a run.
struct Execution {
  const Module& module;
  const Function& function;
  const RunOptions& options;
  std::unordered_map<const ValueDef*, InterpreterTensor> values;
  std::vector<uint32_t> words;
  bool index_range = false;

  /// Null when the value is not computed yet.
  const InterpreterTensor* find(Value value) const;
  const InterpreterTensor& get(Value value) const;
  /// Runs an op whose operands are there.
  void run_op(const Op& op);
  /// Runs the ops of a region whose parameters are set, up to its terminator.
  void run_region(const Region& region);
};

/// The largest number of a word in the region and in the kernels inside it, or -1.
int64_t largest_word(const Region& region);

/// One op being evaluated: operands, and results that start as zeros.
struct OpRun {
  Execution& execution;
  const Op& op;
  std::vector<const InterpreterTensor*> operands;
  std::vector<InterpreterTensor> results;

  const InterpreterTensor& operand(int index) const {
    return *operands[static_cast<size_t>(index)];
  }
  InterpreterTensor& result(int index = 0) { return results[static_cast<size_t>(index)]; }
  int num_operands() const { return static_cast<int>(operands.size()); }

  /// Stores a wide float, rounded once, and notes what a kernel would note in the flag word.
  void store(int64_t index, double wide) { store(0, index, wide); }
  void store(int result, int64_t index, double wide);
  /// Stores an integer wrapped to the type of the result.
  void store_integer(int64_t index, int64_t value);
  /// All elements of the first result.
  void store_all(const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) store(static_cast<int64_t>(i), values[i]);
  }
  void store_all(const std::vector<int64_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) store_integer(static_cast<int64_t>(i), values[i]);
  }
  /// ORs into the word of the op, if it has one.
  void flag(FlagBit bit);
};

#define ELEMENTWISE(...)
#define STRUCTURAL(Kind, name, ...) void eval_##name(OpRun& run);
#define COMPOSITE(Kind, name, ...) void eval_##name(OpRun& run);
#include <mezzo/ir/ops.def>
void eval_elementwise(OpRun& run);

/// 0 where the cotangent is 0, whatever the derivative.
template <std::floating_point T>
T mul0(T cotangent, std::type_identity_t<T> derivative) {
  return cotangent == 0 ? 0 : cotangent * derivative;
}

using Strides = std::array<int64_t, kMaxRank>;

/// Strides of a tensor of shape `from` when it is read at the indices of `to`: 0 along broadcast
/// axes.
Strides broadcast_strides(const Shape& from, const Shape& to);

/// Strides that send an index of the operand of a reduction to the place of its group in the
/// result: row-major over the kept axes, 0 along the reduced ones.
Strides group_strides(const Shape& shape, const std::vector<int64_t>& axes);

/// A product that neither overflows nor underflows on the way: a mantissa, which is 0, infinite or
/// NaN where the product is, times a power of two.
struct RunningProduct {
  long double mantissa = 1;
  int64_t exponent = 0;

  RunningProduct times(double x) const;
  double value() const;
};

/// Visits the indices of a shape in row-major order.
class IndexWalk {
 public:
  explicit IndexWalk(const Shape& shape) : shape_(shape), left_(shape.elements()) {}
  bool done() const { return left_ == 0; }
  void advance();
  /// Place of the current element in row-major order.
  int64_t linear() const { return linear_; }
  int64_t operator[](int axis) const { return index_[static_cast<size_t>(axis)]; }
  /// Σ index × stride.
  int64_t offset(const Strides& strides) const;

 private:
  Shape shape_;
  std::array<int64_t, kMaxRank> index_{};
  int64_t left_ = 0, linear_ = 0;
};

/// A tensor seen as [outer, length, inner] around one axis; element (o, k, i) stands at
/// (o * length + k) * inner + i.
struct AxisView {
  int64_t outer = 1, length = 1, inner = 1;
  AxisView(const Shape& shape, int64_t axis);
  int64_t at(int64_t o, int64_t k, int64_t i) const { return (o * length + k) * inner + i; }
};

/// Calls `line(places)` for every line of the first operand along the attribute `axis`: the places
/// of its elements in row-major order, last one first with `reverse`.
void for_each_line(const OpRun& run, auto line, bool reverse = false) {
  const AxisView view(run.operand(0).type.shape, run.op.int_attr("axis"));
  std::vector<int64_t> places(static_cast<size_t>(view.length));
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      for (int64_t k = 0; k < view.length; ++k)
        places[static_cast<size_t>(k)] = view.at(o, reverse ? view.length - 1 - k : k, i);
      line(places);
    }
}

}  // namespace mezzo::ir
