// SPDX-License-Identifier: Apache-2.0
// Lines for the person who watches: warnings and reports on standard error, whole lines from any
// thread. On a terminal the last line may be a status that rewrites itself; a log line appears
// above it.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace mezzo::runtime {

enum class Level { Info, Warning, Error };

/// What the other end can show.
struct ConsoleStyle {
  bool rewrites = false;  // understands carriage return and erasing to the end of the line
  bool color = false;
  int columns = 80;
};

/// The style of standard error: a terminal unless TERM is `dumb`; colour unless NO_COLOR is set to
/// something.
ConsoleStyle standard_error_style();

/// Writes lines and one status; thread-safe.
class Console {
 public:
  using Writer = std::function<void(std::string_view)>;

  /// `writer` gets whole pieces of text to write at once.
  Console(Writer writer, const ConsoleStyle& style);

  const ConsoleStyle& style() const { return style_; }
  /// Writes `text` as a line; warnings and errors start with that word.
  void log(Level level, std::string_view text);
  /// Shows `text` as the status, cut to the width; does nothing where lines cannot be rewritten.
  void status(std::string_view text);
  /// Erases the status.
  void end_status() { status(""); }

 private:
  std::mutex mutex_;
  Writer writer_;
  ConsoleStyle style_;
  std::string status_;
};

/// The console on standard error.
Console& console();

/// Writes a line to the console, or to what set_log_sink installed.
void log(Level level, std::string_view text);
inline void log_info(std::string_view text) { log(Level::Info, text); }
inline void log_warning(std::string_view text) { log(Level::Warning, text); }

/// Sends further log lines of the process to `sink`, empty for the console; returns what was there
/// before. For programs with a log of their own, and for tests.
using LogSink = std::function<void(Level, std::string_view)>;
LogSink set_log_sink(LogSink sink);

}  // namespace mezzo::runtime
