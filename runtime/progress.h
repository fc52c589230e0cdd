// SPDX-License-Identifier: Apache-2.0
// Progress of something that takes seconds: a status that rewrites itself on a terminal, a few
// plain lines elsewhere, so that a log file stays readable.
#pragma once

#include <mezzo/runtime/log.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace mezzo::runtime {

/// `epoch 1/5 [#####.....]  50% loss 0.41`, from one thread.
class Progress {
 public:
  /// `total` steps, 0 when not known.
  Progress(std::string title, int64_t total, Console& target = console());
  /// Erases the status of a progress that was not finished.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` steps are done; `text` is what there is to say about them. Shown at most every 50 ms on
  /// a terminal, and at each further tenth (unknown total: every 10 seconds) elsewhere.
  void update(int64_t done, std::string_view text = "");
  /// Leaves one line with the title, the time taken and `text`.
  void finish(std::string_view text = "");

 private:
  std::string described(int64_t done, std::string_view text, bool bar) const;

  using Clock = std::chrono::steady_clock;
  std::string title_;
  int64_t total_;
  Console& console_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_{};
  int64_t tenths_ = 0;
  bool finished_ = false;
};

}  // namespace mezzo::runtime
