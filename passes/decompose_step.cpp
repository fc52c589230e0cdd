// SPDX-License-Identifier: Apache-2.0
// Decompositions of the training step: optimizers and the loss-scale rule. Masters and moments are
// f32 (f64 for f64); complements and bias corrections are formed in f64 and rounded once. `ok`
// selects last, so that a skipped step keeps every bit.
#include <mezzo/passes/decompose_parts.h>

#include <cmath>

namespace mezzo::passes {

namespace {

constexpr const char* kOnce = "scalars of a step are formed in f64, rounded once";

/// `now` if `ok` (or if there is none), else `before`.
Value commit(Parts& parts, Value ok, Value now, Value before) {
  return ok ? parts.make(OpKind::Where, {ok, now, before}) : now;
}

/// The old parameter in the type of its gradient.
Value master(Parts& parts, const Composite& op) {
  return parts.builder.cast(op.operand(0), op.operand(1).dtype(), "updated in f32");
}

/// 1 - beta^t as -expm1(t * log(beta)): no cancellation while beta^t is near 1. beta = 0 gives 1.
Value bias_correction(Parts& parts, Value t64, double beta) {
  Value exponent = parts.make(OpKind::Mul, {t64, parts.scalar(DType::F64, std::log(beta))});
  return parts.make(OpKind::Neg, {parts.make(OpKind::Expm1, {exponent})});
}

/// moment + (1 - beta) * (x - moment).
Value average(Parts& parts, Value moment, Value x, double beta) {
  Value step =
      parts.make(OpKind::Mul, {parts.make(OpKind::Sub, {x, moment}), parts.scalar(x, 1 - beta)});
  return parts.make(OpKind::Add, {moment, step});
}

}  // namespace

/// w - lr * g, with decay added to g, then momentum (Nesterov looks one step ahead).
std::vector<Value> decompose_sgd(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  double momentum = op.float_attr("momentum"), decay = op.float_attr("weight_decay");
  Value w = master(parts, op), g = op.operand(1);
  Value lr = builder.cast(op.operand(2), g.dtype(), "updated in f32");
  size_t fixed = momentum != 0 ? 4 : 3;
  Value ok = op.has(fixed) ? op.operand(fixed) : Value();
  if (decay != 0)
    g = parts.make(OpKind::Add, {g, parts.make(OpKind::Mul, {w, parts.scalar(w, decay)})});
  Value velocity, step = g;
  if (momentum != 0) {
    Value factor = parts.scalar(g, momentum);
    velocity = parts.make(OpKind::Add, {parts.make(OpKind::Mul, {op.operand(3), factor}), g});
    step = op.bool_attr("nesterov")
               ? parts.make(OpKind::Add, {g, parts.make(OpKind::Mul, {velocity, factor})})
               : velocity;
  }
  Value next = parts.make(OpKind::Sub, {w, parts.make(OpKind::Mul, {step, lr})});
  next = parts.narrow(next, op.operand(0).dtype());
  std::vector<Value> results = {commit(parts, ok, next, op.operand(0))};
  if (velocity) results.push_back(commit(parts, ok, velocity, op.operand(3)));
  return results;
}

/// w - lr * mhat / (sqrt(vhat) + eps) - lr * decay * w, with decay apart from the moments (AdamW).
std::vector<Value> decompose_adam(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  double beta1 = op.float_attr("beta1"), beta2 = op.float_attr("beta2"),
         decay = op.float_attr("weight_decay");
  Value w = master(parts, op), g = op.operand(1), m = op.operand(2), v = op.operand(3);
  Value ok = op.has(6) ? op.operand(6) : Value();
  // Scalars of the step, in f64.
  Value t = builder.cast(op.operand(4), DType::F64, kOnce);
  Value lr = builder.cast(op.operand(5), DType::F64, kOnce);
  Value rate = parts.make(OpKind::Div, {lr, bias_correction(parts, t, beta1)});
  Value root = parts.make(OpKind::Sqrt, {bias_correction(parts, t, beta2)});
  rate = builder.cast(rate, g.dtype(), kOnce);
  root = builder.cast(root, g.dtype(), kOnce);
  // Elements.
  Value m1 = average(parts, m, g, beta1);
  Value v1 = average(parts, v, parts.make(OpKind::Square, {g}), beta2);
  Value denominator = parts.make(OpKind::Div, {parts.make(OpKind::Sqrt, {v1}), root});
  denominator = parts.make(OpKind::Add, {denominator, parts.scalar(g, op.float_attr("eps"))});
  Value step = parts.make(OpKind::Mul, {parts.make(OpKind::Div, {m1, denominator}), rate});
  if (decay != 0) {
    Value shrink = parts.make(OpKind::Mul, {lr, parts.scalar(DType::F64, decay)});
    shrink = builder.cast(shrink, g.dtype(), kOnce);
    step = parts.make(OpKind::Add, {step, parts.make(OpKind::Mul, {w, shrink})});
  }
  Value next = parts.narrow(parts.make(OpKind::Sub, {w, step}), op.operand(0).dtype());
  return {commit(parts, ok, next, op.operand(0)), commit(parts, ok, m1, m),
          commit(parts, ok, v1, v)};
}

/// Verdicts 0 and 1 are taken steps; 6 and 8 lower the scale; any skip ends the run of clean steps.
std::vector<Value> decompose_scale_update(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value scale = op.operand(0), clean = op.operand(1), verdict = op.operand(2);
  auto code_is = [&](Value code, double number) {
    return parts.make(OpKind::Eq, {code, parts.scalar(code, number)});
  };
  Value code = parts.make(OpKind::BitwiseAnd, {verdict, parts.scalar(verdict, 255)});
  Value taken = parts.make(OpKind::Le, {code, parts.scalar(code, 1)});
  Value backs_off = parts.make(OpKind::LogicalOr, {code_is(code, 6), code_is(code, 8)});
  Value count = parts.make(OpKind::Add, {clean, parts.scalar(clean, 1)});
  Value full = parts.make(
      OpKind::Ge, {count, parts.scalar(count, static_cast<double>(op.int_attr("interval")))});
  Value grows = parts.make(OpKind::LogicalAnd, {taken, full});
  // A bound stops the change that would cross it and never moves a scale that lies beyond it.
  auto times = [&](const char* factor, OpKind limit, const char* bound, OpKind keep) {
    Value product =
        parts.make(OpKind::Mul, {scale, parts.scalar(scale, op.attrs.get_float(factor))});
    product = parts.make(limit, {product, parts.scalar(scale, op.attrs.get_float(bound))});
    return parts.make(keep, {scale, product});
  };
  Value grown = times("growth", OpKind::Minimum, "ceiling", OpKind::Maximum);
  Value lowered = times("backoff", OpKind::Maximum, "floor", OpKind::Minimum);
  Value next = parts.make(OpKind::Where, {grows, grown, scale});
  next = parts.make(OpKind::Where, {backs_off, lowered, next});
  Value zero = parts.scalar(clean, 0);
  Value run = parts.make(OpKind::Where, {grows, zero, count});
  return {next, parts.make(OpKind::Where, {taken, run, zero})};
}

}  // namespace mezzo::passes
