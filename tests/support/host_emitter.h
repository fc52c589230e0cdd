// SPDX-License-Identifier: Apache-2.0
// The emitter that computes at once, on the host's own float or double: it makes a device function
// an ordinary function for tests. Compile with -ffp-contract=off.
#pragma once

#include <mezzo/codegen/scalar_emitter.h>

#include <array>
#include <bit>
#include <cmath>
#include <type_traits>

namespace mezzo::test {

template <class T>
struct HostEmitter {
  using F = T;
  using I = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using B = bool;

  int width() const { return 8 * sizeof(T); }
  F constant(double value) { return static_cast<F>(value); }
  I iconstant(int64_t value) { return static_cast<I>(value); }
  F add(F x, F y) { return x + y; }
  F sub(F x, F y) { return x - y; }
  F mul(F x, F y) { return x * y; }
  F div(F x, F y) { return x / y; }
  F fma(F x, F y, F z) { return std::fma(x, y, z); }
  F neg(F x) { return -x; }
  F abs(F x) { return std::fabs(x); }
  F sqrt(F x) { return std::sqrt(x); }
  F floor(F x) { return std::floor(x); }
  F ceil(F x) { return std::ceil(x); }
  F trunc(F x) { return std::trunc(x); }
  F round_even(F x) { return std::nearbyint(x); }
  B lt(F x, F y) { return x < y; }
  B le(F x, F y) { return x <= y; }
  B gt(F x, F y) { return x > y; }
  B ge(F x, F y) { return x >= y; }
  B eq(F x, F y) { return x == y; }
  B ne(F x, F y) { return x != y; }
  B band(B x, B y) { return x && y; }
  B bor(B x, B y) { return x || y; }
  B bnot(B x) { return !x; }
  F select(B b, F x, F y) { return b ? x : y; }
  I to_bits(F x) { return std::bit_cast<I>(x); }
  F from_bits(I i) { return std::bit_cast<F>(i); }
  I iadd(I i, I j) { return i + j; }
  I isub(I i, I j) { return i - j; }
  I iand(I i, I j) { return i & j; }
  I ior(I i, I j) { return i | j; }
  I ixor(I i, I j) { return i ^ j; }
  I ishl(I i, int bits) { return i << bits; }
  I ilshr(I i, int bits) { return i >> bits; }
  I umul32_low(I i, I j) { return static_cast<uint32_t>(i * j); }
  I umul32_high(I i, I j) { return (uint64_t{i} * uint64_t{j}) >> 32; }
  template <size_t N, class Make>
  std::array<F, N> rare(B b, const std::array<F, N>& values, Make make) {
    return b ? make() : values;
  }
};

static_assert(codegen::ScalarEmitter<HostEmitter<float>>);
static_assert(codegen::ScalarEmitter<HostEmitter<double>>);

}  // namespace mezzo::test
