// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/tool/program.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <cstdio>

namespace mezzo::tool {

namespace {

void print_findings(const std::vector<passes::Finding>& findings) {
  for (const passes::Finding& finding : findings)
    std::fprintf(stderr, "%s\n", passes::to_string(finding).c_str());
}

}  // namespace

ir::Function& chosen_function(ir::Module& module, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& function : module.functions()) known.push_back(function->name());
  if (name.empty()) {
    if (known.size() == 1) return *module.functions().front();
    throw UserError({},
                    fmt::format("the module has {}: {}", ir::counted(known.size(), "function"),
                                fmt::join(known, ", ")),
                    "choose one with --func");
  }
  return runtime::find_function(module, name);
}

std::unique_ptr<runtime::Program> load_program(const RunArguments& arguments) {
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
  runtime::CompileOptions options;
  options.passes = arguments.passes;
  options.policy = arguments.policy;
  options.rounding = arguments.rounding;
  options.threads = arguments.threads;
  runtime::Engine engine = runtime::Engine::Compiled;
  if (device == "interp") {
    if (arguments.threads > 1)
      throw UserError(
          {}, fmt::format("--threads={}: the interpreter runs on one thread", arguments.threads),
          "leave it out, or run with --device=cpu");
    engine = runtime::Engine::Interpreted;
    constexpr ir::DebugArea kAreas[] = {ir::DebugArea::Passes, ir::DebugArea::Runs};
    options.debug = debug_options("run --device=interp", kAreas);
  }
  auto program = runtime::build_program(std::move(module), name, engine, options);
  print_findings(program->report.findings);
  return program;
}

}  // namespace mezzo::tool
