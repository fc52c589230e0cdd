// SPDX-License-Identifier: Apache-2.0
#include <cases/traced_runs.h>

#include <mezzo/ir/parser.h>
#include <mezzo/runtime/program.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <runtime/compiled.h>

namespace mezzo::test {

namespace {

/// Built once for each program: the same function meets many numbers.
runtime::Program& built(const std::string& text, const runtime::CompileOptions& options) {
  static std::map<std::string, std::unique_ptr<runtime::Program>> known;
  const std::string key = runtime::to_string(options.device) + (options.fuse ? " fused " : " ") +
                          options.policy + " " + options.rounding + "\n" + text;
  std::unique_ptr<runtime::Program>& program = known[key];
  if (!program) program = runtime::build_program(ir::parse(text), "main", options);
  return *program;
}

std::vector<Array> run(runtime::Program& program, const std::vector<Array>& inputs) {
  const ir::Function& function = program.function();
  Array rng(ir::Type(i64, {2}));
  std::vector<runtime::Binding> parameters;
  for (int i = 0; i < function.num_parameters(); ++i) {
    if (static_cast<size_t>(i) < inputs.size())
      parameters.emplace_back(inputs[static_cast<size_t>(i)]);
    else
      parameters.emplace_back(rng);
  }
  std::vector<Array> out;
  std::vector<ir::Value> values = function.results();
  for (int i = 0; i < function.num_results(); ++i)
    if (!function.updated_parameter(i)) out.emplace_back(values[static_cast<size_t>(i)].type());
  std::vector<runtime::HostArray*> results;
  size_t next = 0;
  for (int i = 0; i < function.num_results(); ++i)
    results.push_back(function.updated_parameter(i) ? nullptr : &out[next++]);
  CHECK_FALSE(program.run(parameters, results).raised());
  return out;
}

bool agree(double got, double wanted, double tolerance) {
  if (std::isnan(wanted)) return std::isnan(got);
  if (std::isinf(wanted) || wanted == 0) return got == wanted;
  return std::fabs(got - wanted) <= tolerance * std::fabs(wanted);
}

}  // namespace

std::vector<TracedRun> traced_runs(const detail::TensorFunction& function,
                                   const std::vector<Array>& inputs, const TracedOptions& options) {
  detail::JitPrograms traced(function, {.device = Device::interpreter()}, ir::Location::here());
  const std::string text = traced.ir(inputs, ir::Location::here());
  runtime::CompileOptions compile = in_memory();
  compile.policy = options.policy;
  compile.loss_scale = "off";
  compile.threads = 1;
  runtime::CompileOptions interpret = compile;
  interpret.device = Device::interpreter().id();
  std::vector<TracedRun> runs{{"interpreted", run(built(text, interpret), inputs)}};
  for (const char* rounding : {"as-written", "excess"}) {
    compile.rounding = rounding;
    runs.push_back({std::string("fused, ") + rounding, run(built(text, compile), inputs)});
  }
  // The compiler of a GPU takes its time, and fusion is the same on every device.
  if (compile.device.kind == runtime::DeviceId::Kind::Cpu) {
    compile.rounding = "as-written";
    compile.fuse = false;
    runs.push_back({"unfused", run(built(text, compile), inputs)});
  }
  return runs;
}

void check_traced_list(const detail::TensorFunction& function, const std::vector<Array>& inputs,
                       const std::vector<Numbers>& wanted, double tolerance,
                       const TracedOptions& options) {
  for (const TracedRun& run : traced_runs(function, inputs, options)) {
    REQUIRE(run.results.size() == wanted.size());
    for (size_t result = 0; result < wanted.size(); ++result) {
      const Numbers got = run.results[result].to_doubles();
      REQUIRE(got.size() == wanted[result].size());
      size_t i = 0;
      while (i < got.size() && agree(got[i], wanted[result][i], tolerance)) ++i;
      const double a = i < got.size() ? got[i] : 0, b = i < got.size() ? wanted[result][i] : 0;
      INFO(run.engine << ", result " << result << ", element " << i << ": " << a << ", not " << b);
      CHECK(i == got.size());
    }
  }
}

Array row(const Numbers& numbers, DType dtype) {
  return Array({static_cast<int64_t>(numbers.size())}, numbers, dtype);
}

Array filled(Shape shape, double number, DType dtype) {
  return Array(shape, Numbers(static_cast<size_t>(shape.elements()), number), dtype);
}

double step_of(DType dtype) { return std::max(4 * ir::unit_roundoff(dtype), 1e-8); }

}  // namespace mezzo::test
