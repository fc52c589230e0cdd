// SPDX-License-Identifier: Apache-2.0
// loss-scale: the backward pass starts from the scale instead of 1; each gradient is multiplied by
// the reciprocal of the scale, in f32, before anything reads it; the scale follows the verdict.
// Scale and counter are state of the step; the host sets the first scale. Needs finite-check's
// verdict: does nothing in a function without it. Options: growth = 2.0, backoff = 0.5,
// interval = 2000, floor = 2^-14, ceiling = 2^24; all but the interval are powers of two, so that
// the reciprocal is exact.
//
// Before:
//   func @step(%x: tensor<4xf32>, %w: tensor<4xf32> {param = true}, %lr: tensor<f32> {state =
//   true})
//       -> (tensor<f32>, tensor<i32>, tensor<4xf32> {updates = %w}) {
//     %l, %dw = gradient %x, %w {func = @loss, wrt = [1]} : ...
//     %ok = all_finite %dw : tensor<4xf32> -> tensor<bool>
//     %w1 = sgd %w, %dw, %lr, %ok : ...
//     %v = verdict %ok : tensor<bool> -> tensor<i32>
//     return %l, %v, %w1 : ...
//   }
// After:
//   func @step(..., %scale: tensor<f32> {state = true}, %clean: tensor<i32> {state = true})
//       -> (tensor<f32>, tensor<i32>, tensor<4xf32> {updates = %w}, tensor<f32> {updates = %scale},
//           tensor<i32> {updates = %clean}) {
//     %l, %dws = gradient %x, %w, %scale {func = @loss, seed = true, wrt = [1]} : ...
//     %inv = reciprocal %scale : tensor<f32>
//     %dw = mul %dws, %inv : ...
//     %ok = all_finite %dw : tensor<4xf32> -> tensor<bool>
//     %w1 = sgd %w, %dw, %lr, %ok : ...
//     %v = verdict %ok : tensor<bool> -> tensor<i32>
//     %scale1, %clean1 = scale_update %scale, %clean, %v {...} : ...
//     return %l, %v, %w1, %scale1, %clean1 : ...
//   }
#include <mezzo/ir/loss_scale.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/passes/pass.h>
#include <mezzo/passes/training_step.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo::passes {

using ir::Attr;
using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::Op;
using ir::OpKind;
using ir::Type;
using ir::Value;

namespace {

double number(const Attrs& options, std::string_view name, double fallback) {
  const Attr* attr = options.find(name);
  if (!attr) return fallback;
  if (attr->is<double>()) return attr->as<double>();
  if (attr->is<int64_t>()) return static_cast<double>(attr->as<int64_t>());
  throw UserError({}, fmt::format("loss-scale: option '{}' must be a number", name));
}

/// The attributes of scale_update, checked.
Attrs scale_rule(const Attrs& options) {
  for (const auto& [name, value] : options) {
    std::vector<std::string> known = {"backoff", "ceiling", "floor", "growth", "interval"};
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UserError({}, fmt::format("loss-scale: unknown option '{}'{}", name,
                                      ir::did_you_mean(name, known)));
  }
  ir::ScaleRule rule;
  rule.growth = number(options, "growth", rule.growth);
  rule.backoff = number(options, "backoff", rule.backoff);
  rule.floor = number(options, "floor", rule.floor);
  rule.ceiling = number(options, "ceiling", rule.ceiling);
  rule.interval = number(options, "interval", rule.interval);
  if (std::optional<ir::ScaleFault> fault = ir::scale_rule_fault(rule))
    throw UserError({}, "loss-scale: " + fault->text, fault->hint);
  return {{"growth", rule.growth},
          {"backoff", rule.backoff},
          {"floor", rule.floor},
          {"ceiling", rule.ceiling},
          {"interval", static_cast<int64_t>(rule.interval)}};
}

Op* find_op(const ir::Function& function, OpKind kind) {
  for (Op& op : function.body())
    if (op.kind() == kind) return &op;
  return nullptr;
}

/// Starts the backward pass from the scale: the last operand of the gradient op.
void seed_gradient(Op* gradient, Value scale) {
  std::vector<Value> operands = gradient->operands();
  if (gradient->bool_attr("seed")) {
    Builder builder(gradient);
    builder.set_location(gradient->location());
    Value factor =
        builder.cast(scale, operands.back().dtype(), "the scale in the type of the seed");
    operands.back() = builder.make(OpKind::Mul, {operands.back(), factor});
  } else {
    operands.push_back(scale);
    gradient->attrs().set("seed", true);
  }
  gradient->set_operands(operands);
}

/// Whatever reads a gradient reads its unscaled value.
void unscale_gradients(Op* gradient, Value scale, Value& inverse, NameScope& names) {
  Op* place = gradient->next();
  Builder builder(place);
  builder.set_location(gradient->location());
  for (int i = num_function_results(*gradient); i < gradient->num_results(); ++i) {
    Value scaled = gradient->result(i);
    if (scaled.unused()) continue;
    if (!inverse) {
      inverse = builder.make(OpKind::Reciprocal, {scale});
      inverse.set_name(names.fresh("inv"));
    }
    Value factor = builder.cast(inverse, scaled.dtype(), "the scale in the type of the gradient");
    Value unscaled = builder.make(OpKind::Mul, {scaled, factor});
    scaled.replace_all_uses_with(unscaled);  // the new op's own use too
    unscaled.op()->set_operand(0, scaled);
    std::string name(scaled.name());
    unscaled.set_name(name);
    if (!name.empty()) scaled.set_name(names.fresh(name + "s"));
  }
}

void scale_step(const TrainingStep& step, const Attrs& rule) {
  ir::Function& function = *step.function;
  Op* verdict = find_op(function, OpKind::Verdict);
  NameScope names(function);
  std::string scale_name = names.fresh("scale"), clean_name = names.fresh("clean");
  Value scale = function.add_parameter(Type(DType::F32, {}), scale_name, {{"state", true}});
  Value clean = function.add_parameter(Type(DType::I32, {}), clean_name, {{"state", true}});
  Value inverse;
  for (Op* gradient : step.gradients) {
    seed_gradient(gradient, scale);
    unscale_gradients(gradient, scale, inverse, names);
  }

  Builder builder(verdict->next());
  builder.set_location(verdict->location());
  Op* update = builder.create(OpKind::ScaleUpdate, {scale, clean, verdict->result()}, Attrs(rule));
  update->result(0).set_name(names.fresh(scale_name + "1"));
  update->result(1).set_name(names.fresh(clean_name + "1"));
  std::vector<Value> results = function.results();
  std::vector<Attrs> attrs;
  for (int i = 0; i < function.num_results(); ++i) attrs.push_back(function.result_attrs(i));
  results.insert(results.end(), {update->result(0), update->result(1)});
  attrs.push_back({{"updates", ir::ValueRef{scale.def()}}});
  attrs.push_back({{"updates", ir::ValueRef{clean.def()}}});
  function.set_results(results, std::move(attrs));
}

}  // namespace

bool loss_scale(ir::Module& module, PassContext& context) {
  Attrs rule = scale_rule(context.options);
  bool changed = false;
  for (const TrainingStep& step : find_training_steps(module)) {
    if (!find_op(*step.function, OpKind::Verdict) || find_op(*step.function, OpKind::ScaleUpdate))
      continue;
    scale_step(step, rule);
    changed = true;
  }
  return changed;
}

}  // namespace mezzo::passes
