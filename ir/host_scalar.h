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
inline int64_t host_and(int64_t x, int64_t y) { return x & y; }

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

}  // namespace mezzo::ir
