// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/gradients.h>

#include <mezzo/dsl/precision.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>

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
