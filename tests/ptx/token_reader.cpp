// SPDX-License-Identifier: Apache-2.0
// Tokens one after another; literals and declarations.
#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <ptx/parser.h>

namespace mezzo::ptx::detail {

const Token& TokenReader::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token TokenReader::next() {
  const Token& token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenReader::at(std::string_view text, size_t ahead) const {
  const Token& token = peek(ahead);
  return token.kind != Token::Kind::String && token.kind != Token::Kind::End && token.text == text;
}

bool TokenReader::take(std::string_view text) {
  if (!at(text)) return false;
  next();
  return true;
}

void TokenReader::expect(std::string_view text) {
  if (!take(text)) error(fmt::format("'{}' expected, found '{}'", text, peek().text));
}

Token TokenReader::expect_word() {
  if (peek().kind != Token::Kind::Word)
    error(fmt::format("a name expected, found '{}'", peek().text));
  return next();
}

void TokenReader::skip_braces() {
  for (int depth = 1; depth > 0;) {
    if (peek().kind == Token::Kind::End) error("'}' expected, found the end of the text");
    if (at("{")) ++depth;
    if (at("}")) --depth;
    next();
  }
}

void TokenReader::skip_line(int line) {
  while (peek().kind != Token::Kind::End && peek().line == line) next();
}

void TokenReader::error(const std::string& what) const { source_.error(peek().line, what); }

Operand TokenReader::number() {
  Operand result;
  const bool negative = take("-");
  const Token token = next();
  std::string_view text = token.text;
  result.text = text;
  const auto bad = [&] { error(token.line, fmt::format("'{}' is not a number", token.text)); };
  if (token.kind != Token::Kind::Number) bad();
  const auto parse = [&](std::string_view digits, int base) {
    uint64_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (end.ec != std::errc() || end.ptr != digits.data() + digits.size() || digits.empty()) bad();
    return value;
  };
  const std::string_view prefix = text.substr(0, 2);
  if (prefix == "0f" || prefix == "0F") {
    result.kind = Operand::Kind::F32;
    result.bits = parse(text.substr(2), 16);
    if (text.size() != 10) bad();
    if (negative) result.bits ^= uint64_t{1} << 31;
    return result;
  }
  if (prefix == "0d" || prefix == "0D") {
    result.kind = Operand::Kind::F64;
    result.bits = parse(text.substr(2), 16);
    if (text.size() != 18) bad();
    if (negative) result.bits ^= uint64_t{1} << 63;
    return result;
  }
  if (text.find('.') != std::string_view::npos) {
    double value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end.ec != std::errc() || end.ptr != text.data() + text.size()) bad();
    result.kind = Operand::Kind::F64;
    result.bits = std::bit_cast<uint64_t>(negative ? -value : value);
    return result;
  }
  result.kind = Operand::Kind::Integer;
  if (text.back() == 'U' || text.back() == 'u') text.remove_suffix(1);
  if (prefix == "0x" || prefix == "0X") {
    result.bits = parse(text.substr(2), 16);
  } else if (prefix == "0b" || prefix == "0B") {
    result.bits = parse(text.substr(2), 2);
  } else if (text.size() > 1 && text[0] == '0') {
    result.bits = parse(text.substr(1), 8);
  } else {
    result.bits = parse(text, 10);
  }
  if (negative) result.bits = 0 - result.bits;
  return result;
}

uint64_t TokenReader::integer() {
  const Token token = peek();
  const Operand value = number();
  if (value.kind != Operand::Kind::Integer)
    error(token.line, fmt::format("'{}' is not an integer", token.text));
  return value.bits;
}

Declaration TokenReader::declaration() {
  Declaration result;
  std::optional<Type> type;
  uint32_t vector = 1;
  bool pointer = false, aligned = false;
  while (peek().kind == Token::Kind::Word && peek().text[0] == '.') {
    const Token token = next();
    const std::string_view word = token.text.substr(1);
    if (word == "align") {
      const auto alignment = static_cast<uint32_t>(integer());
      if (!std::has_single_bit(alignment)) error(token.line, "the alignment is no power of two");
      if (pointer) continue;  // of what it points to
      result.alignment = alignment;
      aligned = true;
    } else if (word == "ptr") {
      pointer = true;
    } else if (word == "v2" || word == "v4") {
      vector = word == "v2" ? 2 : 4;
    } else if (const auto named = parse_type(word)) {
      type = named;
    } else if (!(pointer &&
                 (word == "global" || word == "shared" || word == "const" || word == "local"))) {
      error(token.line, fmt::format("'{}' is not known in a declaration", token.text));
    }
  }
  if (!type) error("a declaration without a type");
  result.element = *type;
  result.name = expect_word().text;
  result.bytes = uint64_t{type->bytes} * vector;
  if (!aligned) result.alignment = static_cast<uint32_t>(result.bytes);
  while (take("[")) {
    const uint64_t count = at("]") ? 0 : integer();
    result.bytes *= count;
    expect("]");
  }
  return result;
}

}  // namespace mezzo::ptx::detail
