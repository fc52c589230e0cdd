// SPDX-License-Identifier: Apache-2.0
// Gradient rules of elementwise ops. Each multiplies the cotangent g by the local derivative d with
// mul0(g, d), so that a masked element gives an exact 0 even where d is infinite; selections pass g
// itself. What happens at edge points is the convention of the tests in tests/ops.
#include <mezzo/passes/autodiff.h>

#include <cmath>
#include <numbers>

namespace mezzo::passes {

using ir::DType;
using ir::OpKind;
using ir::Value;

// --- arithmetic

void grad_add(GradContext& c) {
  c.accumulate(0, c.cotangent());
  c.accumulate(1, c.cotangent());
}

void grad_sub(GradContext& c) {
  c.accumulate(0, c.cotangent());
  if (c.wants(1)) c.accumulate(1, c.make(OpKind::Neg, {c.cotangent()}));
}

void grad_mul(GradContext& c) {
  if (c.wants(0)) c.accumulate_product(0, c.operand(1));
  if (c.wants(1)) c.accumulate_product(1, c.operand(0));
}

void grad_div(GradContext& c) {
  Value y = c.operand(1);
  if (c.wants(0)) c.accumulate_product(0, c.make(OpKind::Reciprocal, {y}));
  if (c.wants(1)) {
    Value ratio = c.make(OpKind::Div, {c.result(), y});
    c.accumulate_product(1, c.make(OpKind::Neg, {ratio}));
  }
}

/// The derivative by g is d also where g is 0, so that second derivatives of smooth functions are
/// right; a masked element (g is 0 and d is not finite) stays masked.
void grad_mul0(GradContext& c) {
  Value g = c.operand(0), d = c.operand(1);
  if (c.wants(0)) {
    Value zero = c.scalar(g.dtype(), 0);
    Value open =
        c.make(OpKind::LogicalOr, {c.make(OpKind::IsFinite, {d}), c.make(OpKind::Ne, {g, zero})});
    c.accumulate_product(0, c.make(OpKind::Where, {open, d, zero}));
  }
  if (c.wants(1)) c.accumulate_product(1, g);
}

void grad_add_n(GradContext& c) {
  for (int i = 0; i < c.op().num_operands(); ++i) c.accumulate(i, c.cotangent());
}

void grad_neg(GradContext& c) { c.accumulate(0, c.make(OpKind::Neg, {c.cotangent()})); }

/// 0 at 0.
void grad_abs(GradContext& c) { c.accumulate_product(0, c.make(OpKind::Sign, {c.operand(0)})); }

void grad_square(GradContext& c) {
  Value x = c.operand(0);
  c.accumulate_product(0, c.make(OpKind::Mul, {x, c.scalar(x.dtype(), 2)}));
}

void grad_reciprocal(GradContext& c) {
  c.accumulate_product(0, c.make(OpKind::Neg, {c.make(OpKind::Square, {c.result()})}));
}

/// The subgradient 0 at 0.
void grad_sqrt(GradContext& c) {
  Value x = c.operand(0);
  Value zero = c.scalar(x.dtype(), 0);
  Value slope = c.make(OpKind::Div, {c.scalar(x.dtype(), 0.5), c.result()});
  c.accumulate_product(0, c.make(OpKind::Where, {c.make(OpKind::Eq, {x, zero}), zero, slope}));
}

void grad_rsqrt(GradContext& c) {
  Value y = c.result();
  Value cube = c.make(OpKind::Mul, {y, c.make(OpKind::Square, {y})});
  c.accumulate_product(0, c.make(OpKind::Mul, {cube, c.scalar(y.dtype(), -0.5)}));
}

/// By x: p x^(p-1), which is 0 at p = 0 by mul0 and 1 at p = 1 because anything to the power 0 is
/// 1. By p: x^p log x, and 0 at x = 0 for p >= 0.
void grad_pow(GradContext& c) {
  Value x = c.operand(0), p = c.operand(1);
  DType dtype = x.dtype();
  if (c.wants(0)) {
    Value power = c.make(OpKind::Pow, {x, c.make(OpKind::Sub, {p, c.scalar(dtype, 1)})});
    c.accumulate_product(0, c.make(OpKind::Mul0, {p, power}));
  }
  if (c.wants(1)) {
    Value zero = c.scalar(dtype, 0);
    Value flat =
        c.make(OpKind::LogicalAnd, {c.make(OpKind::Eq, {x, zero}), c.make(OpKind::Ge, {p, zero})});
    Value slope = c.make(OpKind::Mul, {c.result(), c.make(OpKind::Log, {x})});
    c.accumulate_product(1, c.make(OpKind::Where, {flat, zero, slope}));
  }
}

namespace {

/// To the operand that `wins`; half to each where they are equal.
void grad_extremum(GradContext& c, OpKind wins) {
  Value g = c.cotangent();
  Value zero = c.scalar(g.dtype(), 0);
  Value tie = c.make(OpKind::Eq, {c.operand(0), c.operand(1)});
  Value half = c.make(OpKind::Mul, {g, c.scalar(g.dtype(), 0.5)});
  Value loser = c.make(OpKind::Where, {tie, half, zero});
  for (int i : {0, 1}) {
    if (!c.wants(i)) continue;
    Value won = c.make(wins, {c.operand(i), c.operand(1 - i)});
    c.accumulate(i, c.make(OpKind::Where, {won, g, loser}));
  }
}

}  // namespace

void grad_maximum(GradContext& c) { grad_extremum(c, OpKind::Gt); }
void grad_minimum(GradContext& c) { grad_extremum(c, OpKind::Lt); }

// --- exponentials, logarithms and activations

void grad_exp(GradContext& c) { c.accumulate_product(0, c.result()); }

void grad_expm1(GradContext& c) {
  // exp(x) keeps its digits where expm1(x) + 1 has lost them (x far below 0).
  c.accumulate_product(0, c.make(OpKind::Exp, {c.operand(0)}));
}

void grad_log(GradContext& c) {
  c.accumulate_product(0, c.make(OpKind::Reciprocal, {c.operand(0)}));
}

void grad_log1p(GradContext& c) {
  Value x = c.operand(0);
  Value shifted = c.make(OpKind::Add, {x, c.scalar(x.dtype(), 1)});
  c.accumulate_product(0, c.make(OpKind::Reciprocal, {shifted}));
}

void grad_tanh(GradContext& c) {
  Value y = c.result();
  Value square = c.make(OpKind::Square, {y});
  c.accumulate_product(0, c.make(OpKind::Sub, {c.scalar(y.dtype(), 1), square}));
}

void grad_sigmoid(GradContext& c) {
  Value y = c.result();
  Value rest = c.make(OpKind::Sub, {c.scalar(y.dtype(), 1), y});
  c.accumulate_product(0, c.make(OpKind::Mul, {y, rest}));
}

void grad_log_sigmoid(GradContext& c) {
  Value negated = c.make(OpKind::Neg, {c.operand(0)});
  c.accumulate_product(0, c.make(OpKind::Sigmoid, {negated}));
}

void grad_softplus(GradContext& c) {
  c.accumulate_product(0, c.make(OpKind::Sigmoid, {c.operand(0)}));
}

/// 0 at 0.
void grad_relu(GradContext& c) {
  Value x = c.operand(0), zero = c.scalar(x.dtype(), 0);
  Value open = c.make(OpKind::Gt, {x, zero});
  c.accumulate(0, c.make(OpKind::Where, {open, c.cotangent(), zero}));
}

namespace {

/// factor * exp(-scale * x^2)
Value bell(GradContext& c, Value x, double factor, double scale) {
  Value exponent = c.make(OpKind::Mul, {c.make(OpKind::Square, {x}), c.scalar(x.dtype(), -scale)});
  return c.make(OpKind::Mul, {c.make(OpKind::Exp, {exponent}), c.scalar(x.dtype(), factor)});
}

}  // namespace

void grad_erf(GradContext& c) {
  c.accumulate_product(0, bell(c, c.operand(0), 2 * std::numbers::inv_sqrtpi, 1));
}

void grad_gelu(GradContext& c) {
  c.accumulate_product(0, c.make(OpKind::GeluGrad, {c.operand(0)}));
}

/// gelu''(x) = phi(x) (2 - x^2), phi the density of the normal distribution.
void grad_gelu_grad(GradContext& c) {
  Value x = c.operand(0);
  Value density = bell(c, x, std::numbers::inv_sqrtpi / std::numbers::sqrt2, 0.5);
  Value rest = c.make(OpKind::Sub, {c.scalar(x.dtype(), 2), c.make(OpKind::Square, {x})});
  // mul0: far out the density is 0 and the square infinite.
  c.accumulate_product(0, c.make(OpKind::Mul0, {density, rest}));
}

// --- selection and types

void grad_where(GradContext& c) {
  Value condition = c.operand(0), g = c.cotangent(), zero = c.scalar(g.dtype(), 0);
  if (c.wants(1)) c.accumulate(1, c.make(OpKind::Where, {condition, g, zero}));
  if (c.wants(2)) c.accumulate(2, c.make(OpKind::Where, {condition, zero, g}));
}

void grad_cast(GradContext& c) {
  c.accumulate(0, c.builder.cast(c.cotangent(), c.operand(0).dtype(), "gradient of a cast"));
}

}  // namespace mezzo::passes
