// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/tool/program.h>

#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/interpreter.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/compiler.h>
#include <mezzo/runtime/log.h>
#include <mezzo/runtime/numerics_text.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace mezzo::tool {

namespace {

using runtime::HostArray;

bool holds(const ir::Function& function, ir::OpKind kind) {
  for (const ir::Op& op : function.body())
    if (op.kind() == kind) return true;
  return false;
}

class CompiledProgram : public Program {
 public:
  explicit CompiledProgram(std::unique_ptr<runtime::Executable> executable)
      : executable_(std::move(executable)) {}
  const ir::Function& function() const override { return executable_->function(); }
  bool run(std::vector<HostArray>& inputs, std::vector<HostArray>& results) override {
    std::vector<void*> in, out;
    for (HostArray& array : inputs) in.push_back(array.bytes.data());
    for (HostArray& array : results) out.push_back(array.bytes.data());
    return executable_->run(in, out).index_out_of_range;
  }

 private:
  std::unique_ptr<runtime::Executable> executable_;
};

class InterpretedProgram : public Program {
 public:
  InterpretedProgram(std::unique_ptr<ir::Module> module, const ir::Function& function,
                     bool numerics)
      : module_(std::move(module)), function_(function), numerics_(numerics) {}
  const ir::Function& function() const override { return function_; }
  bool run(std::vector<HostArray>& inputs, std::vector<HostArray>& results) override {
    std::vector<ir::InterpreterTensor> tensors;
    for (const HostArray& array : inputs)
      tensors.push_back(ir::from_bytes(array.type, array.bytes));
    ir::RunOptions options;
    options.resource = [this](const std::string& name, const ir::Type&) {
      auto data = module_->resource(name);
      MEZZO_CHECK(data, "resource \"" + name + "\" was read with the module");
      return ir::from_bytes(data->type, data->bytes);
    };
    ir::RunResult run = ir::run(*module_, function_, tensors, options);
    for (size_t i = 0; i < results.size(); ++i) ir::to_bytes(run.results[i], results[i].bytes);
    if (numerics_)
      for (const std::string& line : runtime::numerics_lines(function_, run.words, results))
        runtime::log_info(fmt::format("numerics of @{}: {}", function_.name(), line));
    // Inside a step the verdict tells of it.
    return run.index_range && !holds(function_, ir::OpKind::Verdict);
  }

 private:
  std::unique_ptr<ir::Module> module_;
  const ir::Function& function_;
  bool numerics_;
};

bool contains(const passes::Pipeline& pipeline, std::string_view pass) {
  return std::any_of(pipeline.begin(), pipeline.end(),
                     [&](const auto& step) { return pass == step.pass->name; });
}

void print_findings(const std::vector<passes::Finding>& findings) {
  for (const passes::Finding& finding : findings)
    std::fprintf(stderr, "%s\n", passes::to_string(finding).c_str());
}

void run_passes(ir::Module& module, const passes::Pipeline& pipeline,
                const ir::DebugOptions& debug) {
  passes::ManagerOptions options;
  options.debug = debug;
  passes::PassContext context;
  context.target = codegen::native_target();
  print_findings(passes::run_pipeline(module, pipeline, options, context).findings);
}

/// What an interpreted module goes through: what was asked for and no more.
passes::Pipeline interpreter_pipeline(const RunArguments& arguments, const ir::Function& function) {
  if (arguments.passes_given) return passes::parse_pipeline(arguments.passes, "--passes");
  bool gradient = holds(function, ir::OpKind::Gradient);
  std::string text = gradient ? "autodiff" : "";
  if (!arguments.policy.empty())
    text += (gradient ? ", " : "") + std::string("autocast, cast-cleanup");
  return passes::parse_pipeline(text);
}

std::unique_ptr<Program> interpreted(std::unique_ptr<ir::Module> module, const std::string& name,
                                     const RunArguments& arguments) {
  passes::Pipeline pipeline = interpreter_pipeline(arguments, *module->function(name));
  if (!arguments.policy.empty()) passes::set_policy(pipeline, arguments.policy);
  if (!arguments.rounding.empty()) passes::set_rounding(pipeline, arguments.rounding);
  constexpr ir::DebugArea kAreas[] = {ir::DebugArea::Passes, ir::DebugArea::Runs};
  const ir::DebugOptions debug = debug_options("run --device=interp", kAreas);
  run_passes(*module, pipeline, debug);
  const ir::Function& function = *module->function(name);
  return std::make_unique<InterpretedProgram>(std::move(module), function, debug.numerics);
}

/// --passes come first; then the pipeline is finished from the stage that they lead to.
std::unique_ptr<Program> compiled(std::unique_ptr<ir::Module> module, const std::string& name,
                                  const RunArguments& arguments) {
  runtime::CompileOptions options;
  options.policy = arguments.policy;
  options.threads = arguments.threads;
  if (!arguments.rounding.empty()) options.rounding = arguments.rounding;
  if (arguments.passes_given) {
    passes::Pipeline pipeline = passes::parse_pipeline(arguments.passes, "--passes");
    if (!arguments.policy.empty() && contains(pipeline, "autocast"))
      passes::set_policy(pipeline, arguments.policy);
    if (!arguments.rounding.empty() && contains(pipeline, "round-mode"))
      passes::set_rounding(pipeline, arguments.rounding);
    run_passes(*module, pipeline, ir::debug_options_from_environment(passes::pass_names()));
  }
  runtime::CompileReport report;
  auto executable = runtime::compile(std::move(module), name, options, &report);
  print_findings(report.findings);
  return std::make_unique<CompiledProgram>(std::move(executable));
}

}  // namespace

ir::Function& chosen_function(ir::Module& module, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& function : module.functions()) known.push_back(function->name());
  if (name.empty()) {
    if (known.size() == 1) return *module.functions().front();
    throw UserError(
        {}, fmt::format("the module has {} functions: {}", known.size(), fmt::join(known, ", ")),
        "choose one with --func");
  }
  if (ir::Function* function = module.function(name)) return *function;
  throw UserError({},
                  fmt::format("there is no function @{}{}", name, ir::did_you_mean(name, known)));
}

std::unique_ptr<Program> load_program(const RunArguments& arguments) {
  const std::string& device = arguments.device;
  bool cuda = device == "cuda" || device.starts_with("cuda:");
  if (!cuda && device != "cpu" && device != "interp")
    throw UserError({},
                    fmt::format("unknown device '{}'{}", device,
                                ir::did_you_mean(device, {"cpu", "interp", "cuda"})),
                    "devices are cpu, interp and cuda[:N]");
  if (cuda)
    throw DeviceError(
        fmt::format("device '{}' is not supported yet: this build runs kernels on "
                    "processors only; use --device=cpu",
                    device));
  std::unique_ptr<ir::Module> module = read_module(arguments.file, ResourceUse::Needed);
  module->attrs().erase("pipeline");  // of a reproducer: what `opt` is to do
  std::string name = chosen_function(*module, arguments.function).name();
  if (device == "interp") return interpreted(std::move(module), name, arguments);
  return compiled(std::move(module), name, arguments);
}

}  // namespace mezzo::tool
