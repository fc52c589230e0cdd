// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/engine.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/interpreter.h>
#include <mezzo/passes/pass.h>

#include <fmt/format.h>

#include <chrono>

namespace mezzo {

Device Device::by_name(const std::string& name) {
  if (name == "cpu") return cpu();
  if (name == "interp") return interpreter();
  throw UserError({}, fmt::format("unknown device '{}'{}", name,
                                  ir::did_you_mean(name, {"cpu", "interp"})),
                  "the devices are cpu and interp");
}

namespace detail {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class CompiledProgram : public Program {
 public:
  CompiledProgram(std::unique_ptr<ir::Module> module, const std::string& function,
                  const ProgramOptions& options) {
    runtime::CompileOptions compile;
    compile.policy = options.policy;
    compile.loss_scale = options.loss_scale;
    compile.rounding = options.rounding;
    compile.threads = options.threads;
    executable_ = runtime::compile(std::move(module), function, compile, &report);
  }
  const ir::Function& function() const override { return executable_->function(); }
  bool run(std::span<void* const> parameters, std::span<void* const> results) override {
    return executable_->run(parameters, results).index_out_of_range;
  }
  std::vector<std::string> launch_lines() const override { return executable_->launch_lines(); }

 private:
  std::unique_ptr<runtime::Executable> executable_;
};

/// The module as the tool's `--device=interp` runs it: differentiated and typed, not decomposed.
class InterpretedProgram : public Program {
 public:
  InterpretedProgram(std::unique_ptr<ir::Module> module, const std::string& function,
                     const ProgramOptions& options)
      : module_(std::move(module)) {
    Clock::time_point start = Clock::now();
    for (const std::string& name : pass_names(options)) {
      passes::PassContext context;
      if (name == "loss-scale") context.options = parse_options(options.loss_scale);
      if (name == "autocast" && !options.policy.empty())
        context.options.set("policy", options.policy);
      Clock::time_point pass_start = Clock::now();
      passes::find_pass(name)->run(*module_, context);
      report.timings.push_back({name, milliseconds_since(pass_start)});
      report.findings.insert(report.findings.end(), context.findings.begin(),
                             context.findings.end());
      report.pipeline += (report.pipeline.empty() ? "" : ", ") + name;
    }
    report.milliseconds = milliseconds_since(start);
    function_ = module_->function(function);
    for (const ir::Op& op : function_->body()) {
      ++report.ops;
      if (op.kind() == ir::OpKind::Cast) ++report.casts;
    }
    report.kernels = report.ops;
  }

  const ir::Function& function() const override { return *function_; }

  bool run(std::span<void* const> parameters, std::span<void* const> results) override {
    std::vector<ir::InterpreterTensor> inputs;
    for (int i = 0; i < function_->num_parameters(); ++i) {
      const ir::Type& type = function_->parameter(i).type();
      inputs.push_back(ir::from_bytes(
          type, {static_cast<const std::byte*>(parameters[static_cast<size_t>(i)]),
                 static_cast<size_t>(type.bytes())}));
    }
    ir::RunResult run = ir::run(*module_, *function_, inputs);
    for (int i = 0; i < function_->num_results(); ++i) {
      const ir::InterpreterTensor& tensor = run.results[static_cast<size_t>(i)];
      size_t bytes = static_cast<size_t>(tensor.type.bytes());
      if (ir::Value updated = function_->updated_parameter(i))
        to_bytes(tensor, {static_cast<std::byte*>(
                              parameters[static_cast<size_t>(updated.index())]),
                          bytes});
      if (void* result = results[static_cast<size_t>(i)])
        to_bytes(tensor, {static_cast<std::byte*>(result), bytes});
    }
    return run.index_range;
  }

  std::vector<std::string> launch_lines() const override { return {}; }

 private:
  static std::vector<std::string> pass_names(const ProgramOptions& options) {
    std::vector<std::string> names{"finite-check"};
    if (options.loss_scale != "off") names.push_back("loss-scale");
    names.insert(names.end(), {"autodiff", "autocast", "cast-cleanup"});
    return names;
  }
  static ir::Attrs parse_options(const std::string& text);

  std::unique_ptr<ir::Module> module_;
  const ir::Function* function_ = nullptr;
};

}  // namespace

std::unique_ptr<Program> build_program(std::unique_ptr<ir::Module> module,
                                       const std::string& function,
                                       const ProgramOptions& options) {
  if (options.device.is_interpreter())
    return std::make_unique<InterpretedProgram>(std::move(module), function, options);
  return std::make_unique<CompiledProgram>(std::move(module), function, options);
}

}  // namespace detail
}  // namespace mezzo
