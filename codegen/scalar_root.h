// SPDX-License-Identifier: Apache-2.0
// Device functions: cube root and hypotenuse. "minimax" as in scalar_exp_log.h.
#pragma once

#include <mezzo/codegen/scalar_exp_log.h>

namespace mezzo::codegen {

/// Cube root. With a = 2^(3 k + j) m, m in [1, 2): 2^k times a polynomial in m times 2^(j / 3),
/// then one step of Halley's iteration; the polynomial is minimax of degree 4 (f32, 2^-16.7) and 6
/// (f64, 2^-22.5).
template <ScalarEmitter E>
typename E::F dev_cbrt(E& e, typename E::F x) {
  const FloatFormat& format = format_of(e);
  const auto one = e.constant(1.0);
  const auto a = e.abs(x);
  const auto subnormal = e.lt(a, e.constant(format.min_normal));
  const auto scaled = e.select(subnormal, e.mul(a, constant_by_width(e, 0x1p24, 0x1p54)), a);
  const auto bits = e.to_bits(scaled);
  const int64_t one_bits = int64_t{format.bias} << format.mantissa;
  const auto fraction = e.iand(bits, e.iconstant((int64_t{1} << format.mantissa) - 1));
  const auto m = e.from_bits(e.ior(fraction, e.iconstant(one_bits)));
  // Of the exponent plus a multiple of 3 that makes it positive.
  const int lift = e.width() == 32 ? 2 : 0;  // bias + lift is divisible by 3
  const auto exponent = e.iadd(e.ilshr(bits, format.mantissa), e.iconstant(lift));
  const auto third = e.ilshr(e.umul32_low(exponent, e.iconstant(0x5556)), 16);
  const auto rest = e.isub(exponent, e.iadd(third, e.ishl(third, 1)));
  const auto is_one = bit_is_set(e, rest, 0);
  const auto is_two = bit_is_set(e, rest, 1);

  const auto start =
      polynomial(e, m, {0.5069783, 0.718157, -0.30061463, 0.086092666, -0.010604105},
                 {0.44714089525374917, 0.9501012251072636, -0.6661813581379734, 0.3853672149327003,
                  -0.1444728324600346, 0.030904724211016817, -0.002859697711983611});
  const auto root = e.select(is_two, e.constant(0x1.965fea53d6e3dp+0),
                             e.select(is_one, e.constant(0x1.428a2f98d728bp+0), one));
  const auto power = e.select(is_two, e.constant(4.0), e.select(is_one, e.constant(2.0), one));
  const auto y = e.mul(start, root);
  const auto v = e.mul(m, power);
  const FloatPair<E> square = two_product(e, y, y);
  const auto excess = e.fma(square.low, y, e.fma(square.high, y, e.neg(v)));  // y^3 - v
  const auto divisor = e.fma(e.constant(3.0), v, e.add(excess, excess));      // 2 y^3 + v
  const auto refined = e.fma(e.neg(y), e.div(excess, divisor), y);

  const int64_t offset = format.bias - (format.bias + lift) / 3;
  const auto scale = e.from_bits(e.ishl(e.iadd(third, e.iconstant(offset)), format.mantissa));
  const auto value = e.mul(refined, scale);
  const auto unscaled = e.mul(value, constant_by_width(e, 0x1p-8, 0x1p-18));
  const auto magnitude = e.select(subnormal, unscaled, value);
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto ordinary = e.band(e.gt(a, e.constant(0.0)), e.lt(a, inf));
  return e.select(ordinary, with_sign_of(e, magnitude, x), x);
}

/// sqrt(x^2 + y^2) without overflow on the way; infinite where either is, even beside NaN.
template <ScalarEmitter E>
typename E::F dev_hypot(E& e, typename E::F x, typename E::F y) {
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto one = e.constant(1.0);
  const auto a = e.abs(x);
  const auto b = e.abs(y);
  const auto swapped = e.lt(a, b);
  const auto larger = e.select(swapped, b, a);
  const auto smaller = e.select(swapped, a, b);
  const auto large = e.gt(larger, constant_by_width(e, 0x1p60, 0x1p500));
  const auto small = e.lt(larger, constant_by_width(e, 0x1p-50, 0x1p-450));
  const auto down = constant_by_width(e, 0x1p-70, 0x1p-540);
  const auto down_back = constant_by_width(e, 0x1p70, 0x1p540);
  const auto up = constant_by_width(e, 0x1p100, 0x1p700);
  const auto up_back = constant_by_width(e, 0x1p-100, 0x1p-700);
  const auto scale = e.select(large, down, e.select(small, up, one));
  const auto back = e.select(large, down_back, e.select(small, up_back, one));
  const auto p = e.mul(larger, scale);
  const auto q = e.mul(smaller, scale);
  const auto value = e.mul(e.sqrt(e.fma(p, p, e.mul(q, q))), back);
  return e.select(e.bor(e.eq(a, inf), e.eq(b, inf)), inf, value);
}

}  // namespace mezzo::codegen
