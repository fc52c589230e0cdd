// SPDX-License-Identifier: Apache-2.0
// Exact conversions of f16 and bf16 on bit patterns. A wider float is rounded once, in integer
// arithmetic on its f64 form (widening f32 to f64 is exact), so that no result depends on the
// machine's instructions or on its rounding mode.
#include <mezzo/ir/dtype.h>

#include <algorithm>
#include <bit>

namespace mezzo::ir {
namespace {

// A 16-bit float with kFraction explicit fraction bits; the rest below the sign is the exponent.
template <int kFraction>
struct Format {
  static constexpr int kBias = (1 << (14 - kFraction)) - 1;
  static constexpr int kSmallestExponent = 1 - kBias;
  static constexpr uint16_t kInfinity = static_cast<uint16_t>(0x7fff >> kFraction << kFraction);
  static constexpr uint16_t kQuietBit = 1 << (kFraction - 1);
};

template <int kFraction>
uint16_t narrow(double value) {
  using F = Format<kFraction>;
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 48 & 0x8000);
  const uint64_t magnitude = bits & ~(uint64_t{1} << 63);
  if (magnitude > uint64_t{0x7ff} << 52) return sign | F::kInfinity | F::kQuietBit;

  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent > F::kBias) return sign | F::kInfinity;
  // Below half the smallest subnormal. What is exactly half goes on and is a tie to the even zero.
  if (exponent < F::kSmallestExponent - kFraction - 1) return sign;

  const uint64_t significand = (magnitude & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  const int shift = 52 - kFraction + std::max(0, F::kSmallestExponent - exponent);
  const uint64_t half = uint64_t{1} << (shift - 1);
  const uint64_t rest = significand & (2 * half - 1);
  uint64_t rounded = significand >> shift;
  if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;

  // A carry out of the fraction lands in the exponent, where it belongs: the smallest subnormals'
  // next is the smallest normal, the largest finite value's next is infinity.
  if (exponent >= F::kSmallestExponent)
    rounded += static_cast<uint64_t>(exponent + F::kBias - 1) << kFraction;
  return static_cast<uint16_t>(sign | rounded);
}

}  // namespace

uint16_t f64_to_f16(double value) { return narrow<10>(value); }
uint16_t f32_to_f16(float value) { return narrow<10>(static_cast<double>(value)); }
uint16_t f64_to_bf16(double value) { return narrow<7>(value); }

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  // bf16 is the upper half of f32 with the same exponents: adding just under a half, or a half when
  // the kept part is odd, rounds to nearest even for normals, subnormals and the step to infinity
  // alike.
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {
    // Zero and subnormals are multiples of 2^-24; the product is exact.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 0x1f) {
    const uint32_t quiet = fraction != 0 ? 0x400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13 | quiet);
  }
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

float bf16_to_f32(uint16_t bits) {
  // A signalling NaN becomes quiet, as in every other conversion.
  const bool is_nan = (bits & 0x7fff) > 0x7f80;
  return std::bit_cast<float>(static_cast<uint32_t>(bits | (is_nan ? 0x40 : 0)) << 16);
}

}  // namespace mezzo::ir
