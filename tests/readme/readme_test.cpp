// SPDX-License-Identifier: Apache-2.0
// What README.md quotes is what the programs print: its program, and the commands that show a
// training step at every stage. `...` in a quotation stands for anything within a line, a line of
// it for any lines.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <tool/command.h>
#include <vector>

using namespace mezzo::test;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

struct Block {
  std::string language;
  std::vector<std::string> lines;
};

/// The fenced blocks of README.md, in order.
std::vector<Block> blocks() {
  std::vector<Block> found;
  bool inside = false;
  for (const std::string& line : lines_of(file_text("README.md"))) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) found.push_back({line.substr(3), {}});
    } else if (inside) {
      found.back().lines.push_back(line);
    }
  }
  return found;
}

/// The pieces of `quoted` between `...` stand in `line` in this order.
bool stands_in(std::string_view quoted, std::string_view line) {
  size_t at = 0;
  while (true) {
    size_t dots = quoted.find("...");
    std::string_view piece = quoted.substr(0, dots);
    // Around the dots spaces are those of the sentence.
    while (piece.starts_with(' ')) piece.remove_prefix(1);
    while (piece.ends_with(' ')) piece.remove_suffix(1);
    size_t found = line.find(piece, at);
    if (found == std::string_view::npos) return false;
    at = found + piece.size();
    if (dots == std::string_view::npos) return true;
    quoted.remove_prefix(dots + 3);
  }
}

/// The lines of the block stand in the output, in this order.
void check_quotes(const Block& block, const std::string& output) {
  std::vector<std::string> printed = lines_of(output);
  size_t at = 0;
  for (const std::string& quoted : block.lines) {
    if (quoted.find_first_not_of(" .") == std::string::npos) continue;
    while (at < printed.size() && !stands_in(quoted, printed[at])) ++at;
    CHECK_MESSAGE(at < printed.size(), quoted);
    if (at == printed.size()) return;
    ++at;
  }
}

/// Standard output and error of words of a shell; `name` of $MEZZO_BIN stands before all others.
std::string output_of(const std::string& command, const TempDir& folder) {
  std::string script = "export PATH=\"$MEZZO_BIN:$PATH\"; export MEZZO_CACHE_DIR='" +
                       (folder / "cache").string() + "'\n" + command;
  std::ofstream(folder / "script") << script;
  int status = std::system(
      ("bash '" + (folder / "script").string() + "' >'" + (folder / "output").string() + "' 2>&1")
          .c_str());
  std::string output = file_text(folder / "output");
  REQUIRE_MESSAGE(status == 0, output);
  return output;
}

/// An idx file of `count` samples of `shape`, every byte `value`.
void write_idx(const std::filesystem::path& path, const std::vector<uint32_t>& shape, char value) {
  std::ofstream out(path, std::ios::binary);
  auto number = [&](uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(word >> shift));
  };
  number(0x800u + static_cast<uint32_t>(shape.size()));
  size_t elements = 1;
  for (uint32_t length : shape) {
    number(length);
    elements *= length;
  }
  out << std::string(elements, value);
}

}  // namespace

TEST_CASE("the program of the readme runs and prints the quoted lines") {
  Block quoted = blocks().at(1);
  TempDir folder;
  // Two batches of data are as good as all of it.
  for (const char* part : {"train", "t10k"}) {
    write_idx(folder / (std::string(part) + "-images-idx3-ubyte"), {256, 28, 28}, 77);
    write_idx(folder / (std::string(part) + "-labels-idx1-ubyte"), {256}, 3);
  }
  std::string output = output_of("cd '" + folder.path().string() +
                                     "' && gzip *-ubyte && MEZZO_DATA=. "
                                     "MEZZO_DEBUG=dump=autocast,launch "
                                     "\"$MEZZO_BIN/../tests/bin/readme_program\"",
                                 folder);
  check_quotes(quoted, output);
  CHECK(output.find("epoch 5/5") != std::string::npos);
}

TEST_CASE("the stages of a step are printed as the readme quotes them") {
  std::vector<Block> all = blocks();
  size_t commands = 0;
  while (commands < all.size() && all[commands].language != "sh") ++commands;
  REQUIRE(commands + 5 < all.size());
  std::string script = "set -e\nmezzo() { command mezzo \"$@\"; echo '=== end'; }\n";
  for (const std::string& line : all[commands].lines) script += line + "\n";
  TempDir folder;
  std::string output = output_of(script, folder);
  const char* stages[] = {"traced", "differentiated", "typed", "fused", "planned"};
  for (size_t i = 0; i < 5; ++i) {
    size_t end = output.find("=== end\n");
    REQUIRE(end != std::string::npos);
    std::string stage = output.substr(0, end);
    output.erase(0, end + 8);
    CHECK(stage.find(std::string("stage = \"") + stages[i] + "\"") != std::string::npos);
    CAPTURE(stages[i]);
    check_quotes(all[commands + 1 + i], stage);
  }
  CHECK(output == "");
}

TEST_CASE("the reference of the ops is the table that the tool prints") {
  TempDir folder;
  const std::string readme = file_text("README.md"), start = "\n| op | operands | attributes |";
  const size_t from = readme.find(start);
  REQUIRE(from != std::string::npos);
  const size_t to = readme.find("\n\n", from + 1);
  const std::string quoted = readme.substr(from + 1, to - from);
  CHECK_MESSAGE(quoted == output_of("mezzo ops --markdown", folder),
                "put the output of `mezzo ops --markdown` into README.md");
}

TEST_CASE("a line that is not printed is no quotation") {
  CHECK(stands_in("%1 = cast %x {reason = \"r\", ...} : a -> b",
                  "    %1 = cast %x {reason = \"r\", word = 1} : a -> b"));
  CHECK_FALSE(stands_in("%1 = cast %x {...} : a -> c", "    %1 = cast %x {word = 1} : a -> b"));
  CHECK_FALSE(stands_in("b ... a", "a b"));
}
