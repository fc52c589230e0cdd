// SPDX-License-Identifier: Apache-2.0
// Runs single instructions over columns of operands and compares with plain C++: what the
// micro-tests share.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <ptx/interpreter.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::ptx::test {

using Column = std::vector<uint64_t>;

/// A whole program around `body`: `.entry k` with the parameters `p0`, `p1`, ... of 64 bits.
std::string program(const std::string& body, int parameters, const std::string& declarations = "");

/// Bytes of parameters of 64 bits.
std::vector<std::byte> parameter_bytes(std::initializer_list<uint64_t> values);

/// Device memory of `count` elements of T.
template <class T>
struct Buffer {
  DeviceMemory& memory;
  Address address;
  size_t count;
  Buffer(DeviceMemory& memory, size_t count)
      : memory(memory), address(memory.allocate(count * sizeof(T)).value()), count(count) {}
  ~Buffer() { memory.free(address); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::span<T> host() { return {reinterpret_cast<T*>(memory.host(address)), count}; }
  T& operator[](size_t i) { return host()[i]; }
};

/// Runs `text`, one or more instructions, for each element of the inputs. The signature is a list
/// of widths, results and inputs: `4p:44` has the registers %d of 4 bytes and the predicate %q as
/// results, %a and %b as inputs; further inputs are %c and %e. Predicates are 0 or 1.
std::vector<Column> evaluate(const std::string& text, std::string_view signature,
                             const std::vector<Column>& inputs);

/// Operands for inputs of these kinds, special values against each other and random ones:
/// f f32, d f64, h f16, b bf16, H and B pairs of them, w pairs of f32, i integers of the width,
/// n small numbers, p predicates.
std::vector<Column> operands(std::string_view kinds, std::string_view widths);

using Reference = std::function<uint64_t(uint64_t a, uint64_t b, uint64_t c)>;

enum class Compare : uint8_t {
  Bits,
  F32,
  F64,  // a NaN equals every NaN; else as many units in the last place as are allowed
};

/// The first result of `text` for all operands against the reference; once with all lanes, once
/// under a guard that leaves out every third lane, whose results have to stay as they were.
void check_op(const std::string& text, std::string_view signature, std::string_view kinds,
              const Reference& reference, Compare compare = Compare::Bits, double ulps = 0);

inline float f32(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
inline double f64(uint64_t bits) { return std::bit_cast<double>(bits); }
/// Bits; of a NaN those that PTX's arithmetic returns.
inline uint64_t bits(float value) {
  return std::isnan(value) ? 0x7FFFFFFFu : std::bit_cast<uint32_t>(value);
}
inline uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }

/// f16 and bf16 by a table of all their values, in order: nothing in common with the interpreter's.
enum class Half : uint8_t { F16, Bf16 };
double widen(uint64_t bits, Half kind);
enum class Toward : uint8_t { Nearest, Zero, Down, Up };
/// The neighbour of `exact` that the rounding names; a NaN is 0x7FFF.
uint64_t narrow(long double exact, Half kind, Toward toward = Toward::Nearest);

}  // namespace mezzo::ptx::test
