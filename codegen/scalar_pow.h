// SPDX-License-Identifier: Apache-2.0
// Device function: power. The logarithm is carried as a sum of two floats, because y log x is up to
// 1000 times the error that the result may have.
#pragma once

#include <mezzo/codegen/scalar_exp_log.h>

namespace mezzo::codegen {

/// The product of two pairs.
template <ScalarEmitter E>
FloatPair<E> multiply(E& e, const FloatPair<E>& a, const FloatPair<E>& b) {
  const auto high = e.mul(a.high, b.high);
  const auto error = e.fma(a.high, b.high, e.neg(high));
  return {high, e.add(error, e.fma(a.high, b.low, e.mul(a.low, b.high)))};
}

/// log x for positive finite x. With x = 2^n m, s = (m - 1) / (m + 1): n ln 2 + 2 s + s^3 (2/3 +
/// s^2 q(s^2)), q minimax over s^2 <= 0.0401 of degree 2 (f32, 2^-33.5 of the logarithm) and 7
/// (f64, 2^-68.0).
template <ScalarEmitter E>
FloatPair<E> log_pair(E& e, typename E::F x) {
  const FloatFormat& format = format_of(e);
  const auto subnormal = e.lt(x, e.constant(format.min_normal));
  const auto lifted = e.mul(x, constant_by_width(e, 0x1p24, 0x1p54));
  const auto reduced = reduce_log(e, e.select(subnormal, lifted, x));
  const double base = e.width() == 32 ? 0x1p23 + 127 : 0x1p52 + 1023;
  const auto offset =
      e.select(subnormal, constant_by_width(e, base + 24, base + 54), e.constant(base));
  const auto n = small_to_float(e, reduced.biased, offset);

  const auto one = e.constant(1.0);
  const auto two = e.constant(2.0);
  const auto f = e.sub(reduced.m, one);
  const auto d = fast_two_sum(e, two, f);
  const auto inverse = e.div(one, d.high);
  const auto s_high = e.mul(f, inverse);
  const auto minus_s = e.neg(s_high);
  const auto residual = e.fma(minus_s, d.low, e.fma(minus_s, d.high, f));
  const FloatPair<E> s{s_high, e.mul(residual, inverse)};

  const auto square = multiply(e, s, s);
  const auto q = polynomial(
      e, square.high, {0.40000394, 0.2852541, 0.23876461},
      {0.3999999999999972, 0.2857142857157993, 0.2222222219078191, 0.1818182156805091,
       0.15384404537355825, 0.13341204466209763, 0.1159145876759286, 0.12576968728601598});
  const auto two_thirds = constant_by_width(e, 0x1.555556p-1, 0x1.5555555555555p-1);
  const auto rest = constant_by_width(e, -0x1.555556p-26, 0x1.5555555555555p-55);
  const auto factor = fast_two_sum(e, two_thirds, e.fma(square.high, q, rest));
  const auto cubic = multiply(e, s, multiply(e, square, factor));
  const auto fraction = fast_two_sum(e, e.mul(s.high, two), cubic.high);
  const auto fraction_low = e.add(fraction.low, e.fma(s.low, two, cubic.low));
  // The high part of ln 2 has so few bits that its product with n is exact.
  const auto whole = e.mul(n, constant_by_width(e, 0x1.62e4p-1, 0x1.62e42fefa3p-1));
  const auto sum = fast_two_sum(e, whole, fraction.high);
  const auto whole_low =
      e.fma(n, constant_by_width(e, 0x1.7f7d1cp-20, 0x1.3de6af278ece6p-42), fraction_low);
  return {sum.high, e.add(sum.low, whole_low)};
}

/// x^y as IEEE 754 `pow`: 1 for y = 0 or x = 1 even with NaN; NaN for finite x < 0 with fractional
/// y; signed zeros and infinities by odd y.
template <ScalarEmitter E>
typename E::F dev_pow(E& e, typename E::F x, typename E::F y) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto zero = e.constant(0.0);
  const auto one = e.constant(1.0);
  const auto inf = e.constant(infinity);
  const auto nan = e.constant(std::numeric_limits<double>::quiet_NaN());
  const auto a = e.abs(x);

  const auto logarithm = log_pair(e, a);
  const auto high = e.mul(y, logarithm.high);
  const auto low = e.fma(y, logarithm.low, e.fma(y, logarithm.high, e.neg(high)));
  const auto bounded = clamp_exp(e, high);
  const auto bounded_low = e.select(e.eq(bounded, high), low, zero);
  const auto reduced = reduce_exp(e, bounded, &bounded_low);
  const auto finite = scale_by_exponent(e, e.add(one, expm1_reduced(e, reduced)), reduced.exponent);

  const auto negative_y = e.lt(y, zero);
  auto magnitude = e.select(e.eq(a, zero), e.select(negative_y, inf, zero), finite);
  magnitude = e.select(e.eq(a, inf), e.select(negative_y, zero, inf), magnitude);
  magnitude = e.select(e.eq(a, one), one, magnitude);

  const auto integral = e.eq(e.floor(y), y);
  const auto half = e.mul(y, e.constant(0.5));
  const auto odd = e.band(integral, e.ne(e.floor(half), half));
  const auto signed_value = e.select(odd, with_sign_of(e, magnitude, x), magnitude);
  const auto defined = e.bor(integral, e.bor(e.ge(x, zero), e.bor(e.eq(x, zero), e.eq(a, inf))));
  const auto ordered = e.band(e.eq(x, x), e.eq(y, y));
  const auto value = e.select(e.band(defined, ordered), signed_value, nan);
  return e.select(e.bor(e.eq(y, zero), e.eq(x, one)), one, value);
}

}  // namespace mezzo::codegen
