// SPDX-License-Identifier: Apache-2.0
#include <ops/convention_runs.h>

#include <mezzo/ir/interpreter.h>
#include <mezzo/ir/printer.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <runtime/compiled.h>
#include <string>

namespace mezzo::test {

namespace {

/// Once for each text: the same function meets many numbers.
runtime::Executable& compiled(const ir::Module& module, bool fuse) {
  static std::map<std::pair<std::string, bool>, std::unique_ptr<runtime::Executable>> known;
  std::unique_ptr<runtime::Executable>& executable = known[{ir::print(module), fuse}];
  if (!executable) {
    runtime::CompileOptions options = in_memory();
    options.fuse = fuse;
    options.threads = 1;
    executable = runtime::compile(module.clone(), "f", options);
  }
  return *executable;
}

}  // namespace

double tolerance_of(ir::DType dtype) { return std::max(32 * ir::unit_roundoff(dtype), 1e-8); }

void check_runs(const std::vector<ir::InterpreterTensor>& inputs, const BuildResults& build,
                const std::vector<std::vector<double>>& wanted, double tolerance) {
  ir::Module module("conventions");
  ir::Function* function = module.add_function("f");
  std::vector<ir::Value> parameters;
  for (const ir::InterpreterTensor& input : inputs)
    parameters.push_back(
        function->add_parameter(input.type, "p" + std::to_string(parameters.size())));
  ir::Builder builder(function->body());
  const std::vector<ir::Value> results = build(builder, parameters);
  function->set_results(results, std::vector<ir::Attrs>(results.size()));

  auto check = [&](const char* what, const Tensors& got) {
    REQUIRE(got.size() == wanted.size());
    for (size_t result = 0; result < wanted.size(); ++result) {
      REQUIRE(got[result].elements() == static_cast<int64_t>(wanted[result].size()));
      for (size_t i = 0; i < wanted[result].size(); ++i) {
        const double a = got[result].number(static_cast<int64_t>(i)), b = wanted[result][i];
        INFO(std::string(what) << ", result " << result << ", element " << i << ": " << a
                               << ", not " << b);
        if (!std::isfinite(b) || b == 0)
          CHECK((std::isnan(b) ? std::isnan(a) : a == b));
        else
          CHECK(std::fabs(a - b) <= tolerance * std::fabs(b) + 0x1p-24 * tolerance);
      }
    }
  };
  check("interpreted", ir::run(module, *function, inputs).results);
  // The compiler of a GPU takes its time, and fusion is the same on every device.
  const bool both = test_device().kind == runtime::DeviceId::Kind::Cpu;
  for (bool fuse : {true, false})
    if (fuse || both)
      check(fuse ? "fused" : "unfused", run_compiled(compiled(module, fuse), inputs).results);
}

}  // namespace mezzo::test
