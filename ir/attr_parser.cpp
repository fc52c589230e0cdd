// SPDX-License-Identifier: Apache-2.0
// Reading types and attributes.
#include <mezzo/ir/attr_parser.h>

#include <mezzo/ir/builder.h>

#include <bit>
#include <charconv>
#include <cmath>

namespace mezzo::ir {

namespace {

/// Lists in lists are allowed to this depth, so that no text can exhaust the stack.
constexpr int kMaxDepth = 16;

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (DType type : kAllDTypes) names.push_back(to_string(type));
  return names;
}

DType parse_element_type(const TokenStream& stream, const Token& token, std::string_view text) {
  std::optional<DType> dtype = parse_dtype(text);
  if (!dtype)
    stream.fail(token, "unknown element type '" + std::string(text) + "'" +
                           did_you_mean(text, dtype_names()));
  return *dtype;
}

int64_t parse_integer(const TokenStream& stream, const Token& token, bool negative) {
  std::string text = (negative ? "-" : "") + std::string(token.text);
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) stream.fail(token, "the integer " + text + " does not fit 64 bits");
  return value;
}

double parse_float(const TokenStream& stream, const Token& token, bool negative) {
  double value = 0;
  const char* last = token.text.data() + token.text.size();
  auto [end, error] = std::from_chars(token.text.data(), last, value);
  if (error != std::errc() || end != last)
    stream.fail(token, "the number " + std::string(token.text) + " does not fit f64",
                "write an infinity as bits: 0x7FF0000000000000 for f64, 0x7F800000 for f32");
  return negative ? -value : value;
}

Attr parse_bits(const Token& token) {
  Bits bits{0, static_cast<int>(token.text.size() - 2)};
  std::from_chars(token.text.data() + 2, token.text.data() + token.text.size(), bits.bits, 16);
  return Attr(bits);
}

Attr parse_nested(TokenStream& stream, const AttrScope& scope, int depth) {
  const Token token = stream.peek();
  switch (token.kind) {
    case TokenKind::Minus: {
      stream.take();
      const Token number = stream.peek();
      if (number.is(TokenKind::Integer)) {
        stream.take();
        return Attr(parse_integer(stream, number, true));
      }
      stream.expect(TokenKind::Float, "a number after '-'");
      return Attr(parse_float(stream, number, true));
    }
    case TokenKind::Integer:
      stream.take();
      return Attr(parse_integer(stream, token, false));
    case TokenKind::Float:
      stream.take();
      return Attr(parse_float(stream, token, false));
    case TokenKind::Bits:
      stream.take();
      return parse_bits(token);
    case TokenKind::String:
      stream.take();
      return Attr(unescape(stream, token));
    case TokenKind::Symbol:
      stream.take();
      return Attr(Symbol{std::string(token.id())});
    case TokenKind::Value:
      if (!scope.value) stream.fail(token, "a value cannot stand here");
      stream.take();
      return Attr(ValueRef{scope.value(token)});
    case TokenKind::LeftBracket: {
      if (depth == kMaxDepth) stream.fail(token, "lists are nested too deeply");
      stream.take();
      AttrList list;
      while (!stream.at(TokenKind::RightBracket)) {
        list.push_back(parse_nested(stream, scope, depth + 1));
        if (!stream.accept(TokenKind::Comma) && !stream.at(TokenKind::RightBracket))
          stream.fail_expected("',' or ']'");
      }
      stream.take();
      return Attr(std::move(list));
    }
    case TokenKind::Word: {
      stream.take();
      if (token.text == "true") return Attr(true);
      if (token.text == "false") return Attr(false);
      if (token.text != "resource") return Attr(parse_element_type(stream, token, token.text));
      stream.expect(TokenKind::LeftParen, "'(' after 'resource'");
      Token name = stream.expect(TokenKind::String, "the name of the resource");
      stream.expect(TokenKind::RightParen, "')'");
      return Attr(Resource{unescape(stream, name)});
    }
    default:
      stream.fail_expected("the value of an attribute");
  }
}

void check_key(const TokenStream& stream, const Token& key, const OpInfo& op) {
  if (op.kind == OpKind::Kernel || op.attribute(key.text)) return;
  std::vector<std::string> known;
  for (const AttrInfo& each : op.attributes) known.push_back(each.name);
  for (const AttrInfo& each : common_attributes()) known.push_back(each.name);
  stream.fail(key, std::string(op.name) + ": unknown attribute '" + std::string(key.text) + "'" +
                       did_you_mean(key.text, known));
}

/// Float attributes are f64, so bits of 16 digits are one of them.
Attr as_float(Attr attr) {
  if (attr.is<Bits>() && attr.as<Bits>().digits == 16)
    return Attr(std::bit_cast<double>(attr.as<Bits>().bits));
  return attr;
}

Attr by_schema(const AttrInfo* info, Attr attr) {
  if (!info) return attr;
  if (info->kind == AttrKind::Float) return as_float(std::move(attr));
  if (info->kind != AttrKind::Floats || !attr.is<AttrList>()) return attr;
  AttrList list;
  for (const Attr& item : attr.as<AttrList>()) list.push_back(as_float(item));
  return Attr(std::move(list));
}

/// Hex digits of the bits of a float type.
int bit_digits(DType dtype) { return static_cast<int>(2 * byte_size(dtype)); }

}  // namespace

Type parse_type(TokenStream& stream) {
  Token token = stream.expect(TokenKind::Type, "a type such as tensor<2x3xf32>");
  size_t open = token.text.find('<');
  std::string_view rest = token.text.substr(open + 1, token.text.size() - open - 2);
  std::vector<int64_t> dims;
  while (!rest.empty() && is_digit(rest[0])) {
    size_t end = rest.find('x');
    std::string_view digits = rest.substr(0, end);
    int64_t length = 0;
    auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
    if (error != std::errc() || last != digits.data() + digits.size())
      stream.fail(token, "'" + std::string(digits) + "' is no length of an axis",
                  "a length is a number, 2^59 at most");
    dims.push_back(length);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  if (rest.empty())
    stream.fail(token, "the type has no element type", "write tensor<f32> for a scalar");
  DType dtype = parse_element_type(stream, token, rest);
  try {
    return Type(dtype, Shape(std::span<const int64_t>(dims)));
  } catch (const UserError& error) {
    stream.fail(token, error.message(), error.hint());
  }
}

Attr parse_attr(TokenStream& stream, const AttrScope& scope) {
  return parse_nested(stream, scope, 0);
}

bool at_attrs(const TokenStream& stream) {
  if (!stream.at(TokenKind::LeftBrace)) return false;
  TokenStream ahead = stream;
  ahead.take();
  if (!ahead.at(TokenKind::Word)) return false;
  Token after = ahead.peek_second();
  return after.is(TokenKind::Equal) || after.is(TokenKind::Comma) ||
         after.is(TokenKind::RightBrace);
}

Attrs parse_attrs(TokenStream& stream, const AttrScope& scope) {
  stream.expect(TokenKind::LeftBrace, "'{'");
  Attrs attrs;
  while (!stream.at(TokenKind::RightBrace)) {
    Token key = stream.expect(TokenKind::Word, "the name of an attribute");
    if (scope.op) check_key(stream, key, *scope.op);
    if (attrs.has(key.text))
      stream.fail(key, "attribute '" + std::string(key.text) + "' is given twice");
    const AttrInfo* info = scope.op ? scope.op->attribute(key.text) : nullptr;
    if (stream.accept(TokenKind::Equal))
      attrs.set(key.text, by_schema(info, parse_attr(stream, scope)));
    else if (stream.at(TokenKind::Comma) || stream.at(TokenKind::RightBrace))
      attrs.set(key.text, Attr(true));
    else
      stream.fail_expected("'=' after the name of an attribute");
    if (!stream.accept(TokenKind::Comma) && !stream.at(TokenKind::RightBrace))
      stream.fail_expected("',' or '}'");
  }
  stream.take();
  return attrs;
}

Attrs parse_attrs_text(std::string_view text, std::string_view name) {
  TokenStream stream(text, name);
  Attrs attrs = parse_attrs(stream, {});
  if (!stream.at(TokenKind::End)) stream.fail_expected("the end of the text");
  return attrs;
}

Stage take_stage(const TokenStream& stream, const Token& place, Attrs& attrs) {
  for (const char* name : {"stage", "policy", "rounding", "target", "pipeline"})
    if (const Attr* attr = attrs.find(name); attr && !attr->is<std::string>())
      stream.fail(place, std::string("attribute '") + name + "' must be a string");
  const std::string rounding = attrs.get_string("rounding", "excess");
  if (rounding != "excess" && rounding != "as-written")
    stream.fail(place, "unknown rounding \"" + rounding + "\"" +
                           did_you_mean(rounding, {"excess", "as-written"}));
  const std::string text = attrs.get_string("stage", to_string(Stage::Traced));
  const std::optional<Stage> stage = parse_stage(text);
  if (!stage) {
    std::vector<std::string> known;
    for (int i = 0; i <= static_cast<int>(Stage::Planned); ++i)
      known.push_back(to_string(static_cast<Stage>(i)));
    stream.fail(place, "unknown stage \"" + text + "\"" + did_you_mean(text, known));
  }
  attrs.erase("stage");
  return *stage;
}

Attr constant_value(const TokenStream& stream, const Token& place, DType dtype, const Attr& attr) {
  const std::string type = to_string(dtype);
  if (attr.is<Resource>()) return attr;
  if (attr.is<AttrList>()) {
    AttrList list;
    for (const Attr& item : attr.as<AttrList>()) {
      if (item.is<AttrList>() || item.is<Resource>())
        stream.fail(place, "constant: elements stand in one flat list");
      list.push_back(constant_value(stream, place, dtype, item));
    }
    return Attr(std::move(list));
  }
  if (is_float(dtype)) {
    if (attr.is<double>()) return scalar_attr(dtype, attr.as<double>());
    if (!attr.is<Bits>())
      stream.fail(place, "constant: a value of type " + type + " is a float such as 1.0, or bits");
    Bits bits = attr.as<Bits>();
    if (bits.digits != bit_digits(dtype))
      stream.fail(place, "constant: bits of type " + type + " have " +
                             std::to_string(bit_digits(dtype)) + " hex digits, not " +
                             std::to_string(bits.digits));
    double value = scalar_value(dtype, attr);
    return std::isfinite(value) ? Attr(value) : attr;
  }
  if (dtype == DType::Bool) {
    if (!attr.is<bool>()) stream.fail(place, "constant: a value of type bool is true or false");
    return attr;
  }
  if (!attr.is<int64_t>())
    stream.fail(place, "constant: a value of type " + type + " is an integer");
  if (wrap_integer(dtype, attr.as<int64_t>()) != attr.as<int64_t>())
    stream.fail(place, "constant: " + std::to_string(attr.as<int64_t>()) + " does not fit " + type);
  return attr;
}

}  // namespace mezzo::ir
