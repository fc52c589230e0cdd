// SPDX-License-Identifier: Apache-2.0
// Decompositions along an axis: mean, softmax and its kin. Rows of -inf alone have a value (softmax
// 0, log_softmax -inf) and gradient 0; +inf in a row gives NaN.
#include <mezzo/passes/decompose_rows.h>

namespace mezzo::passes {

Rows shift_rows(Parts& parts, Value x, int64_t axis) {
  Value top = parts.builder.max(x, {axis}, true);
  Rows rows;
  rows.dead = parts.make(OpKind::Eq, {top, parts.scalar(x, -HUGE_VAL)});
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
  Value dead = parts.make(OpKind::Eq, {top, parts.scalar(y, -HUGE_VAL)});
  Value dx =
      parts.make(OpKind::Where, {dead, parts.scalar(y, 0), parts.make(OpKind::Sub, {dy, spread})});
  return {parts.narrow(dx, op.operand(0).dtype())};
}

}  // namespace mezzo::passes
