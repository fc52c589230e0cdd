// SPDX-License-Identifier: Apache-2.0
#include <support/run_op.h>

namespace mezzo::test {

std::unique_ptr<ir::Module> one_op_module(ir::OpKind kind, std::span<const ir::Type> operands,
                                          ir::Attrs attrs, std::span<const ir::Type> declared) {
  auto module = std::make_unique<ir::Module>("one_op");
  ir::Function* function = module->add_function("f");
  for (size_t i = 0; i < operands.size(); ++i)
    function->add_parameter(operands[i], "x" + std::to_string(i));
  ir::Builder builder(function->body());
  ir::Op* op = builder.create(kind, function->parameters(), std::move(attrs), declared);
  std::vector<ir::Value> results = op->results();
  function->set_results(results, std::vector<ir::Attrs>(results.size()));
  return module;
}

ir::RunResult run_op(ir::OpKind kind, const std::vector<ir::InterpreterTensor>& inputs,
                     ir::Attrs attrs, const std::vector<ir::Type>& declared) {
  std::vector<ir::Type> types;
  for (const ir::InterpreterTensor& input : inputs) types.push_back(input.type);
  attrs.set("word", 0);
  auto module = one_op_module(kind, types, std::move(attrs), declared);
  return ir::run(*module, *module->function("f"), inputs);
}

ir::InterpreterTensor eval_op(ir::OpKind kind, const std::vector<ir::InterpreterTensor>& inputs,
                              ir::Attrs attrs, const std::vector<ir::Type>& declared) {
  return run_op(kind, inputs, std::move(attrs), declared).results.at(0);
}

ir::InterpreterTensor vector_of(ir::DType dtype, const std::vector<double>& values) {
  return ir::make_tensor(ir::Type(dtype, {static_cast<int64_t>(values.size())}), values);
}

}  // namespace mezzo::test
