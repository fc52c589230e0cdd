// SPDX-License-Identifier: Apache-2.0
// The subcommands of `mezzo` as plain functions over plain arguments, one file each; main.cpp alone
// knows how a command line is read. A function returns the exit status (0 good, 1 the answer is no)
// and throws for bad input.
#pragma once

#include <cstdint>
#include <optional>
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
  bool locs = false;
  std::string output;
};
/// Runs passes over a module and prints it.
int opt(const OptArguments& arguments);

/// Prints the op table.
int ops();

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
  bool passes_given = false;
  std::string passes;
  std::optional<uint64_t> random_inputs;
};
/// Runs a function.
int run(const RunArguments& arguments);

struct BuildArguments {
  std::string file;
  std::string target;
  std::string policy;
  /// Folder for sources, PTX, cubins and the manifest.
  std::string output;
};
/// Compiles the kernels of a module; 1 where some of them cannot be compiled yet.
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

/// The text of a file; `-` is the standard input. Throws UserError with the path and the reason.
std::string read_text(const std::string& path);
/// Writes to a file, or to the standard output where `path` is empty or `-`; throws UserError.
void write_text(const std::string& path, const std::string& text);

}  // namespace mezzo::tool
