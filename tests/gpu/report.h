// SPDX-License-Identifier: Apache-2.0
// What a run has found: failures are counted and printed at once, everything goes to the result
// file.
#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>

namespace mezzo::gpu {

/// Keys stay in the order in which they were written.
using Json = nlohmann::ordered_json;

struct Options {
  int ordinal = 0;
  /// Sizes and shares of the cases for an interpreter instead of a GPU: the same code in a minute.
  bool quick = false;
  std::string output = ".";
};

class Report {
 public:
  /// The whole result file.
  Json& json() { return json_; }
  int failures() const { return failures_; }
  /// Counts a failure; only the first of many are printed.
  void fail(const std::string& what);
  /// A line of the readable table.
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    fmt::print(text, std::forward<Args>(args)...);
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }

 private:
  Json json_;
  int failures_ = 0;
};

/// The parts of the program; each adds its own key to the result file.
void check_instructions(const Options& options, Report& report);
void check_kernels(const Options& options, Report& report);
void check_training(const Options& options, Report& report);
void measure_speed(const Options& options, Report& report);

}  // namespace mezzo::gpu
