// SPDX-License-Identifier: Apache-2.0
#include <ops/convention_runs.h>

#include <mezzo/ir/interpreter.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/grad_function.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <runtime/compiled.h>
#include <string>
#include <tuple>

namespace mezzo::test {

namespace {

/// The only function of the module, once for each text: the same function meets many numbers.
runtime::Executable& compiled(const ir::Module& module, bool fuse, const std::string& rounding) {
  static std::map<std::tuple<std::string, bool, std::string>, std::unique_ptr<runtime::Executable>>
      known;
  std::unique_ptr<runtime::Executable>& executable = known[{ir::print(module), fuse, rounding}];
  if (!executable) {
    runtime::CompileOptions options = in_memory();
    options.fuse = fuse;
    options.threads = 1;
    options.rounding = rounding;
    executable = runtime::compile(module.clone(), module.functions()[0]->name(), options);
  }
  return *executable;
}

void check_numbers(const char* what, const Tensors& got,
                   const std::vector<std::vector<double>>& wanted, double tolerance) {
  REQUIRE(got.size() == wanted.size());
  for (size_t result = 0; result < wanted.size(); ++result) {
    REQUIRE(got[result].elements() == static_cast<int64_t>(wanted[result].size()));
    for (size_t i = 0; i < wanted[result].size(); ++i) {
      const double a = got[result].number(static_cast<int64_t>(i)), b = wanted[result][i];
      INFO(std::string(what) << ", result " << result << ", element " << i << ": " << a << ", not "
                             << b);
      if (!std::isfinite(b) || b == 0)
        CHECK((std::isnan(b) ? std::isnan(a) : a == b));
      else
        CHECK(std::fabs(a - b) <= tolerance * std::fabs(b) + 0x1p-24 * tolerance);
    }
  }
}

/// Every run of the only function of `module`.
void check_module(const ir::Module& module, const std::vector<ir::InterpreterTensor>& inputs,
                  const std::vector<std::vector<double>>& wanted, double tolerance,
                  const std::string& rounding) {
  check_numbers("interpreted", ir::run(module, *module.functions()[0], inputs).results, wanted,
                tolerance);
  // The compiler of a GPU takes its time, and fusion is the same on every device.
  const bool both = test_device().kind == runtime::DeviceId::Kind::Cpu;
  for (bool fuse : {true, false})
    if (fuse || both)
      check_numbers(fuse ? "fused" : "unfused",
                    run_compiled(compiled(module, fuse, rounding), inputs).results, wanted,
                    tolerance);
}

ir::Function* add_function(ir::Module& module, const char* name,
                           const std::vector<ir::InterpreterTensor>& inputs,
                           const BuildResults& build) {
  ir::Function* function = module.add_function(name);
  std::vector<ir::Value> parameters;
  for (const ir::InterpreterTensor& input : inputs)
    parameters.push_back(
        function->add_parameter(input.type, "p" + std::to_string(parameters.size())));
  ir::Builder builder(function->body());
  const std::vector<ir::Value> results = build(builder, parameters);
  function->set_results(results, std::vector<ir::Attrs>(results.size()));
  return function;
}

}  // namespace

double tolerance_of(ir::DType dtype) { return std::max(32 * ir::unit_roundoff(dtype), 1e-8); }

void check_runs(const std::vector<ir::InterpreterTensor>& inputs, const BuildResults& build,
                const std::vector<std::vector<double>>& wanted, double tolerance,
                const std::string& rounding) {
  ir::Module module("conventions");
  add_function(module, "f", inputs, build);
  check_module(module, inputs, wanted, tolerance, rounding);
}

void check_gradient_runs(const std::vector<ir::InterpreterTensor>& inputs, const BuildValue& build,
                         const std::vector<std::vector<double>>& wanted, double tolerance) {
  ir::Module module("conventions");
  ir::Function* loss = add_function(
      module, "loss", inputs, [&](ir::Builder& builder, std::span<const ir::Value> parameters) {
        const ir::Value value = build(builder, parameters);
        std::vector<int64_t> axes(static_cast<size_t>(value.shape().rank()));
        std::iota(axes.begin(), axes.end(), 0);
        return std::vector<ir::Value>{builder.sum(value, axes), value};
      });
  std::vector<std::string> wrt;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].holds_floats()) wrt.push_back("p" + std::to_string(i));
  passes::PassContext context;
  ir::Function* gradient =
      passes::append_gradient_function(module, "loss", wrt, std::nullopt, context);
  module.erase_function(loss);
  // The sum is there for its gradients.
  std::vector<ir::Value> results = gradient->results();
  results.erase(results.begin());
  gradient->set_results(results, std::vector<ir::Attrs>(results.size()));
  check_module(module, inputs, wanted, tolerance, "excess");
}

}  // namespace mezzo::test
