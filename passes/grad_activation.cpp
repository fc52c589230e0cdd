// SPDX-License-Identifier: Apache-2.0
// Gradient rules of activations, bounds, interpolation and products with logarithms. As in
// grad_elementwise.cpp each multiplies the cotangent by the local derivative with mul0, and
// selections pass the cotangent itself.
#include <mezzo/passes/autodiff.h>

#include <numbers>

namespace mezzo::passes {

using ir::OpKind;
using ir::Value;

namespace {

Value scaled(GradContext& c, Value x, double factor) {
  return c.make(OpKind::Mul, {x, c.scalar(x.dtype(), factor)});
}

Value compared(GradContext& c, OpKind order, Value x, double bound) {
  return c.make(order, {x, c.scalar(x.dtype(), bound)});
}

/// `value`, or 0 where `condition` does not hold.
Value where_or_zero(GradContext& c, Value condition, Value value) {
  return c.make(OpKind::Where, {condition, value, c.scalar(value.dtype(), 0)});
}

/// low < x < high: open, so that a bound itself has gradient 0.
Value strictly_between(GradContext& c, Value x, double low, double high) {
  return c.make(OpKind::LogicalAnd,
                {compared(c, OpKind::Gt, x, low), compared(c, OpKind::Lt, x, high)});
}

}  // namespace

// --- bounds, interpolation, remainder

/// 0 on a bound.
void grad_relu6(GradContext& c) {
  c.accumulate(0, where_or_zero(c, strictly_between(c, c.operand(0), 0, 6), c.cotangent()));
}

/// 0 on a bound.
void grad_hard_tanh(GradContext& c) {
  c.accumulate(0, where_or_zero(c, strictly_between(c, c.operand(0), -1, 1), c.cotangent()));
}

/// To x inside and on the bound, to the bound that was taken where x is outside; all of it to
/// `high` where the bounds have changed places, because that is the value then.
void grad_clamp(GradContext& c) {
  Value x = c.operand(0), low = c.operand(1), high = c.operand(2), g = c.cotangent();
  if (c.wants(0)) {
    Value inside =
        c.make(OpKind::LogicalAnd, {c.make(OpKind::Ge, {x, low}), c.make(OpKind::Le, {x, high})});
    c.accumulate(0, where_or_zero(c, inside, g));
  }
  if (c.wants(1)) {
    Value raised =
        c.make(OpKind::LogicalAnd, {c.make(OpKind::Lt, {x, low}), c.make(OpKind::Le, {low, high})});
    c.accumulate(1, where_or_zero(c, raised, g));
  }
  if (c.wants(2)) {
    Value lowered =
        c.make(OpKind::LogicalOr, {c.make(OpKind::Gt, {x, high}), c.make(OpKind::Gt, {low, high})});
    c.accumulate(2, where_or_zero(c, lowered, g));
  }
}

void grad_lerp(GradContext& c) {
  Value x = c.operand(0), y = c.operand(1), weight = c.operand(2);
  if (c.wants(0))
    c.accumulate_product(0, c.make(OpKind::Sub, {c.scalar(weight.dtype(), 1), weight}));
  if (c.wants(1)) c.accumulate_product(1, weight);
  if (c.wants(2)) c.accumulate_product(2, c.make(OpKind::Sub, {y, x}));
}

/// 1 by x and -floor(x / y) by y.
void grad_remainder(GradContext& c) {
  c.accumulate(0, c.cotangent());
  if (!c.wants(1)) return;
  Value turns = c.make(OpKind::FloorDiv, {c.operand(0), c.operand(1)});
  c.accumulate_product(1, c.make(OpKind::Neg, {turns}));
}

// --- products with logarithms

namespace {

/// By x the logarithm, and 0 where x is 0 and the argument is not positive, as the value is; by y
/// x / argument, and 0 where x is 0.
void grad_times_logarithm(GradContext& c, OpKind logarithm, double pole, Value argument) {
  Value x = c.operand(0), y = c.operand(1);
  if (c.wants(0)) {
    Value masked = c.make(OpKind::LogicalAnd,
                          {compared(c, OpKind::Eq, x, 0), compared(c, OpKind::Le, y, pole)});
    c.accumulate_product(
        0, where_or_zero(c, c.make(OpKind::LogicalNot, {masked}), c.make(logarithm, {y})));
  }
  if (c.wants(1))
    c.accumulate_product(1, c.make(OpKind::Mul0, {x, c.make(OpKind::Reciprocal, {argument})}));
}

}  // namespace

void grad_xlogy(GradContext& c) { grad_times_logarithm(c, OpKind::Log, 0, c.operand(1)); }

void grad_xlog1py(GradContext& c) {
  Value y = c.operand(1);
  grad_times_logarithm(c, OpKind::Log1p, -1, c.make(OpKind::Add, {y, c.scalar(y.dtype(), 1)}));
}

// --- piecewise activations

/// `slope` at 0, as below it.
void grad_leaky_relu(GradContext& c) {
  Value x = c.operand(0), slope = c.operand(1), g = c.cotangent();
  Value above = compared(c, OpKind::Gt, x, 0);
  if (c.wants(0))
    c.accumulate(0, c.make(OpKind::Where, {above, g, c.make(OpKind::Mul0, {g, slope})}));
  if (c.wants(1))
    c.accumulate(
        1, c.make(OpKind::Where, {above, c.scalar(g.dtype(), 0), c.make(OpKind::Mul0, {g, x})}));
}

/// alpha e^x where x is not positive, alpha at 0. The exponential is of min(x, 0), so that the
/// branch that is not taken stays finite.
void grad_elu(GradContext& c) {
  Value x = c.operand(0), alpha = c.operand(1), zero = c.scalar(x.dtype(), 0);
  Value above = c.make(OpKind::Gt, {x, zero}), below = c.make(OpKind::Minimum, {x, zero});
  if (c.wants(0)) {
    Value slope = c.make(OpKind::Mul, {alpha, c.make(OpKind::Exp, {below})});
    c.accumulate_product(0, c.make(OpKind::Where, {above, c.scalar(x.dtype(), 1), slope}));
  }
  // expm1(0) is 0 above.
  if (c.wants(1)) c.accumulate_product(1, c.make(OpKind::Expm1, {below}));
}

/// The scale, and scale alpha e^x where x is not positive.
void grad_selu(GradContext& c) {
  constexpr double kScale = 1.0507009873554805, kScaleAlpha = 1.7580993408473766;
  Value x = c.operand(0), zero = c.scalar(x.dtype(), 0);
  Value below = c.make(OpKind::Exp, {c.make(OpKind::Minimum, {x, zero})});
  c.accumulate_product(
      0, c.make(OpKind::Where, {c.make(OpKind::Gt, {x, zero}), c.scalar(x.dtype(), kScale),
                                scaled(c, below, kScaleAlpha)}));
}

/// By x e^(x / alpha) where x is negative, else 1; by alpha expm1(t) - t e^t with t = x / alpha.
void grad_celu(GradContext& c) {
  Value x = c.operand(0), zero = c.scalar(x.dtype(), 0);
  Value t = c.make(OpKind::Div, {c.make(OpKind::Minimum, {x, zero}), c.operand(1)});
  Value below = c.make(OpKind::Lt, {x, zero}), power = c.make(OpKind::Exp, {t});
  if (c.wants(0))
    c.accumulate_product(0, c.make(OpKind::Where, {below, power, c.scalar(x.dtype(), 1)}));
  if (c.wants(1)) {
    // mul0: far below the exponential is 0 and t infinite.
    Value slope =
        c.make(OpKind::Sub, {c.make(OpKind::Expm1, {t}), c.make(OpKind::Mul0, {power, t})});
    c.accumulate_product(1, where_or_zero(c, below, slope));
  }
}

/// 1 / 6 between the bounds, 0 on them.
void grad_hard_sigmoid(GradContext& c) {
  Value inside = strictly_between(c, c.operand(0), -3, 3);
  c.accumulate(0, where_or_zero(c, inside, scaled(c, c.cotangent(), 1.0 / 6)));
}

/// (2 x + 3) / 6 between the bounds; 0 at -3 and 1 at 3, where the gate is on a bound.
void grad_hard_swish(GradContext& c) {
  Value x = c.operand(0), one = c.scalar(x.dtype(), 1);
  Value slope = c.make(OpKind::Add, {scaled(c, x, 1.0 / 3), c.scalar(x.dtype(), 0.5)});
  Value inner = c.make(OpKind::Where, {compared(c, OpKind::Ge, x, 3), one, slope});
  Value open = c.make(OpKind::LogicalNot, {compared(c, OpKind::Le, x, -3)});
  c.accumulate_product(0, where_or_zero(c, open, inner));
}

// --- smooth activations

/// 1 / (1 + |x|)^2.
void grad_softsign(GradContext& c) {
  Value x = c.operand(0);
  Value sum = c.make(OpKind::Add, {c.make(OpKind::Abs, {x}), c.scalar(x.dtype(), 1)});
  c.accumulate_product(0, c.make(OpKind::Square, {c.make(OpKind::Reciprocal, {sum})}));
}

namespace {

/// gate + gate' x, gate' being 0 where x is so large that the product would be undefined.
Value product_rule(GradContext& c, Value gate, Value gate_slope) {
  return c.make(OpKind::Add, {gate, c.make(OpKind::Mul0, {gate_slope, c.operand(0)})});
}

/// s (1 - s) of s = sigmoid(u), from both ends, so that neither loses its digits.
Value sigmoid_slope(GradContext& c, Value gate, Value u) {
  return c.make(OpKind::Mul, {gate, c.make(OpKind::Sigmoid, {c.make(OpKind::Neg, {u})})});
}

}  // namespace

void grad_silu(GradContext& c) {
  Value x = c.operand(0), gate = c.make(OpKind::Sigmoid, {x});
  c.accumulate_product(0, product_rule(c, gate, sigmoid_slope(c, gate, x)));
}

/// The gate is sigmoid(u) with u = 2 sqrt(2 / pi) (x + 0.044715 x^3). Beyond 30 it is 0 or 1 in all
/// types, and u need not fit.
void grad_gelu_tanh(GradContext& c) {
  constexpr double kSlope = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  Value x = c.operand(0);
  Value bounded = c.make(OpKind::Clamp, {x, c.scalar(x.dtype(), -30), c.scalar(x.dtype(), 30)});
  Value square = c.make(OpKind::Square, {bounded}), slope = c.scalar(x.dtype(), kSlope);
  Value cubic = c.make(OpKind::Add, {scaled(c, square, kSlope * 0.044715), slope});
  Value u = c.make(OpKind::Mul, {bounded, cubic});
  Value by_x = c.make(OpKind::Add, {scaled(c, square, 3 * kSlope * 0.044715), slope});
  Value gate = c.make(OpKind::Sigmoid, {u});
  Value gate_slope = c.make(OpKind::Mul, {sigmoid_slope(c, gate, u), by_x});
  c.accumulate_product(0, product_rule(c, gate, gate_slope));
}

/// The gate is t = tanh(softplus(x)), its slope (1 - t^2) sigmoid(x).
void grad_mish(GradContext& c) {
  Value x = c.operand(0), one = c.scalar(x.dtype(), 1);
  Value gate = c.make(OpKind::Tanh, {c.make(OpKind::Softplus, {x})});
  Value rest = c.make(OpKind::Sub, {one, c.make(OpKind::Square, {gate})});
  Value gate_slope = c.make(OpKind::Mul, {rest, c.make(OpKind::Sigmoid, {x})});
  c.accumulate_product(0, product_rule(c, gate, gate_slope));
}

}  // namespace mezzo::passes
