// SPDX-License-Identifier: Apache-2.0
// The `mezzo` command: reads the command line and calls the subcommand. Exit status: 0 good, 1 the
// answer is no, 2 bad usage or input (or a fault of ours, which says so).
#include <mezzo/ir/error.h>
#include <mezzo/runtime/tool/commands.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <functional>
#include <memory>

namespace mezzo::tool {

namespace {

/// A subcommand registers its options here and leaves what is to be run in `action`.
using Action = std::function<int()>;

void add_opt(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("opt", "run passes over a module and print it");
  auto arguments = std::make_shared<OptArguments>();
  command->add_option("FILE", arguments->file, "module text (.mz); - is the standard input")
      ->required();
  CLI::Option* passes = command->add_option("--passes", arguments->passes,
                                            "passes by name, options in braces: a, b {key = 1}");
  command->add_option("--pipeline", arguments->pipeline, "train or infer")->excludes(passes);
  command->add_option("--policy", arguments->policy, "precision policy for autocast");
  command->add_option("--rounding", arguments->rounding, "as-written or excess, for round-mode");
  command->add_option("--target", arguments->target, "machine for plan-kernels: x86-64-v3, sm_90");
  command->add_option("--print-after", arguments->print_after,
                      "print the module after each pass (all), each that changed it (changed), or "
                      "after the pass of that name");
  command->add_flag("--locs", arguments->locs, "print locations and origins");
  command->add_option("-o", arguments->output, "file for the module instead of standard output");
  command->callback([arguments, passes, &action] {
    arguments->passes_given = passes->count() > 0;
    action = [arguments] { return opt(*arguments); };
  });
}

void add_ops(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("ops", "print the op table");
  command->callback([&action] { action = [] { return ops(); }; });
}

void add_run(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "run a function of a module");
  auto arguments = std::make_shared<RunArguments>();
  command->add_option("FILE", arguments->file, "module text (.mz); - is the standard input")
      ->required();
  command->add_option("--func", arguments->function, "the function, where there are several");
  command->add_option("--in", arguments->inputs, "NAME=FILE.npy, once for each parameter");
  command->add_option("--out", arguments->output, "folder for the results, 0.npy, 1.npy ...");
  command->add_option("--device", arguments->device, "cpu (default), interp or cuda[:N]");
  command->add_option("--policy", arguments->policy, "precision policy");
  command->add_option("--rounding", arguments->rounding, "as-written or excess");
  command->add_option("--threads", arguments->threads, "threads of the kernels")
      ->check(CLI::Range(1, 1024));
  CLI::Option* passes =
      command->add_option("--passes", arguments->passes, "passes to run before all others");
  command->add_option("--random-inputs", arguments->random_inputs,
                      "seed for the inputs that no --in gives");
  command->callback([arguments, passes, &action] {
    arguments->passes_given = passes->count() > 0;
    action = [arguments] { return tool::run(*arguments); };
  });
}

void add_grad(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("grad", "append a function that gives gradients");
  auto arguments = std::make_shared<GradArguments>();
  command->add_option("FILE", arguments->file, "module text (.mz); - is the standard input")
      ->required();
  command->add_option("--func", arguments->function, "the function, where there are several");
  command->add_option("--wrt", arguments->wrt, "parameters to differentiate for: a,b")
      ->required()
      ->delimiter(',');
  command->add_option("--loss-scale", arguments->loss_scale,
                      "start the backward pass from this number and divide by it at the end");
  command->add_option("-o", arguments->output, "file for the module instead of standard output");
  command->callback([arguments, &action] { action = [arguments] { return grad(*arguments); }; });
}

void add_build(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("build", "compile the kernels of a module to files");
  auto arguments = std::make_shared<BuildArguments>();
  command->add_option("FILE", arguments->file, "module text (.mz); - is the standard input")
      ->required();
  command->add_option("--target", arguments->target, "machine: sm_80, sm_90")->required();
  command->add_option("--policy", arguments->policy, "precision policy");
  command->add_option("-o", arguments->output, "folder for sources, PTX, cubins and the manifest")
      ->required();
  command->callback([arguments, &action] { action = [arguments] { return build(*arguments); }; });
}

void add_devices(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("devices", "print what this machine can run");
  command->callback([&action] { action = devices; });
}

void add_cache(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("cache", "list or clear the kernel cache on disk");
  command->require_subcommand(0, 1);
  command->callback([command, &action] {
    if (command->get_subcommands().empty()) action = cache_list;
  });
  command->add_subcommand("list", "print all entries, the most recently used first")
      ->callback([&action] { action = cache_list; });
  command->add_subcommand("clear", "remove all entries")->callback([&action] {
    action = cache_clear;
  });
}

/// Every subcommand, in the order of the help text.
constexpr void (*kCommands[])(CLI::App&, Action&) = {add_opt, add_run,     add_grad, add_build,
                                                     add_ops, add_devices, add_cache};

int dispatch(int argc, char** argv) {
  CLI::App app("Mezzo: mixed-precision graph compiler", "mezzo");
  app.require_subcommand(1);
  Action action;
  for (auto add : kCommands) add(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return action();
}

}  // namespace

}  // namespace mezzo::tool

int main(int argc, char** argv) {
  try {
    return mezzo::tool::dispatch(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
