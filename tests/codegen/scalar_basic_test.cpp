// SPDX-License-Identifier: Apache-2.0
// Device functions that are exact: minimum, maximum, sign, mul0, predicates, remainder and floor
// division.
#include <mezzo/codegen/scalar_functions.h>
#include <support/host_emitter.h>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace mezzo::test {
namespace {

template <class T>
void check_same(T got, T want) {
  using Bits = typename HostEmitter<T>::I;
  INFO(double(got), " for ", double(want));
  if (std::isnan(want)) {
    CHECK(std::isnan(got));
  } else {
    CHECK(std::bit_cast<Bits>(got) == std::bit_cast<Bits>(want));
  }
}

TEST_CASE("maximum, minimum and clamp propagate NaN and order the zeros") {
  HostEmitter<float> e;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_same(codegen::dev_maximum(e, -0.0f, 0.0f), 0.0f);
  check_same(codegen::dev_maximum(e, 0.0f, -0.0f), 0.0f);
  check_same(codegen::dev_maximum(e, -0.0f, -0.0f), -0.0f);
  check_same(codegen::dev_minimum(e, -0.0f, 0.0f), -0.0f);
  check_same(codegen::dev_minimum(e, 0.0f, -0.0f), -0.0f);
  for (float other : {0.0f, 1.0f, std::numeric_limits<float>::infinity(), nan}) {
    check_same(codegen::dev_maximum(e, nan, other), nan);
    check_same(codegen::dev_maximum(e, other, nan), nan);
    check_same(codegen::dev_minimum(e, nan, other), nan);
    check_same(codegen::dev_minimum(e, other, nan), nan);
  }
  check_same(codegen::dev_maximum(e, 2.0f, 3.0f), 3.0f);
  check_same(codegen::dev_minimum(e, 2.0f, 3.0f), 2.0f);
  check_same(codegen::dev_clamp(e, 5.0f, -1.0f, 1.0f), 1.0f);
  check_same(codegen::dev_clamp(e, -5.0f, -1.0f, 1.0f), -1.0f);
  check_same(codegen::dev_clamp(e, nan, -1.0f, 1.0f), nan);
}

TEST_CASE("sign, mul0, round and the predicates have defined edges") {
  HostEmitter<double> e;
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  check_same(codegen::dev_sign(e, -0.0), -0.0);
  check_same(codegen::dev_sign(e, -inf), -1.0);
  check_same(codegen::dev_sign(e, nan), nan);
  check_same(codegen::dev_mul0(e, 0.0, inf), 0.0);
  check_same(codegen::dev_mul0(e, -0.0, nan), 0.0);
  check_same(codegen::dev_mul0(e, 2.0, 3.0), 6.0);
  check_same(codegen::dev_mul0(e, nan, 0.0), nan);
  check_same(codegen::dev_round(e, 2.5), 2.0);
  check_same(codegen::dev_round(e, -0.5), -0.0);
  CHECK(codegen::dev_isnan(e, nan));
  CHECK_FALSE(codegen::dev_isnan(e, inf));
  CHECK(codegen::dev_isinf(e, -inf));
  CHECK_FALSE(codegen::dev_isinf(e, nan));
  CHECK(codegen::dev_isfinite(e, 1e308));
  CHECK_FALSE(codegen::dev_isfinite(e, nan));
  CHECK(codegen::dev_ne(e, nan, nan));
  CHECK_FALSE(codegen::dev_le(e, nan, 1.0));
}

/// x - floor(x / y) y from the library's exact fmod.
template <class T>
T oracle_remainder(T x, T y) {
  T rest = std::fmod(x, y);
  if (rest != 0 && std::signbit(rest) != std::signbit(y)) rest += y;
  return rest == 0 ? std::copysign(T(0), y) : rest;
}

template <class T>
void check_remainder(int count) {
  using Bits = typename HostEmitter<T>::I;
  HostEmitter<T> e;
  std::mt19937_64 random(1);
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    const T x = std::bit_cast<T>(static_cast<Bits>(random()));
    T y = std::bit_cast<T>(static_cast<Bits>(random()));
    if (i % 2 == 0) y = x / static_cast<T>(static_cast<double>(random() % 4096) / 16);
    const T got = codegen::dev_remainder(e, x, y);
    const T want = oracle_remainder(x, y);
    wrong +=
        std::isnan(want) ? !std::isnan(got) : std::bit_cast<Bits>(got) != std::bit_cast<Bits>(want);
  }
  CHECK(wrong == 0);
}

TEST_CASE("remainder is exact for every ratio of its operands") {
  check_remainder<float>(200000);
  check_remainder<double>(50000);
}

TEST_CASE("remainder and floor division have defined edges") {
  HostEmitter<float> e;
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_same(codegen::dev_remainder(e, -1.0f, 3.0f), 2.0f);
  check_same(codegen::dev_remainder(e, 1.0f, -3.0f), -2.0f);
  check_same(codegen::dev_remainder(e, 6.0f, -3.0f), -0.0f);
  check_same(codegen::dev_remainder(e, 1.0f, 0.0f), nan);
  check_same(codegen::dev_remainder(e, inf, 2.0f), nan);
  check_same(codegen::dev_remainder(e, 2.0f, inf), 2.0f);
  check_same(codegen::dev_floor_div(e, -1.0f, 3.0f), -1.0f);
  check_same(codegen::dev_floor_div(e, 7.0f, 2.0f), 3.0f);
  check_same(codegen::dev_floor_div(e, 1.0f, 0.1f), 9.0f);  // 0.1f is above a tenth
  check_same(codegen::dev_floor_div(e, -0.0f, 3.0f), -0.0f);
  check_same(codegen::dev_floor_div(e, 1.0f, 0.0f), inf);
  check_same(codegen::dev_floor_div(e, 0.0f, 0.0f), nan);
}

TEST_CASE("floor division of f32 is the floor of the exact quotient") {
  HostEmitter<float> e;
  std::mt19937_64 random(2);
  std::uniform_real_distribution<float> uniform(-1000, 1000);
  int wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    const float y = uniform(random);
    const float x = i % 2 == 0 ? uniform(random) : y * static_cast<float>(random() % 1000);
    const double rest = oracle_remainder<double>(x, y);  // exact in f64, as is x - rest here
    const double want = std::nearbyint((static_cast<double>(x) - rest) / y);
    wrong += codegen::dev_floor_div(e, x, y) != static_cast<float>(want);
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace mezzo::test
