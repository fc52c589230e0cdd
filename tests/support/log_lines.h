// SPDX-License-Identifier: Apache-2.0
// What the process reports, caught by a test.
#pragma once

#include <mezzo/runtime/log.h>

#include <string>
#include <string_view>
#include <vector>

namespace mezzo::test {

/// Takes the lines of the log while it lives, also where a check that fails leaves the test.
class LogLines {
 public:
  LogLines()
      : before_(runtime::set_log_sink(
            [this](runtime::Level, std::string_view text) { lines.emplace_back(text); })) {}
  ~LogLines() { runtime::set_log_sink(before_); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  std::vector<std::string> lines;

 private:
  runtime::LogSink before_;
};

}  // namespace mezzo::test
