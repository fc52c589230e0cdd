// SPDX-License-Identifier: Apache-2.0
// Sizes that a program asks for may be any numbers. What is computed from them before a shape is
// made stays at the nearest number of 64 bits, which no shape accepts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace mezzo::ir {

/// add_n of more terms is a sum of sums of at most as many, of consecutive terms, and so on.
inline constexpr size_t kTermsOfSum = 128;

/// No tile, task count or buffer of a plan is larger, so that sums of a few cannot overflow.
inline constexpr int64_t kMostOfPlan = int64_t{1} << 59;

/// The most that a slice may step along an axis, so that no index overflows. Every step from the
/// length on takes the first element alone.
inline int64_t greatest_step(int64_t length) { return std::max(length, int64_t{1} << 30); }

inline int64_t saturated_product(int64_t a, int64_t b) {
  using Limits = std::numeric_limits<int64_t>;
  int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out)) return out;
  return (a < 0) == (b < 0) ? Limits::max() : Limits::min();
}

inline int64_t saturated_sum(int64_t a, int64_t b) {
  using Limits = std::numeric_limits<int64_t>;
  int64_t out = 0;
  if (!__builtin_add_overflow(a, b, &out)) return out;
  return a < 0 ? Limits::min() : Limits::max();
}

inline int64_t saturated_difference(int64_t a, int64_t b) {
  using Limits = std::numeric_limits<int64_t>;
  int64_t out = 0;
  if (!__builtin_sub_overflow(a, b, &out)) return out;
  return a < 0 ? Limits::min() : Limits::max();
}

}  // namespace mezzo::ir
