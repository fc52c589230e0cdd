// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/engine.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/interpreter.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/files.h>

#include <fmt/format.h>

namespace mezzo {

Device Device::by_name(const std::string& name, ir::Location location) {
  if (name == "cpu") return cpu();
  if (name == "interp") return interpreter();
  throw UserError(
      location,
      fmt::format("unknown device '{}'{}", name, ir::did_you_mean(name, {"cpu", "interp"})),
      "the devices are cpu and interp");
}

namespace detail {

namespace {

class CompiledProgram : public Program {
 public:
  CompiledProgram(std::unique_ptr<ir::Module> module, const std::string& function,
                  const ProgramOptions& options) {
    runtime::CompileOptions compile;
    compile.policy = options.policy;
    compile.loss_scale = options.loss_scale;
    compile.rounding = options.rounding;
    compile.threads = options.threads;
    compile.debug = options.debug;
    compile.background = options.background;
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
    passes::Pipeline pipeline = passes::parse_pipeline(pipeline_text(options));
    if (!options.policy.empty()) passes::set_policy(pipeline, options.policy);
    passes::ManagerOptions manager;
    manager.debug = options.debug == ir::DebugOptions()
                        ? ir::debug_options_from_environment(passes::pass_names())
                        : options.debug;
    manager.debug.to = runtime::dump_folder(manager.debug.to);
    passes::PassContext context;
    passes::PipelineReport run = passes::run_pipeline(*module_, pipeline, manager, context);
    report.findings = std::move(run.findings);
    report.pipeline = passes::print_pipeline(pipeline);
    for (const passes::StepReport& step : run.steps) {
      report.timings.push_back({step.pass->name, step.milliseconds});
      report.milliseconds += step.milliseconds;
    }
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
      inputs.push_back(
          ir::from_bytes(type, {static_cast<const std::byte*>(parameters[static_cast<size_t>(i)]),
                                static_cast<size_t>(type.bytes())}));
    }
    ir::RunResult run = ir::run(*module_, *function_, inputs);
    for (int i = 0; i < function_->num_results(); ++i) {
      const ir::InterpreterTensor& tensor = run.results[static_cast<size_t>(i)];
      size_t bytes = static_cast<size_t>(tensor.type.bytes());
      if (ir::Value updated = function_->updated_parameter(i))
        to_bytes(tensor, {static_cast<std::byte*>(parameters[static_cast<size_t>(updated.index())]),
                          bytes});
      if (void* result = results[static_cast<size_t>(i)])
        to_bytes(tensor, {static_cast<std::byte*>(result), bytes});
    }
    return run.index_range;
  }

  std::vector<std::string> launch_lines() const override { return {}; }

 private:
  static std::string pipeline_text(const ProgramOptions& options) {
    std::string scale =
        options.loss_scale.empty() ? "loss-scale, " : "loss-scale " + options.loss_scale + ", ";
    return "finite-check, " + (options.loss_scale == "off" ? "" : scale) +
           "autodiff, autocast, cast-cleanup";
  }

  std::unique_ptr<ir::Module> module_;
  const ir::Function* function_ = nullptr;
};

}  // namespace

void check_rounding(const std::string& rounding, ir::Location location) {
  if (rounding == "excess" || rounding == "as-written") return;
  throw UserError(location,
                  fmt::format("unknown rounding '{}'{}", rounding,
                              ir::did_you_mean(rounding, {"excess", "as-written"})),
                  "the rounding modes are excess and as-written");
}

std::unique_ptr<Program> build_program(std::unique_ptr<ir::Module> module,
                                       const std::string& function, const ProgramOptions& options) {
  if (options.device.is_interpreter())
    return std::make_unique<InterpretedProgram>(std::move(module), function, options);
  return std::make_unique<CompiledProgram>(std::move(module), function, options);
}

}  // namespace detail
}  // namespace mezzo
