// SPDX-License-Identifier: Apache-2.0
// The `mezzo` command: reads the command line and calls the subcommand. Exit status: 0 good, 1 the
// answer is no, 2 bad usage or input (or a fault of ours, which says so).
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>
#include <mezzo/runtime/tool/commands.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <new>

namespace mezzo::tool {

namespace {

/// A subcommand registers its options here and leaves what is to be run in `action`.
using Action = std::function<int()>;

constexpr const char* kOutputHelp =
    "file for the module instead of standard output; for OUT.mz the data of its resources, where "
    "it has some, goes to OUT.safetensors";

/// Digits alone, since a minus sign would wrap around, and no more than a seed holds: `rng` is i64.
std::string is_seed(const std::string& text) {
  int64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seed);
  const bool good = error == std::errc() && rest == end && !text.starts_with('-');
  return good ? "" : "'" + text + "' is not a number from 0 to 9223372036854775807";
}

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
  command->add_option("--target", arguments->target,
                      "machine for plan-kernels: native, x86-64-v3, sm_90");
  command->add_option("--print-after", arguments->print_after,
                      "print the module after each pass (all), each that changed it (changed), or "
                      "after the pass of that name");
  command->add_option("--explain", arguments->explain,
                      "%v: say in comments why that value has its type: rule, lines and passes");
  command->add_flag("--locs", arguments->locs, "print locations and origins");
  command->add_option("-o", arguments->output, kOutputHelp);
  command->callback([arguments, passes, &action] {
    arguments->passes_given = passes->count() > 0;
    action = [arguments] { return opt(*arguments); };
  });
}

void add_ops(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("ops", "print the op table");
  auto policy = std::make_shared<std::string>();
  auto markdown = std::make_shared<bool>(false);
  CLI::Option* types = command->add_option("--policy", *policy,
                                           "print the element types under this precision policy");
  command->add_flag("--markdown", *markdown, "print the reference of the README")->excludes(types);
  command->callback([policy, markdown, &action] {
    action = [policy, markdown] { return ops(*policy, *markdown); };
  });
}

void add_run(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "run a function of a module");
  auto arguments = std::make_shared<RunArguments>();
  command->add_option("FILE", arguments->file, "module text (.mz); - is the standard input")
      ->required();
  command->add_option("--func", arguments->function, "the function, where there are several");
  command->add_option("--in", arguments->inputs, "NAME=FILE.npy, once for each parameter");
  command->add_option("--out", arguments->output, "folder for the results, 0.npy, 1.npy ...");
  command->add_option("--device", arguments->device,
                      "cpu (default), interp, cuda[:N] or auto; a gradient becomes a training "
                      "step on each");
  command->add_option("--policy", arguments->policy, "precision policy");
  command->add_option("--rounding", arguments->rounding, "as-written or excess");
  command->add_option("--threads", arguments->threads, "threads of the kernels")
      ->check(CLI::Range(1, 1024));
  command->add_option("--passes", arguments->passes, "passes to run before all others");
  command
      ->add_option("--random-inputs", arguments->random_inputs,
                   "seed, 0 or more, for the inputs that no --in gives")
      ->check(is_seed);
  command->callback(
      [arguments, &action] { action = [arguments] { return tool::run(*arguments); }; });
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
  command->add_option("-o", arguments->output, kOutputHelp);
  command->callback([arguments, &action] { action = [arguments] { return grad(*arguments); }; });
}

void add_build(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("build", "compile the kernels of a module to files");
  auto arguments = std::make_shared<BuildArguments>();
  command->add_option("FILE", arguments->file, "module text (.mz); - is the standard input")
      ->required();
  command->add_option("--func", arguments->function,
                      "one function alone; all are built without it");
  command->add_option("--target", arguments->targets, "machines: sm_80,sm_90")
      ->required()
      ->delimiter(',');
  command->add_option("--policy", arguments->policy, "precision policy");
  command
      ->add_option("-o", arguments->output,
                   "folder for sources, PTX, cubins and the manifest; with several targets "
                   "a folder in it for each; files are named FUNCTION.KERNEL as in the module")
      ->required();
  command->footer(
      "Exit status: 0 every kernel is built, 1 some cannot be built yet and are named, the others "
      "are built; 2 bad usage or input.");
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

/// What is wrong with the command line, as every other error is said.
int usage_error(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  std::string text = error.what(), word = argc > 1 ? argv[1] : "";
  if (app.get_subcommands().empty()) {
    if (word.empty())
      text = "a command is missing";
    else if (!word.starts_with('-'))
      text = "unknown command '" + word + "'" + ir::did_you_mean(word, known);
  }
  std::string list;
  for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string of = chosen.empty() ? "" : " " + chosen.front()->get_name();
  std::fprintf(stderr, "error: %s\nnote: %s\n", text.c_str(),
               chosen.empty() ? ("commands are " + list + "; `mezzo --help` says more").c_str()
                              : ("`mezzo" + of + " --help` lists what it takes").c_str());
  return 2;
}

/// The words of the command line, in the order that CLI11 takes. `--option=` with nothing behind it
/// would take the next word as its value: it is an error, but for `--passes=`, which means none.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    std::string& word = words[i];
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    word.pop_back();
    if (word != "--passes")
      throw UserError({}, "there is no value after '" + word + "='",
                      "leave " + word + " out, or say which");
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(++i), "");
  }
  std::reverse(words.begin(), words.end());
  return words;
}

int dispatch(int argc, char** argv) {
  CLI::App app("Mezzo: mixed-precision graph compiler", "mezzo");
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 good, 1 the answer is no, 2 bad usage or input. MEZZO_DEBUG=WORD,... "
      "shows what happens inside; a wrong word lists the known ones.");
  app.set_version_flag("--version", "mezzo " MEZZO_VERSION ", LLVM " + codegen::llvm_version(),
                       "print the versions of Mezzo and of LLVM");
  Action action;
  for (auto add : kCommands) add(app, action);
  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, argc, argv, error);
  }
  return action();
}

/// What was printed has arrived, on a full disk too.
void flush_standard_output() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return;
  throw UserError({}, std::string("standard output: cannot write: ") + std::strerror(errno));
}

}  // namespace

}  // namespace mezzo::tool

int main(int argc, char** argv) {
  // A limit on file sizes is an error of the write that meets it: a cache that cannot grow, say.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int status = mezzo::tool::dispatch(argc, argv);
    mezzo::tool::flush_standard_output();
    return status;
  } catch (const mezzo::DeviceError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: out of memory\nnote: smaller shapes need less\n");
  } catch (const std::filesystem::filesystem_error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  } catch (const std::system_error& error) {
    // fmt::print throws where printf sets the stream's error.
    std::fprintf(stderr, "error: standard output: cannot write: %s\n",
                 error.code().message().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 2;
}
