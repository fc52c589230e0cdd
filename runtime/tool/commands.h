// SPDX-License-Identifier: Apache-2.0
// The subcommands of `mezzo` as plain functions over plain arguments, one file each; main.cpp alone
// knows how a command line is read. A function returns the exit status (0 good, 1 the answer is no)
// and throws for bad input.
#pragma once

#include <mezzo/ir/debug_options.h>
#include <mezzo/ir/graph.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mezzo::tool {

struct OptArguments {
  std::string file;
  /// Tells `--passes=` (no passes) from an option that is not there.
  bool passes_given = false;
  std::string passes;
  std::string pipeline;
  std::string policy;
  std::string rounding;
  std::string target;
  std::vector<std::string> print_after;
  /// `%v`: says in comments before the module why that value has its type; empty: nothing.
  std::string explain;
  bool locs = false;
  std::string output;
};
/// Runs passes over a module and prints it.
int opt(const OptArguments& arguments);

/// Prints the op table; with a policy, the element types that it gives each op.
int ops(const std::string& policy, bool markdown);

struct RunArguments {
  std::string file;
  /// May be empty when there is one function.
  std::string function;
  /// NAME=FILE.npy
  std::vector<std::string> inputs;
  /// Folder for results; empty: summaries only.
  std::string output;
  std::string device = "cpu";
  std::string policy;
  /// Empty: `excess` where there is rounding to decide.
  std::string rounding;
  int threads = 0;
  std::string passes;
  std::optional<uint64_t> random_inputs;
};
/// Runs a function.
int run(const RunArguments& arguments);

struct BuildArguments {
  std::string file;
  /// Empty: all functions.
  std::string function;
  std::vector<std::string> targets;
  std::string policy;
  /// Folder for sources, PTX, cubins and the manifest.
  std::string output;
};
/// Compiles the kernels of a module for each target; 1 where some of them cannot be compiled yet.
int build(const BuildArguments& arguments);

struct GradArguments {
  std::string file;
  std::string function;
  std::vector<std::string> wrt;
  std::optional<double> loss_scale;
  std::string output;
};
/// Appends a function that gives value and gradients, and prints the module.
int grad(const GradArguments& arguments);

/// Prints what this machine can run.
int devices();

/// Lists or empties the kernel cache on disk.
int cache_list();
int cache_clear();

/// What MEZZO_DEBUG asks for; a word about none of `areas` is a warning that `command` does nothing
/// with it. `dumps` are asked for besides. Throws UserError for unknown words, and for those that
/// only serve others.
ir::DebugOptions debug_options(const char* command, std::span<const ir::DebugArea> areas,
                               const std::vector<std::string>& dumps = {});

enum class ResourceUse : uint8_t {
  Optional,  // a missing file of data is none: the text alone is worked on
  Needed,
};
/// The module in a file, with the data of its `resource("name")` constants from the file of that
/// name with the ending .safetensors. Throws UserError, ParseError.
std::unique_ptr<ir::Module> read_module(const std::string& path, ResourceUse use);
/// Writes `text`, and beside a file the data that `module` has for its resources. Throws UserError
/// where a file in the place of the data holds arrays that would be lost.
void write_module(const std::string& path, const ir::Module& module, const std::string& text);

/// The text of a regular file; `-` is the standard input. Throws UserError with the path and the
/// reason.
std::string read_text(const std::string& path);
/// Writes to a file, or to the standard output where `path` is empty or `-`; throws UserError, and
/// then a regular file holds what it held before.
void write_text(const std::string& path, const std::string& text);

}  // namespace mezzo::tool
