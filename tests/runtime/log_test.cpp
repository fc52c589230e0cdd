// SPDX-License-Identifier: Apache-2.0
// Log lines and progress on a terminal and off it, by what is written.
#include <mezzo/runtime/log.h>

#include <mezzo/runtime/progress.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

using namespace mezzo::runtime;

namespace {

struct Captured {
  std::vector<std::string> pieces;
  Console console;

  explicit Captured(const ConsoleStyle& style)
      : console([this](std::string_view text) { pieces.emplace_back(text); }, style) {}
};

}  // namespace

TEST_CASE("a log line is one piece and names its level") {
  Captured plain({});
  plain.console.log(Level::Info, "compiled 3 kernels");
  plain.console.log(Level::Warning, "slow");
  CHECK(plain.pieces == std::vector<std::string>{"compiled 3 kernels\n", "warning: slow\n"});
  Captured colored({.rewrites = true, .color = true});
  colored.console.log(Level::Error, "bad");
  CHECK(colored.pieces == std::vector<std::string>{"\x1b[31merror:\x1b[0m bad\n"});
}

TEST_CASE("a log line appears above the status of a terminal") {
  Captured terminal({.rewrites = true});
  terminal.console.status("step 1");
  terminal.console.log(Level::Info, "note");
  terminal.console.end_status();
  terminal.console.log(Level::Info, "after");
  CHECK(terminal.pieces ==
        std::vector<std::string>{"\r\x1b[Kstep 1", "\r\x1b[Knote\nstep 1", "\r\x1b[K", "after\n"});
}

TEST_CASE("a status is cut to the width in characters, not in bytes") {
  Captured terminal({.rewrites = true, .columns = 5});
  terminal.console.status("\u00e4\u00f6\u00fc\u00df+-");
  CHECK(terminal.pieces == std::vector<std::string>{"\r\x1b[K\u00e4\u00f6\u00fc\u00df"});
}

TEST_CASE("where lines cannot be rewritten a status is not shown") {
  Captured plain({});
  plain.console.status("step 1");
  CHECK(plain.pieces.empty());
}

TEST_CASE("progress rewrites one line on a terminal and leaves one line") {
  Captured terminal({.rewrites = true});
  Progress progress("epoch 1/5", 200, terminal.console);
  progress.update(100, "loss 0.41");
  progress.update(101, "loss 0.40");  // within 50 ms
  progress.finish("loss 0.30");
  REQUIRE(terminal.pieces.size() == 3);
  CHECK(terminal.pieces[0] == "\r\x1b[Kepoch 1/5 [##########..........]  50% loss 0.41");
  CHECK(terminal.pieces[1] == "\r\x1b[K");
  CHECK(terminal.pieces[2].starts_with("epoch 1/5 0."));
  CHECK(terminal.pieces[2].ends_with(" s loss 0.30\n"));
}

TEST_CASE("progress prints at most a line for each tenth where it cannot rewrite") {
  Captured plain({});
  Progress progress("epoch 1/5", 1000, plain.console);
  for (int64_t step = 1; step <= 1000; ++step) progress.update(step);
  progress.finish();
  REQUIRE(plain.pieces.size() == 10);
  CHECK(plain.pieces[0] == "epoch 1/5  10%\n");
  CHECK(plain.pieces[8] == "epoch 1/5  90%\n");
  for (const std::string& piece : plain.pieces) CHECK(piece.find('\x1b') == std::string::npos);
}

TEST_CASE("a progress that is abandoned erases its status") {
  Captured terminal({.rewrites = true});
  {
    Progress progress("load", 0, terminal.console);
    progress.update(7);
  }
  CHECK(terminal.pieces == std::vector<std::string>{"\r\x1b[Kload 7", "\r\x1b[K"});
}

TEST_CASE("a sink takes the lines of the process until it is removed") {
  std::vector<std::string> lines;
  LogSink before = set_log_sink([&](Level level, std::string_view text) {
    lines.push_back((level == Level::Warning ? "W " : "I ") + std::string(text));
  });
  log_info("a");
  log_warning("b");
  set_log_sink(before);
  CHECK(lines == std::vector<std::string>{"I a", "W b"});
}

TEST_CASE("NO_COLOR and a dumb terminal switch colour off") {
  setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(standard_error_style().color);
  unsetenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const std::string saved = term != nullptr ? term : "";
  setenv("TERM", "dumb", 1);
  CHECK_FALSE(standard_error_style().rewrites);
  CHECK_FALSE(standard_error_style().color);
  if (term != nullptr)
    setenv("TERM", saved.c_str(), 1);
  else
    unsetenv("TERM");
}
