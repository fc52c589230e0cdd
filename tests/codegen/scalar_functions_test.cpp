// SPDX-License-Identifier: Apache-2.0
// Accuracy of the device functions of one operand, by a table: f32 against the f64 library, f64
// against the extended library, and every f16 and bf16 input with the result rounded once.
#include <mezzo/codegen/scalar_functions.h>

#include <mezzo/ir/dtype.h>
#include <mezzo/ir/host_scalar.h>
#include <support/host_emitter.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

namespace mezzo::test {
namespace {

using ir::DType;

// The oracles, on the next wider type.
template <class W>
W oracle_sigmoid(W x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

template <class W>
W oracle_softplus(W x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

template <class W>
W oracle_log_sigmoid(W x) {
  return -oracle_softplus(-x);
}

template <class W>
W oracle_rsqrt(W x) {
  return 1 / std::sqrt(x);
}

template <class W>
W oracle_cdf(W x) {
  return std::erfc(-x / std::numbers::sqrt2_v<W>) / 2;
}

template <class W>
W oracle_density(W x) {
  return std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<W> / std::numbers::sqrt2_v<W>;
}

template <class W>
W oracle_gelu(W x) {
  return x == -std::numeric_limits<W>::infinity() ? W(-0.0) : x * oracle_cdf(x);
}

template <class W>
W oracle_gelu_grad(W x) {
  return std::isinf(x) ? W(x > 0) : oracle_cdf(x) + x * oracle_density(x);
}

/// x times the logistic function of u.
template <class W>
W oracle_gated(W x, W u) {
  if (std::isinf(x)) return x > 0 ? x : W(-0.0);
  return u < 0 ? x * std::exp(u) / (1 + std::exp(u)) : x / (1 + std::exp(-u));
}

template <class W>
W oracle_silu(W x) {
  return oracle_gated(x, x);
}

template <class W>
W oracle_gelu_tanh(W x) {
  const W factor = 2 * std::numbers::sqrt2_v<W> * std::numbers::inv_sqrtpi_v<W>;
  return oracle_gated(x, factor * (x + W(0.044715L) * x * x * x));
}

template <class W>
W oracle_mish(W x) {
  if (std::isinf(x)) return x > 0 ? x : W(-0.0);
  return x * std::tanh(oracle_softplus(x));
}

template <class W>
W oracle_selu(W x) {
  const W scale = W(1.0507009873554804934193349852946L);
  return scale * (x > 0 ? x : W(1.6732632423543772848170429916717L) * std::expm1(x));
}

template <class W>
W oracle_softsign(W x) {
  return std::isinf(x) ? std::copysign(W(1), x) : x / (1 + std::fabs(x));
}

template <class W>
W oracle_hard_sigmoid(W x) {
  return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
}

template <class W>
W oracle_hard_swish(W x) {
  return x <= -3 ? W(-0.0) : x >= 3 ? x : x * (x + 3) / 6;
}

template <class W>
W oracle_lgamma(W x) {
  int sign = 0;
  return static_cast<W>(::lgammal_r(x, &sign));
}

constexpr long double kPi = std::numbers::pi_v<long double>;

/// y less the nearest integer.
template <class W>
long double to_integer(W y) {
  return static_cast<long double>(y) - std::nearbyint(static_cast<long double>(y));
}

template <class W>
W oracle_digamma(W x) {
  if (x == 0) return -1 / x;
  if (x > 0) return std::isinf(x) ? x : static_cast<W>(ir::host_digamma_positive(x));
  const long double f = to_integer(-x);
  if (x <= W(-0.5) && f == 0) return std::numeric_limits<W>::quiet_NaN();
  return static_cast<W>(ir::host_digamma_positive(1 - static_cast<long double>(x)) +
                        kPi / std::tan(kPi * f));
}

template <class W>
W oracle_trigamma(W x) {
  if (x > 0) return std::isinf(x) ? 0 : static_cast<W>(ir::host_trigamma_positive(x));
  const long double sine = std::sin(kPi * to_integer(x));
  if (sine == 0) return std::numeric_limits<W>::infinity();
  const long double pole = kPi / sine;
  return static_cast<W>(pole * pole - ir::host_trigamma_positive(1 - static_cast<long double>(x)));
}

/// Steps of the format of T at `value`.
template <class T, class W>
W step_at(W value) {
  using Limits = std::numeric_limits<T>;
  int exponent = Limits::min_exponent;
  if (value != 0) std::frexp(value, &exponent);
  return std::ldexp(W(1), std::max(exponent, Limits::min_exponent) - Limits::digits);
}

/// |got - want| in steps of `want`; infinity where one is NaN or infinite and the other is not.
template <class T, class W>
double steps_between(T got, W want) {
  if (std::isnan(want) || std::isnan(got)) {
    return std::isnan(want) && std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  }
  if (std::isinf(static_cast<T>(want)) && got == static_cast<T>(want)) return 0;
  if (std::isinf(want)) return std::numeric_limits<double>::infinity();
  // An overflow counts as the power of two above the largest value.
  const W value =
      std::isinf(got)
          ? std::copysign(std::ldexp(W(1), std::numeric_limits<T>::max_exponent), W(got))
          : W(got);
  return static_cast<double>(std::fabs(value - want) / step_at<T, W>(want));
}

/// Bound of |error| other than by steps, or 0: GELU and its derivative below -1, where the tail is
/// small; lgamma and digamma where they are a difference of terms with other zeros.
template <class W>
using ErrorBound = W (*)(W x, W roundoff);

template <class W>
W no_bound(W, W) {
  return 0;
}

template <class W>
W gelu_bound(W x, W roundoff) {
  return x >= -1 ? 0 : 4 * roundoff * -x * std::max(oracle_cdf(x), roundoff);
}

template <class W>
W gelu_grad_bound(W x, W roundoff) {
  const W terms = oracle_cdf(x) + std::fabs(x) * oracle_density(x);
  return 4 * roundoff * std::max(terms, roundoff);
}

template <class W>
W lgamma_bound(W x, W roundoff) {
  return x < -2 && std::isfinite(x) ? 4 * roundoff * std::fabs(oracle_lgamma(-x)) : 0;
}

template <class W>
W digamma_bound(W x, W roundoff) {
  const W distance = static_cast<W>(std::fabs(to_integer(x)));
  return x < 0 && distance > 0 ? 4 * roundoff * std::max(std::log(2 - x), 1 / distance) : 0;
}

struct Function {
  const char* name;
  float (*f32)(float);
  double (*f64)(double);
  double (*oracle32)(double);
  long double (*oracle64)(long double);
  ErrorBound<double> bound32;
  ErrorBound<long double> bound64;
  double steps32;
  double steps64;
  double low, high;  // where the function changes most
};

template <class T, class D>
T evaluate(D function, T x) {
  HostEmitter<T> e;
  return function(e, x);
}

#define FUNCTION(name, oracle, bound, steps32, steps64, low, high)                                 \
  {#name,                                                                                          \
   [](float x) { return evaluate([](auto& e, auto v) { return codegen::dev_##name(e, v); }, x); }, \
   [](double x) {                                                                                  \
     return evaluate([](auto& e, auto v) { return codegen::dev_##name(e, v); }, x);                \
   },                                                                                              \
   [](double x) { return oracle(x); },                                                             \
   [](long double x) { return oracle(x); },                                                        \
   bound<double>,                                                                                  \
   bound<long double>,                                                                             \
   steps32,                                                                                        \
   steps64,                                                                                        \
   low,                                                                                            \
   high}

const Function kFunctions[] = {
    FUNCTION(exp, std::exp, no_bound, 1, 4, -104, 89),
    FUNCTION(expm1, std::expm1, no_bound, 2, 4, -2, 2),
    FUNCTION(log, std::log, no_bound, 2, 4, 0, 4),
    FUNCTION(log1p, std::log1p, no_bound, 2, 4, -1, 2),
    FUNCTION(tanh, std::tanh, no_bound, 2, 4, -2, 2),
    FUNCTION(sigmoid, oracle_sigmoid, no_bound, 2, 4, -10, 10),
    FUNCTION(softplus, oracle_softplus, no_bound, 2, 4, -10, 10),
    FUNCTION(log_sigmoid, oracle_log_sigmoid, no_bound, 2, 4, -10, 10),
    FUNCTION(erf, std::erf, no_bound, 2, 4, -3, 3),
    FUNCTION(gelu, oracle_gelu, gelu_bound, 2, 4, -6, 3),
    FUNCTION(gelu_grad, oracle_gelu_grad, gelu_grad_bound, 0, 0, -6, 3),
    FUNCTION(rsqrt, oracle_rsqrt, no_bound, 2, 4, 0, 4),
    FUNCTION(cbrt, std::cbrt, no_bound, 2, 4, -8, 8),
    FUNCTION(exp2, std::exp2, no_bound, 2, 4, -150, 129),
    FUNCTION(log2, std::log2, no_bound, 2, 4, 0, 4),
    FUNCTION(log10, std::log10, no_bound, 2, 4, 0, 4),
    FUNCTION(sin, std::sin, no_bound, 2, 4, -300, 300),
    FUNCTION(cos, std::cos, no_bound, 2, 4, -300, 300),
    FUNCTION(tan, std::tan, no_bound, 2, 4, -300, 300),
    FUNCTION(asin, std::asin, no_bound, 2, 4, -1, 1),
    FUNCTION(acos, std::acos, no_bound, 2, 4, -1, 1),
    FUNCTION(atan, std::atan, no_bound, 2, 4, -4, 4),
    FUNCTION(sinh, std::sinh, no_bound, 2, 4, -4, 4),
    FUNCTION(cosh, std::cosh, no_bound, 2, 4, -4, 4),
    FUNCTION(asinh, std::asinh, no_bound, 2, 4, -4, 4),
    FUNCTION(acosh, std::acosh, no_bound, 2, 4, 1, 4),
    FUNCTION(atanh, std::atanh, no_bound, 2, 4, -1, 1),
    FUNCTION(erfc, std::erfc, no_bound, 2, 4, -4, 11),
    FUNCTION(lgamma, oracle_lgamma, lgamma_bound, 2, 4, -6, 6),
    FUNCTION(digamma, oracle_digamma, digamma_bound, 2, 4, -6, 6),
    FUNCTION(trigamma, oracle_trigamma, no_bound, 2, 4, -6, 6),
    FUNCTION(silu, oracle_silu, no_bound, 2, 4, -110, 20),
    FUNCTION(gelu_tanh, oracle_gelu_tanh, no_bound, 2, 4, -12, 6),
    FUNCTION(mish, oracle_mish, no_bound, 2, 4, -110, 20),
    FUNCTION(selu, oracle_selu, no_bound, 2, 4, -20, 4),
    FUNCTION(softsign, oracle_softsign, no_bound, 2, 4, -4, 4),
    FUNCTION(hard_sigmoid, oracle_hard_sigmoid, no_bound, 2, 4, -4, 4),
    FUNCTION(hard_swish, oracle_hard_swish, no_bound, 2, 4, -4, 4),
};

/// Inputs at which formats, formulas or branches change.
template <class T>
std::vector<T> special_inputs() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values{0,
                        Limits::denorm_min(),
                        3 * Limits::denorm_min(),
                        Limits::min(),
                        std::nextafter(Limits::min(), T(0)),
                        Limits::max(),
                        Limits::infinity(),
                        T(1e-20),
                        T(1e-8),
                        T(1e-4),
                        T(0.5),
                        T(0.625),
                        T(2) / 3,
                        T(1),
                        T(4) / 3,
                        T(2),
                        T(14.6),
                        T(17.5),
                        T(38.7),
                        T(44),
                        T(87.5),
                        T(88.5),
                        T(88.75),
                        T(103.5),
                        T(104),
                        T(709.5),
                        T(709.9),
                        T(745),
                        T(746),
                        T(1e10)};
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) {
    if (std::isinf(values[i])) continue;
    values.push_back(std::nextafter(values[i], T(0)));
    values.push_back(std::nextafter(values[i], Limits::infinity()));
  }
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  values.push_back(Limits::quiet_NaN());
  return values;
}

struct Worst {
  double steps = 0;  // where only steps are bounded
  double at = 0;
  int failures = 0;
  double first_failure = 0;
};

template <class T, class W>
void judge(Worst& worst, T x, T got, W want, W bound, double max_steps) {
  const double steps = steps_between<T, W>(got, want);
  const bool within_bound =
      std::isfinite(want) && std::fabs(W(got) - want) <= bound + step_at<T, W>(0);
  if (bound > 0 && within_bound) return;
  if (bound == 0 && steps > worst.steps) {
    worst.steps = steps;
    worst.at = x;
  }
  if (!(steps <= max_steps) && worst.failures++ == 0) worst.first_failure = x;
}

/// `count` random bit patterns, as many values between low and high, and the special inputs.
template <class T, class W, class F32, class Oracle>
Worst measure(F32 function, Oracle oracle, ErrorBound<W> bound, double max_steps, double low,
              double high, int count) {
  using Bits = typename HostEmitter<T>::I;
  const W roundoff = std::numeric_limits<T>::epsilon() / 2;
  Worst worst;
  const auto check = [&](T x) {
    judge<T, W>(worst, x, function(x), oracle(W(x)), bound(W(x), roundoff), max_steps);
  };
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(low, high);
  for (int i = 0; i < count; ++i) {
    check(std::bit_cast<T>(static_cast<Bits>(random())));
    check(static_cast<T>(uniform(random)));
  }
  for (T x : special_inputs<T>()) check(x);
  return worst;
}

void report(const char* name, const char* type, const Worst& worst, double max_steps) {
  std::printf("%-12s %s: worst %.3f ulp at %a, bound %g\n", name, type, worst.steps, worst.at,
              max_steps);
  INFO(name, " ", type, ": first at ", worst.first_failure);
  CHECK(worst.failures == 0);
}

TEST_CASE("f32 device functions are within their bound of the exact value") {
  for (const Function& f : kFunctions) {
    const Worst worst =
        measure<float, double>(f.f32, f.oracle32, f.bound32, f.steps32, f.low, f.high, 1 << 18);
    report(f.name, "f32", worst, f.steps32);
  }
}

TEST_CASE("f64 device functions are within their bound of the exact value") {
  for (const Function& f : kFunctions) {
    const Worst worst = measure<double, long double>(f.f64, f.oracle64, f.bound64, f.steps64, f.low,
                                                     f.high, 1 << 16);
    report(f.name, "f64", worst, f.steps64);
  }
}

/// Distance of two f16 or bf16 values, counted in representable values; NaN equals NaN alone.
int distance_16bit(DType type, uint16_t a, uint16_t b) {
  const uint16_t infinity = type == DType::F16 ? 0x7C00 : 0x7F80;
  const bool nan_a = (a & 0x7FFF) > infinity;
  const bool nan_b = (b & 0x7FFF) > infinity;
  if (nan_a || nan_b) return nan_a && nan_b ? 0 : 0x10000;
  const auto ordered = [](uint16_t v) { return (v & 0x8000) != 0 ? -(v & 0x7FFF) : v & 0x7FFF; };
  return std::abs(ordered(a) - ordered(b));
}

TEST_CASE("every f16 and bf16 input gives the correctly rounded result but for one in a thousand") {
  for (DType type : {DType::F16, DType::BF16}) {
    const bool f16 = type == DType::F16;
    for (const Function& f : kFunctions) {
      int misrounded = 0;
      int worst = 0;
      for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto input = static_cast<uint16_t>(bits);
        const float x = f16 ? ir::f16_to_f32(input) : ir::bf16_to_f32(input);
        const float got = f.f32(x);
        const double want = f.oracle32(x);
        const int distance = distance_16bit(type, f16 ? ir::f32_to_f16(got) : ir::f32_to_bf16(got),
                                            f16 ? ir::f64_to_f16(want) : ir::f64_to_bf16(want));
        misrounded += distance != 0;
        worst = std::max(worst, distance);
      }
      std::printf("%-12s %s: %d of 65536 not correctly rounded, worst %d\n", f.name,
                  f16 ? "f16" : "bf16", misrounded, worst);
      INFO(f.name);
      CHECK(worst <= 1);
      CHECK(misrounded <= 65);
    }
  }
}

/// The bits of `got`, with all NaN alike.
template <class T>
auto canonical_bits(T got) {
  return std::bit_cast<typename HostEmitter<T>::I>(
      std::isnan(got) ? std::numeric_limits<T>::quiet_NaN() : got);
}

template <class T>
void check_special_values() {
  HostEmitter<T> e;
  const T inf = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T tiny = std::numeric_limits<T>::denorm_min();
  const auto same = [](T got, T want) {
    INFO(double(got), " for ", double(want));
    CHECK(canonical_bits(got) == canonical_bits(want));
  };
  same(codegen::dev_exp(e, -inf), 0);
  same(codegen::dev_exp(e, inf), inf);
  same(codegen::dev_exp(e, T(-0.0)), 1);
  same(codegen::dev_expm1(e, -inf), -1);
  same(codegen::dev_expm1(e, T(-0.0)), T(-0.0));
  same(codegen::dev_expm1(e, tiny), tiny);
  same(codegen::dev_log(e, T(0)), -inf);
  same(codegen::dev_log(e, T(-0.0)), -inf);
  same(codegen::dev_log(e, T(-1)), nan);
  same(codegen::dev_log(e, -inf), nan);
  same(codegen::dev_log(e, inf), inf);
  same(codegen::dev_log(e, T(1)), 0);
  same(codegen::dev_log1p(e, T(-1)), -inf);
  same(codegen::dev_log1p(e, T(-1.5)), nan);
  same(codegen::dev_log1p(e, T(-0.0)), T(-0.0));
  same(codegen::dev_log1p(e, -tiny), -tiny);
  same(codegen::dev_tanh(e, inf), 1);
  same(codegen::dev_tanh(e, -inf), -1);
  same(codegen::dev_tanh(e, T(-0.0)), T(-0.0));
  same(codegen::dev_tanh(e, tiny), tiny);
  same(codegen::dev_sigmoid(e, -inf), 0);
  same(codegen::dev_sigmoid(e, inf), 1);
  same(codegen::dev_sigmoid(e, T(0)), T(0.5));
  same(codegen::dev_softplus(e, -inf), 0);
  same(codegen::dev_softplus(e, inf), inf);
  same(codegen::dev_log_sigmoid(e, -inf), -inf);
  same(codegen::dev_erf(e, -inf), -1);
  same(codegen::dev_erf(e, T(-0.0)), T(-0.0));
  same(codegen::dev_gelu(e, inf), inf);
  same(codegen::dev_gelu(e, -inf), T(-0.0));
  same(codegen::dev_gelu(e, T(-0.0)), T(-0.0));
  same(codegen::dev_gelu_grad(e, inf), 1);
  same(codegen::dev_gelu_grad(e, T(0)), T(0.5));
  same(codegen::dev_relu(e, T(-0.0)), 0);
  same(codegen::dev_relu(e, nan), nan);
  same(codegen::dev_rsqrt(e, T(0)), inf);
  same(codegen::dev_rsqrt(e, T(-1)), nan);
}

TEST_CASE("poles, infinities, signed zeros and subnormals give their exact values") {
  check_special_values<float>();
  check_special_values<double>();
}

}  // namespace
}  // namespace mezzo::test
