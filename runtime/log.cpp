// SPDX-License-Identifier: Apache-2.0
// A line is composed first and written by one call, so that lines of several threads and processes
// do not mix.
#include <mezzo/runtime/log.h>

#include <cerrno>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace mezzo::runtime {
namespace {

constexpr std::string_view kErase = "\r\x1b[K";

// The longest start of `text` with at most `columns` characters of UTF-8.
std::string_view cut(std::string_view text, int columns) {
  size_t end = 0;
  for (int used = 0; end < text.size(); ++end) {
    const bool starts = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (starts && used++ == columns) break;
  }
  return text.substr(0, end);
}

void write_standard_error(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // nobody reads; there is no better place to say so
    text.remove_prefix(static_cast<size_t>(count));
  }
}

struct Sink {
  std::mutex mutex;
  LogSink sink;
};

// Both never destroyed: other statics' destructors may still log.
Sink& sink() {
  static auto* instance = new Sink;
  return *instance;
}

}  // namespace

ConsoleStyle standard_error_style() {
  ConsoleStyle style;
  const char* term = std::getenv("TERM");
  style.rewrites = ::isatty(STDERR_FILENO) == 1 && term != nullptr &&
                   std::string_view(term) != "dumb" && *term != '\0';
  const char* no_color = std::getenv("NO_COLOR");
  style.color = style.rewrites && (no_color == nullptr || *no_color == '\0');
  winsize size{};
  if (style.rewrites && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.columns = size.ws_col;
  return style;
}

Console::Console(Writer writer, const ConsoleStyle& style)
    : writer_(std::move(writer)), style_(style) {}

void Console::log(Level level, std::string_view text) {
  std::string line;
  if (level != Level::Info) {
    const bool warning = level == Level::Warning;
    if (style_.color) line += warning ? "\x1b[33m" : "\x1b[31m";
    line += warning ? "warning:" : "error:";
    if (style_.color) line += "\x1b[0m";
    line += ' ';
  }
  line += text;
  line += '\n';
  std::lock_guard lock(mutex_);
  if (status_.empty()) return writer_(line);
  writer_(std::string(kErase) + line + status_);
}

void Console::status(std::string_view text) {
  if (!style_.rewrites) return;
  // The last column stays free: some terminals move on when it is filled.
  const std::string_view shown = cut(text, style_.columns - 1);
  std::lock_guard lock(mutex_);
  if (shown == status_) return;
  status_ = shown;
  writer_(std::string(kErase) + status_);
}

Console& console() {
  static auto* instance = new Console(write_standard_error, standard_error_style());
  return *instance;
}

void log(Level level, std::string_view text) {
  LogSink target;
  {
    std::lock_guard lock(sink().mutex);
    target = sink().sink;
  }
  if (target) return target(level, text);
  console().log(level, text);
}

LogSink set_log_sink(LogSink next) {
  std::lock_guard lock(sink().mutex);
  return std::exchange(sink().sink, std::move(next));
}

}  // namespace mezzo::runtime
