// SPDX-License-Identifier: Apache-2.0
#include <mezzo/passes/training_step.h>

namespace mezzo::passes {

using ir::Function;
using ir::Op;
using ir::OpKind;
using ir::Value;

OpSet producers_of(const ir::Region& body, const std::vector<Value>& values) {
  OpSet out;
  for (Value value : values)
    if (value.op()) out.insert(value.op());
  for (const Op* op = body.back(); op; op = op->previous()) {
    if (!out.count(op)) continue;
    for (int i = 0; i < op->num_operands(); ++i)
      if (const Op* producer = op->operand(i).op()) out.insert(producer);
  }
  return out;
}

namespace {

/// The gradient results that the values depend on, and nothing else that a gradient op gives.
std::unordered_set<const ir::ValueDef*> values_behind(const ir::Region& body,
                                                      const std::vector<Value>& values) {
  std::unordered_set<const ir::ValueDef*> out;
  for (Value value : values) out.insert(value.def());
  for (Op* op = body.back(); op; op = op->previous()) {
    bool needed = false;
    for (Value result : op->results()) needed = needed || out.count(result.def());
    if (!needed) continue;
    for (int i = 0; i < op->num_operands(); ++i) out.insert(op->operand(i).def());
  }
  return out;
}

}  // namespace

int num_function_results(const Op& gradient) {
  return gradient.num_results() - static_cast<int>(gradient.ints_attr("wrt").size());
}

int first_update(const Function& function) {
  int index = 0;
  while (index < function.num_results() && !function.updated_parameter(index)) ++index;
  return index;
}

std::vector<TrainingStep> find_training_steps(ir::Module& module) {
  std::vector<TrainingStep> steps;
  std::set<std::string, std::less<>> differentiated;
  for (const auto& function : module.functions()) {
    TrainingStep step{function.get(), {}, {}};
    for (Op& op : function->body()) {
      if (op.kind() != OpKind::Gradient) continue;
      step.gradients.push_back(&op);
      differentiated.insert(op.attrs().find("func")->as<ir::Symbol>().name);
    }
    if (step.gradients.empty()) continue;
    std::vector<Value> updates, results = function->results();
    for (int i = 0; i < function->num_results(); ++i)
      if (function->updated_parameter(i)) updates.push_back(results[static_cast<size_t>(i)]);
    auto behind = values_behind(function->body(), updates);
    for (Op* gradient : step.gradients)
      for (int i = num_function_results(*gradient); i < gradient->num_results(); ++i)
        if (behind.count(gradient->result(i).def())) step.read.push_back(gradient->result(i));
    if (!step.read.empty()) steps.push_back(std::move(step));
  }
  std::erase_if(steps, [&](const TrainingStep& step) {
    return differentiated.count(step.function->name()) != 0;
  });
  return steps;
}

NameScope::NameScope(const Function& function) {
  auto add = [&](Value value) {
    if (!value.name().empty()) taken_.emplace(value.name());
  };
  for (Value value : function.parameters()) add(value);
  for (Op& op : function.body())
    for (int i = 0; i < op.num_results(); ++i) add(op.result(i));
}

std::string NameScope::fresh(std::string_view wanted) {
  if (wanted.empty()) return "";
  std::string name(wanted);
  for (int i = 1; !taken_.insert(name).second; ++i)
    name = std::string(wanted) + "_" + std::to_string(i);
  return name;
}

}  // namespace mezzo::passes
