// SPDX-License-Identifier: Apache-2.0
// Follows the axis of samples from the inputs to the results; where an op adds over it, padding is
// replaced by what adds nothing. Gradients inside of the function are not followed.
//
// Before:
//   func @loss(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<f32> {
//     %0 = sub %x, %y : tensor<4x3xf32>
//     %1 = mean %0 {axes = [0, 1]} : tensor<4x3xf32> -> tensor<f32>
//     return %1 : tensor<f32>
//   }
// After:
//   func @loss(..., %count: tensor<i32>) -> tensor<f32> {
//     %0 = sub %x, %y : tensor<4x3xf32>
//     %1 = iota : tensor<4x1xi32>
//     %2 = lt %1, %count : ...
//     %3 = where %2, %0, 0 : ...
//     %4 = sum %3 {axes = [0, 1]} : tensor<4x3xf32> -> tensor<f32>
//     %5 = div %4, cast(%count * 3) : tensor<f32>
//     return %5 : tensor<f32>
//   }
#include <mezzo/dsl/batch_mask.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/passes/training_step.h>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

namespace mezzo::detail {

namespace {

using ir::Op;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

/// Thrown where samples meet in a way that a mask does not cover; leaves this file only as nothing.
struct Mixed {};

bool has_labels(const Op& op) {
  return op.kind() == OpKind::CrossEntropy || op.kind() == OpKind::Nll;
}

class Axes {
 public:
  explicit Axes(int64_t batch) : batch_(batch) {}

  /// The axis of samples of a value, or -1.
  int of(Value value) const {
    auto found = axes_.find(value.def());
    return found == axes_.end() ? -1 : found->second;
  }
  void set(Value value, int axis) {
    if (axis < 0) return;
    if (value.shape()[axis] != batch_) throw Mixed();
    axes_[value.def()] = axis;
  }
  /// Follows the axis through an op; true when the op adds over it.
  bool follow(const Op& op);

 private:
  static int from_right(Value value, int axis) { return value.type().rank() - axis; }
  void elementwise(const Op& op);
  bool reduction(const Op& op);
  void matmul(const Op& op);
  void attention(const Op& op);
  void reshape(const Op& op);
  void movement(const Op& op);
  bool alone(const Op& op, bool apart);

  int64_t batch_;
  std::unordered_map<const ir::ValueDef*, int> axes_;
};

/// Axes are matched from the last one; all operands that have samples must have them at one place.
void Axes::elementwise(const Op& op) {
  int place = -1;
  for (Value operand : op.operands()) {
    int axis = of(operand);
    if (axis < 0) continue;
    if (place >= 0 && place != from_right(operand, axis)) throw Mixed();
    place = from_right(operand, axis);
  }
  set(op.result(), op.result().type().rank() - place);
}

bool Axes::reduction(const Op& op) {
  int axis = of(op.operand(0));
  const bool one = op.kind() == OpKind::Argmax || op.kind() == OpKind::Argmin;
  std::vector<int64_t> axes = one ? std::vector{op.int_attr("axis")} : op.ints_attr("axes");
  if (std::ranges::count(axes, axis)) {
    if (op.kind() == OpKind::Sum || op.kind() == OpKind::Mean) return true;
    throw Mixed();
  }
  auto before = std::ranges::count_if(axes, [axis](int64_t each) { return each < axis; });
  set(op.result(), op.bool_attr("keepdims") ? axis : axis - static_cast<int>(before));
  return false;
}

void Axes::matmul(const Op& op) {
  int rank = op.result().type().rank(), place = -1;
  for (int i = 0; i < 2; ++i) {
    Value operand = op.operand(i);
    int axis = of(operand);
    if (axis < 0) continue;
    int right = from_right(operand, axis);
    if (right <= 2) {
      // 1 is the last axis; the one that is summed over is the last of a, the last but one of b.
      bool transposed = op.bool_attr(i == 0 ? "transpose_a" : "transpose_b");
      if ((right == 1) == ((i == 0) != transposed)) throw Mixed();
      right = i == 0 ? 2 : 1;
    }
    if (place >= 0 && place != right) throw Mixed();
    place = right;
  }
  set(op.result(), rank - place);
}

/// Samples are the batch of every operand that has them.
void Axes::attention(const Op& op) {
  for (Value operand : op.operands())
    if (of(operand) >= 0 && from_right(operand, of(operand)) != 4) throw Mixed();
  for (Value result : op.results()) set(result, 0);
}

/// Samples stay one axis when the elements before it are as many as they were.
void Axes::reshape(const Op& op) {
  auto before = [](const Shape& shape, int axis) {
    int64_t count = 1;
    for (int i = 0; i < axis; ++i) count *= shape[i];
    return count;
  };
  Value from = op.operand(0), to = op.result();
  int64_t wanted = before(from.shape(), of(from));
  for (int axis = 0; axis < to.type().rank(); ++axis)
    if (to.shape()[axis] == batch_ && before(to.shape(), axis) == wanted) return set(to, axis);
  throw Mixed();
}

void Axes::movement(const Op& op) {
  Value from = op.operand(0), to = op.result();
  int axis = of(from);
  auto at_axis = [&](const char* name) { return op.ints_attr(name)[static_cast<size_t>(axis)]; };
  if (op.kind() == OpKind::Transpose) {
    std::vector<int64_t> perm = op.ints_attr("perm");
    return set(to, static_cast<int>(std::ranges::find(perm, axis) - perm.begin()));
  }
  if (op.kind() == OpKind::BroadcastTo) return set(to, to.type().rank() - from_right(from, axis));
  if (op.kind() == OpKind::Slice && (at_axis("starts") != 0 || at_axis("steps") != 1))
    throw Mixed();
  if (op.kind() == OpKind::Pad && at_axis("low") != 0) throw Mixed();
  set(to, axis);  // throws where the length has changed
}

/// An op on each sample alone when they lie `apart`, along the same axis of its first operand and
/// its result; no other operand may have samples.
bool Axes::alone(const Op& op, bool apart) {
  const int axis = of(op.operand(0));
  for (int i = 1; i < op.num_operands(); ++i) apart &= of(op.operand(i)) < 0;
  if (axis < 0 || !apart) throw Mixed();
  set(op.result(), axis);
  return false;
}

bool Axes::follow(const Op& op) {
  bool reads = std::ranges::any_of(op.operands(), [&](Value value) { return of(value) >= 0; });
  if (!reads || op.kind() == OpKind::Return) return false;
  if (ir::is_elementwise(op.kind())) {
    elementwise(op);
    return false;
  }
  switch (op.kind()) {
    case OpKind::Sum:
    case OpKind::Mean:
    case OpKind::Max:
    case OpKind::Min:
    case OpKind::Argmax:
    case OpKind::Argmin:
    case OpKind::Prod:
    case OpKind::AnyOf:
    case OpKind::AllOf:
    case OpKind::CountNonzero:
    case OpKind::Var:
    case OpKind::Stddev:
    case OpKind::LogSumExp:
    case OpKind::Norm:
      return reduction(op);
    case OpKind::Matmul:
      matmul(op);
      return false;
    case OpKind::Reshape:
      reshape(op);
      return false;
    case OpKind::Transpose:
    case OpKind::BroadcastTo:
    case OpKind::Slice:
    case OpKind::Pad:
      movement(op);
      return false;
    case OpKind::Softmax:
    case OpKind::LogSoftmax:
    case OpKind::Cumsum:
    case OpKind::Cumprod:
    case OpKind::Cummax:
    case OpKind::Cummin:
    case OpKind::Sort:
    case OpKind::Argsort:
      if (op.int_attr("axis") == of(op.operand(0))) throw Mixed();
      set(op.result(), of(op.operand(0)));
      return false;
    case OpKind::Bce:
    case OpKind::BceWithLogits:
    case OpKind::KlDiv:
      elementwise(op);
      return false;
    case OpKind::Dropout:  // draws by the number of the element
      set(op.result(), of(op.operand(0)));
      return false;
    case OpKind::Attention:
      attention(op);
      return false;
    case OpKind::CustomGradient:
      for (int i = 0; i < op.num_results(); ++i)
        set(op.result(i), of(op.operand(static_cast<int>(op.int_attr("inputs")) + i)));
      return false;
    case OpKind::Conv:
    case OpKind::MaxPool:
    case OpKind::AvgPool:
    case OpKind::UpsampleNearest:
    case OpKind::UpsampleLinear:
    case OpKind::GroupNorm:
      return alone(op, of(op.operand(0)) == 0);
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      return alone(op, of(op.operand(0)) < op.int_attr("axis"));
    case OpKind::BatchNormInference:
      return alone(op, of(op.operand(0)) < op.operand(0).type().rank() - 1);
    case OpKind::CrossEntropy:
    case OpKind::Nll:
      // Classes lie along the last axis; an ignored label counts for nothing.
      if (of(op.operand(0)) != of(op.operand(1))) throw Mixed();
      if (op.string_attr("reduce") != "none") return true;
      set(op.result(), of(op.operand(1)));
      return false;
    default:
      throw Mixed();
  }
}

class Masker {
 public:
  Masker(Value count, const Axes& axes) : count_(count), axes_(axes) {}

  void mask(Op& op) {
    Builder builder(&op);
    builder.set_location(op.location());
    if (has_labels(op))
      op.set_operand(
          1, counted(builder, op.operand(1), static_cast<double>(op.int_attr("ignore_index"))));
    else if (op.kind() == OpKind::Sum)
      op.set_operand(0, counted(builder, op.operand(0), 0));
    else
      mask_mean(builder, op);
  }

 private:
  using Builder = ir::Builder;

  /// `value` with `filler` in place of padding.
  Value counted(Builder& builder, Value value, double filler) {
    int axis = axes_.of(value), rank = value.type().rank();
    std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
    dims[static_cast<size_t>(axis)] = value.shape()[axis];
    Type type(ir::DType::I32, Shape(std::span<const int64_t>(dims)));
    Value sample = builder.make(OpKind::Iota, {}, {{"axis", axis}}, {type});
    Value counts = builder.make(OpKind::Lt, {sample, count_});
    return builder.make(OpKind::Where,
                        {counts, value, builder.constant(Type(value.dtype(), {}), filler)});
  }

  /// As passes/decompose_rows.cpp takes a mean: sum and division in f32, one rounding.
  void mask_mean(Builder& builder, Op& op) {
    Value x = op.operand(0);
    std::vector<int64_t> axes = op.ints_attr("axes");
    double others = 1;
    for (int64_t axis : axes)
      if (axis != axes_.of(x)) others *= static_cast<double>(x.shape()[static_cast<int>(axis)]);
    ir::DType wide = x.dtype() == ir::DType::F64 ? ir::DType::F64 : ir::DType::F32;
    Value sum =
        builder.sum(builder.cast(counted(builder, x, 0), wide), axes, op.bool_attr("keepdims"));
    Value number = builder.make(
        OpKind::Mul, {builder.cast(count_, wide), builder.constant(Type(wide, {}), others)});
    Value mean = builder.make(OpKind::Div, {sum, number});
    op.result().replace_all_uses_with(builder.cast(mean, x.dtype()));
    op.erase();
  }

  Value count_;
  const Axes& axes_;
};

/// The ops that add over samples; throws Mixed.
std::vector<Op*> find_sums(ir::Function& function, Axes& axes) {
  std::vector<Op*> sums;
  axes.set(function.parameter(0), 0);
  axes.set(function.parameter(1), 0);
  for (Op& op : function.body())
    if (axes.follow(op)) {
      int64_t ignored = has_labels(op) ? op.int_attr("ignore_index") : 0;
      if (ignored != static_cast<int32_t>(ignored)) throw Mixed();  // no label can say it
      sums.push_back(&op);
    }
  for (Value result : function.results())
    if (axes.of(result) >= 0) throw Mixed();
  return sums;
}

/// Throws Mixed where a value without samples, a constant say, is another one for another batch.
void compare(const ir::Function& function, const ir::Function& other, const Axes& axes) {
  const Op* same = other.body().front();
  for (const Op& op : function.body()) {
    if (!same || op.kind() != same->kind() || op.num_results() != same->num_results())
      throw Mixed();
    for (int i = 0; i < op.num_results(); ++i) {
      if (axes.of(op.result(i)) >= 0) continue;
      if (op.result(i).type() != same->result(i).type() || op.attrs() != same->attrs())
        throw Mixed();
    }
    same = same->next();
  }
  if (same) throw Mixed();
}

}  // namespace

std::optional<std::string> mask_batch(ir::Function& function, const ir::Module* other_batch) {
  if (!other_batch) return std::nullopt;
  MEZZO_CHECK(function.num_parameters() >= 2 && function.parameter(0).type().rank() > 0 &&
                  function.parameter(1).type().rank() > 0,
              "a function of inputs and targets, samples along their first axis");
  Axes axes(function.parameter(0).shape()[0]);
  std::vector<Op*> sums;
  try {
    sums = find_sums(function, axes);
    compare(function, *other_batch->function(function.name()), axes);
  } catch (const Mixed&) {
    return std::nullopt;
  }
  std::string name = passes::NameScope(function).fresh("count");
  Value count = function.add_parameter(Type(ir::DType::I32, {}), name);
  Masker masker(count, axes);
  for (Op* op : sums) masker.mask(*op);
  return name;
}

}  // namespace mezzo::detail
