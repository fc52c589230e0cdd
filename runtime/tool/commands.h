// SPDX-License-Identifier: Apache-2.0
// The subcommands of `mezzo` as plain functions over plain arguments, one file each; main.cpp alone
// knows how a command line is read. A function returns the exit status (0 good, 1 the answer is no)
// and throws for bad input.
#pragma once

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

/// The text of a file; `-` is the standard input. Throws UserError with the path and the reason.
std::string read_text(const std::string& path);
/// Writes to a file, or to the standard output where `path` is empty or `-`; throws UserError.
void write_text(const std::string& path, const std::string& text);

}  // namespace mezzo::tool
