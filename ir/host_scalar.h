// SPDX-License-Identifier: Apache-2.0
// The scalar functions named in the `host` column of ops.def, in double with libm and in wrapping
// 64-bit integers. They are the oracle's and share no formula with the kernels on purpose.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace mezzo::ir {

// Integers wrap: computed on unsigned, where overflow is defined.
inline int64_t host_add(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
}
inline int64_t host_sub(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
}
inline int64_t host_mul(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
}
inline int64_t host_neg(int64_t x) { return host_sub(0, x); }
inline int64_t host_abs(int64_t x) { return x < 0 ? host_neg(x) : x; }
inline int64_t host_sign(int64_t x) { return (x > 0) - (x < 0); }
inline int64_t host_maximum(int64_t x, int64_t y) { return x > y ? x : y; }
inline int64_t host_minimum(int64_t x, int64_t y) { return x < y ? x : y; }
inline int64_t host_relu(int64_t x) { return x > 0 ? x : 0; }
inline int64_t host_relu6(int64_t x) { return host_minimum(host_relu(x), 6); }
inline int64_t host_and(int64_t x, int64_t y) { return x & y; }
inline int64_t host_or(int64_t x, int64_t y) { return x | y; }
inline int64_t host_xor(int64_t x, int64_t y) { return x ^ y; }
inline int64_t host_not(int64_t x) { return ~x; }

inline long double wide(double x) { return x; }

inline double host_add(double x, double y) { return x + y; }
inline double host_sub(double x, double y) { return x - y; }
inline double host_mul(double x, double y) { return x * y; }
inline double host_neg(double x) { return -x; }
inline double host_abs(double x) { return std::fabs(x); }

/// -1, 1, or `x` itself for NaN and both zeros.
inline double host_sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }

/// The larger one; NaN if either is; +0 is larger than -0.
inline double host_maximum(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
  if (x == y) return std::signbit(x) ? y : x;
  return x > y ? x : y;
}

/// The smaller one; NaN if either is; -0 is smaller than +0.
inline double host_minimum(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
  if (x == y) return std::signbit(x) ? x : y;
  return x < y ? x : y;
}

/// max(x, +0), so that -0 gives +0; NaN stays.
inline double host_relu(double x) { return host_maximum(x, 0.0); }

/// min(max(x, +0), 6); NaN stays.
inline double host_relu6(double x) { return host_minimum(host_relu(x), 6.0); }

/// 1 / (1 + e^-x); the exponential never overflows.
inline double host_sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  double e = std::exp(x);
  return e / (1 + e);
}

/// ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|).
inline double host_softplus(double x) {
  return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x)));
}

/// The normal distribution function; erfc keeps its digits for negative x. In long double, because
/// e^(-x²/2) magnifies the rounding of its argument.
inline long double host_normal_cdf(long double x) {
  return 0.5L * std::erfc(-x * 0.707106781186547524400844362104849039L);
}

/// x·Φ(x); the limit at -inf is -0.
inline double host_gelu(double x) {
  if (x == -std::numeric_limits<double>::infinity()) return -0.0;
  return static_cast<double>(x * host_normal_cdf(x));
}

/// Φ(x) + x·φ(x); the limit is 1 at inf. From some -38 down the value is a negative number that f64
/// cannot hold, also where both terms vanish in the wider type.
inline double host_gelu_grad(double x) {
  if (x < -100) return -0.0;
  if (std::isinf(x)) return 1.0;
  long double wide = x;
  long double density = 0.398942280401432677939946059934381868L * std::exp(-0.5L * wide * wide);
  return static_cast<double>(host_normal_cdf(wide) + wide * density);
}

/// log(e^x + e^y); in long double, because the maximum can cancel the rest.
inline double host_logaddexp(double x, double y) {
  if (x == y) return static_cast<double>(x + 0.693147180559945309417232121458176568L);
  if (std::isnan(x) || std::isnan(y)) return x + y;
  long double high = x > y ? x : y, low = x > y ? y : x;
  return static_cast<double>(high + std::log1p(std::exp(low - high)));
}

/// log |gamma(x)|; in long double and without the global sign of std::lgamma.
inline double host_lgamma(double x) {
  int sign = 0;
  return static_cast<double>(::lgammal_r(x, &sign));
}

/// psi(x) for x > 0: psi(x + n) - psi(zero + n) by the asymptotic series, and the terms of the
/// recurrence below it. Each difference is d = x - zero times something, so that the digits are
/// kept near the zero.
inline long double host_digamma_positive(long double x) {
  constexpr long double kZero = 1.46163214496836234126L, kZeroRest = -1.8257096315963484e-20L;
  constexpr int kTerms = 24;
  // log(z) - psi(z) - 1 / (2 z) is s times the polynomial of these in s = 1 / z^2.
  constexpr long double kSeries[] = {1.0L / 12,  -1.0L / 120,     1.0L / 252, -1.0L / 240,
                                     1.0L / 132, -691.0L / 32760, 1.0L / 12,  -3617.0L / 8160};
  long double d = (x - kZero) - kZeroRest, sum = 0;
  for (int k = 0; k < kTerms; ++k) sum += d / ((k + x) * (k + kZero));
  long double z = x + kTerms, z0 = kZero + kTerms, s = 1 / (z * z), s0 = 1 / (z0 * z0);
  long double value = 0, slope = 0;  // at s, and between s and s0
  for (int k = 7; k >= 0; --k) {
    slope = slope * s0 + value;
    value = value * s + kSeries[k];
  }
  slope = slope * s0 + value;  // of s times the polynomial
  return sum + std::log1p(d / z0) + d / (2 * z * z0) + d * (1 / z + 1 / z0) / (z * z0) * slope;
}

/// The derivative of log |gamma(x)|: -+inf at +-0, NaN at negative integers and -inf.
inline double host_digamma(double x) {
  if (x == 0) return -1 / x;
  if (std::isinf(x) && x > 0) return x;
  if (x > 0) return static_cast<double>(host_digamma_positive(x));
  long double y = -x, f = y - std::nearbyint(y);
  if (y >= 0.5L && f == 0) return std::numeric_limits<double>::quiet_NaN();
  constexpr long double kPi = 3.14159265358979323846264338327950288L;
  return static_cast<double>(host_digamma_positive(1 + y) + kPi / std::tan(kPi * f));
}

/// The derivative of psi at x > 0.
inline long double host_trigamma_positive(long double x) {
  long double sum = 0;
  for (; x < 24; ++x) sum += 1 / (x * x);
  long double w = 1 / x, s = w * w;
  long double tail =
      s *
      (1.0L / 6 -
       s * (1.0L / 30 -
            s * (1.0L / 42 -
                 s * (1.0L / 30 - s * (5.0L / 66 - s * (691.0L / 2730 -
                                                        s * (7.0L / 6 - s * (3617.0L / 510))))))));
  return sum + w * (1 + w / 2 + tail);
}

/// The derivative of digamma: infinite at 0 and the negative integers.
inline double host_trigamma(double x) {
  if (x == 0) return std::numeric_limits<double>::infinity();
  if (x > 0) return std::isinf(x) ? 0.0 : static_cast<double>(host_trigamma_positive(x));
  long double y = -x, f = y - std::nearbyint(y);
  if (f == 0) return std::numeric_limits<double>::infinity();
  constexpr long double kPi = 3.14159265358979323846264338327950288L;
  long double pole = kPi / std::sin(kPi * f);
  return static_cast<double>(pole * pole - host_trigamma_positive(1 + y));
}

}  // namespace mezzo::ir
