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
  runtime::CompileOptions options;
  options.device = runtime::device_by_name(arguments.device);
  std::unique_ptr<ir::Module> module = read_module(arguments.file, ResourceUse::Needed);
  module->attrs().erase("pipeline");  // of a reproducer: what `opt` is to do
  std::string name = chosen_function(*module, arguments.function).name();
  options.passes = arguments.passes;
  options.policy = arguments.policy;
  options.rounding = arguments.rounding;
  options.threads = arguments.threads;
  if (options.device.kind != runtime::DeviceId::Kind::Cpu && arguments.threads > 0) {
    const bool interpreted = options.device.kind == runtime::DeviceId::Kind::Interpreter;
    if (!interpreted || arguments.threads > 1)
      throw UserError({},
                      fmt::format("--threads={}: {}", arguments.threads,
                                  interpreted ? "the interpreter runs on one thread"
                                              : "it counts threads of the processor, not of a GPU"),
                      "leave it out, or run with --device=cpu");
  }
  if (options.device.kind == runtime::DeviceId::Kind::Interpreter) {
    constexpr ir::DebugArea kAreas[] = {ir::DebugArea::Passes, ir::DebugArea::Runs};
    options.debug = debug_options("run --device=interp", kAreas);
  }
  auto program = runtime::build_program(std::move(module), name, options);
  print_findings(program->report.findings);
  return program;
}

}  // namespace mezzo::tool
