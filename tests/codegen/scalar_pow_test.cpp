// SPDX-License-Identifier: Apache-2.0
// Device function pow: bound, special values and 16-bit results.
#include <mezzo/codegen/scalar_functions.h>
#include <mezzo/ir/dtype.h>
#include <support/host_emitter.h>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

namespace mezzo::test {
namespace {

/// The largest error in steps of the result, over normal results of random x and y.
template <class T, class W>
double worst_pow(int count) {
  using Limits = std::numeric_limits<T>;
  using Bits = typename HostEmitter<T>::I;
  HostEmitter<T> e;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> near_one(0.5, 1.5);
  std::uniform_real_distribution<double> part(-1, 1);
  const double largest = std::log(Limits::max());
  double worst = 0;
  for (int i = 0; i < count; ++i) {
    T x =
        std::bit_cast<T>(static_cast<Bits>(random() >> 1 & std::numeric_limits<Bits>::max() >> 1));
    if (i % 2 == 0) x = static_cast<T>(near_one(random));
    if (!(x > 0) || std::isinf(x) || x == 1) continue;
    const T y = static_cast<T>(part(random) * largest / std::fabs(std::log(double(x))));
    const W want = std::pow(W(x), W(y));
    int exponent;
    std::frexp(want, &exponent);
    if (exponent < Limits::min_exponent || exponent > Limits::max_exponent - 1) continue;
    const W step = std::ldexp(W(1), exponent - Limits::digits);
    const W error = std::fabs(W(codegen::dev_pow(e, x, y)) - want) / step;
    worst = std::max(worst, static_cast<double>(error));
  }
  return worst;
}

TEST_CASE("pow is within four steps of the exact value") {
  const double narrow = worst_pow<float, double>(1 << 21);
  const double wide = worst_pow<double, long double>(1 << 19);
  std::printf("pow: worst %.3f ulp in f32, %.3f in f64, bound 4\n", narrow, wide);
  CHECK(narrow <= 4);
  CHECK(wide <= 4);
}

template <class T>
void check_pow_specials() {
  using Limits = std::numeric_limits<T>;
  HostEmitter<T> e;
  std::vector<T> values{0,
                        T(0.25),
                        T(0.5),
                        1,
                        2,
                        3,
                        4,
                        T(2.5),
                        T(1e6),
                        T(1e6 + 1),
                        1000,
                        Limits::denorm_min(),
                        T(1e300),
                        T(1e30),
                        Limits::min(),
                        Limits::max(),
                        Limits::infinity(),
                        Limits::quiet_NaN()};
  for (size_t i = 0, count = values.size(); i < count; ++i) values.push_back(-values[i]);
  for (T x : values) {
    for (T y : values) {
      const T got = codegen::dev_pow(e, x, y);
      const T want = std::pow(x, y);
      INFO("pow(", double(x), ", ", double(y), ") = ", double(got), ", not ", double(want));
      const bool near = std::isnan(want)
                            ? std::isnan(got)
                            : got == want || std::fabs(got / want - 1) < 8 * Limits::epsilon() ||
                                  std::fabs(got - want) <= Limits::denorm_min();
      CHECK(near);
      if (!std::isnan(want)) CHECK(std::signbit(got) == std::signbit(want));
    }
  }
}

TEST_CASE("pow has IEEE 754's special values") {
  check_pow_specials<float>();
  check_pow_specials<double>();
}

TEST_CASE("pow of every f16 is correctly rounded but for one in a thousand") {
  HostEmitter<float> e;
  for (float y : {0.5f, -0.5f, 1.5f, 2.0f, 3.0f, -1.0f, 0.1f}) {
    int misrounded = 0;
    for (uint32_t bits = 0; bits <= 0x7C00; ++bits) {
      const float x = ir::f16_to_f32(static_cast<uint16_t>(bits));
      const uint16_t got = ir::f32_to_f16(codegen::dev_pow(e, x, y));
      const uint16_t want = ir::f64_to_f16(std::pow(double(x), double(y)));
      misrounded += got != want;
    }
    std::printf("pow(f16, %g): %d of 31745 not correctly rounded\n", double(y), misrounded);
    CHECK(misrounded <= 31);
  }
}

}  // namespace
}  // namespace mezzo::test
