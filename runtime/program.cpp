// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/program.h>

#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/interpreter.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/files.h>
#include <mezzo/runtime/log.h>
#include <mezzo/runtime/numerics_text.h>

#include <fmt/format.h>

#include <cstddef>

namespace mezzo::runtime {

namespace {

class CompiledProgram : public Program {
 public:
  CompiledProgram(std::unique_ptr<ir::Module> module, const std::string& function,
                  const CompileOptions& options)
      : executable_(compile(std::move(module), function, options, &report)) {}
  const ir::Function& function() const override { return executable_->function(); }
  const ir::Module& module() const override { return executable_->module(); }
  IndexFlag run(std::span<const Binding> parameters, std::span<HostArray* const> results) override {
    return executable_->run(parameters, results);
  }
  std::vector<std::string> launch_lines() const override { return executable_->launch_lines(); }

 private:
  std::unique_ptr<Executable> executable_;
};

class InterpretedProgram : public Program {
 public:
  InterpretedProgram(std::unique_ptr<ir::Module> module, const std::string& name,
                     const CompileOptions& options)
      : module_(std::move(module)) {
    passes::ManagerOptions manager;
    manager.debug = options.debug;
    if (options.debug == ir::DebugOptions())
      manager.debug = ir::debug_options_from_environment(passes::pass_names());
    warn_of_unserved(manager.debug);
    manager.debug.to = dump_folder(manager.debug.to);
    numerics_ = manager.debug.numerics;
    passes::check_valid(*module_);
    keep_only(*module_, find_function(*module_, name));
    const passes::Pipeline pipeline =
        choose_pipeline(*module_, find_function(*module_, name), options, Engine::Interpreted);
    passes::PassContext context;
    context.target = codegen::native_target();
    passes::PipelineReport passed = passes::run_pipeline(*module_, pipeline, manager, context);
    function_ = &find_function(*module_, name);
    if (holds(*function_, ir::OpKind::Gradient)) {
      const std::string lacks = fmt::format("@{} keeps a gradient, which does not run", name);
      blame_debug_words(manager.debug, lacks);
      throw UserError({}, lacks, "the passes must hold autodiff");
    }
    fill_report(pipeline, std::move(passed));
  }

  const ir::Function& function() const override { return *function_; }
  const ir::Module& module() const override { return *module_; }

  IndexFlag run(std::span<const Binding> bound, std::span<HostArray* const> arrays) override {
    const auto [parameters, results] = host_pointers(*function_, bound, arrays);
    std::vector<ir::InterpreterTensor> inputs;
    for (int i = 0; i < function_->num_parameters(); ++i) {
      const ir::Type& type = function_->parameter(i).type();
      const auto* bytes = static_cast<const std::byte*>(parameters[static_cast<size_t>(i)]);
      inputs.push_back(ir::from_bytes(type, {bytes, static_cast<size_t>(type.bytes())}));
    }
    ir::RunOptions options;
    options.resource = [this](const std::string& name, const ir::Type&) {
      auto data = module_->resource(name);
      MEZZO_CHECK(data, "resource \"" + name + "\" was read with the module");
      return ir::from_bytes(data->type, data->bytes);
    };
    const ir::RunResult run = ir::run(*module_, *function_, inputs, options);
    for (int i = 0; i < function_->num_results(); ++i) {
      const ir::InterpreterTensor& tensor = run.results[static_cast<size_t>(i)];
      const auto bytes = static_cast<size_t>(tensor.type.bytes());
      const auto write = [&](void* to) { to_bytes(tensor, {static_cast<std::byte*>(to), bytes}); };
      if (const ir::Value updated = function_->updated_parameter(i))
        write(parameters[static_cast<size_t>(updated.index())]);
      if (void* result = results[static_cast<size_t>(i)]) write(result);
    }
    if (numerics_) log_numerics(run);
    return run.index_range && !holds(*function_, ir::OpKind::Verdict);
  }

  std::vector<std::string> launch_lines() const override { return {}; }

 private:
  void fill_report(const passes::Pipeline& pipeline, passes::PipelineReport passed) {
    report.findings = std::move(passed.findings);
    report.pipeline = passes::print_pipeline(pipeline);
    for (const passes::StepReport& step : passed.steps) {
      report.timings.push_back({step.pass->name, step.milliseconds});
      report.milliseconds += step.milliseconds;
    }
    for (const ir::Op& op : function_->body()) {
      ++report.ops;
      if (op.kind() == ir::OpKind::Cast) ++report.casts;
    }
    report.kernels = report.ops;
  }

  void log_numerics(const ir::RunResult& run) const {
    std::vector<HostArray> arrays;
    for (const ir::InterpreterTensor& tensor : run.results)
      to_bytes(tensor, arrays.emplace_back(tensor.type).bytes());
    for (const std::string& line : numerics_lines(*function_, run.words, arrays))
      log_info(fmt::format("numerics of @{}: {}", function_->name(), line));
  }

  std::unique_ptr<ir::Module> module_;
  const ir::Function* function_ = nullptr;
  bool numerics_ = false;
};

}  // namespace

std::optional<ir::IndexFault> find_index_fault(
    const Program& program, const std::function<const HostArray*(int parameter)>& array) {
  const auto read = [&](int parameter) -> std::optional<ir::InterpreterTensor> {
    const HostArray* found = array(parameter);
    if (!found) return std::nullopt;
    return ir::from_bytes(found->type, found->bytes());
  };
  return ir::find_index_fault(program.module(), program.function(), read);
}

std::unique_ptr<Program> build_program(std::unique_ptr<ir::Module> module,
                                       const std::string& function, const CompileOptions& options) {
  if (options.device.kind == DeviceId::Kind::Interpreter)
    return std::make_unique<InterpretedProgram>(std::move(module), function, options);
  return std::make_unique<CompiledProgram>(std::move(module), function, options);
}

}  // namespace mezzo::runtime
