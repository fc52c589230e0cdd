// SPDX-License-Identifier: Apache-2.0
// The scalar functions named in the `host` column of ops.def: division that floors, products with
// logarithms and interpolation.
#pragma once

#include <mezzo/ir/host_scalar.h>

namespace mezzo::ir {

/// floor(x / y); 0 where y is 0, and the lowest integer by -1 wraps.
inline int64_t host_floor_div(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return host_neg(x);
  const bool below = x % y != 0 && (x < 0) != (y < 0);
  return x / y - below;
}

/// x - floor(x / y) y, of the sign of y; 0 where y is 0.
inline int64_t host_remainder(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  const int64_t rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/// The floor of the exact quotient, rounded; the quotient where that is not finite. -0 where a zero
/// quotient is negative.
inline double host_floor_div(double x, double y) {
  const double quotient = x / y;
  // So large, a quotient of two numbers of 53 bits is too far from the middle between two doubles
  // for its fraction to decide the rounding.
  if (!std::isfinite(quotient) || std::fabs(quotient) >= 0x1p110) return quotient;
  const double rest = std::fmod(x, y);
  const bool below = rest != 0 && std::signbit(rest) != std::signbit(y);
  if (std::isinf(y)) return below ? -1.0 : quotient;
  // In two parts of some 60 bits; the error of a division in long double is less than half.
  __extension__ typedef __int128 Whole;
  const double large = y * 0x1p60, middle = std::isinf(large) ? x : std::fmod(x, large);
  const auto part = [](double from, double to, double by) {
    return std::llrint((static_cast<long double>(from) - to) / by);
  };
  const Whole high = std::isinf(large) ? 0 : part(x, middle, large);
  const Whole whole = high * (Whole{1} << 60) + part(middle, rest, y) - below;
  return whole == 0 ? std::copysign(0.0, quotient) : static_cast<double>(whole);
}

/// x - floor(x / y) y from an exact fmod, zeros too of the sign of y; NaN where y is 0 or x
/// infinite.
inline double host_remainder(double x, double y) {
  const double rest = std::fmod(x, y);
  if (rest == 0) return std::copysign(0.0, y);
  return (rest < 0) != (y < 0) ? rest + y : rest;
}

/// x log(y), and 0 where x is 0 and y is a number.
inline double host_xlogy(double x, double y) {
  if (x == 0 && !std::isnan(y)) return 0.0;
  return static_cast<double>(x * std::log(wide(y)));
}

/// x log(1 + y), and 0 where x is 0 and y is a number.
inline double host_xlog1py(double x, double y) {
  if (x == 0 && !std::isnan(y)) return 0.0;
  return static_cast<double>(x * std::log1p(wide(y)));
}

/// x + weight (y - x). The difference, its product and the sum keep their rounding errors, because
/// the sum can cancel.
inline double host_lerp(double x, double y, double weight) {
  const long double difference = wide(y) - x, product = weight * difference;
  const long double sum = x + product;
  if (!std::isfinite(sum)) return static_cast<double>(sum);
  const auto error = [](long double a, long double b, long double total) {
    const long double part = total - a;
    return (a - (total - part)) + (b - part);
  };
  const long double rest =
      std::fma(wide(weight), difference, -product) + weight * error(y, -wide(x), difference);
  const long double errors = error(x, product, sum) + rest;
  return static_cast<double>(errors == 0 ? sum : sum + errors);
}

}  // namespace mezzo::ir
