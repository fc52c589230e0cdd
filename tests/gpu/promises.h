// SPDX-License-Identifier: Apache-2.0
// What PTX promises of an instruction: the bits, or a distance from the exact value, by the manual
// (PTX ISA 8.8, sections of the instructions).
#pragma once

#include <cstdint>
#include <ptx/micro.h>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::gpu {

/// How the bits of a result are read: floats have more than one NaN, pairs have two parts.
enum class Reading : uint8_t { Bits, F32, F64, F16, Bf16, F16Pair, Bf16Pair, F32Pair };

struct Promise {
  Reading reading = Reading::Bits;
  /// The distance from the correctly rounded value is at most all of these together, units counted
  /// in the last place of that value. All 0: the same bits, but for NaN.
  double ulps = 0, relative = 0, absolute = 0;
  bool exact() const { return ulps == 0 && relative == 0 && absolute == 0; }
};

/// `add.rn.f32` of an instruction with its operands, without its guard; the text as it is of
/// several instructions.
std::string opcode_of(std::string_view text);

/// Of an instruction for operands a, b, c.
Promise promise_of(std::string_view opcode, std::span<const uint64_t> operands);

/// Whether the manual says nothing about the result for these operands: quotients by 0, angles too
/// large for an approximation.
bool leaves_open(std::string_view opcode, std::span<const uint64_t> operands);

struct Distance {
  bool same = false;  // equal, or both NaN
  double error = 0;   // as a share of what is allowed; above 1: broken. 0 or infinite if exact
  double ulps = 0;    // of the type, for floats
};
/// `slack`: absolute, in place of the promise where it is not negative.
Distance distance(uint64_t got, uint64_t wanted, const Promise& promise, double slack = -1);

}  // namespace mezzo::gpu
