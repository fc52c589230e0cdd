// SPDX-License-Identifier: Apache-2.0
// Names of types.
#include <ptx/types.h>

namespace mezzo::ptx::detail {

std::optional<Type> parse_type(std::string_view name) {
  struct Entry {
    std::string_view name;
    Type type;
  };
  static constexpr Entry kTypes[] = {
      {"b8", {Kind::Bits, 1}},
      {"b16", kB16},
      {"b32", kB32},
      {"b64", kB64},
      {"b128", {Kind::Bits, 16}},
      {"u8", {Kind::Unsigned, 1}},
      {"u16", {Kind::Unsigned, 2}},
      {"u32", kU32},
      {"u64", kU64},
      {"s8", {Kind::Signed, 1}},
      {"s16", {Kind::Signed, 2}},
      {"s32", {Kind::Signed, 4}},
      {"s64", {Kind::Signed, 8}},
      {"f16", kF16},
      {"f32", kF32},
      {"f64", kF64},
      {"bf16", kBf16},
      {"f16x2", kF16x2},
      {"bf16x2", kBf16x2},
      {"f32x2", kF32x2},
      {"pred", kPredicate},
  };
  for (const Entry& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

}  // namespace mezzo::ptx::detail
