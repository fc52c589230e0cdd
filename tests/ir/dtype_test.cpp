// SPDX-License-Identifier: Apache-2.0
// Element types: names and sizes from the table, every one of the 65,536 values of f16 and bf16
// both ways, and every boundary between two neighbours approached from f32 and from f64. The
// expected values come from ldexp, not from bits.
#include <mezzo/ir/dtype.h>

#include <mezzo/ir/error.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

using namespace mezzo::ir;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Half {
  const char* name;
  int fraction_bits;
  uint16_t infinity;
  uint16_t (*from_f64)(double);
  uint16_t (*from_f32)(float);
  float (*to_f32)(uint16_t);
};

const Half kHalves[] = {
    {"f16", 10, 0x7c00, f64_to_f16, f32_to_f16, f16_to_f32},
    {"bf16", 7, 0x7f80, f64_to_bf16, f32_to_bf16, bf16_to_f32},
};

// The value that the format's definition gives to a pattern that is not NaN.
double defined_value(const Half& half, uint16_t bits) {
  const int bias = (1 << (14 - half.fraction_bits)) - 1;
  const int exponent = (bits & 0x7fff) >> half.fraction_bits;
  const int fraction = bits & ((1 << half.fraction_bits) - 1);
  double magnitude = kInf;
  if (exponent == 0)
    magnitude = std::ldexp(fraction, 1 - bias - half.fraction_bits);
  else if ((bits & 0x7fff) != half.infinity)
    magnitude =
        std::ldexp(fraction + (1 << half.fraction_bits), exponent - bias - half.fraction_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

bool is_nan_pattern(const Half& half, uint16_t bits) { return (bits & 0x7fff) > half.infinity; }

}  // namespace

TEST_CASE("element types read back from their names and know their sizes") {
  for (DType type : kAllDTypes) CHECK(parse_dtype(to_string(type)) == type);
  CHECK(std::string(to_string(DType::BF16)) == "bf16");
  CHECK_FALSE(parse_dtype("float32").has_value());
  CHECK_FALSE(parse_dtype("").has_value());
  CHECK(byte_size(DType::F64) == 8);
  CHECK(byte_size(DType::F16) == 2);
  CHECK(byte_size(DType::I32) == 4);
  CHECK(byte_size(DType::Bool) == 1);
  CHECK(is_float(DType::BF16));
  CHECK_FALSE(is_float(DType::U8));
  CHECK_FALSE(is_integer(DType::Bool));
}

TEST_CASE("unit roundoff is half the step at one and the largest value is finite") {
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    CAPTURE(to_string(type));
    const double unit = unit_roundoff(type);
    CHECK(round_to(type, 1 + unit) == 1);
    CHECK(round_to(type, 1 + unit * 1.0001) == 1 + 2 * unit);
    const double largest = largest_finite(type);
    CHECK(round_to(type, largest) == largest);
    CHECK(round_to(type, largest * (1 + unit)) == kInf);
  }
  CHECK(unit_roundoff(DType::F64) == 0x1p-53);
  CHECK(unit_roundoff(DType::I32) == 0);
  CHECK_THROWS_AS(largest_finite(DType::I32), mezzo::InternalError);
  CHECK_THROWS_AS(round_to(DType::U8, 1), mezzo::InternalError);
}

TEST_CASE("each of the 65,536 values of a 16-bit float survives the way to f32, f64 and back") {
  for (const Half& half : kHalves) {
    CAPTURE(half.name);
    int wrong = 0, nans = 0;
    for (int i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      const float value = half.to_f32(bits);
      if (is_nan_pattern(half, bits)) {
        ++nans;
        const bool stays = std::isnan(value) && is_nan_pattern(half, half.from_f32(value)) &&
                           is_nan_pattern(half, half.from_f64(static_cast<double>(value)));
        const bool sign_stays = std::signbit(value) == ((bits & 0x8000) != 0);
        wrong += !stays || !sign_stays;
        continue;
      }
      const double expected = defined_value(half, bits);
      wrong += static_cast<double>(value) != expected;
      wrong += std::signbit(value) != std::signbit(expected);
      wrong += half.from_f32(value) != bits;
      wrong += half.from_f64(expected) != bits;
    }
    CHECK(wrong == 0);
    CHECK(nans == 2 * ((1 << half.fraction_bits) - 1));
  }
}

TEST_CASE("every boundary between neighbours rounds to nearest and its tie to even") {
  for (const Half& half : kHalves) {
    CAPTURE(half.name);
    int wrong = 0;
    for (int i = 0; i < half.infinity; ++i) {
      for (int sign : {0, 0x8000}) {
        const auto low = static_cast<uint16_t>(i | sign);
        const auto high = static_cast<uint16_t>((i + 1) | sign);
        const uint16_t even = (i & 1) == 0 ? low : high;
        const double below = defined_value(half, low);
        // Infinity stands where the next value would be, had the format one exponent more.
        const double step =
            i == 0
                ? defined_value(half, 1)
                : std::fabs(below) - std::fabs(defined_value(half, static_cast<uint16_t>(i - 1)));
        const double width =
            i + 1 == half.infinity ? step : std::fabs(defined_value(half, high)) - std::fabs(below);
        const double tie = below + (sign != 0 ? -width / 2 : width / 2);
        const double out = sign != 0 ? -kInf : kInf;
        wrong += half.from_f64(tie) != even;
        wrong += half.from_f64(std::nextafter(tie, out)) != high;
        wrong += half.from_f64(std::nextafter(tie, 0.0)) != low;
        const auto tie32 = static_cast<float>(tie);
        wrong += static_cast<double>(tie32) != tie;
        wrong += half.from_f32(tie32) != even;
        wrong += half.from_f32(std::nextafter(tie32, static_cast<float>(out))) != high;
        wrong += half.from_f32(std::nextafter(tie32, 0.0f)) != low;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("the limits of f16 are where its definition puts them") {
  CHECK(f64_to_f16(65519.99) == 0x7bff);
  CHECK(f64_to_f16(65520.0) == 0x7c00);
  CHECK(f32_to_f16(-65520.0f) == 0xfc00);
  CHECK(f64_to_f16(0x1p-25) == 0);
  CHECK(f64_to_f16(-0x1p-25) == 0x8000);
  CHECK(f64_to_f16(std::nextafter(0x1p-25, 1.0)) == 1);
  CHECK(f64_to_f16(0x1p-24) == 1);
  CHECK(f64_to_f16(1.5 * 0x1p-24) == 2);
  CHECK(f64_to_f16(0x1p-14) == 0x0400);
  CHECK(f64_to_f16(std::numeric_limits<double>::denorm_min()) == 0);
  CHECK(f64_to_f16(std::numeric_limits<double>::max()) == 0x7c00);
  CHECK(f64_to_f16(-kInf) == 0xfc00);
  CHECK(f64_to_bf16(std::numeric_limits<double>::max()) == 0x7f80);
  CHECK(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  // A subnormal of f32 that a flushing conversion would lose.
  CHECK(f32_to_bf16(0x1p-127f) == 0x0040);
}

TEST_CASE("a conversion from f64 rounds once and never by way of f32") {
  // Just above a tie; f32 cannot hold the difference, and the tie would go to the even value below.
  const double f16_case = 1 + 0x1p-11 + 0x1p-40;
  CHECK(f64_to_f16(f16_case) == 0x3c01);
  CHECK(f32_to_f16(static_cast<float>(f16_case)) == 0x3c00);
  const double bf16_case = 1 + 0x1p-8 + 0x1p-40;
  CHECK(f64_to_bf16(bf16_case) == 0x3f81);
  CHECK(f32_to_bf16(static_cast<float>(bf16_case)) == 0x3f80);
  CHECK(round_to(DType::F16, f16_case) == 1 + 0x1p-10);
  CHECK(round_to(DType::F64, f16_case) == f16_case);
}

TEST_CASE("floats become integers toward zero, saturated, and NaN becomes 0") {
  CHECK(float_to_integer(DType::I32, 1.9) == 1);
  CHECK(float_to_integer(DType::I32, -1.9) == -1);
  CHECK(float_to_integer(DType::I32, 2147483647.9) == 2147483647);
  CHECK(float_to_integer(DType::I32, 2147483648.0) == 2147483647);
  CHECK(float_to_integer(DType::I32, -2147483648.9) == -2147483648LL);
  CHECK(float_to_integer(DType::I32, -1e300) == -2147483648LL);
  CHECK(float_to_integer(DType::I64, 0x1p63) == std::numeric_limits<int64_t>::max());
  CHECK(float_to_integer(DType::I64, std::nextafter(0x1p63, 0.0)) == 0x7ffffffffffffc00);
  CHECK(float_to_integer(DType::I64, -0x1p63) == std::numeric_limits<int64_t>::min());
  CHECK(float_to_integer(DType::I64, -kInf) == std::numeric_limits<int64_t>::min());
  CHECK(float_to_integer(DType::U8, 255.9) == 255);
  CHECK(float_to_integer(DType::U8, 256.0) == 255);
  CHECK(float_to_integer(DType::U8, -0.9) == 0);
  CHECK(float_to_integer(DType::U8, -5.0) == 0);
  for (DType type : {DType::I64, DType::I32, DType::U8}) {
    CHECK(float_to_integer(type, kNaN) == 0);
    CHECK(float_to_integer(type, kInf) > 0);
  }
  CHECK(float_to_integer(DType::Bool, 0.5) == 1);
  CHECK(float_to_integer(DType::Bool, -0.0) == 0);
  CHECK(float_to_integer(DType::Bool, kNaN) == 1);
}

TEST_CASE("integers wrap to narrower types and a bool asks for non-zero") {
  CHECK(wrap_integer(DType::I32, int64_t{1} << 31) == -2147483648LL);
  CHECK(wrap_integer(DType::I32, -1) == -1);
  CHECK(wrap_integer(DType::U8, 257) == 1);
  CHECK(wrap_integer(DType::U8, -1) == 255);
  CHECK(wrap_integer(DType::Bool, 256) == 1);
  CHECK(wrap_integer(DType::Bool, 0) == 0);
  CHECK(wrap_integer(DType::I64, -7) == -7);
  CHECK_THROWS_AS(wrap_integer(DType::F32, 1), mezzo::InternalError);
}
