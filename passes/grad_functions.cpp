// SPDX-License-Identifier: Apache-2.0
// Gradient rules of roots, logarithms to other bases, trigonometric, hyperbolic and gamma
// functions. As in grad_elementwise.cpp each multiplies the cotangent by the local derivative with
// mul0.
#include <mezzo/ir/error.h>
#include <mezzo/passes/autodiff.h>

#include <cmath>
#include <numbers>

namespace mezzo::passes {

using ir::OpKind;
using ir::Value;

namespace {

Value scaled(GradContext& c, Value x, double factor) {
  return c.make(OpKind::Mul, {x, c.scalar(x.dtype(), factor)});
}

/// (1 - x)(1 + x), which keeps its digits near the ends of [-1, 1].
Value one_less_square(GradContext& c, Value x) {
  Value one = c.scalar(x.dtype(), 1);
  return c.make(OpKind::Mul, {c.make(OpKind::Sub, {one, x}), c.make(OpKind::Add, {one, x})});
}

/// `quotient`, or 0 where `condition` holds.
Value zero_where(GradContext& c, Value condition, Value quotient) {
  return c.make(OpKind::Where, {condition, c.scalar(quotient.dtype(), 0), quotient});
}

}  // namespace

// --- roots, exponentials and logarithms

/// Infinite at 0.
void grad_cbrt(GradContext& c) {
  Value three_squares = scaled(c, c.make(OpKind::Square, {c.result()}), 3);
  c.accumulate_product(0, c.make(OpKind::Reciprocal, {three_squares}));
}

/// The subgradient 0 at the origin, as of sqrt and norms.
void grad_hypot(GradContext& c) {
  Value h = c.result();
  Value origin = c.make(OpKind::Eq, {h, c.scalar(h.dtype(), 0)});
  for (int i : {0, 1})
    if (c.wants(i))
      c.accumulate_product(i, zero_where(c, origin, c.make(OpKind::Div, {c.operand(i), h})));
}

void grad_exp2(GradContext& c) {
  c.accumulate_product(0, scaled(c, c.result(), std::numbers::ln2));
}

void grad_log2(GradContext& c) {
  c.accumulate_product(0,
                       scaled(c, c.make(OpKind::Reciprocal, {c.operand(0)}), std::numbers::log2e));
}

void grad_log10(GradContext& c) {
  c.accumulate_product(0,
                       scaled(c, c.make(OpKind::Reciprocal, {c.operand(0)}), std::numbers::log10e));
}

/// The share of each operand, 1 / (1 + exp(other - own)); 0 where both are -inf.
void grad_logaddexp(GradContext& c) {
  Value y = c.result();
  Value none = c.make(OpKind::Eq, {y, c.scalar(y.dtype(), -HUGE_VAL)});
  for (int i : {0, 1}) {
    if (!c.wants(i)) continue;
    Value ahead = c.make(OpKind::Sub, {c.operand(i), c.operand(1 - i)});
    c.accumulate_product(i, zero_where(c, none, c.make(OpKind::Sigmoid, {ahead})));
  }
}

// --- trigonometric and hyperbolic functions

void grad_sin(GradContext& c) { c.accumulate_product(0, c.make(OpKind::Cos, {c.operand(0)})); }

void grad_cos(GradContext& c) {
  c.accumulate_product(0, c.make(OpKind::Neg, {c.make(OpKind::Sin, {c.operand(0)})}));
}

void grad_tan(GradContext& c) {
  Value y = c.result();
  Value square = c.make(OpKind::Square, {y});
  c.accumulate_product(0, c.make(OpKind::Add, {c.scalar(y.dtype(), 1), square}));
}

/// Infinite at -1 and 1.
void grad_asin(GradContext& c) {
  c.accumulate_product(0, c.make(OpKind::Rsqrt, {one_less_square(c, c.operand(0))}));
}

/// Minus infinity at -1 and 1.
void grad_acos(GradContext& c) {
  Value slope = c.make(OpKind::Rsqrt, {one_less_square(c, c.operand(0))});
  c.accumulate_product(0, c.make(OpKind::Neg, {slope}));
}

void grad_atan(GradContext& c) {
  Value x = c.operand(0);
  Value sum = c.make(OpKind::Add, {c.make(OpKind::Square, {x}), c.scalar(x.dtype(), 1)});
  c.accumulate_product(0, c.make(OpKind::Reciprocal, {sum}));
}

/// x / r^2 and -y / r^2 with r = hypot(x, y), in two divisions so that r^2 need not fit; no
/// derivative, NaN, at the origin.
void grad_atan2(GradContext& c) {
  Value y = c.operand(0), x = c.operand(1);
  Value r = c.make(OpKind::Hypot, {x, y});
  auto over_square = [&](Value v) { return c.make(OpKind::Div, {c.make(OpKind::Div, {v, r}), r}); };
  if (c.wants(0)) c.accumulate_product(0, over_square(x));
  if (c.wants(1)) c.accumulate_product(1, c.make(OpKind::Neg, {over_square(y)}));
}

void grad_sinh(GradContext& c) { c.accumulate_product(0, c.make(OpKind::Cosh, {c.operand(0)})); }

void grad_cosh(GradContext& c) { c.accumulate_product(0, c.make(OpKind::Sinh, {c.operand(0)})); }

/// 1 / sqrt(1 + x^2) by hypot, so that the square need not fit.
void grad_asinh(GradContext& c) {
  Value x = c.operand(0);
  Value root = c.make(OpKind::Hypot, {x, c.scalar(x.dtype(), 1)});
  c.accumulate_product(0, c.make(OpKind::Reciprocal, {root}));
}

/// 1 / (sqrt(x - 1) sqrt(x + 1)); infinite at 1.
void grad_acosh(GradContext& c) {
  Value x = c.operand(0), one = c.scalar(x.dtype(), 1);
  Value below = c.make(OpKind::Rsqrt, {c.make(OpKind::Sub, {x, one})});
  Value above = c.make(OpKind::Rsqrt, {c.make(OpKind::Add, {x, one})});
  c.accumulate_product(0, c.make(OpKind::Mul, {below, above}));
}

/// Infinite at -1 and 1.
void grad_atanh(GradContext& c) {
  c.accumulate_product(0, c.make(OpKind::Reciprocal, {one_less_square(c, c.operand(0))}));
}

// --- error and gamma functions

void grad_erfc(GradContext& c) {
  Value bell = c.make(OpKind::Exp, {c.make(OpKind::Neg, {c.make(OpKind::Square, {c.operand(0)})})});
  c.accumulate_product(0, scaled(c, bell, -2 * std::numbers::inv_sqrtpi));
}

void grad_lgamma(GradContext& c) {
  c.accumulate_product(0, c.make(OpKind::Digamma, {c.operand(0)}));
}

void grad_digamma(GradContext& c) {
  c.accumulate_product(0, c.make(OpKind::Trigamma, {c.operand(0)}));
}

void grad_refused(GradContext& c) {
  throw UserError(c.op().location(), std::string("gradient: ") + ir::to_string(c.op().kind()) +
                                         " has no derivative here; lgamma can be differentiated "
                                         "twice and digamma once");
}

}  // namespace mezzo::passes
