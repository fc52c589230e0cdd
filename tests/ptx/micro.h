// SPDX-License-Identifier: Apache-2.0
// Runs single instructions over columns of operands and compares with plain C++: what the
// micro-tests share. Each launch goes through run_micro, so that a program can run all of them on
// another machine too (tests/gpu).
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
/// `header`: version and target, all that the interpreter knows if not given.
std::string program(const std::string& body, int parameters, const std::string& declarations = "",
                    const std::string& header = ".version 8.8\n.target sm_120a\n");

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

/// Elements of a buffer that a micro-test is about.
struct MicroResult {
  size_t buffer = 1;
  size_t offset = 0, stride = 4, count = 0;  // bytes, bytes from element to element, elements
  size_t width = 4;                          // bytes of an element, at most 8
  /// Elements that PTX does not define; the interpreter has chosen something.
  std::vector<size_t> open = {};
  /// By element how far apart two machines may be, where sums have no order; else empty.
  std::vector<double> slack = {};
};

/// A launch of a micro-test: an entry `k` whose parameters are the addresses of its buffers.
struct MicroLaunch {
  std::string op = {};    // the instruction that it is about
  std::string body = {};  // as in program()
  std::string declarations = {};
  Dim3 grid = {1, 1, 1}, block = {32, 1, 1};
  uint32_t dynamic_shared = 0;
  std::vector<std::vector<std::byte>> buffers = {};  // what they hold before
  Options options = {};
  /// What another machine must agree with; nothing where the test is about the interpreter alone.
  std::vector<MicroResult> results = {};
  std::vector<Column> operands = {};  // by element of the results, where it is one instruction
};

/// What the buffers hold behind it.
std::vector<std::vector<std::byte>> run_micro(const MicroLaunch& launch);

/// Is told of every launch that has results, under the default options of the interpreter or
/// another mode of mma, and of what the interpreter made of its buffers.
using MicroWatcher = std::function<void(const MicroLaunch& launch,
                                        const std::vector<std::vector<std::byte>>& after)>;
void watch_micro(MicroWatcher watcher);

/// Bytes of a buffer as elements and back.
template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}
template <class T>
std::span<const T> elements_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

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
