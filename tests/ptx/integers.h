// SPDX-License-Identifier: Apache-2.0
// Integer types of the host for those of PTX, and the integer halves of opcodes that exist for
// floats too.
#pragma once

#include <cstdint>
#include <ptx/decoder.h>

namespace mezzo::ptx::detail {

// 128 bits are an extension of the compilers.
__extension__ using Signed128 = __int128;
__extension__ using Unsigned128 = unsigned __int128;

template <class T>
struct DoubleOf;
template <>
struct DoubleOf<int16_t> {
  using Type = int32_t;
};
template <>
struct DoubleOf<uint16_t> {
  using Type = uint32_t;
};
template <>
struct DoubleOf<int32_t> {
  using Type = int64_t;
};
template <>
struct DoubleOf<uint32_t> {
  using Type = uint64_t;
};
template <>
struct DoubleOf<int64_t> {
  using Type = Signed128;
};
template <>
struct DoubleOf<uint64_t> {
  using Type = Unsigned128;
};
/// The integer of twice the bits.
template <class T>
using Double = typename DoubleOf<T>::Type;

/// `f(T{})` for the host's type of an integer of kLeast to kMost bytes; nothing for other types.
/// Bits count as unsigned.
template <size_t kLeast, size_t kMost, class F>
Execute pick_integer_of(Type type, F&& f) {
  if (type.is_float() || type.kind == Kind::Predicate) return nullptr;
  const auto pick = [&](auto with_sign, auto without_sign) -> Execute {
    if constexpr (sizeof(with_sign) >= kLeast && sizeof(with_sign) <= kMost)
      return type.is_signed() ? f(with_sign) : f(without_sign);
    else
      return nullptr;
  };
  switch (type.bytes) {
    case 2:
      return pick(int16_t{}, uint16_t{});
    case 4:
      return pick(int32_t{}, uint32_t{});
    case 8:
      return pick(int64_t{}, uint64_t{});
    default:
      return nullptr;
  }
}
template <class F>
Execute pick_integer(Type type, F&& f) {
  return pick_integer_of<2, 8>(type, f);
}
template <class F>
Execute pick_wide_integer(Type type, F&& f) {
  return pick_integer_of<4, 8>(type, f);
}
template <class F>
Execute pick_narrow_integer(Type type, F&& f) {
  return pick_integer_of<2, 4>(type, f);
}

void decode_integer_add(Decoder& d);
void decode_integer_sub(Decoder& d);
void decode_integer_mul(Decoder& d);
void decode_integer_mad(Decoder& d);
void decode_integer_div(Decoder& d);
void decode_integer_min(Decoder& d);
void decode_integer_max(Decoder& d);
void decode_integer_neg(Decoder& d);
void decode_integer_abs(Decoder& d);

}  // namespace mezzo::ptx::detail
