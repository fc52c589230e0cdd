// SPDX-License-Identifier: Apache-2.0
// What is traced for a model with one layer `hidden1` under Adam at a constant rate:
//   func @loss(%x, %y, %hidden1.weight {param}, %hidden1.bias {param}) -> (loss, accuracy)
//   func @step(%x, %y, %hidden1.weight {param}, %hidden1.bias {param},
//              %hidden1.weight.m {state}, %hidden1.weight.v {state}, %hidden1.bias.m {state},
//              %hidden1.bias.v {state}, %t {state}, %lr {state}) -> (loss, accuracy, updates ...)
#include <mezzo/dsl/training_module.h>

#include <mezzo/dsl/batch_mask.h>
#include <mezzo/dsl/ops.h>
#include <mezzo/ir/error.h>

#include <algorithm>
#include <limits>
#include <map>

namespace mezzo::detail {

namespace {

using ir::OpKind;
using ir::Value;

/// Twice the multiply-adds of matrix products and convolutions by scope; "" for those outside of
/// layers.
std::map<std::string, double> flops_by_scope(const ir::Module& module) {
  std::map<std::string, double> flops;
  for (const auto& function : module.functions())  // a gradient in the loss has its own
    for (const ir::Op& op : function->body()) {
      if (op.kind() != OpKind::Matmul && op.kind() != OpKind::Conv) continue;
      const Shape& a = op.operand(0).shape();
      int64_t inner = 0;  // products of an element
      if (op.kind() == OpKind::Conv)
        inner = op.operand(1).type().elements() / std::max<int64_t>(1, op.operand(1).shape()[0]);
      else
        inner = a[a.rank() - (op.bool_attr("transpose_a") ? 2 : 1)];
      flops[op.attrs().get_string("scope")] +=
          2.0 * static_cast<double>(op.result().type().elements()) * static_cast<double>(inner);
    }
  return flops;
}

/// Traces `@loss` and leaves the trace open for `@step`.
ir::Function* trace_loss_into(Trace& trace, const TrainingDescription& description,
                              const ir::Type& inputs, const ir::Type& targets, bool training,
                              TrainingModule& traced) {
  trace.training = training;
  ir::Function* function = trace.begin_function("loss");
  Tensor x = trace.input(inputs, "x"), y = trace.input(targets, "y");
  Tensor output = description.model(x);
  Tensor loss = description.loss(output, y);
  std::vector<Value> results{trace.value(loss, "loss", description.location)};
  if (loss.rank() != 0 || !ir::is_float(loss.dtype()))
    throw UserError(description.location,
                    "loss: must be a float scalar, not " + to_string(loss.type()),
                    "take the mean over the batch");
  traced.labels = find_label_ranges(*function);
  traced.counts = trace_accuracy(trace, output, y, results, description.location);
  traced.own_results = static_cast<int>(results.size());
  for (const Trace::StateUpdate& update : trace.state_updates()) results.push_back(update.next);
  trace.end_function(results);

  traced.parameters = trace.parameters();
  traced.rng_name = trace.rng_name();
  traced.layers = trace.layer_calls;
  traced.layer_flops = flops_by_scope(trace.module());
  return function;
}

/// The model's own state, or that of random numbers.
bool is_model_state(const TrainingModule& traced, std::string_view name) {
  return std::ranges::any_of(traced.parameters, [&](const ProgramParameter& parameter) {
    return parameter.state->is_state && parameter.name == name;
  });
}

/// `@step` while it is being traced.
class StepTracer {
 public:
  StepTracer(Trace& trace, const TrainingDescription& description, TrainingModule& traced)
      : trace_(trace), description_(description), traced_(traced) {}

  void run(const ir::Function& loss) {
    ir::Function* step = trace_.begin_function("step");
    std::vector<Value> operands;
    for (int i = 0; i < loss.num_parameters(); ++i) {
      Value parameter = loss.parameter(i);
      operands.push_back(
          value(trace_.input(parameter.type(), parameter.name(), loss.parameter_attrs(i))));
      if (loss.is_state(i) && !is_model_state(traced_, parameter.name()))
        traced_.states.emplace_back(std::string(parameter.name()), parameter.type());
    }
    std::map<Value, std::vector<Value>, ByIndex> moments;
    for (int i = 0; i < loss.num_parameters(); ++i)
      if (loss.is_param(i)) {
        Value weight = step->parameter(i);
        for (const std::string& moment : description_.optimizer.moments)
          moments[weight].push_back(
              state(std::string(weight.name()) + "." + moment, gradient_type(weight.type())));
      }
    trace_rate();
    differentiate(loss, operands, moments);
    traced_.traced_parameters = step->num_parameters();
    trace_.end_function(results_, std::move(attrs_));
  }

 private:
  struct ByIndex {
    bool operator()(Value a, Value b) const { return a.index() < b.index(); }
  };

  static ir::Type gradient_type(const ir::Type& type) {
    return type.with(type.dtype == f64 ? f64 : f32);
  }
  Value value(const Tensor& tensor) { return trace_.value(tensor, "step", description_.location); }

  Value state(const std::string& name, const ir::Type& type) {
    Value parameter = value(trace_.input(type, name, {{"state", true}}));
    traced_.states.emplace_back(std::string(parameter.name()), type);
    return parameter;
  }

  void update(Value next, Value old) {
    results_.push_back(next);
    attrs_.push_back({{"updates", ir::ValueRef{old.def()}}});
  }

  /// The counter of taken steps, where something reads it, and the rate of this step.
  void trace_rate() {
    const LearningRate& rate = description_.optimizer.rate;
    if (description_.optimizer.counts || !rate.is_constant()) {
      step_ = state("t", ir::Type(i32, {}));
      Tensor next = add(Operand(trace_.tensor(step_), description_.location),
                        Operand(1).at(description_.location));
      next_step_ = value(next);
      trace_.name_value(next_step_, "t1");
    }
    if (rate.is_constant()) {
      rate_ = state("lr", ir::Type(f32, {}));
      traced_.rate_name = rate_.name();
      return;
    }
    const int64_t streams = trace_.streams();
    const Tensor scheduled = rate.at(trace_.tensor(step_));
    if (trace_.streams() != streams)
      throw UserError(description_.location, "learning rate: the schedule draws random numbers",
                      "a schedule is a function of the step counter alone");
    if (!(scheduled.type() == ir::Type(f32, {})))
      throw UserError(
          description_.location,
          "learning rate: the schedule must give tensor<f32>, not " + to_string(scheduled.type()),
          "cast(rate, f32) and reshape(rate, {}) make one");
    scheduled_ = value(scheduled);
    trace_.name_value(scheduled_, "lr");
    traced_.step_name = step_.name();
    if (!scheduled_.is_parameter()) traced_.rate_location = scheduled_.op()->location();
    rate_ = value(usable(scheduled));
  }

  /// NaN for a rate that no update may use: the finite check then skips the step, and the host
  /// tells why.
  Tensor usable(const Tensor& rate) {
    const ir::Location& place = description_.location;
    Operand r(rate, place);
    auto at = [&](double number) { return Operand(number).at(place); };
    Tensor good = logical_and(Operand(ge(r, at(0)), place),
                              Operand(lt(r, at(std::numeric_limits<double>::infinity())), place));
    return where(Operand(good, place), r, at(std::numeric_limits<double>::quiet_NaN()));
  }

  void differentiate(const ir::Function& loss, const std::vector<Value>& operands,
                     std::map<Value, std::vector<Value>, ByIndex>& moments) {
    std::vector<int64_t> wrt;
    for (int i = 0; i < loss.num_parameters(); ++i)
      if (loss.is_param(i)) wrt.push_back(i);
    if (wrt.empty())
      throw UserError(description_.location, "training: the model has no parameters",
                      "layers of mezzo::nn and nn::Parameter have some");
    ir::Op* gradient = trace_.create(OpKind::Gradient, operands,
                                     {{"func", ir::Symbol{loss.name()}}, {"wrt", ir::Attr(wrt)}},
                                     description_.location);
    trace_.name_value(gradient->result(0), "l");
    for (int i = 0; i < traced_.own_results; ++i) {
      results_.push_back(gradient->result(i));
      attrs_.emplace_back();
    }
    const int first_slope = traced_.own_results + static_cast<int>(trace_.state_updates().size());
    commit_states(loss, operands, *gradient);
    if (scheduled_) {
      traced_.rate_result = traced_.own_results++;
      results_.push_back(scheduled_);
      attrs_.emplace_back();
    }
    for (size_t i = 0; i < wrt.size(); ++i) {
      Value weight = operands[static_cast<size_t>(wrt[i])];
      Value slope = gradient->result(first_slope + static_cast<int>(i));
      trace_.name_value(slope, "d." + std::string(weight.name()));
      apply(weight, slope, moments[weight]);
    }
    if (step_) update(next_step_, step_);
    for (int i = 0; i < loss.num_parameters(); ++i)
      if (loss.is_state(i) && !is_model_state(traced_, loss.parameter(i).name())) {
        Value rng = operands[static_cast<size_t>(i)];
        update(trace_.make(OpKind::RngAdvance, {rng}, {}, description_.location), rng);
      }
  }

  /// What the loss sets the model's state to stands behind its own results.
  void commit_states(const ir::Function& loss, const std::vector<Value>& operands,
                     const ir::Op& gradient) {
    int next = traced_.own_results;
    for (const Trace::StateUpdate& each : trace_.state_updates()) {
      const auto known =
          std::ranges::find(traced_.parameters, each.state, &ProgramParameter::state);
      for (int i = 0; i < loss.num_parameters(); ++i)
        if (loss.parameter(i).name() == known->name)
          update(gradient.result(next), operands[static_cast<size_t>(i)]);
      ++next;
    }
  }

  void apply(Value weight, Value slope, const std::vector<Value>& moments) {
    const OptimizerPlan& plan = description_.optimizer;
    OpKind kind = *ir::parse_op(plan.op);
    std::vector<Value> operands{weight, slope};
    if (kind == OpKind::Sgd) operands.push_back(rate_);
    operands.insert(operands.end(), moments.begin(), moments.end());
    if (kind == OpKind::Adam) operands.insert(operands.end(), {next_step_, rate_});
    ir::Attrs attrs;
    for (const auto& [name, number] : plan.numbers) attrs.set(name, number);
    if (plan.nesterov) attrs.set("nesterov", true);
    ir::Op* op = trace_.create(kind, operands, std::move(attrs), description_.location);
    update(op->result(0), weight);
    for (size_t i = 0; i < moments.size(); ++i)
      update(op->result(static_cast<int>(i) + 1), moments[i]);
  }

  Trace& trace_;
  const TrainingDescription& description_;
  TrainingModule& traced_;
  Value step_, next_step_, rate_;
  Value scheduled_;  // the rate as the schedule gives it
  std::vector<Value> results_;
  std::vector<ir::Attrs> attrs_;
};

/// `@loss` for another number of samples; null where the model or the loss refuses that number.
std::unique_ptr<ir::Module> trace_other_batch(const TrainingDescription& description,
                                              const ir::Type& inputs, const ir::Type& targets) {
  const int64_t count = inputs.shape[0] == 1 ? 2 : inputs.shape[0] - 1;
  auto with_count = [count](const ir::Type& type) {
    std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
    dims[0] = count;
    return ir::Type(type.dtype, Shape(std::span<const int64_t>(dims)));
  };
  Trace trace("evaluation", description.options.policy.storage());
  try {
    TrainingModule traced;
    trace_loss_into(trace, description, with_count(inputs), with_count(targets), false, traced);
    return trace.take_module();
  } catch (const UserError&) {
    return nullptr;
  }
}

}  // namespace

TrainingModule trace_training(const TrainingDescription& description, const ir::Type& inputs,
                              const ir::Type& targets) {
  TrainingModule traced;
  Trace trace("training", description.options.policy.storage());
  ir::Function* loss = trace_loss_into(trace, description, inputs, targets, true, traced);
  StepTracer(trace, description, traced).run(*loss);
  traced.findings = std::move(trace.findings);
  traced.module = trace.take_module();
  return traced;
}

TrainingModule trace_loss(const TrainingDescription& description, const ir::Type& inputs,
                          const ir::Type& targets) {
  TrainingModule traced;
  std::unique_ptr<ir::Module> other_batch = trace_other_batch(description, inputs, targets);
  Trace trace("evaluation", description.options.policy.storage());
  ir::Function* loss = trace_loss_into(trace, description, inputs, targets, false, traced);
  for (int i = 0; i < loss->num_parameters(); ++i)
    if (loss->is_state(i) && !is_model_state(traced, loss->parameter(i).name()))
      traced.states.emplace_back(std::string(loss->parameter(i).name()), loss->parameter(i).type());
  traced.count_name = mask_batch(*loss, other_batch.get()).value_or("");
  traced.traced_parameters = loss->num_parameters();
  traced.findings = std::move(trace.findings);
  traced.module = trace.take_module();
  return traced;
}

}  // namespace mezzo::detail
