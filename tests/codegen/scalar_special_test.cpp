// SPDX-License-Identifier: Apache-2.0
// Trigonometric, hyperbolic, root and gamma functions: their exact values at edges, large arguments
// of sine and cosine, and the functions of two operands.
#include <mezzo/codegen/scalar_functions.h>
#include <mezzo/ir/host_scalar.h>
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

template <class T>
void same(T got, T want) {
  INFO(double(got), " for ", double(want));
  if (std::isnan(want)) {
    CHECK(std::isnan(got));
    return;
  }
  using Bits = typename HostEmitter<T>::I;
  CHECK(std::bit_cast<Bits>(got) == std::bit_cast<Bits>(want));
}

template <class T>
void check_edges() {
  HostEmitter<T> e;
  const T inf = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T tiny = std::numeric_limits<T>::denorm_min();
  const T zero = 0, minus_zero = -zero;

  // Odd functions keep the sign of zero and give the smallest number itself.
  for (T x : {zero, minus_zero, tiny, -tiny}) {
    same(codegen::dev_sin(e, x), x);
    same(codegen::dev_tan(e, x), x);
    same(codegen::dev_asin(e, x), x);
    same(codegen::dev_atan(e, x), x);
    same(codegen::dev_sinh(e, x), x);
    same(codegen::dev_asinh(e, x), x);
    same(codegen::dev_atanh(e, x), x);
    same(codegen::dev_cos(e, x), T(1));
    same(codegen::dev_cosh(e, x), T(1));
    same(codegen::dev_exp2(e, x), T(1));
    same(codegen::dev_erfc(e, x), T(1));
    same(codegen::dev_digamma(e, x), -1 / x);
    same(codegen::dev_trigamma(e, x), inf);
  }
  same(codegen::dev_cbrt(e, minus_zero), minus_zero);
  for (T x : {inf, -inf}) {
    same(codegen::dev_sin(e, x), nan);
    same(codegen::dev_cos(e, x), nan);
    same(codegen::dev_tan(e, x), nan);
    same(codegen::dev_asin(e, x), nan);
    same(codegen::dev_acos(e, x), nan);
    same(codegen::dev_atanh(e, x), nan);
    same(codegen::dev_sinh(e, x), x);
    same(codegen::dev_cosh(e, x), inf);
    same(codegen::dev_asinh(e, x), x);
    same(codegen::dev_cbrt(e, x), x);
    same(codegen::dev_lgamma(e, x), inf);
  }
  same(codegen::dev_asin(e, T(2)), nan);
  same(codegen::dev_acos(e, T(-2)), nan);
  same(codegen::dev_acos(e, T(1)), zero);
  same(codegen::dev_atan(e, inf), static_cast<T>(std::acos(0.0L)));
  same(codegen::dev_acosh(e, T(1)), zero);
  same(codegen::dev_acosh(e, T(0.5)), nan);
  same(codegen::dev_acosh(e, -inf), nan);
  same(codegen::dev_acosh(e, inf), inf);
  same(codegen::dev_atanh(e, T(1)), inf);
  same(codegen::dev_atanh(e, T(-1)), -inf);
  same(codegen::dev_atanh(e, T(2)), nan);
  same(codegen::dev_exp2(e, -inf), zero);
  same(codegen::dev_exp2(e, inf), inf);
  same(codegen::dev_log2(e, zero), -inf);
  same(codegen::dev_log2(e, T(-1)), nan);
  same(codegen::dev_log2(e, tiny), static_cast<T>(std::log2(tiny)));
  same(codegen::dev_log10(e, minus_zero), -inf);
  same(codegen::dev_log10(e, inf), inf);
  same(codegen::dev_erfc(e, inf), zero);
  same(codegen::dev_erfc(e, -inf), T(2));
  same(codegen::dev_lgamma(e, zero), inf);
  same(codegen::dev_lgamma(e, minus_zero), inf);
  same(codegen::dev_lgamma(e, T(1)), zero);
  same(codegen::dev_lgamma(e, T(2)), zero);
  same(codegen::dev_lgamma(e, T(-3)), inf);
  same(codegen::dev_lgamma(e, std::numeric_limits<T>::max()), inf);
  same(codegen::dev_digamma(e, T(-1)), nan);
  same(codegen::dev_digamma(e, -inf), nan);
  same(codegen::dev_digamma(e, inf), inf);
  same(codegen::dev_trigamma(e, T(-4)), inf);
  same(codegen::dev_trigamma(e, inf), zero);
  same(codegen::dev_trigamma(e, -inf), nan);
}

TEST_CASE("edges of the trigonometric, hyperbolic, root and gamma functions are exact") {
  check_edges<float>();
  check_edges<double>();
}

TEST_CASE("powers of two have exact logarithms and are exact powers") {
  HostEmitter<float> narrow;
  HostEmitter<double> wide;
  for (int n = -1074; n < 1024; ++n) {
    CHECK(codegen::dev_log2(wide, std::ldexp(1.0, n)) == n);
    CHECK(codegen::dev_exp2(wide, double(n)) == std::ldexp(1.0, n));
    if (n < -149 || n > 127) continue;
    CHECK(codegen::dev_log2(narrow, std::ldexp(1.0f, n)) == float(n));
    CHECK(codegen::dev_exp2(narrow, float(n)) == std::ldexp(1.0f, n));
  }
}

/// Errors of sine and cosine in steps over every exponent above 2^17, in which the nearest
/// multiples of pi / 2 are among the inputs.
template <class T, class W>
double worst_far_reduction(int count) {
  using Limits = std::numeric_limits<T>;
  HostEmitter<T> e;
  std::mt19937_64 random(1);
  double worst = 0;
  const auto check = [&](T x) {
    for (auto [got, want] : {std::pair(codegen::dev_sin(e, x), std::sin(W(x))),
                             std::pair(codegen::dev_cos(e, x), std::cos(W(x)))}) {
      const W step = std::ldexp(W(1), std::ilogb(want) - Limits::digits + 1);
      worst = std::max(worst, static_cast<double>(std::fabs(W(got) - want) / step));
    }
  };
  std::uniform_real_distribution<double> mantissa(1, 2);
  for (int exponent = 17; exponent < Limits::max_exponent; ++exponent)
    for (int i = 0; i < count; ++i) check(std::ldexp(static_cast<T>(mantissa(random)), exponent));
  for (int quarters = 1; quarters < count; ++quarters) {
    const W multiple = std::acos(W(-1)) / 2 * quarters * 83443;
    check(static_cast<T>(multiple));
  }
  return worst;
}

TEST_CASE("sine and cosine are within their bound however large the argument") {
  const double narrow = worst_far_reduction<float, double>(2000);
  const double wide = worst_far_reduction<double, long double>(200);
  // The f32 and the f64 next to a multiple of pi / 2.
  HostEmitter<float> f;
  HostEmitter<double> d;
  const float near_f = 16367173.0f * 0x1p72f;
  const double near_d = 6381956970095103.0 * 0x1p797;
  const double want_f = std::cos(double(near_f));
  const auto want_d = std::cos(static_cast<long double>(near_d));
  CHECK(std::fabs(codegen::dev_cos(f, near_f) / want_f - 1) < 0x1p-22);
  CHECK(std::fabs(codegen::dev_cos(d, near_d) / want_d - 1) < 0x1p-50);
  std::printf("sin, cos beyond 2^17: worst %.3f ulp in f32, %.3f in f64\n", narrow, wide);
  CHECK(narrow <= 2);
  CHECK(wide <= 4);
}

/// A function of two operands and its oracle; `terms` is what the result may be the difference of.
template <class T, class W>
struct Binary {
  const char* name;
  T (*function)(T, T);
  W (*oracle)(W, W);
  W (*terms)(W, W);
};

template <class T, class W>
std::vector<Binary<T, W>> binaries() {
  constexpr auto none = [](W, W) { return W(0); };
  return {
      {"atan2",
       [](T y, T x) {
         HostEmitter<T> e;
         return codegen::dev_atan2(e, y, x);
       },
       [](W y, W x) { return std::atan2(y, x); }, none},
      {"hypot",
       [](T x, T y) {
         HostEmitter<T> e;
         return codegen::dev_hypot(e, x, y);
       },
       [](W x, W y) { return std::hypot(x, y); }, none},
      {"logaddexp",
       [](T x, T y) {
         HostEmitter<T> e;
         return codegen::dev_logaddexp(e, x, y);
       },
       [](W x, W y) {
         if (x == y) return x + std::log(W(2));
         const W sum = std::isnan(x) || std::isnan(y) ? x + y : std::max(x, y);
         return sum + std::log1p(std::exp(-std::fabs(x - y)));
       },
       [](W x, W y) { return std::max(-std::max(x, y), W(0)); }},
  };
}

/// The largest error in steps of the result or of its terms; edges must agree in sign and class.
template <class T, class W>
double worst_binary(const Binary<T, W>& each, int count) {
  using Limits = std::numeric_limits<T>;
  using Bits = typename HostEmitter<T>::I;
  double worst = 0;
  const auto check = [&](T x, T y) {
    const T got = each.function(x, y);
    const W want = each.oracle(W(x), W(y));
    INFO(each.name, "(", double(x), ", ", double(y), ") = ", double(got), ", not ", double(want));
    const T rounded = static_cast<T>(want);
    if (std::isnan(want)) CHECK(std::isnan(got));
    if (std::isnan(want) || got == rounded) {
      if (want == 0) CHECK(std::signbit(got) == std::signbit(want));
      return;
    }
    REQUIRE_FALSE(std::isnan(got));
    REQUIRE_FALSE(std::isinf(want));
    const W size = std::max(std::fabs(want), each.terms(W(x), W(y)));
    const int exponent = std::max(std::ilogb(size) + 1, Limits::min_exponent);
    const W reached = std::isinf(got) ? std::ldexp(W(1), Limits::max_exponent) : W(got);
    const W error = std::fabs(reached - want) / std::ldexp(W(1), exponent - Limits::digits);
    worst = std::max(worst, static_cast<double>(error));
  };
  std::vector<T> edges = {0,
                          Limits::denorm_min(),
                          Limits::min(),
                          T(0.5),
                          1,
                          2,
                          std::sqrt(Limits::min()),
                          std::sqrt(Limits::max()),
                          Limits::max() / 2,
                          Limits::max(),
                          Limits::infinity(),
                          Limits::quiet_NaN()};
  for (size_t i = 0, end = edges.size(); i < end; ++i) edges.push_back(-edges[i]);
  for (T x : edges)
    for (T y : edges) check(x, y);
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(-4, 4);
  for (int i = 0; i < count; ++i) {
    const T x = std::bit_cast<T>(static_cast<Bits>(random()));
    check(x, std::bit_cast<T>(static_cast<Bits>(random())));
    check(x, static_cast<T>(x * uniform(random)));
    check(static_cast<T>(uniform(random)), static_cast<T>(uniform(random)));
  }
  return worst;
}

TEST_CASE("functions of two operands are within their bound and have the edges of the library") {
  for (size_t i = 0; i < 3; ++i) {
    const double narrow = worst_binary(binaries<float, double>()[i], 1 << 18);
    const double wide = worst_binary(binaries<double, long double>()[i], 1 << 16);
    const char* name = binaries<float, double>()[i].name;
    std::printf("%s: worst %.3f ulp in f32, %.3f in f64\n", name, narrow, wide);
    CHECK(narrow <= 2);
    CHECK(wide <= 4);
  }
}

TEST_CASE("atan2, hypot and logaddexp of infinities") {
  HostEmitter<float> e;
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  same(codegen::dev_hypot(e, inf, nan), inf);
  same(codegen::dev_hypot(e, nan, -inf), inf);
  same(codegen::dev_hypot(e, nan, 1.0f), nan);
  same(codegen::dev_logaddexp(e, -inf, -inf), -inf);
  same(codegen::dev_logaddexp(e, inf, inf), inf);
  same(codegen::dev_logaddexp(e, inf, -inf), inf);
  same(codegen::dev_logaddexp(e, -inf, 1.5f), 1.5f);
  same(codegen::dev_logaddexp(e, -1.0f, nan), nan);
  same(codegen::dev_atan2(e, 0.0f, 0.0f), 0.0f);
  same(codegen::dev_atan2(e, -0.0f, 0.0f), -0.0f);
  same(codegen::dev_atan2(e, -0.0f, -0.0f), static_cast<float>(-std::acos(-1.0)));
  same(codegen::dev_atan2(e, 1.0f, inf), 0.0f);
  same(codegen::dev_atan2(e, inf, -inf), static_cast<float>(0.75 * std::acos(-1.0)));
}

}  // namespace
}  // namespace mezzo::test
