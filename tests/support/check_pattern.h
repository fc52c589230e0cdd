// SPDX-License-Identifier: Apache-2.0
// The patterns of check_text: parsed once, matched by backtracking within one line.
#pragma once

#include <bitset>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::test {

/// One pattern. See check_text.h for the notation.
class CheckPattern {
 public:
  using Captures = std::map<std::string, std::string>;
  struct Match {
    size_t begin, end;
  };

  /// Throws std::invalid_argument when the pattern cannot be read.
  explicit CheckPattern(std::string_view text);

  /// The leftmost match that begins in [from, to) and ends before `to`; its captures are added to
  /// `captures`. Throws std::invalid_argument when a name was never captured.
  std::optional<Match> search(std::string_view text, size_t from, size_t to,
                              Captures& captures) const;

 private:
  struct Piece {
    enum class Kind { Characters, Open, Close, Reference };
    Kind kind = Kind::Characters;
    std::bitset<256> set;  // Characters
    size_t least = 1;
    size_t most = 1;
    std::string name;  // Open, Close, Reference
  };
  using Sequence = std::vector<Piece>;
  struct Run;

  void append(const Piece& piece);
  void append_literal(char c);
  void append_expression(std::string_view expression);
  static Sequence parse_branch(std::string_view expression, size_t& at);

  std::vector<Sequence> alternatives_{Sequence{}};
};

}  // namespace mezzo::test
