// SPDX-License-Identifier: Apache-2.0
#include <gpu/promises.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace mezzo::gpu {

using ptx::test::f32;
using ptx::test::f64;
using ptx::test::Half;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::vector<std::string_view> words_of(std::string_view opcode) {
  std::vector<std::string_view> words;
  while (!opcode.empty()) {
    const size_t dot = opcode.find('.');
    words.push_back(opcode.substr(0, dot));
    opcode = dot == std::string_view::npos ? std::string_view() : opcode.substr(dot + 1);
  }
  return words;
}

bool has(const std::vector<std::string_view>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

struct FloatType {
  std::string_view name;
  Reading reading;
};
constexpr FloatType kFloats[] = {
    {"f32", Reading::F32},       {"f64", Reading::F64},       {"f16", Reading::F16},
    {"bf16", Reading::Bf16},     {"f16x2", Reading::F16Pair}, {"bf16x2", Reading::Bf16Pair},
    {"f32x2", Reading::F32Pair}, {"tf32", Reading::F32},
};

bool is_integer_type(std::string_view word) {
  return word.size() >= 2 && word.size() <= 4 &&
         (word[0] == 'u' || word[0] == 's' || word[0] == 'b') &&
         word.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

/// Conversions and `set` name the result's type first, mma too; others end with their type.
Reading reading_of(const std::vector<std::string_view>& words) {
  Reading reading = Reading::Bits;
  const bool first = words[0] == "cvt" || words[0] == "set" || words[0] == "mma";
  if (words[0] == "setp" || words[0] == "testp" || words[0] == "slct") return reading;
  for (const std::string_view word : words) {
    bool type = is_integer_type(word);
    if (type) reading = Reading::Bits;
    for (const FloatType& each : kFloats)
      if (each.name == word) reading = each.reading, type = true;
    if (type && first) break;
  }
  return reading;
}

struct Format {
  int digits;     // of the fraction
  int least;      // exponent of the smallest step
  double beyond;  // what infinity counts as
};
Format format_of(Reading reading) {
  switch (reading) {
    case Reading::F64:
      return {52, -1074, kInfinite};
    case Reading::F16:
    case Reading::F16Pair:
      return {10, -24, 65536};
    case Reading::Bf16:
    case Reading::Bf16Pair:
      return {7, -133, 0x1p128};
    default:
      return {23, -149, 0x1p128};
  }
}

double value_of(uint64_t bits, Reading reading) {
  switch (reading) {
    case Reading::F64:
      return f64(bits);
    case Reading::F16:
    case Reading::F16Pair:
      return ptx::test::widen(bits & 0xFFFF, Half::F16);
    case Reading::Bf16:
    case Reading::Bf16Pair:
      return ptx::test::widen(bits & 0xFFFF, Half::Bf16);
    default:
      return f32(bits);
  }
}

Distance one(uint64_t got, uint64_t wanted, const Promise& promise, double slack) {
  Distance out;
  if (got == wanted) return {true, 0, 0};
  if (promise.reading == Reading::Bits) return {false, kInfinite, 0};
  double a = value_of(got, promise.reading), b = value_of(wanted, promise.reading);
  if (std::isnan(a) && std::isnan(b)) return {true, 0, 0};
  if (std::isnan(a) || std::isnan(b)) return {false, kInfinite, kInfinite};
  const Format format = format_of(promise.reading);
  if (std::isinf(a)) a = std::copysign(format.beyond, a);
  if (std::isinf(b)) b = std::copysign(format.beyond, b);
  const double step = std::ldexp(
      1.0, std::max(b == 0 || std::isinf(b) ? -2000 : std::ilogb(b) - format.digits, format.least));
  out.ulps = std::fabs(a - b) / step;
  if (slack < 0 && promise.exact()) return {false, kInfinite, out.ulps};
  const double allowed =
      slack >= 0 ? slack : promise.ulps * step + promise.relative * std::fabs(b) + promise.absolute;
  out.error = a == b ? 0 : allowed > 0 ? std::fabs(a - b) / allowed : kInfinite;
  return out;
}

}  // namespace

std::string opcode_of(std::string_view text) {
  if (text.substr(0, 2) == "@%") text.remove_prefix(text.find(' ') + 1);
  if (text.substr(0, 1) == "{") return std::string(text);
  return std::string(text.substr(0, text.find(' ')));
}

Promise promise_of(std::string_view opcode, std::span<const uint64_t> operands) {
  if (opcode.empty() || opcode[0] == '{') return {};
  const std::vector<std::string_view> words = words_of(opcode);
  Promise out{reading_of(words)};
  if (out.reading == Reading::Bits || !(has(words, "approx") || has(words, "full"))) return out;
  // The interpreter's value is the correctly rounded one: a unit more than the manual's bound.
  out.ulps = 1;
  const std::string_view name = words[0];
  const bool wide = out.reading == Reading::F64, single = out.reading == Reading::F32;
  if (wide) {
    out.relative = 0x1p-18;  // the manual: the upper 20 bits of the fraction
  } else if (name == "div" || (name == "ex2" && single)) {
    out.ulps = 3;
  } else if (name == "rcp") {
    out.ulps = 2;
  } else if (name == "sqrt") {
    out.relative = 0x1p-23;
  } else if (name == "rsqrt") {
    out.relative = 0x1p-22;
  } else if (name == "sin" || name == "cos") {
    const double x = operands.empty() ? 0 : std::fabs(f32(operands[0]));
    out.absolute = x <= 6.2831855 ? 0x1p-20 : 0x1p-14;
  } else if (name == "lg2") {
    const double x = operands.empty() ? 1 : f32(operands[0]);
    (x > 0.5 && x < 2 ? out.absolute : out.relative) = 0x1p-22;
  } else if (name == "tanh") {
    if (single)
      out.relative = 0x1p-10;
    else
      out.absolute = has(words, "bf16") || has(words, "bf16x2") ? 0x1p-8 : 0x1p-10;
  } else if (name == "ex2") {
    out.relative = has(words, "bf16") || has(words, "bf16x2") ? 0x1p-7 : 0x1p-9;
  }
  return out;
}

bool leaves_open(std::string_view opcode, std::span<const uint64_t> operands) {
  if (opcode.empty() || opcode[0] == '{' || operands.empty()) return false;
  const std::vector<std::string_view> words = words_of(opcode);
  const std::string_view name = words[0];
  if ((name == "div" || name == "rem") && is_integer_type(words.back())) return operands[1] == 0;
  if ((name == "sin" || name == "cos") && has(words, "approx")) {
    const float x = f32(operands[0]);
    return std::isfinite(x) && std::fabs(x) > 314;
  }
  if (name == "div" && has(words, "approx")) {
    const float b = std::fabs(f32(operands[1]));
    return b != 0 && std::isfinite(b) && (b < 0x1p-126f || b > 0x1p126f);
  }
  return false;
}

Distance distance(uint64_t got, uint64_t wanted, const Promise& promise, double slack) {
  const int bits = promise.reading == Reading::F32Pair ? 32 : 16;
  switch (promise.reading) {
    case Reading::F32Pair:
    case Reading::F16Pair:
    case Reading::Bf16Pair: {
      const uint64_t mask = (uint64_t{1} << bits) - 1;
      const Distance low = one(got & mask, wanted & mask, promise, slack);
      const Distance high = one(got >> bits & mask, wanted >> bits & mask, promise, slack);
      return {low.same && high.same, std::max(low.error, high.error),
              std::max(low.ulps, high.ulps)};
    }
    default:
      return one(got, wanted, promise, slack);
  }
}

}  // namespace mezzo::gpu
