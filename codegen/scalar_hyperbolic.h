// SPDX-License-Identifier: Apache-2.0
// Device functions: hyperbolic functions but tanh, and their inverses. The inverses are log1p of an
// argument carried as a sum of two floats, so that they lose nothing where they are small.
#pragma once

#include <mezzo/codegen/scalar_exp_log.h>

namespace mezzo::codegen {

/// e^a / 2 for a >= 0, infinite only where cosh is.
template <ScalarEmitter E>
typename E::F half_exp(E& e, typename E::F a) {
  const auto reduced = reduce_exp(e, at_most(e, a, e.width() == 32 ? 90.0 : 711.0));
  const auto value = e.add(e.constant(1.0), expm1_reduced(e, reduced));
  return scale_by_exponent(e, value, e.isub(reduced.exponent, e.iconstant(1)));
}

/// Hyperbolic sine: h - 1 / (4 h) with h = e^a / 2, below 1 a + a^3 q(a^2), q minimax of degree 3
/// (f32, 2^-34.0) and 6 (f64, 2^-63.2).
template <ScalarEmitter E>
typename E::F dev_sinh(E& e, typename E::F x) {
  const auto a = e.abs(x);
  const auto square = e.mul(a, a);
  const auto q = polynomial(
      e, square, {0.16666667, 0.008333311, 0.00019842635, 2.7839258e-06},
      {0.16666666666666669, 0.008333333333332915, 0.00019841269841589228, 2.7557319108443975e-06,
       2.505213069542777e-08, 1.6056684275995512e-10, 7.775819247538397e-13});
  const auto small = e.fma(e.mul(a, square), q, a);
  const auto half = half_exp(e, a);
  const auto large = e.sub(half, e.div(e.constant(0.25), half));
  return with_sign_of(e, e.select(e.lt(a, e.constant(1.0)), small, large), x);
}

/// Hyperbolic cosine: h + 1 / (4 h) with h = e^a / 2.
template <ScalarEmitter E>
typename E::F dev_cosh(E& e, typename E::F x) {
  const auto half = half_exp(e, e.abs(x));
  return e.add(half, e.div(e.constant(0.25), half));
}

/// log(1 + u.high + u.low), or log(2 a) where a is so large that u = 2 a to the last bit (and might
/// not fit).
template <ScalarEmitter E>
typename E::F log1p_or_log_twice(E& e, typename E::F a, const FloatPair<E>& u) {
  const auto large = e.ge(a, constant_by_width(e, 0x1p30, 0x1p60));
  const auto zero = e.constant(0.0);
  const auto value =
      log1p_of_pair<E>(e, {e.select(large, a, u.high), e.select(large, zero, u.low)});
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto sum = e.add(value, e.select(large, e.constant(std::numbers::ln2), zero));
  return e.select(e.eq(a, inf), inf, sum);
}

/// Inverse hyperbolic sine: log1p(a + a^2 / (1 + sqrt(1 + a^2))).
template <ScalarEmitter E>
typename E::F dev_asinh(E& e, typename E::F x) {
  const auto one = e.constant(1.0);
  const auto a = e.abs(x);
  const FloatPair<E> square = two_product(e, a, a);
  FloatPair<E> sum = two_sum(e, one, square.high);
  sum.low = e.add(sum.low, square.low);
  const FloatPair<E> root = square_root(e, sum);
  FloatPair<E> divisor = fast_two_sum(e, root.high, one);
  divisor.low = e.add(divisor.low, root.low);
  const FloatPair<E> rest = divide(e, square, divisor);
  FloatPair<E> u = two_sum(e, a, rest.high);
  u.low = e.add(u.low, rest.low);
  const auto tiny = e.lt(a, constant_by_width(e, 0x1p-30, 0x1p-60));
  return with_sign_of(e, e.select(tiny, a, log1p_or_log_twice(e, a, u)), x);
}

/// Inverse hyperbolic cosine: log1p(t + sqrt(2 t + t^2)) with t = x - 1; NaN below 1.
template <ScalarEmitter E>
typename E::F dev_acosh(E& e, typename E::F x) {
  const auto zero = e.constant(0.0);
  const auto t = e.sub(x, e.constant(1.0));
  const FloatPair<E> square = two_product(e, t, t);
  FloatPair<E> sum = two_sum(e, e.add(t, t), square.high);
  sum.low = e.add(sum.low, square.low);
  const FloatPair<E> root = square_root(e, sum);
  FloatPair<E> u = two_sum(e, root.high, t);
  u.low = e.add(u.low, root.low);
  const auto value = log1p_or_log_twice(e, x, u);
  const auto nan = e.constant(std::numeric_limits<double>::quiet_NaN());
  return e.select(e.gt(t, zero), value, e.select(e.eq(t, zero), zero, nan));
}

/// Inverse hyperbolic tangent: log1p(2 a / (1 - a)) / 2; infinite at 1, NaN beyond.
template <ScalarEmitter E>
typename E::F dev_atanh(E& e, typename E::F x) {
  const auto one = e.constant(1.0);
  const auto a = e.abs(x);
  const FloatPair<E> divisor = two_sum(e, one, e.neg(a));
  const FloatPair<E> u = divide(e, {e.add(a, a), e.constant(0.0)}, divisor);
  const auto value = e.mul(log1p_of_pair(e, u), e.constant(0.5));
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto nan = e.constant(std::numeric_limits<double>::quiet_NaN());
  const auto tiny = e.lt(a, constant_by_width(e, 0x1p-30, 0x1p-60));
  const auto outside = e.select(e.eq(a, one), inf, nan);
  const auto magnitude = e.select(e.lt(a, one), e.select(tiny, a, value), outside);
  return with_sign_of(e, magnitude, x);
}

}  // namespace mezzo::codegen
