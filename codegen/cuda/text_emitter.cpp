// SPDX-License-Identifier: Apache-2.0
// Literals and temporaries of the CUDA text of device functions.
#include <mezzo/codegen/cuda/text_emitter.h>

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <iterator>

namespace mezzo::codegen {

TextEmitter::TextEmitter(std::string& out, int width, std::string_view prefix, int indent)
    : out_(out), width_(width), prefix_(prefix), indent_(indent) {}

TextEmitter::F TextEmitter::constant(double value) {
  const float narrow = static_cast<float>(value);
  const bool finite = width_ == 32 ? std::isfinite(narrow) : std::isfinite(value);
  if (!finite) {
    if (width_ == 32) {
      return fmt::format("__uint_as_float(0x{:08X}u)", std::bit_cast<uint32_t>(narrow));
    }
    return fmt::format("__longlong_as_double(0x{:016X}ull)", std::bit_cast<uint64_t>(value));
  }
  // Hexadecimal floats are exact. Parentheses keep a sign apart from an operator before it.
  const std::string literal =
      width_ == 32 ? fmt::format("{:a}f", static_cast<double>(narrow)) : fmt::format("{:a}", value);
  return std::signbit(value) ? "(" + literal + ")" : literal;
}

TextEmitter::I TextEmitter::iconstant(int64_t value) {
  if (width_ == 32) return fmt::format("0x{:X}u", static_cast<uint32_t>(value));
  return fmt::format("0x{:X}ull", static_cast<uint64_t>(value));
}

TextEmitter::I TextEmitter::umul32_low(const I& i, const I& j) {
  const std::string product = i + " * " + j;
  return define(int_type(), width_ == 32 ? product : "(" + product + ") & 0xFFFFFFFFull");
}

TextEmitter::I TextEmitter::umul32_high(const I& i, const I& j) {
  if (width_ == 32) return define(int_type(), "__umulhi(" + i + ", " + j + ")");
  return define(int_type(), "(" + i + " * " + j + ") >> 32");
}

TextEmitter::F TextEmitter::call(std::string_view f32, std::string_view f64,
                                 const std::string& arguments) {
  return define_float(fmt::format("{}({})", width_ == 32 ? f32 : f64, arguments));
}

std::string TextEmitter::define(std::string_view type, const std::string& expression) {
  std::string name = prefix_ + std::to_string(count_++);
  fmt::format_to(std::back_inserter(out_), "{:{}}const {} {} = {};\n", "", indent_, type, name,
                 expression);
  return name;
}

TextEmitter::F TextEmitter::variable(const F& value) {
  std::string name = prefix_ + std::to_string(count_++);
  fmt::format_to(std::back_inserter(out_), "{:{}}{} {} = {};\n", "", indent_, float_type(), name,
                 value);
  return name;
}

void TextEmitter::assign(const F& variable, const F& value) {
  fmt::format_to(std::back_inserter(out_), "{:{}}{} = {};\n", "", indent_, variable, value);
}

void TextEmitter::open(const B& condition) {
  fmt::format_to(std::back_inserter(out_), "{:{}}if ({}) {{\n", "", indent_, condition);
  indent_ += 2;
}

void TextEmitter::close() {
  indent_ -= 2;
  fmt::format_to(std::back_inserter(out_), "{:{}}}}\n", "", indent_);
}

}  // namespace mezzo::codegen
