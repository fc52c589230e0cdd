// SPDX-License-Identifier: Apache-2.0
// Tokens of the IR's text, read on demand. A stream is a small value: copying it is how the parser
// looks ahead or comes back.
#pragma once

#include <mezzo/ir/error.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace mezzo::ir {

/// Punctuation is its own character.
enum class TokenKind : char {
  End = '\0',
  LeftBrace = '{',
  RightBrace = '}',
  LeftParen = '(',
  RightParen = ')',
  LeftBracket = '[',
  RightBracket = ']',
  Comma = ',',
  Equal = '=',
  Colon = ':',
  Minus = '-',
  Arrow = '>',
  Word = 'w',
  Integer = 'i',
  Float = 'f',
  Bits = 'x',
  String = '"',
  Value = '%',
  Symbol = '@',
  Type = 't',
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;  // as written, with sigil and quotes
  int line = 1;           // counts from 1

  bool is(TokenKind other) const { return kind == other; }
  bool is_word(std::string_view word) const { return kind == TokenKind::Word && text == word; }
  /// Without the sigil of a value or symbol.
  std::string_view id() const { return text.substr(1); }
};

class TokenStream {
 public:
  /// `text` and `name` must outlive the stream. Throws ParseError when the first token is none.
  TokenStream(std::string_view text, std::string_view name);

  const Token& peek() const { return current_; }
  bool at(TokenKind kind) const { return current_.kind == kind; }
  bool at_word(std::string_view word) const { return current_.is_word(word); }
  /// The token after the current one.
  Token peek_second() const;
  /// Returns the current token and reads the next one; throws ParseError.
  Token take();
  bool accept(TokenKind kind);
  /// Takes a token of that kind, or fails with `expected WHAT, not 'TOKEN'`.
  Token expect(TokenKind kind, std::string_view what);
  /// Takes that word.
  Token expect_word(std::string_view word);

  std::string_view name() const { return name_; }
  [[noreturn]] void fail(const Token& at, const std::string& message,
                         const std::string& hint = "") const;
  [[noreturn]] void fail_expected(std::string_view what) const;

 private:
  Token next();
  void skip_space();
  Token lex_number();
  Token lex_string();
  Token lex_type(size_t start, int line);
  Token made(TokenKind kind, size_t start, int line) const;
  [[noreturn]] void fail_at(size_t offset, int line, const std::string& message,
                            const std::string& hint = "") const;

  std::string_view text_, name_;
  size_t position_ = 0;
  int line_ = 1;
  Token current_;
};

/// The contents of a string token: quotes off, JSON escapes read; throws ParseError.
std::string unescape(const TokenStream& stream, const Token& token);

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_id_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_id_rest(char c) { return is_id_start(c) || is_digit(c) || c == '.' || c == '$'; }

}  // namespace mezzo::ir
