// SPDX-License-Identifier: Apache-2.0
// What MEZZO_DEBUG asks for, in words: `MEZZO_DEBUG=dump=autocast,launch,time`. The same struct is
// an argument of compile, so that a program can ask for what a shell can.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::ir {

/// What a word is about; a program that does none of it cannot answer the word.
enum class DebugArea : uint8_t {
  Passes,      // running a pipeline
  CpuCode,     // generating kernels for a processor
  CudaCode,    // generating kernels for a GPU
  Executable,  // compiling a function to an executable and launching it
  Runs,        // running a function in any way
};

struct DebugOptions {
  /// Names of passes, or `all`, `changed` (after every pass, every pass that changed something),
  /// `pipeline`, `cuda`, `ptx`, `llvm`, `asm`, `plan`.
  std::vector<std::string> dump = {};
  /// Print each kernel launch.
  bool launch = false;
  /// Print the table of times.
  bool time = false;
  /// Print hits and misses of the kernel cache with their reasons.
  bool cache = false;
  /// Say after every run which ops set flag words, and count NaN, infinities and zeros of results.
  bool numerics = false;
  /// Print and parse the module after every pass.
  bool verify_roundtrip = false;
  /// Print locations and origins.
  bool locs = false;
  /// Names of passes to leave out.
  std::vector<std::string> skip = {};
  /// Passes to run before the pipeline ends, from 0 to all that it has; all of them when empty.
  std::optional<int> stop_after = {};
  /// Folder for dumps; standard error when empty.
  std::string to = {};

  /// Whether `dump=WORD` was given.
  bool dumps(std::string_view word) const;
  /// Whether the module is printed after the pass `pass`.
  bool dumps_after(std::string_view pass, bool changed) const;
  bool skips(std::string_view pass) const;
  /// The words that are set and about none of `areas`, as they were written.
  std::vector<std::string> words_outside(std::span<const DebugArea> areas) const;

  /// A warning each for `to` and `locs`, which say how others are answered, without a word that
  /// they could serve.
  std::vector<std::string> unserved() const;

  bool operator==(const DebugOptions&) const = default;
};

/// Reads comma-separated words; throws UserError that lists the known ones.
DebugOptions parse_debug_options(std::string_view text, const std::vector<std::string>& pass_names);

/// The options in MEZZO_DEBUG, read at the first call; a later change of the variable has no
/// effect.
const DebugOptions& debug_options_from_environment(const std::vector<std::string>& pass_names);

}  // namespace mezzo::ir
