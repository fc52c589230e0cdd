// SPDX-License-Identifier: Apache-2.0
// Applies a function to the 32 lanes of its operands. The functions are types with a static
// `apply`, so that each loop is compiled for one function and one type, and vectorises.
#pragma once

#include <bit>
#include <cfenv>
#include <ptx/half.h>
#include <ptx/warp.h>
#include <utility>

namespace mezzo::ptx::detail {

/// op[0] = F(op[1], ...), D and A the types of the lanes.
template <class F, class D, class... A>
void apply_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    D* const to = warp.lanes<D>(instruction.op[0]);
    const auto from =
        std::make_tuple(static_cast<const A*>(warp.lanes<A>(instruction.op[I + 1]))...);
    // Registers are either the same or do not overlap, so lanes never depend on each other.
    if (mask == kAllLanes) {
#pragma GCC ivdep
      for (int lane = 0; lane < kLanes; ++lane) to[lane] = F::apply(std::get<I>(from)[lane]...);
    } else {
      alignas(64) D result[kLanes];
#pragma GCC ivdep
      for (int lane = 0; lane < kLanes; ++lane) result[lane] = F::apply(std::get<I>(from)[lane]...);
      for (int lane = 0; lane < kLanes; ++lane) {
        if (mask >> lane & 1) to[lane] = result[lane];
      }
    }
  }(std::index_sequence_for<A...>{});
}

template <class F, class T>
constexpr Execute unary = apply_lanes<F, T, T>;
template <class F, class T>
constexpr Execute binary = apply_lanes<F, T, T, T>;
template <class F, class T>
constexpr Execute ternary = apply_lanes<F, T, T, T, T>;

/// What arithmetic leaves of a NaN.
inline float canonical(float value) {
  return value == value ? value : std::bit_cast<float>(kNanF32);
}
inline double canonical(double value) { return value; }

inline float flush(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits & 0x7F800000u) ? bits : bits & 0x80000000u);
}
inline double flush(double value) { return value; }
template <class T>
T saturate(T value) {
  return value > T(0) ? (value < T(1) ? value : T(1)) : T(0);  // NaN and -0 become +0
}

/// `.ftz`: subnormal operands and results become zeros of their sign.
template <class F>
struct Flushed {
  template <class... T>
  static auto apply(T... values) {
    return flush(F::apply(flush(values)...));
  }
};
template <class F>
struct Saturated {
  template <class... T>
  static auto apply(T... values) {
    return saturate(F::apply(values...));
  }
};

/// Runs the lanes with another rounding of the host. Operands come from memory and results go
/// there, and the compiler moves no memory access across the barriers.
template <int kMode, class F, class D, class... A>
void apply_rounded(Warp& warp, const Instruction& instruction, Mask mask) {
  std::fesetround(kMode);
  asm volatile("" ::: "memory");
  apply_lanes<F, D, A...>(warp, instruction, mask);
  asm volatile("" ::: "memory");
  std::fesetround(FE_TONEAREST);
}

}  // namespace mezzo::ptx::detail
