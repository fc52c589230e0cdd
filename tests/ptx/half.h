// SPDX-License-Identifier: Apache-2.0
// f16 and bf16 on the host: values of 16 bits that convert to f32, and every rounding back.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace mezzo::ptx::detail {

enum class Rounding : uint8_t { Nearest, Zero, Down, Up };

inline constexpr uint32_t kNanF32 = 0x7FFFFFFF;  // what PTX's arithmetic returns
inline constexpr uint16_t kNan16 = 0x7FFF;

/// `value` rounded to a binary format with `digits` significant bits and `least` the exponent of
/// its smallest subnormal. Overflow is left to the caller; NaN and infinities come back as they
/// are.
inline double round_to(double value, int digits, int least, Rounding rounding) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
  const int unit = std::max(exponent - digits, least);
  const double scaled = std::ldexp(value, -unit);  // exact: at most 53 bits
  double whole = std::trunc(scaled);
  const double rest = scaled - whole;
  const double away = std::copysign(1.0, value);
  switch (rounding) {
    case Rounding::Nearest: {
      const double size = std::fabs(rest);
      if (size > 0.5 || (size == 0.5 && std::fmod(whole, 2.0) != 0)) whole += away;
      break;
    }
    case Rounding::Zero:
      break;
    case Rounding::Down:
      if (rest < 0) whole += away;
      break;
    case Rounding::Up:
      if (rest > 0) whole += away;
      break;
  }
  return std::copysign(std::ldexp(whole, unit), value);
}

/// The largest finite value or infinity, whichever `rounding` gives beyond the range.
inline double overflow_to(double value, double largest, Rounding rounding) {
  if (!(std::fabs(value) > largest) || std::isinf(value)) return value;
  const bool to_infinity = rounding == Rounding::Nearest ||
                           (rounding == Rounding::Up && value > 0) ||
                           (rounding == Rounding::Down && value < 0);
  return std::copysign(to_infinity ? std::numeric_limits<double>::infinity() : largest, value);
}

struct F16 {
  uint16_t bits = 0;

  static float widen(uint16_t bits) {
    const uint32_t magnitude = bits & 0x7FFFu, sign = uint32_t{bits & 0x8000u} << 16;
    // Moved to f32's place the exponent is too small by 112; the product puts it right, subnormal
    // numbers included, and infinities and NaNs get the top exponent.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const uint32_t top = magnitude >= 0x7C00 ? 0x7F800000u : 0u;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | top | sign);
  }
  static F16 round(double value, Rounding rounding = Rounding::Nearest) {
    if (std::isnan(value)) return {kNan16};
    const double near = overflow_to(round_to(value, 11, -24, rounding), 65504.0, rounding);
    const uint16_t sign = std::signbit(near) ? 0x8000 : 0;
    const double size = std::fabs(near);
    if (std::isinf(size)) return {static_cast<uint16_t>(sign | 0x7C00)};
    if (size < 0x1p-14)
      return {static_cast<uint16_t>(sign | static_cast<int>(std::ldexp(size, 24)))};
    int exponent = 0;
    const double fraction = std::frexp(size, &exponent);
    const int mantissa = static_cast<int>(std::ldexp(fraction, 11)) - 1024;
    return {static_cast<uint16_t>(sign | ((exponent + 14) << 10) | mantissa)};
  }
  /// To nearest even, without a branch, so that loops over lanes vectorise.
  static F16 nearest(float value) {
    const uint32_t all = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (all >> 16) & 0x8000u, size = all & 0x7FFFFFFFu;
    // Subnormal results: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
    const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3F000000u;
    const uint32_t normal = (size - 0x38000000u + 0xFFFu + ((size >> 13) & 1u)) >> 13;
    uint32_t result = size < 0x38800000u ? small : normal;
    result = size >= 0x477FF000u ? 0x7C00u : result;
    result |= sign;
    result = size > 0x7F800000u ? kNan16 : result;
    return {static_cast<uint16_t>(result)};
  }
  operator float() const { return widen(bits); }
};

struct Bf16 {
  uint16_t bits = 0;

  static float widen(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static Bf16 round(double value, Rounding rounding = Rounding::Nearest) {
    if (std::isnan(value)) return {kNan16};
    constexpr double kLargest = 0x1.FEp127;
    const double near = overflow_to(round_to(value, 8, -133, rounding), kLargest, rounding);
    return {static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(near)) >> 16)};
  }
  static Bf16 nearest(float value) {
    const uint32_t all = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (all + 0x7FFFu + ((all >> 16) & 1u)) >> 16;
    return {static_cast<uint16_t>((all & 0x7FFFFFFFu) > 0x7F800000u ? kNan16 : rounded)};
  }
  operator float() const { return widen(bits); }
};

/// Sum rounded to odd in f64: whatever narrower format it is rounded to next, the result is the
/// exact sum's.
inline double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - a;
  const double error = (a - (sum - part)) + (b - part);
  if (error == 0 || (std::bit_cast<uint64_t>(sum) & 1)) return sum;
  const double toward = error > 0 ? std::numeric_limits<double>::infinity()
                                  : -std::numeric_limits<double>::infinity();
  return std::nextafter(sum, toward);
}

/// The exact sum of `terms`, which are overwritten, cut to f32: toward zero, infinity beyond the
/// range. `terms` need room for `count` numbers of any size.
inline float sum_toward_zero(double* terms, int count) {
  double plain = 0;
  for (int i = 0; i < count; ++i) plain += terms[i];
  if (!std::isfinite(plain)) return static_cast<float>(plain);
  // Partial sums that do not overlap, growing: each term runs through all of them.
  int parts = 0;
  for (int i = 0; i < count; ++i) {
    double sum = terms[i];
    int kept = 0;
    for (int j = 0; j < parts; ++j) {
      double small = terms[j];
      if (std::fabs(sum) < std::fabs(small)) std::swap(sum, small);
      const double high = sum + small, low = small - (high - sum);
      if (low != 0) terms[kept++] = low;
      sum = high;
    }
    terms[kept++] = sum;
    parts = kept;
  }
  const double odd = parts > 1 ? add_to_odd(terms[parts - 1], terms[parts - 2]) : terms[0];
  const double cut = round_to(odd, 24, -149, Rounding::Zero);
  if (std::fabs(cut) > std::numeric_limits<float>::max())
    return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(cut));
  return static_cast<float>(cut);
}

}  // namespace mezzo::ptx::detail
