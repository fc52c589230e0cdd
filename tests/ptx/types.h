// SPDX-License-Identifier: Apache-2.0
// The types of PTX as its text names them: `.u32`, `.f16x2`, `.pred`.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mezzo::ptx::detail {

enum class Kind : uint8_t { Bits, Unsigned, Signed, Float, BFloat, Predicate };

struct Type {
  Kind kind = Kind::Bits;
  uint8_t bytes = 0;  // of all parts together
  uint8_t parts = 1;  // 2 for f16x2, bf16x2 and f32x2

  bool is_float() const { return kind == Kind::Float || kind == Kind::BFloat; }
  bool is_signed() const { return kind == Kind::Signed; }
  bool operator==(const Type&) const = default;
};

inline constexpr Type kU32{Kind::Unsigned, 4}, kU64{Kind::Unsigned, 8}, kB32{Kind::Bits, 4},
    kB16{Kind::Bits, 2}, kB64{Kind::Bits, 8}, kF32{Kind::Float, 4}, kF64{Kind::Float, 8},
    kF16{Kind::Float, 2}, kBf16{Kind::BFloat, 2}, kF16x2{Kind::Float, 4, 2},
    kBf16x2{Kind::BFloat, 4, 2}, kF32x2{Kind::Float, 8, 2}, kPredicate{Kind::Predicate, 4};

/// Without the dot: `u32`. Nothing where it names no type.
std::optional<Type> parse_type(std::string_view name);

}  // namespace mezzo::ptx::detail
