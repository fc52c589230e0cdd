// SPDX-License-Identifier: Apache-2.0
// The lexer. Line numbers are counted as it goes; a column is only counted for an error.
#include <mezzo/ir/lexer.h>

#include <algorithm>
#include <optional>

namespace mezzo::ir {

namespace {

std::optional<int> hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

/// How a token is named in an error.
std::string shown(const Token& token) {
  if (token.is(TokenKind::End)) return "the end of the text";
  if (token.is(TokenKind::String)) return "a string";
  constexpr size_t kLongest = 40;
  if (token.text.size() > kLongest)
    return "'" + std::string(token.text.substr(0, kLongest)) + "...'";
  return "'" + std::string(token.text) + "'";
}

void append_utf8(std::string& out, uint32_t code) {
  auto byte = [&](uint32_t value) { out += static_cast<char>(static_cast<unsigned char>(value)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

}  // namespace

TokenStream::TokenStream(std::string_view text, std::string_view name) : text_(text), name_(name) {
  current_ = next();
}

Token TokenStream::peek_second() const {
  TokenStream ahead = *this;
  return ahead.next();
}

Token TokenStream::take() {
  Token token = current_;
  current_ = next();
  return token;
}

bool TokenStream::accept(TokenKind kind) {
  if (!at(kind)) return false;
  take();
  return true;
}

Token TokenStream::expect(TokenKind kind, std::string_view what) {
  if (!at(kind)) fail_expected(what);
  return take();
}

Token TokenStream::expect_word(std::string_view word) {
  if (!at_word(word)) fail_expected("'" + std::string(word) + "'");
  return take();
}

void TokenStream::fail_expected(std::string_view what) const {
  fail(current_, "expected " + std::string(what) + ", not " + shown(current_));
}

void TokenStream::fail(const Token& at, const std::string& message, const std::string& hint) const {
  fail_at(static_cast<size_t>(at.text.data() - text_.data()), at.line, message, hint);
}

void TokenStream::fail_at(size_t offset, int line, const std::string& message,
                          const std::string& hint) const {
  size_t start = offset == 0 ? std::string_view::npos : text_.rfind('\n', offset - 1);
  start = start == std::string_view::npos ? 0 : start + 1;
  std::string_view source = text_.substr(start, text_.find('\n', offset) - start);
  if (source.ends_with('\r')) source.remove_suffix(1);
  throw ParseError(std::string(name_), line, static_cast<int>(offset - start) + 1, message,
                   std::string(source), hint);
}

void TokenStream::skip_space() {
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++position_;
    } else if (text_.substr(position_, 2) == "//") {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else {
      return;
    }
  }
}

Token TokenStream::made(TokenKind kind, size_t start, int line) const {
  return {kind, text_.substr(start, position_ - start), line};
}

Token TokenStream::next() {
  skip_space();
  size_t start = position_;
  int line = line_;
  if (start == text_.size()) return made(TokenKind::End, start, line);
  char c = text_[position_];
  if (is_id_start(c)) {
    while (position_ < text_.size() && is_id_rest(text_[position_])) ++position_;
    if (text_.substr(start, position_ - start) == "tensor") return lex_type(start, line);
    return made(TokenKind::Word, start, line);
  }
  if (is_digit(c)) return lex_number();
  if (c == '"') return lex_string();
  ++position_;
  if (c == '%' || c == '@') {
    char first = position_ < text_.size() ? text_[position_] : '\0';
    if (is_digit(first))
      while (position_ < text_.size() && is_digit(text_[position_])) ++position_;
    else if (is_id_start(first))
      while (position_ < text_.size() && is_id_rest(text_[position_])) ++position_;
    else
      fail_at(start, line, std::string("expected a name after '") + c + "'",
              "a name is digits, or a letter or '_' followed by letters, digits, '_', '.' or '$'");
    return made(static_cast<TokenKind>(c), start, line);
  }
  if (c == '-' && position_ < text_.size() && text_[position_] == '>') {
    ++position_;
    return made(TokenKind::Arrow, start, line);
  }
  if (std::string_view("{}()[],=:-").find(c) != std::string_view::npos)
    return made(static_cast<TokenKind>(c), start, line);
  bool printable = c > ' ' && c < 0x7F;
  fail_at(start, line,
          printable ? std::string("unexpected character '") + c + "'"
                    : "unexpected byte " + std::to_string(static_cast<unsigned char>(c)));
}

Token TokenStream::lex_number() {
  size_t start = position_;
  auto skip_digits = [&] {
    while (position_ < text_.size() && is_digit(text_[position_])) ++position_;
  };
  if (text_.substr(start, 2) == "0x") {
    position_ += 2;
    while (position_ < text_.size() && hex_digit(text_[position_])) ++position_;
    size_t digits = position_ - start - 2;
    if (digits != 4 && digits != 8 && digits != 16)
      fail_at(start, line_, "bits have 4, 8 or 16 hex digits, not " + std::to_string(digits));
    return made(TokenKind::Bits, start, line_);
  }
  TokenKind kind = TokenKind::Integer;
  skip_digits();
  if (position_ < text_.size() && text_[position_] == '.') {
    kind = TokenKind::Float;
    ++position_;
    skip_digits();
  }
  if (position_ < text_.size() && (text_[position_] == 'e' || text_[position_] == 'E')) {
    size_t digits = position_ + 1;
    if (digits < text_.size() && (text_[digits] == '+' || text_[digits] == '-')) ++digits;
    if (digits < text_.size() && is_digit(text_[digits])) {
      kind = TokenKind::Float;
      position_ = digits;
      skip_digits();
    }
  }
  return made(kind, start, line_);
}

Token TokenStream::lex_string() {
  size_t start = position_++;
  while (position_ < text_.size() && text_[position_] != '"' && text_[position_] != '\n')
    position_ +=
        text_[position_] == '\\' && position_ + 1 < text_.size() && text_[position_ + 1] != '\n'
            ? 2
            : 1;
  if (position_ >= text_.size() || text_[position_] != '"')
    fail_at(start, line_, "the string does not end on its line");
  ++position_;
  return made(TokenKind::String, start, line_);
}

Token TokenStream::lex_type(size_t start, int line) {
  size_t after_word = position_;
  int line_after_word = line_;
  skip_space();
  if (position_ == text_.size() || text_[position_] != '<') {
    position_ = after_word;
    line_ = line_after_word;
    return made(TokenKind::Word, start, line);
  }
  while (position_ < text_.size() && text_[position_] != '>' && text_[position_] != '\n')
    ++position_;
  if (position_ == text_.size() || text_[position_] != '>')
    fail_at(start, line, "the type does not end: '>' is missing");
  ++position_;
  return made(TokenKind::Type, start, line);
}

std::string unescape(const TokenStream& stream, const Token& token) {
  std::string_view text = token.text.substr(1, token.text.size() - 2);
  std::string out;
  out.reserve(text.size());
  auto code_unit = [&](size_t at) -> std::optional<uint32_t> {
    if (at + 4 > text.size()) return std::nullopt;
    uint32_t code = 0;
    for (char c : text.substr(at, 4)) {
      std::optional<int> digit = hex_digit(c);
      if (!digit) return std::nullopt;
      code = code * 16 + static_cast<uint32_t>(*digit);
    }
    return code;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) < 0x20)
      stream.fail(token, "a string holds a control character unescaped");
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    char c = text[++i];  // the lexer has seen to it that something follows
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (size_t which = kLetters.find(c); which != std::string_view::npos) {
      out += kMeanings[which];
      continue;
    }
    if (c != 'u') stream.fail(token, std::string("unknown escape '\\") + c + "' in a string");
    std::optional<uint32_t> code = code_unit(i + 1);
    i += 4;
    if (code && *code >= 0xD800 && *code < 0xDC00 && text.substr(i + 1, 2) == "\\u") {
      std::optional<uint32_t> low = code_unit(i + 3);
      i += 6;
      code = low && *low >= 0xDC00 && *low < 0xE000
                 ? std::optional(0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00))
                 : std::nullopt;
    }
    if (!code || (*code >= 0xD800 && *code < 0xE000))
      stream.fail(token, "'\\u' in a string must be followed by four hex digits of a character");
    append_utf8(out, *code);
  }
  return out;
}

}  // namespace mezzo::ir
