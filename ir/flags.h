// SPDX-License-Identifier: Apache-2.0
// Flag words: one 32-bit word for each op that carries the attribute `word`, zeroed before a run.
// Kernels and the interpreter OR bits into it, the verdict reads them.
#pragma once

#include <cstdint>

namespace mezzo::ir {

enum class FlagBit : uint32_t {
  /// A result element is NaN or an infinity.
  NonFinite = 1 << 0,
  /// A finite f32 (for a cast: a finite source) became an infinity in a 16-bit result.
  Overflow = 1 << 1,
  /// The function was evaluated at a pole of the op table: x / 0, reciprocal(0), rsqrt(0), log(0),
  /// log1p(-1), pow(0, y < 0), atanh(1), lgamma(0) and so on.
  Pole = 1 << 2,
};

inline bool has_flag(uint32_t word, FlagBit bit) {
  return (word & static_cast<uint32_t>(bit)) != 0;
}

}  // namespace mezzo::ir
