// SPDX-License-Identifier: Apache-2.0
// The interpreter: finite check, verdict, loss scale and optimizers. Each update is evaluated whole
// in double and rounded once; a step that is not taken keeps every bit.
#include <mezzo/ir/interpreter_ops.h>

#include <algorithm>
#include <cmath>

namespace mezzo::ir {

void eval_all_finite(OpRun& run) {
  bool finite = std::all_of(run.operands.begin(), run.operands.end(),
                            [](const InterpreterTensor* x) { return x->all_finite(); });
  run.store_integer(0, finite && !run.execution.index_range);
}

void eval_verdict(OpRun& run) {
  Execution& execution = run.execution;
  const Function& function = execution.function;
  VerdictTable table = VerdictTable::from(function);
  StepFacts facts;
  facts.words = execution.words;
  facts.index_range = execution.index_range;
  facts.all_finite = run.operand(0).integers[0] != 0;
  if (function.num_results() > 0) {
    const InterpreterTensor* loss = execution.find(function.results()[0]);
    if (!loss)
      throw UserError(run.op.location(), "verdict: stands before the loss is computed",
                      "the loss is the first result of @" + function.name());
    facts.loss_finite = loss->all_finite();
  }
  if (table.scale_parameter >= 0)
    facts.scaled = execution.get(function.parameter(table.scale_parameter)).floats[0] > 1;
  facts.parameter_has_nonfinite = [&](int parameter) {
    return !execution.get(function.parameter(parameter)).all_finite();
  };
  run.store_integer(0, judge(table, facts));
}

// Clean steps are counted; the scale grows after `interval` of them and backs off when it caused
// the overflow. A skip for any other reason only starts the count anew. The bounds never move a
// scale that already lies beyond them.
void eval_scale_update(OpRun& run) {
  double scale = run.operand(0).floats[0];
  int64_t clean = run.operand(1).integers[0];
  int32_t verdict = static_cast<int32_t>(run.operand(2).integers[0]);
  if (is_taken(verdict)) {
    ++clean;
    if (clean >= run.op.int_attr("interval")) {
      double grown = round_to(DType::F32, scale * run.op.float_attr("growth"));
      scale = std::max(scale, std::min(grown, run.op.float_attr("ceiling")));
      clean = 0;
    }
  } else {
    clean = 0;
    if (lowers_scale(verdict)) {
      double lowered = round_to(DType::F32, scale * run.op.float_attr("backoff"));
      scale = std::min(scale, std::max(lowered, run.op.float_attr("floor")));
    }
  }
  run.store(0, 0, scale);
  run.result(1).integers[0] = clean;
}

namespace {

/// The last operand, when it is a bool, says whether the step is taken.
bool is_skipped(const OpRun& run) {
  const InterpreterTensor& last = *run.operands.back();
  return last.type.dtype == DType::Bool && last.integers[0] == 0;
}

}  // namespace

// w, dw, lr, then the velocity if there is momentum, then ok.
void eval_sgd(OpRun& run) {
  double momentum = run.op.float_attr("momentum"), decay = run.op.float_attr("weight_decay");
  bool nesterov = run.op.bool_attr("nesterov"), moving = momentum != 0;
  const InterpreterTensor &w = run.operand(0), &dw = run.operand(1);
  if (is_skipped(run)) {
    run.result(0) = w;
    if (moving) run.result(1) = run.operand(3);
    return;
  }
  double rate = run.operand(2).floats[0];
  for (size_t i = 0; i < w.floats.size(); ++i) {
    int64_t at = static_cast<int64_t>(i);
    double step = dw.floats[i] + (decay != 0 ? decay * w.floats[i] : 0);
    if (moving) {
      double gradient = step, velocity = momentum * run.operand(3).floats[i] + gradient;
      step = nesterov ? gradient + momentum * velocity : velocity;
      run.store(1, at, velocity);
    }
    run.store(0, at, w.floats[i] - rate * step);
  }
}

// w, dw, m, v, t, lr, then ok. t counts taken steps, this one included; the decay is AdamW's.
void eval_adam(OpRun& run) {
  const InterpreterTensor &w = run.operand(0), &dw = run.operand(1);
  const InterpreterTensor &m = run.operand(2), &v = run.operand(3);
  if (is_skipped(run)) {
    run.result(0) = w;
    run.result(1) = m;
    run.result(2) = v;
    return;
  }
  DType wide = dw.type.dtype;  // f32, or f64
  double beta1 = run.op.float_attr("beta1"), beta2 = run.op.float_attr("beta2");
  double eps = run.op.float_attr("eps"), decay = run.op.float_attr("weight_decay");
  double t = static_cast<double>(run.operand(4).integers[0]), rate = run.operand(5).floats[0];
  // Formed in double once a step, rounded once.
  double complement1 = round_to(wide, 1 - beta1), complement2 = round_to(wide, 1 - beta2);
  // 1 - beta^t would lose what beta^t near 1 cannot hold.
  double correction1 = round_to(wide, -std::expm1(t * std::log(beta1)));
  double correction2 = round_to(wide, -std::expm1(t * std::log(beta2)));
  for (size_t i = 0; i < w.floats.size(); ++i) {
    int64_t at = static_cast<int64_t>(i);
    double g = dw.floats[i];
    double first = m.floats[i] + complement1 * (g - m.floats[i]);
    double second = v.floats[i] + complement2 * (g * g - v.floats[i]);
    double step = (first / correction1) / (std::sqrt(second / correction2) + eps);
    if (decay != 0) step += decay * w.floats[i];
    run.store(0, at, w.floats[i] - rate * step);
    run.store(1, at, first);
    run.store(2, at, second);
  }
}

}  // namespace mezzo::ir
