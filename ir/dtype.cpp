// SPDX-License-Identifier: Apache-2.0
// Facts of the element types, read from dtypes.def, and the conversions between floats and
// integers.
#include <mezzo/ir/dtype.h>

#include <mezzo/ir/error.h>

#include <limits>
#include <string>

namespace mezzo::ir {

namespace {

/// Only a program can have made it, of a number: texts hold names.
[[noreturn]] void fail_unknown(DType type) {
  std::string known;
  for (DType each : kAllDTypes) known += (known.empty() ? "" : ", ") + std::string(to_string(each));
  throw UserError({}, "element type " + std::to_string(static_cast<int>(type)) + " is unknown",
                  "the element types are " + known);
}

}  // namespace

const char* to_string(DType type) {
  switch (type) {
#define DTYPE(Kind, text, bits, storage, is_float) \
  case DType::Kind:                                \
    return text;
#include <mezzo/ir/dtypes.def>
#undef DTYPE
  }
  fail_unknown(type);
}

std::optional<DType> parse_dtype(std::string_view text) {
#define DTYPE(Kind, name, bits, storage, is_float) \
  if (text == name) return DType::Kind;
#include <mezzo/ir/dtypes.def>
#undef DTYPE
  return std::nullopt;
}

bool is_float(DType type) {
  switch (type) {
#define DTYPE(Kind, text, bits, storage, is_float) \
  case DType::Kind:                                \
    return is_float;
#include <mezzo/ir/dtypes.def>
#undef DTYPE
  }
  fail_unknown(type);
}

int64_t byte_size(DType type) {
  switch (type) {
#define DTYPE(Kind, text, bits, storage, is_float)                                           \
  case DType::Kind:                                                                          \
    static_assert(sizeof(storage) * 8 == bits, "the storage of " text " has another width"); \
    return static_cast<int64_t>(sizeof(storage));
#include <mezzo/ir/dtypes.def>
#undef DTYPE
  }
  fail_unknown(type);
}

double unit_roundoff(DType type) {
  switch (type) {
    case DType::F64:
      return 0x1p-53;
    case DType::F32:
      return 0x1p-24;
    case DType::F16:
      return 0x1p-11;
    case DType::BF16:
      return 0x1p-8;
    default:
      return 0;
  }
}

double largest_finite(DType type) {
  switch (type) {
    case DType::F64:
      return std::numeric_limits<double>::max();
    case DType::F32:
      return std::numeric_limits<float>::max();
    case DType::F16:
      return 65504;
    case DType::BF16:
      return 0x1.fep127;
    default:
      throw InternalError(std::string("largest_finite of the type ") + to_string(type) +
                          ", which is not a float");
  }
}

double round_to(DType type, double value) {
  switch (type) {
    case DType::F64:
      return value;
    case DType::F32:
      return static_cast<double>(static_cast<float>(value));
    case DType::F16:
      return static_cast<double>(f16_to_f32(f64_to_f16(value)));
    case DType::BF16:
      return static_cast<double>(bf16_to_f32(f64_to_bf16(value)));
    default:
      throw InternalError(std::string("round_to the type ") + to_string(type) +
                          ", which is not a float");
  }
}

namespace {

template <typename Integer>
int64_t saturate(double value) {
  if (value != value) return 0;
  // The lower limits are exact doubles; the upper one of 64 bits is not, so that 2^63 is the first
  // value beyond it.
  constexpr double kLowest = static_cast<double>(std::numeric_limits<Integer>::min());
  constexpr double kBeyond = static_cast<double>(std::numeric_limits<Integer>::max() / 2 + 1) * 2.0;
  if (value <= kLowest) return std::numeric_limits<Integer>::min();
  if (value >= kBeyond) return std::numeric_limits<Integer>::max();
  return static_cast<int64_t>(value);
}

}  // namespace

int64_t float_to_integer(DType type, double value) {
  switch (type) {
    case DType::I64:
      return saturate<int64_t>(value);
    case DType::I32:
      return saturate<int32_t>(value);
    case DType::U8:
      return saturate<uint8_t>(value);
    case DType::Bool:
      // A truth value, not a number: one half and NaN are true.
      return value != 0;
    default:
      throw InternalError(std::string("float_to_integer to the type ") + to_string(type) +
                          ", which is a float");
  }
}

int64_t wrap_integer(DType type, int64_t value) {
  switch (type) {
    case DType::I64:
      return value;
    case DType::I32:
      return static_cast<int32_t>(static_cast<uint64_t>(value));
    case DType::U8:
      return static_cast<uint8_t>(static_cast<uint64_t>(value));
    case DType::Bool:
      return value != 0;
    default:
      throw InternalError(std::string("wrap_integer to the type ") + to_string(type) +
                          ", which is a float");
  }
}

}  // namespace mezzo::ir
