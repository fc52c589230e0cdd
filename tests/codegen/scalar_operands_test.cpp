// SPDX-License-Identifier: Apache-2.0
// Device functions of two and three operands against the oracle's scalars: exactly rounded ones to
// the bit, the others in units in the last place; at all pairs (triples) of edges and on random
// numbers of every exponent.
#include <mezzo/codegen/scalar_functions.h>
#include <mezzo/ir/host_activation.h>
#include <mezzo/ir/host_division.h>
#include <support/host_emitter.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

namespace mezzo::test {
namespace {

struct Function {
  const char* name;
  int operands;
  bool exact;
  bool sum;  // a zero of it has no sign to rely on
  float (*f32)(float, float, float);
  double (*f64)(double, double, double);
  double (*oracle)(double, double, double);
};

template <class T, class D>
T on_host(D function, T x, T y, T z) {
  HostEmitter<T> e;
  return function(e, x, y, z);
}

#define FUNCTION(name, operands, exact, sum, device, host)                                       \
  {name,                                                                                         \
   operands,                                                                                     \
   exact,                                                                                        \
   sum,                                                                                          \
   [](float a, float b, float c) {                                                               \
     return on_host<float>(                                                                      \
         [](auto& e, auto x, auto y, [[maybe_unused]] auto z) { return codegen::device; }, a, b, \
         c);                                                                                     \
   },                                                                                            \
   [](double a, double b, double c) {                                                            \
     return on_host<double>(                                                                     \
         [](auto& e, auto x, auto y, [[maybe_unused]] auto z) { return codegen::device; }, a, b, \
         c);                                                                                     \
   },                                                                                            \
   [](double x, double y, [[maybe_unused]] double z) -> double { return host; }}

const Function kFunctions[] = {
    FUNCTION("floor_div", 2, true, false, dev_floor_div(e, x, y), ir::host_floor_div(x, y)),
    FUNCTION("remainder", 2, true, false, dev_remainder(e, x, y), ir::host_remainder(x, y)),
    FUNCTION("leaky_relu", 2, true, false, dev_leaky_relu(e, x, y), x > 0 ? x : x * y),
    FUNCTION("clamp", 3, true, false, dev_clamp(e, x, y, z),
             ir::host_minimum(ir::host_maximum(x, y), z)),
    FUNCTION("lerp", 3, false, true, dev_lerp(e, x, y, z), ir::host_lerp(x, y, z)),
    FUNCTION("xlogy", 2, false, false, dev_xlogy(e, x, y), ir::host_xlogy(x, y)),
    FUNCTION("xlog1py", 2, false, false, dev_xlog1py(e, x, y), ir::host_xlog1py(x, y)),
    FUNCTION("elu", 2, false, false, dev_elu(e, x, y), ir::host_elu(x, y)),
    FUNCTION("celu", 2, false, false, dev_celu(e, x, y), ir::host_celu(x, y)),
};

template <class T>
std::vector<T> edges() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           Limits::denorm_min(),
                           3 * Limits::denorm_min(),
                           Limits::min(),
                           T(0.5),
                           1,
                           T(1.5),
                           3,
                           1 / Limits::epsilon(),
                           std::sqrt(Limits::max()),
                           Limits::max(),
                           Limits::infinity(),
                           Limits::quiet_NaN()};
  for (size_t i = 0, end = values.size(); i < end; ++i) values.push_back(-values[i]);
  return values;
}

/// The largest error in units in the last place; what is NaN, infinite or 0 must agree, zeros and
/// infinities in sign.
template <class T, class F>
double worst_error(const Function& function, F device, int count) {
  using Limits = std::numeric_limits<T>;
  using Bits = typename HostEmitter<T>::I;
  double worst = 0;
  const auto check = [&](T x, T y, T z) {
    const T got = device(x, y, z);
    const double want = function.oracle(x, y, z);
    const T rounded = static_cast<T>(want);
    if (std::isnan(want) && std::isnan(got)) return;
    if (got == rounded && std::signbit(got) == std::signbit(rounded)) return;
    INFO(function.name, "(", double(x), ", ", double(y), ", ", double(z), ") = ", double(got),
         ", not ", want);
    REQUIRE(std::isfinite(got));
    REQUIRE(std::isfinite(rounded));
    if (want == 0 && got == 0) CHECK(function.sum);
    const int exponent =
        want == 0 ? Limits::min_exponent : std::max(std::ilogb(want) + 1, Limits::min_exponent);
    const double step = std::ldexp(1.0, exponent - Limits::digits);
    worst = std::max(worst, std::fabs(double(got) - want) / step);
  };
  const std::vector<T> values = edges<T>();
  for (T x : values)
    for (T y : values)
      for (T z : values) {
        check(x, y, z);
        if (function.operands == 2) break;
      }
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(-4, 4);
  for (int i = 0; i < count; ++i) {
    const T x = std::bit_cast<T>(static_cast<Bits>(random()));
    const T y = std::bit_cast<T>(static_cast<Bits>(random()));
    check(x, y, std::bit_cast<T>(static_cast<Bits>(random())));
    const T small = static_cast<T>(uniform(random));
    check(x, x / small, small / 4);
    check(static_cast<T>(20 * uniform(random)), small, static_cast<T>(uniform(random)));
    // Whole numbers and eighths: exact quotients, and equal numbers.
    check(std::round(8 * small), std::round(static_cast<T>(uniform(random))), T(0.125));
    // Quotients about where they fill the mantissa.
    check(std::ldexp(small, Limits::digits - 8 + i % 16), static_cast<T>(uniform(random)), small);
  }
  return worst;
}

TEST_CASE("functions of several operands are exact or within their bound, edges as the oracle's") {
  for (const Function& function : kFunctions) {
    const double narrow = worst_error<float>(function, function.f32, 1 << 16);
    const double wide = worst_error<double>(function, function.f64, 1 << 16);
    std::printf("%-10s worst %.3f ulp in f32, %.3f in f64\n", function.name, narrow, wide);
    CHECK(narrow <= (function.exact ? 0 : 2));
    CHECK(wide <= (function.exact ? 0 : 4));
  }
}

/// a mod b of a = m 2^shift, by squaring and multiplying in integers.
uint64_t modulo(uint64_t m, int shift, uint64_t b) {
  __extension__ typedef unsigned __int128 Wide;
  Wide rest = m % b;
  for (; shift > 0; --shift) rest = 2 * rest % b;
  return static_cast<uint64_t>(rest);
}

TEST_CASE("remainders are exact however far the exponents are apart") {
  HostEmitter<float> narrow;
  HostEmitter<double> wide;
  std::mt19937_64 random(3);
  for (int shift = 0; shift <= 970; ++shift)
    for (int i = 0; i < 20; ++i) {
      const uint64_t a = (random() >> 11) | 1, b = (random() >> (11 + random() % 50)) | 1;
      const double want = static_cast<double>(modulo(a, shift, b));
      CHECK(codegen::dev_remainder(wide, std::ldexp(double(a), shift), double(b)) == want);
      // To the smallest numbers of the type.
      CHECK(codegen::dev_remainder(wide, std::ldexp(double(a), shift - 1074),
                                   std::ldexp(double(b), -1074)) == std::ldexp(want, -1074));
      if (shift > 100) continue;
      const uint64_t c = a >> 29, d = (b >> 29) | 1;
      const auto rest = static_cast<float>(modulo(c, shift, d));
      CHECK(codegen::dev_remainder(narrow, std::ldexp(float(c), shift), float(d)) == rest);
      CHECK(codegen::dev_remainder(narrow, std::ldexp(float(c), shift - 149),
                                   std::ldexp(float(d), -149)) == std::ldexp(rest, -149));
    }
}

TEST_CASE("the oracle's quotients are the floor of the exact ones") {
  __extension__ typedef __int128 Wide;
  std::mt19937_64 random(5);
  for (int shift = 0; shift < 74; ++shift)
    for (int i = 0; i < 200; ++i) {
      const auto a = static_cast<int64_t>(random() >> 11);
      const auto b = static_cast<int64_t>(random() >> (11 + random() % 53));
      if (b == 0) continue;
      const Wide scaled = Wide{a} << shift, quotient = scaled / b, rest = scaled % b;
      const double x = std::ldexp(double(a), shift), y = double(b);
      CHECK(ir::host_floor_div(x, y) == double(quotient));
      CHECK(ir::host_floor_div(-x, y) == double(-quotient - (rest != 0)));
      CHECK(ir::host_floor_div(-x, -y) == double(quotient));
    }
}

}  // namespace
}  // namespace mezzo::test
