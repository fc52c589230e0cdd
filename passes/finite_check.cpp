// SPDX-License-Identifier: Apache-2.0
// finite-check: a step with a non-finite gradient is skipped, and so is one whose rate was computed
// and is not finite. One `all_finite` reads the gradients that updates read, and such rates;
// optimizer ops take its answer, every other update keeps the old state when it is false, and
// `verdict` tells the host why. rng_advance and scale_update go on in skipped steps.
//
// Before:
//   func @step(%x: tensor<4xf32>, %w: tensor<4xf32> {param = true}, %t: tensor<i32> {state = true},
//       %lr: tensor<f32> {state = true})
//       -> (tensor<f32>, tensor<4xf32> {updates = %w}, tensor<i32> {updates = %t}) {
//     %one = constant {value = 1} : tensor<i32>
//     %t1 = add %t, %one : tensor<i32>
//     %l, %dw = gradient %x, %w {func = @loss, wrt = [1]} : ...
//     %w1 = sgd %w, %dw, %lr : ...
//     return %l, %w1, %t1 : ...
//   }
// After:
//   func @step(...) -> (tensor<f32>, tensor<i32>, tensor<4xf32> {updates = %w},
//       tensor<i32> {updates = %t}) {
//     %one = constant {value = 1} : tensor<i32>
//     %t1 = add %t, %one : tensor<i32>
//     %l, %dw = gradient %x, %w {func = @loss, wrt = [1]} : ...
//     %ok = all_finite %dw : tensor<4xf32> -> tensor<bool>
//     %w1 = sgd %w, %dw, %lr, %ok : ...
//     %0 = where %ok, %t1, %t : ...
//     %v = verdict %ok : tensor<bool> -> tensor<i32>
//     return %l, %v, %w1, %0 : ...
//   }
#include <mezzo/ir/builder.h>
#include <mezzo/passes/pass.h>
#include <mezzo/passes/training_step.h>

#include <algorithm>
#include <string>
#include <vector>

namespace mezzo::passes {

using ir::Attrs;
using ir::Builder;
using ir::Op;
using ir::OpKind;
using ir::Trait;
using ir::Value;

namespace {

bool has_check(const ir::Function& function) {
  for (Op& op : function.body())
    if (op.kind() == OpKind::AllFinite || op.kind() == OpKind::Verdict) return true;
  return false;
}

/// What the check reads: the gradients, and the rates that the step computes.
std::vector<Value> checked_values(const TrainingStep& step) {
  std::vector<Value> values = step.read;
  for (Op& op : step.function->body()) {
    if (!op.info().has(Trait::Optimizer)) continue;
    const std::vector<std::string>& names = op.info().operands;
    const auto rate = std::find(names.begin(), names.end(), "lr") - names.begin();
    if (rate >= op.num_operands()) continue;
    const Value value = op.operand(static_cast<int>(rate));
    if (!value.is_parameter() && std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  }
  return values;
}

/// Places `all_finite` behind the last of its operands. Optimizer ops that stand before it move
/// behind it, with what reads their results.
Op* insert_check(const TrainingStep& step, const std::vector<Value>& checked,
                 const OpSet& before_check, NameScope& names) {
  OpSet made;
  for (Value value : checked) made.insert(value.op());
  Op* last = nullptr;
  for (Op& op : step.function->body())
    if (made.contains(&op)) last = &op;
  Builder builder(last->next());
  builder.set_location(step.read.back().op()->location());
  Op* check = builder.create(OpKind::AllFinite, checked);
  check->result().set_name(names.fresh("ok"));
  Op* behind = check->next();
  OpSet moved;
  for (Op& op : step.function->body()) {
    if (&op == check) break;
    bool moves = op.info().has(Trait::Optimizer) && !before_check.count(&op);
    for (int i = 0; i < op.num_operands() && !moves; ++i)
      moves = moved.count(op.operand(i).op()) != 0;
    if (!moves) continue;
    moved.insert(&op);
    op.move_before(behind);
  }
  return check;
}

void check_step(const TrainingStep& step) {
  ir::Function& function = *step.function;
  NameScope names(function);
  // An update that a later gradient depends on (alternating training) is computed unconditionally
  // and selected at the end, like any other state.
  const std::vector<Value> checked = checked_values(step);
  OpSet before_check = producers_of(function.body(), checked);
  Op* check = insert_check(step, checked, before_check, names);
  Value ok = check->result();
  for (Op& op : function.body()) {
    if (!op.info().has(Trait::Optimizer) || before_check.count(&op)) continue;
    std::vector<Value> operands = op.operands();
    if (operands.back().dtype() == ir::DType::Bool) continue;  // the user's own condition
    operands.push_back(ok);
    op.set_operands(operands);
  }

  Builder builder(function.body().terminator());
  std::vector<Value> results = function.results();
  std::vector<Attrs> attrs;
  for (int i = 0; i < function.num_results(); ++i) {
    attrs.push_back(function.result_attrs(i));
    Value state = function.updated_parameter(i), next = results[static_cast<size_t>(i)];
    if (!state || next == state) continue;
    if (next.is(OpKind::RngAdvance) || next.is(OpKind::ScaleUpdate)) continue;
    if (next.op() && next.op()->info().has(Trait::Optimizer) && !before_check.count(next.op()) &&
        next.op()->operand(next.op()->num_operands() - 1) == ok)
      continue;
    builder.set_location(next.op() ? next.op()->location() : check->location());
    results[static_cast<size_t>(i)] = builder.make(OpKind::Where, {ok, next, state});
  }
  builder.set_location(check->location());
  Value verdict = builder.make(OpKind::Verdict, {ok});
  verdict.set_name(names.fresh("v"));
  int place = first_update(function);
  results.insert(results.begin() + place, verdict);
  attrs.insert(attrs.begin() + place, Attrs());
  function.set_results(results, std::move(attrs));
}

}  // namespace

bool finite_check(ir::Module& module, PassContext&) {
  bool changed = false;
  for (const TrainingStep& step : find_training_steps(module)) {
    if (has_check(*step.function)) continue;
    check_step(step);
    changed = true;
  }
  return changed;
}

}  // namespace mezzo::passes
