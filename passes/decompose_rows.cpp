// SPDX-License-Identifier: Apache-2.0
// Decompositions along an axis: mean, softmax and its kin, cross entropy. Rows of -inf alone have a
// value (softmax 0, log_softmax -inf) and gradient 0; +inf in a row gives NaN; an ignored label
// gives exact 0 whatever its row holds.
#include <mezzo/passes/decompose_parts.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mezzo::passes {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A row's shifted logits and the sum of their exponentials, with the exceptional rows made
/// harmless.
struct Rows {
  Value shifted;  // x - max, and x itself in rows of -inf alone
  Value dead;     // bool: the row holds nothing but -inf
  Value exp;      // exp(shifted); 0 in dead rows
  Value total;    // its sum, 1 in dead rows
};

Rows shift_rows(Parts& parts, Value x, int64_t axis) {
  Value top = parts.builder.max(x, {axis}, true);
  Rows rows;
  rows.dead = parts.make(OpKind::Eq, {top, parts.scalar(x, -kInfinity)});
  // -inf - (-inf) is NaN, so such a row is shifted by 0.
  Value shift = parts.make(OpKind::Where, {rows.dead, parts.scalar(x, 0), top});
  rows.shifted = parts.make(OpKind::Sub, {x, shift});
  rows.exp = parts.make(OpKind::Exp, {rows.shifted});
  Value total = parts.builder.sum(rows.exp, {axis}, true);
  rows.total = parts.make(OpKind::Where, {rows.dead, parts.scalar(x, 1), total});
  return rows;
}

Value log_probabilities(Parts& parts, const Rows& rows) {
  return parts.make(OpKind::Sub, {rows.shifted, parts.make(OpKind::Log, {rows.total})});
}

/// An axis of no elements: nothing to compute, and no maximum to take.
bool is_empty(Value x) { return x.type().elements() == 0; }

/// The parts that cross_entropy and its gradient share.
struct Targets {
  Value labels;   // i32 [..., 1], range-checked
  Value counted;  // bool [..., 1]: not ignored
  Value hot;      // bool [..., classes]: the class is the label
  int64_t classes;
};

Targets read_targets(Parts& parts, const Composite& op) {
  Value logits = op.operand(0);
  int axis = logits.type().rank() - 1;
  int64_t ignored = op.int_attr("ignore_index");
  Targets targets;
  targets.classes = logits.shape()[axis];
  Value checked = parts.make(OpKind::CheckIndex, {op.operand(1)},
                             {{"size", targets.classes}, {"ignore_index", ignored}});
  targets.labels = parts.builder.reshape(checked, logits.shape().with(axis, 1));
  // An index beyond i32 can be no label.
  bool possible = ignored >= std::numeric_limits<int32_t>::min() &&
                  ignored <= std::numeric_limits<int32_t>::max();
  targets.counted =
      possible
          ? parts.make(OpKind::Ne,
                       {targets.labels, parts.scalar(targets.labels, static_cast<double>(ignored))})
          : parts.builder.constant(Type(DType::Bool, targets.labels.shape()), 1);
  std::vector<int64_t> dims(static_cast<size_t>(axis), 1);
  dims.push_back(targets.classes);
  Value classes = parts.builder.make(OpKind::Iota, {}, {{"axis", axis}},
                                     {Type(DType::I32, Shape(std::span<const int64_t>(dims)))});
  targets.hot = parts.make(OpKind::Eq, {classes, targets.labels});
  return targets;
}

std::vector<int64_t> all_axes(Value value) {
  std::vector<int64_t> axes;
  for (int i = 0; i < value.type().rank(); ++i) axes.push_back(i);
  return axes;
}

/// The number of labels that count, at least 1, in the type of `like`: exact up to 2^24 labels in
/// f32.
Value label_count(Parts& parts, Value counted, Value like) {
  Value ones = parts.builder.cast(counted, like.dtype(), "labels that count are added up");
  Value count = parts.builder.sum(ones, all_axes(ones));
  return parts.make(OpKind::Maximum, {count, parts.scalar(like, 1)});
}

}  // namespace

std::vector<Value> decompose_mean(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value x = parts.widen(op.operand(0));
  std::vector<int64_t> axes = op.attrs.get_ints("axes");
  double count = 1;
  for (int64_t axis : axes) count *= static_cast<double>(x.shape()[static_cast<int>(axis)]);
  Value sum = builder.sum(x, axes, op.bool_attr("keepdims"));
  // No elements: 0 / 0 is the NaN that a mean of nothing is.
  Value mean = parts.make(OpKind::Div, {sum, parts.scalar(x, count)});
  return {parts.narrow(mean, op.operand(0).dtype())};
}

std::vector<Value> decompose_softmax(const Composite& op, ir::Builder& builder) {
  if (is_empty(op.operand(0))) return {builder.constant(op.operand(0).type(), 0)};
  Parts parts{builder};
  Rows rows = shift_rows(parts, parts.widen(op.operand(0)), op.int_attr("axis"));
  return {parts.narrow(parts.make(OpKind::Div, {rows.exp, rows.total}), op.operand(0).dtype())};
}

std::vector<Value> decompose_log_softmax(const Composite& op, ir::Builder& builder) {
  if (is_empty(op.operand(0))) return {builder.constant(op.operand(0).type(), 0)};
  Parts parts{builder};
  Rows rows = shift_rows(parts, parts.widen(op.operand(0)), op.int_attr("axis"));
  return {parts.narrow(log_probabilities(parts, rows), op.operand(0).dtype())};
}

/// dx = (dy - sum(dy * y)) * y; a cotangent of 0 gives 0 even where y is NaN.
std::vector<Value> decompose_softmax_grad(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value y = parts.widen(op.operand(0)), dy = parts.widen(op.operand(1));
  Value sum = builder.sum(parts.make(OpKind::Mul0, {dy, y}), {op.int_attr("axis")}, true);
  Value dx = parts.make(OpKind::Mul0, {parts.make(OpKind::Sub, {dy, sum}), y});
  return {parts.narrow(dx, op.operand(0).dtype())};
}

/// dx = dy - sum(dy) * exp(y), and 0 in rows of -inf alone.
std::vector<Value> decompose_log_softmax_grad(const Composite& op, ir::Builder& builder) {
  if (is_empty(op.operand(0))) return {builder.constant(op.operand(0).type(), 0)};
  Parts parts{builder};
  Value y = parts.widen(op.operand(0)), dy = parts.widen(op.operand(1));
  int64_t axis = op.int_attr("axis");
  Value sum = builder.sum(dy, {axis}, true);
  Value spread = parts.make(OpKind::Mul0, {sum, parts.make(OpKind::Exp, {y})});
  Value top = builder.max(y, {axis}, true);
  Value dead = parts.make(OpKind::Eq, {top, parts.scalar(y, -kInfinity)});
  Value dx =
      parts.make(OpKind::Where, {dead, parts.scalar(y, 0), parts.make(OpKind::Sub, {dy, spread})});
  return {parts.narrow(dx, op.operand(0).dtype())};
}

std::vector<Value> decompose_cross_entropy(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value x = parts.widen(op.operand(0));
  int64_t axis = x.type().rank() - 1;
  double smoothing = op.float_attr("label_smoothing");
  std::string reduce = op.string_attr("reduce");
  if (is_empty(x)) {
    Shape shape = reduce == "none" ? op.operand(1).shape() : Shape();
    return {builder.constant(op.operand(0).type().with(shape), 0)};
  }
  Targets targets = read_targets(parts, op);
  Value log_p = log_probabilities(parts, shift_rows(parts, x, axis));
  Value picked = parts.make(OpKind::Where, {targets.hot, log_p, parts.scalar(x, 0)});
  Value loss = parts.make(OpKind::Neg, {builder.sum(picked, {axis}, true)});
  if (smoothing != 0) {
    Value uniform = builder.sum(log_p, {axis}, true);
    double share = smoothing / static_cast<double>(targets.classes);
    // The label has no share under smoothing 1, also where its logit is -inf.
    uniform = parts.make(OpKind::Mul, {uniform, parts.scalar(x, share)});
    if (smoothing == 1)
      loss = parts.make(OpKind::Neg, {uniform});
    else
      loss = parts.make(OpKind::Sub,
                        {parts.make(OpKind::Mul, {loss, parts.scalar(x, 1 - smoothing)}), uniform});
  }
  loss = parts.make(OpKind::Where, {targets.counted, loss, parts.scalar(x, 0)});
  if (reduce == "none")
    loss = builder.reshape(loss, op.operand(1).shape());
  else
    loss = builder.sum(loss, all_axes(loss));
  if (reduce == "mean")
    loss = parts.make(OpKind::Div, {loss, label_count(parts, targets.counted, x)});
  return {parts.narrow(loss, op.operand(0).dtype())};
}

/// dlogits = g * (softmax - target), target (1 - e) at the label plus e / classes everywhere; 0 in
/// ignored rows and in rows of -inf alone.
std::vector<Value> decompose_cross_entropy_grad(const Composite& op, ir::Builder& builder) {
  if (is_empty(op.operand(0))) return {builder.constant(op.operand(0).type(), 0)};
  Parts parts{builder};
  Value x = parts.widen(op.operand(0)), g = parts.widen(op.operand(2));
  double smoothing = op.float_attr("label_smoothing");
  std::string reduce = op.string_attr("reduce");
  Targets targets = read_targets(parts, op);
  Rows rows = shift_rows(parts, x, x.type().rank() - 1);
  Value p = parts.make(OpKind::Div, {rows.exp, rows.total});
  double share = smoothing / static_cast<double>(targets.classes);
  Value target = parts.make(
      OpKind::Where, {targets.hot, parts.scalar(x, 1 - smoothing + share), parts.scalar(x, share)});
  if (reduce == "none") g = builder.reshape(g, targets.labels.shape());
  if (reduce == "mean") g = parts.make(OpKind::Div, {g, label_count(parts, targets.counted, x)});
  // The select stands before the product, so that an ignored row of NaN meets a cotangent of 0.
  Value live = parts.make(OpKind::LogicalAnd,
                          {targets.counted, parts.make(OpKind::LogicalNot, {rows.dead})});
  Value row_g = parts.make(OpKind::Where, {live, g, parts.scalar(x, 0)});
  Value dx = parts.make(OpKind::Mul0, {row_g, parts.make(OpKind::Sub, {p, target})});
  return {parts.narrow(dx, op.operand(0).dtype())};
}

}  // namespace mezzo::passes
