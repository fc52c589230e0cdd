// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/gradients.h>

#include <mezzo/dsl/precision.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

namespace mezzo::detail {

std::vector<Tensor> trace_gradient(const TensorFunction& function, std::vector<Operand> arguments,
                                   std::vector<int64_t> wrt, ir::Location location) {
  Trace& trace = Trace::require("grad", location);
  std::vector<ir::Value> operands;
  for (const Operand& argument : arguments)
    operands.push_back(single(trace, ir::OpKind::Gradient, argument));

  std::string name = trace.fresh_function_name("f");
  FunctionScope scope(trace, name);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(trace.input(operands[i].type(), "x" + std::to_string(i)));
  std::vector<ir::Value> results;
  for (const Tensor& result : function(inputs))
    results.push_back(trace.value(result, "grad", location));
  for (ir::Value captured : scope.end(results)) operands.push_back(captured);

  ir::Op* op = trace.create(ir::OpKind::Gradient, operands,
                            {{"func", ir::Symbol{name}}, {"wrt", ir::Attr(wrt)}}, location);
  scope.keep();
  std::vector<Tensor> out;
  for (ir::Value result : op->results()) out.push_back(trace.tensor(result));
  return out;
}

namespace {

/// The value of a cotangent that the backward function gave for `input`.
ir::Value cotangent_of(Trace& trace, const Tensor& given, const ir::Type& input, size_t index,
                       ir::Location location) {
  ir::Value value = trace.value(given, "custom_gradient", location);
  if (!(value.shape() == input.shape) || !ir::is_float(value.dtype()))
    throw UserError(location,
                    fmt::format("custom_gradient: the backward function gives {} for float input "
                                "{}, which is {}",
                                to_string(value.type()), index, to_string(input)),
                    "a cotangent has the shape of its input; sum over the axes along which the "
                    "input was broadcast");
  if (value.dtype() == input.dtype) return value;
  return trace.make(ir::OpKind::Cast, {value},
                    {{"reason", "a cotangent has the type of its input"}}, location, {input});
}

}  // namespace

std::vector<Tensor> trace_custom_gradient(const TensorFunction& forward,
                                          const BackwardFunction& backward,
                                          std::vector<Operand> arguments, ir::Location location) {
  Trace& trace = Trace::require("custom_gradient", location);
  std::vector<ir::Value> operands;
  for (const Operand& argument : arguments)
    operands.push_back(single(trace, ir::OpKind::CustomGradient, argument));
  const size_t inputs = operands.size();
  std::vector<Tensor> given;
  for (ir::Value value : operands) given.push_back(trace.tensor(value));
  for (const Tensor& output : forward(given)) {
    operands.push_back(trace.value(output, "custom_gradient", location));
    if (!ir::is_float(output.dtype()))
      throw UserError(location,
                      "custom_gradient: the forward function gives " + to_string(output.type()) +
                          ", which has no gradient",
                      "outputs are of float types; compute others outside of it");
  }
  const size_t outputs = operands.size() - inputs;

  const std::string name = trace.fresh_function_name("backward");
  FunctionScope scope(trace, name);
  std::vector<Tensor> x, y, dy;
  for (size_t i = 0; i < inputs; ++i)
    x.push_back(trace.input(operands[i].type(), "x" + std::to_string(i)));
  for (size_t i = 0; i < outputs; ++i)
    y.push_back(trace.input(operands[inputs + i].type(), "y" + std::to_string(i)));
  for (size_t i = 0; i < outputs; ++i)
    dy.push_back(trace.input(operands[inputs + i].type(), "dy" + std::to_string(i)));
  const std::vector<Tensor> cotangents = backward(x, y, dy);
  std::vector<ir::Value> results;
  for (size_t i = 0; i < inputs; ++i) {
    if (!ir::is_float(operands[i].dtype())) continue;
    if (results.size() < cotangents.size())
      results.push_back(cotangent_of(trace, cotangents[results.size()], operands[i].type(),
                                     results.size(), location));
    else
      results.emplace_back();
  }
  if (results.size() != cotangents.size() || (!results.empty() && !results.back()))
    throw UserError(location,
                    fmt::format("custom_gradient: the backward function gives {} for {}",
                                ir::counted(cotangents.size(), "cotangent"),
                                ir::counted(results.size(), "float input")),
                    "it gives one for each float input, in their order");
  for (ir::Value captured : scope.end(results)) operands.push_back(captured);
  ir::Op* op = trace.create(ir::OpKind::CustomGradient, operands,
                            {{"func", ir::Symbol{name}},
                             {"inputs", static_cast<int64_t>(inputs)},
                             {"outputs", static_cast<int64_t>(outputs)}},
                            location);
  scope.keep();
  std::vector<Tensor> out;
  for (ir::Value result : op->results()) out.push_back(trace.tensor(result));
  return out;
}

RegionScope::RegionScope(const char* policy, ir::Location location)
    : trace_(&Trace::require("precision region", location)), policy_(true) {
  trace_->policies.push_back(policy);
}

RegionScope::RegionScope(ir::Location location)
    : trace_(&Trace::require("checkpoint", location)), policy_(false) {
  trace_->checkpoints.push_back(++trace_->checkpoint_count);
}

RegionScope::~RegionScope() {
  if (policy_)
    trace_->policies.pop_back();
  else
    trace_->checkpoints.pop_back();
}

}  // namespace mezzo::detail
