// SPDX-License-Identifier: Apache-2.0
// Decompositions of normalisations. Statistics are taken in two passes: the mean is the pivot, and
// the sums of what is left of each element and of its square correct the mean and give the variance
// (the corrected two-pass algorithm of Chan, Golub and LeVeque, "Algorithms for computing the
// sample variance", 1983); an element is normalised as (x - mean) - shift, where shift is what the
// rounded mean lacks. Reductions over the last axes are one kernel of rows, also with the gradients
// of weight and bias; batch norm, which reduces over the leading axes, is one of columns; groups
// are rows of a view with the groups in front.
#include <mezzo/passes/decompose_parts.h>

#include <limits>

namespace mezzo::passes {

namespace {

using Axes = std::vector<int64_t>;

Axes axes_between(int64_t first, int64_t end) {
  Axes axes;
  for (int64_t axis = first; axis < end; ++axis) axes.push_back(axis);
  return axes;
}

int64_t elements_of(const Shape& shape, const Axes& axes) {
  int64_t count = 1;
  for (int64_t axis : axes) count *= shape[static_cast<int>(axis)];
  return count;
}

/// The sum over `axes`, which stay with length 1 if `keepdims`, divided by the number of elements.
Value mean_over(Parts& parts, Value x, const Axes& axes, bool keepdims = true) {
  const double count = static_cast<double>(elements_of(x.shape(), axes));
  return parts.make(OpKind::Div, {parts.builder.sum(x, axes, keepdims), parts.scalar(x, count)});
}

/// Statistics that broadcast to the tensor; mean and shift are empty where nothing is centred.
struct Moments {
  Value mean, shift, square;

  Value centre(Parts& parts, Value x) const {
    if (!mean) return x;
    return parts.make(OpKind::Sub, {parts.make(OpKind::Sub, {x, mean}), shift});
  }
  Value inverse_root(Parts& parts, double eps) const {
    return parts.make(OpKind::Rsqrt,
                      {parts.make(OpKind::Add, {square, parts.scalar(square, eps)})});
  }
  Moments shaped(Parts& parts, const Shape& shape) const {
    auto as = [&](Value value) { return value ? parts.builder.reshape(value, shape) : value; };
    return {as(mean), as(shift), as(square)};
  }
};

/// Over leading axes without `keepdims` the statistics have the shape of a parameter, and nothing
/// has to reshape them.
Moments centred_moments(Parts& parts, Value x, const Axes& axes, bool keepdims = true) {
  Moments out;
  out.mean = mean_over(parts, x, axes, keepdims);
  Value rest = parts.make(OpKind::Sub, {x, out.mean});
  out.shift = mean_over(parts, rest, axes, keepdims);
  Value square = mean_over(parts, parts.make(OpKind::Square, {rest}), axes, keepdims);
  square = parts.make(OpKind::Sub, {square, parts.make(OpKind::Square, {out.shift})});
  out.square = parts.make(OpKind::Maximum, {square, parts.scalar(x, 0)});
  return out;
}

Moments plain_moments(Parts& parts, Value x, const Axes& axes) {
  return {{}, {}, mean_over(parts, parts.make(OpKind::Square, {x}), axes)};
}

/// h * weight + bias, as far as there are any; they broadcast.
Value scaled(Parts& parts, Value h, Value weight, Value bias) {
  if (weight) h = parts.make(OpKind::Mul, {h, weight});
  if (bias) h = parts.make(OpKind::Add, {h, bias});
  return h;
}

/// Operand `index` in f32 and of that shape; empty where it was left out.
Value parameter(Parts& parts, const Composite& op, size_t index, const Shape& shape) {
  return op.has(index) ? parts.builder.reshape(parts.widen(op.operand(index)), shape) : Value();
}

/// (g - level - h * along) * root.
Value input_gradient(Parts& parts, Value g, Value h, Value along, Value level, Value root) {
  Value out = level ? parts.make(OpKind::Sub, {g, level}) : g;
  out = parts.make(OpKind::Sub, {out, parts.make(OpKind::Mul0, {along, h})});
  return parts.make(OpKind::Mul0, {out, root});
}

/// The cotangent of h: a masked element stays masked whatever its weight.
Value weighted(Parts& parts, Value dy, Value weight) {
  return weight ? parts.make(OpKind::Mul0, {dy, weight}) : dy;
}

bool is_empty(const Composite& op) { return op.operand(0).type().elements() == 0; }

/// Results of a tensor without elements: sums are 0.
std::vector<Value> no_gradients(const Composite& op, ir::Builder& builder, size_t weight,
                                size_t count) {
  std::vector<Value> out{builder.constant(op.operand(0).type(), 0)};
  if (op.has(weight)) out.insert(out.end(), count, builder.constant(op.operand(weight).type(), 0));
  return out;
}

/// The axes that layer_norm and rms_norm reduce.
Axes last_axes(const Composite& op) {
  return axes_between(op.int_attr("axis"), op.operand(0).type().rank());
}

std::vector<Value> over_last_axes(const Composite& op, ir::Builder& builder, bool centred) {
  if (is_empty(op)) return {builder.constant(op.operand(0).type(), 0)};
  Parts parts{builder};
  Value x = parts.widen(op.operand(0));
  const Moments own =
      centred ? centred_moments(parts, x, last_axes(op)) : plain_moments(parts, x, last_axes(op));
  Value h = parts.make(OpKind::Mul,
                       {own.centre(parts, x), own.inverse_root(parts, op.float_attr("eps"))});
  Value weight = op.has(1) ? parts.widen(op.operand(1)) : Value();
  Value bias = op.has(2) ? parts.widen(op.operand(2)) : Value();
  return {parts.narrow(scaled(parts, h, weight, bias), op.operand(0).dtype())};
}

std::vector<Value> over_last_axes_grad(const Composite& op, ir::Builder& builder, bool centred) {
  if (is_empty(op)) return no_gradients(op, builder, 2, centred ? 2 : 1);
  Parts parts{builder};
  const DType dtype = op.operand(0).dtype();
  const Axes axes = last_axes(op), rows = axes_between(0, op.int_attr("axis"));
  Value x = parts.widen(op.operand(0)), dy = parts.widen(op.operand(1));
  const Moments own = centred ? centred_moments(parts, x, axes) : plain_moments(parts, x, axes);
  Value root = own.inverse_root(parts, op.float_attr("eps"));
  Value h = parts.make(OpKind::Mul, {own.centre(parts, x), root});
  Value g = weighted(parts, dy, op.has(2) ? parts.widen(op.operand(2)) : Value());
  Value along = mean_over(parts, parts.make(OpKind::Mul0, {g, h}), axes);
  Value level = centred ? mean_over(parts, g, axes) : Value();
  std::vector<Value> out{parts.narrow(input_gradient(parts, g, h, along, level, root), dtype)};
  if (!op.has(2)) return out;
  out.push_back(parts.narrow(builder.sum(parts.make(OpKind::Mul0, {dy, h}), rows), dtype));
  if (centred) out.push_back(parts.narrow(builder.sum(dy, rows), dtype));
  return out;
}

/// x [batch, places ..., channels] as [batch, places, groups, channels of one].
struct Groups {
  Shape split, parameter, statistic;  // of x, of a weight, of a mean
  Axes reduced{2, 3};                 // of the view with the groups in front

  explicit Groups(const Composite& op) {
    const Shape& shape = op.operand(0).shape();
    const int64_t groups = op.int_attr("groups"), channels = shape[shape.rank() - 1];
    split = Shape{shape[0], shape.elements() / (shape[0] * channels), groups, channels / groups};
    parameter = Shape{groups, channels / groups};
    statistic = Shape{shape[0], 1, groups, 1};
  }
  static Value in_front(Parts& parts, Value value) {
    return parts.builder.transpose(value, {0, 2, 1, 3});
  }
};

}  // namespace

std::vector<Value> decompose_layer_norm(const Composite& op, ir::Builder& builder) {
  return over_last_axes(op, builder, true);
}
std::vector<Value> decompose_layer_norm_grad(const Composite& op, ir::Builder& builder) {
  return over_last_axes_grad(op, builder, true);
}
std::vector<Value> decompose_rms_norm(const Composite& op, ir::Builder& builder) {
  return over_last_axes(op, builder, false);
}
std::vector<Value> decompose_rms_norm_grad(const Composite& op, ir::Builder& builder) {
  return over_last_axes_grad(op, builder, false);
}

std::vector<Value> decompose_group_norm(const Composite& op, ir::Builder& builder) {
  if (is_empty(op)) return {builder.constant(op.operand(0).type(), 0)};
  Parts parts{builder};
  const Groups groups(op);
  Value x = parts.widen(builder.reshape(op.operand(0), groups.split));
  const Moments own = centred_moments(parts, Groups::in_front(parts, x), groups.reduced)
                          .shaped(parts, groups.statistic);
  Value h = parts.make(OpKind::Mul,
                       {own.centre(parts, x), own.inverse_root(parts, op.float_attr("eps"))});
  Value y = scaled(parts, h, parameter(parts, op, 1, groups.parameter),
                   parameter(parts, op, 2, groups.parameter));
  return {builder.reshape(parts.narrow(y, op.operand(0).dtype()), op.operand(0).shape())};
}

std::vector<Value> decompose_group_norm_grad(const Composite& op, ir::Builder& builder) {
  if (is_empty(op)) return no_gradients(op, builder, 2, 2);
  Parts parts{builder};
  const Groups groups(op);
  const DType dtype = op.operand(0).dtype();
  Value x = parts.widen(builder.reshape(op.operand(0), groups.split));
  Value dy = parts.widen(builder.reshape(op.operand(1), groups.split));
  Value weight = parameter(parts, op, 2, groups.parameter);
  const double eps = op.float_attr("eps");

  // Sums over a group, in the view.
  Value front = Groups::in_front(parts, x);
  const Moments rows = centred_moments(parts, front, groups.reduced);
  Value root = rows.inverse_root(parts, eps);
  Value front_h = parts.make(OpKind::Mul, {rows.centre(parts, front), root});
  Value front_weight = weight ? builder.reshape(weight, groups.parameter.inserted(1, 1)) : Value();
  Value front_g = weighted(parts, Groups::in_front(parts, dy), front_weight);
  Value along = mean_over(parts, parts.make(OpKind::Mul0, {front_g, front_h}), groups.reduced);
  Value level = mean_over(parts, front_g, groups.reduced);

  // The rest where the elements stand.
  auto as_statistic = [&](Value value) { return builder.reshape(value, groups.statistic); };
  root = as_statistic(root);
  Value h = parts.make(OpKind::Mul, {rows.shaped(parts, groups.statistic).centre(parts, x), root});
  Value dx = input_gradient(parts, weighted(parts, dy, weight), h, as_statistic(along),
                            as_statistic(level), root);
  std::vector<Value> out{builder.reshape(parts.narrow(dx, dtype), op.operand(0).shape())};
  if (!weight) return out;
  for (Value each : {parts.make(OpKind::Mul0, {dy, h}), dy})
    out.push_back(
        builder.reshape(parts.narrow(builder.sum(each, {0, 1}), dtype), op.operand(2).shape()));
  return out;
}

std::vector<Value> decompose_batch_norm(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  const ir::Type& type = op.operand(0).type();
  Value x = parts.widen(op.operand(0));
  const Shape channels{type.shape[type.rank() - 1]};
  if (is_empty(op)) {
    Value none =
        builder.constant(Type(x.dtype(), channels), std::numeric_limits<double>::quiet_NaN());
    return {builder.constant(type, 0), none, none, none};
  }
  const Moments own = centred_moments(parts, x, axes_between(0, type.rank() - 1), false);
  Value h = parts.make(OpKind::Mul,
                       {own.centre(parts, x), own.inverse_root(parts, op.float_attr("eps"))});
  Value y = scaled(parts, h, parameter(parts, op, 1, channels), parameter(parts, op, 2, channels));
  // Rounded once, with what that loses beside it; there is no shift around an infinite mean, nor
  // where a difference to the mean is out of range.
  Value mean =
      parts.make(OpKind::Where, {parts.make(OpKind::IsFinite, {own.shift}),
                                 parts.make(OpKind::Add, {own.mean, own.shift}), own.mean});
  Value shift = parts.make(OpKind::Add, {parts.make(OpKind::Sub, {own.mean, mean}), own.shift});
  return {parts.narrow(y, type.dtype), mean, own.square, shift};
}

std::vector<Value> decompose_batch_norm_grad(const Composite& op, ir::Builder& builder) {
  if (is_empty(op)) return no_gradients(op, builder, 5, 2);
  Parts parts{builder};
  const ir::Type& type = op.operand(0).type();
  const Axes axes = axes_between(0, type.rank() - 1);
  const Shape channels{type.shape[type.rank() - 1]};
  Value x = parts.widen(op.operand(0)), dy = parts.widen(op.operand(1));
  const Moments own{op.operand(2), op.operand(4), op.operand(3)};
  Value root = own.inverse_root(parts, op.float_attr("eps"));
  Value h = parts.make(OpKind::Mul, {own.centre(parts, x), root});
  Value weight = parameter(parts, op, 5, channels);
  Value dweight = builder.sum(parts.make(OpKind::Mul0, {dy, h}), axes);
  Value dbias = builder.sum(dy, axes);
  // A weight is the same for all elements of a channel, so that the means are taken of dy.
  Value count = parts.scalar(x, static_cast<double>(elements_of(type.shape, axes)));
  Value along = weighted(parts, parts.make(OpKind::Div, {dweight, count}), weight);
  Value level = weighted(parts, parts.make(OpKind::Div, {dbias, count}), weight);
  Value dx = input_gradient(parts, weighted(parts, dy, weight), h, along, level, root);
  std::vector<Value> out{parts.narrow(dx, type.dtype)};
  if (!weight) return out;
  out.push_back(parts.narrow(dweight, type.dtype));
  out.push_back(parts.narrow(dbias, type.dtype));
  return out;
}

std::vector<Value> decompose_batch_norm_inference(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  const ir::Type& type = op.operand(0).type();
  const Shape channels{type.shape[type.rank() - 1]};
  Value x = parts.widen(op.operand(0));
  const Moments own{{}, {}, op.operand(2)};
  Value h = parts.make(OpKind::Mul, {parts.make(OpKind::Sub, {x, op.operand(1)}),
                                     own.inverse_root(parts, op.float_attr("eps"))});
  Value y = scaled(parts, h, parameter(parts, op, 3, channels), parameter(parts, op, 4, channels));
  return {parts.narrow(y, type.dtype)};
}

}  // namespace mezzo::passes
