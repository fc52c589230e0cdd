// SPDX-License-Identifier: Apache-2.0
// Splits PTX text into words, numbers, strings and punctuation, each with its line.
#pragma once

#include <ptx/interpreter.h>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::ptx::detail {

struct Token {
  /// A word keeps its dots: `ld.global.L1::no_allocate.f32`, `.reg`, `%tid.x`, `$L__BB0_1`.
  enum class Kind : uint8_t { Word, Number, String, Punctuation, End };
  Kind kind = Kind::End;
  std::string_view text;  // of the PTX; a string without its quotes
  int line = 0;
};

/// `text` has to outlive the tokens. The last one is of kind End. Throws ParseError.
std::vector<Token> tokenize(std::string_view text);

/// The lines of `text`, and errors that quote them.
class SourceText {
 public:
  explicit SourceText(std::string_view text);
  /// Without surrounding blanks; `line` from 1.
  std::string line(int line) const;
  [[noreturn]] void error(int line, const std::string& what) const;

 private:
  std::vector<std::string_view> lines_;
};

}  // namespace mezzo::ptx::detail
