// SPDX-License-Identifier: Apache-2.0
// Element types and exact conversions of one element. Every rounding in Mezzo that is not made by a
// kernel is made here: to nearest, ties to even, directly from the source to the target format.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mezzo::ir {

enum class DType : uint8_t {
#define DTYPE(Kind, text, bits, storage, is_float) Kind,
#include <mezzo/ir/dtypes.def>
#undef DTYPE
};

inline constexpr DType kAllDTypes[] = {
#define DTYPE(Kind, text, bits, storage, is_float) DType::Kind,
#include <mezzo/ir/dtypes.def>
#undef DTYPE
};

/// Throws UserError for a number that is no element type, as the other functions of a type do.
const char* to_string(DType type);
std::optional<DType> parse_dtype(std::string_view text);

bool is_float(DType type);
inline bool is_integer(DType type) { return !is_float(type) && type != DType::Bool; }
inline bool is_16bit(DType type) { return type == DType::F16 || type == DType::BF16; }
/// Bytes of one element in memory.
int64_t byte_size(DType type);

/// Unit roundoff: half a step at 1 (2^-53, 2^-24, 2^-11, 2^-8); 0 for integers.
double unit_roundoff(DType type);
/// Largest finite value of a float type.
double largest_finite(DType type);

/// f16 and bf16 bit patterns from wider floats, one rounding; values at or beyond the limit become
/// infinity, NaN stays NaN (quiet), subnormals are kept.
uint16_t f64_to_f16(double value);
uint16_t f32_to_f16(float value);
uint16_t f64_to_bf16(double value);
uint16_t f32_to_bf16(float value);
float f16_to_f32(uint16_t bits);
float bf16_to_f32(uint16_t bits);

/// `value` rounded once to the float type `type` (f64 returns it unchanged).
double round_to(DType type, double value);
/// A float to an integer type: toward zero, saturated, NaN gives 0; Bool gives value != 0 (NaN is
/// true).
int64_t float_to_integer(DType type, double value);
/// An i64 wrapped (not saturated) to the integer type `type`; Bool gives value != 0.
int64_t wrap_integer(DType type, int64_t value);

}  // namespace mezzo::ir
