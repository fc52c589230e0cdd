// SPDX-License-Identifier: Apache-2.0
// Device functions: activations and the normal distribution. Odd functions are evaluated at |x| and
// get the sign of x at the end, so that -0 stays -0. "minimax" as in scalar_exp_log.h.
#pragma once

#include <mezzo/codegen/scalar_exp_log.h>

namespace mezzo::codegen {

/// max(x, 0); relu(-0) = +0, NaN stays.
template <ScalarEmitter E>
typename E::F dev_relu(E& e, typename E::F x) {
  const auto zero = e.constant(0.0);
  return e.select(e.le(x, zero), zero, x);
}

/// 1 / (1 + e^-x): through p = e^-|x|, so that neither end overflows, 1 / (1 + p) or p / (1 + p).
/// The second is made from the parts of p before they are rounded to it, less the rounding error of
/// 1 + p.
template <ScalarEmitter E>
typename E::F dev_sigmoid(E& e, typename E::F x) {
  const auto one = e.constant(1.0);
  const auto reduced = reduce_exp(e, clamp_exp(e, e.neg(e.abs(x))));
  const auto fraction = expm1_reduced(e, reduced);
  const auto power = scale_by_exponent(e, e.add(one, fraction), reduced.exponent);
  const FloatPair<E> sum = fast_two_sum(e, one, power);
  const auto inverse = e.div(one, sum.high);
  const auto factor = e.sub(fraction, e.mul(sum.low, inverse));
  const auto below = scale_by_exponent(e, e.fma(inverse, factor, inverse), reduced.exponent);
  return e.select(e.lt(x, e.constant(0.0)), below, inverse);
}

/// Hyperbolic tangent. f32: 1 - 2 / (e^2a + 1), below 5/8 a + a^3 q(a^2), q minimax of degree 4
/// (2^-27.7). f64: with m = e^2a - 1, m / (m + 2), which loses nothing near 0 beyond the bound.
template <ScalarEmitter E>
typename E::F dev_tanh(E& e, typename E::F x) {
  const auto a = e.abs(x);
  const auto two = e.constant(2.0);
  if (e.width() == 64) {
    const auto m = dev_expm1(e, at_most(e, e.add(a, a), 44.0));
    return with_sign_of(e, e.div(m, e.add(m, two)), x);
  }
  const auto one = e.constant(1.0);
  const auto large = e.sub(one, e.div(two, e.add(dev_exp(e, e.add(a, a)), one)));
  const auto square = e.mul(a, a);
  const auto q = polynomial(
      e, square, {-0.3333328, 0.13331406, -0.053736515, 0.020628173, -0.005692305}, {0.0});
  const auto small = e.fma(e.mul(a, square), q, a);
  return with_sign_of(e, e.select(e.lt(a, e.constant(0.625)), small, large), x);
}

/// The factors of the upper tail of the normal distribution at a >= 1: P(N > a) = exp(-a^2 / 2) *
/// ratio.
template <class E>
struct NormalTail {
  typename E::F argument;  ///< a, limited to where the tail is not 0
  typename E::F ratio;     ///< exp(a^2 / 2) P(N > a)
  typename E::F fraction;  ///< exp(-a^2 / 2) = (1 + fraction) * 2^n
  typename E::I exponent;  ///< n + 2 * bias
};

/// exp(a^2 / 2) P(N > a) at a >= 1, and what its rounding errors are made of.
template <class E>
struct NormalRatio {
  typename E::F value;  ///< w q + rest
  typename E::F w;
  typename E::F rest;
  typename E::F t;
  typename E::F slope;  ///< q = first + t * slope
  typename E::F first;
  typename E::F q;
};

/// The ratio is w q(t) with w = 1 / (a + k), t = 1 - 2 k w, q minimax over all a >=
/// 0.99: k = 3.375 and degree 8 (f32, 2^-27.1), k = 3.9375 and degree 20 (f64, 2^-55.8). The
/// rounding errors of a + k and of w are put back: the ratio is steeper in w than its own last bit
/// allows. `low`, if given, is added to a. Below a = 1 not accurate.
template <ScalarEmitter E>
NormalRatio<E> normal_ratio(E& e, typename E::F a, const typename E::F* low = nullptr) {
  const double k32 = 3.375;
  const double k64 = 3.9375;
  const auto k = constant_by_width(e, k32, k64);
  const auto one = e.constant(1.0);
  const auto d = e.add(a, k);
  auto d_low = e.sub(a, e.sub(d, k));
  if (low != nullptr) d_low = e.add(d_low, *low);
  const auto w = e.div(one, d);
  const auto minus_w = e.neg(w);
  const auto w_low = e.mul(w, e.fma(minus_w, d_low, e.fma(minus_w, d, one)));
  const auto minus_2k = constant_by_width(e, -2 * k32, -2 * k64);
  const auto t = e.fma(minus_2k, w_low, e.fma(minus_2k, w, one));
  const auto slope =
      polynomial(e, t,
                 {-0.5529923, 0.2953755, -0.09838175, 0.008725423, 0.007797324, -0.0022797955,
                  -0.0007437426, 0.00035072138},
                 {-0.6032175877860374,     0.3788883217419735,      -0.17784760767380367,
                  0.05445373511100462,     -0.005057371600495469,   -0.0038312483086010538,
                  0.0014048022162208174,   0.0002434497576615605,   -0.00021491755995917952,
                  -2.2422761978666114e-05, 3.355882748569646e-05,   4.545084753360121e-06,
                  -5.498340183428851e-06,  -1.3618570875859953e-06, 8.643512776060938e-07,
                  3.9467902049068034e-07,  -1.107406087128285e-07,  -9.053471542545415e-08,
                  8.543714946653316e-09,   1.1647254750011863e-08});
  const auto first = constant_by_width(e, 0.7410803, 0.7541108056114132);
  const auto q = e.fma(slope, t, first);
  const auto rest = e.mul(w_low, q);
  return {e.fma(w, q, rest), w, rest, t, slope, first, q};
}

/// What is missing in the value of a ratio.
template <ScalarEmitter E>
typename E::F ratio_low(E& e, const NormalRatio<E>& r) {
  const auto q_low = e.fma(r.slope, r.t, e.sub(r.first, r.q));
  return e.fma(r.w, q_low, e.add(e.fma(r.w, r.q, e.neg(r.value)), r.rest));
}

/// a^2 is carried as a sum of two floats. Below a = 1 not accurate.
template <ScalarEmitter E>
NormalTail<E> normal_tail(E& e, typename E::F a_unbounded) {
  const auto a = at_most(e, a_unbounded, e.width() == 32 ? 14.6 : 38.7);
  const auto ratio = normal_ratio<E>(e, a).value;
  const auto square = e.mul(a, a);
  const auto square_low = e.fma(a, a, e.neg(square));
  const auto minus_half = e.constant(-0.5);
  const auto low = e.mul(square_low, minus_half);
  const auto reduced = reduce_exp(e, e.mul(square, minus_half), &low);
  return {a, ratio, expm1_reduced(e, reduced), reduced.exponent};
}

/// exp(-a^2 / 2) * factor.
template <ScalarEmitter E>
typename E::F scale_normal_tail(E& e, const NormalTail<E>& tail, typename E::F factor) {
  return scale_by_exponent(e, e.fma(factor, tail.fraction, factor), tail.exponent);
}

/// P(N > a) for a >= 1, N standard normal.
template <ScalarEmitter E>
typename E::F normal_upper_tail(E& e, typename E::F a) {
  const NormalTail<E> tail = normal_tail(e, a);
  return scale_normal_tail(e, tail, tail.ratio);
}

/// Phi(x) for |x| < 1 as a sum: 1/2 + x (c + x^2 q(x^2)) with c = 1 / sqrt(2 pi), the rounding
/// error of 1/2 + c x kept in `low`; q minimax of degree 4 (f32, 2^-29.9 of Phi(-|x|)) and 9 (f64,
/// 2^-61.0).
template <ScalarEmitter E>
FloatPair<E> normal_cdf_inner(E& e, typename E::F x) {
  const auto half = e.constant(0.5);
  const auto square = e.mul(x, x);
  const auto q = polynomial(
      e, square, {-0.06649035, 0.009973247, -0.0011861123, 0.00011324224, -7.5589023e-06},
      {-0.0664903800669054, 0.009973557010034112, -0.0011873282154571802, 0.00011543468745118531,
       -9.444655565271157e-06, 6.659675003394159e-07, -4.122345645347748e-08, 2.269884910843865e-09,
       -1.1040411253634901e-10, 4.02814044354507e-12});
  const auto c = constant_by_width(e, 0x1.988454p-2, 0x1.9884533d43651p-2);
  const auto c_low = constant_by_width(e, -0x1.857936p-27, -0x1.cbc0d30ebfd15p-56);
  const auto high = e.fma(x, c, half);
  const auto high_low = e.fma(x, c, e.sub(half, high));
  return {high, e.fma(x, e.fma(square, q, c_low), high_low)};
}

/// Phi(x) for |x| >= 1.
template <ScalarEmitter E>
typename E::F normal_cdf_outer(E& e, typename E::F x) {
  const auto upper = normal_upper_tail(e, e.abs(x));
  return e.select(e.lt(x, e.constant(0.0)), upper, e.sub(e.constant(1.0), upper));
}

/// erf(a) / a - 1 for |a| <= 1: q(a^2), q minimax of degree 6 (f32, 2^-29.1) and 11 (f64, 2^-56.0).
template <ScalarEmitter E>
typename E::F erf_rest(E& e, typename E::F a) {
  return polynomial(e, e.mul(a, a),
                    {0.12837917, -0.37612626, 0.11283579, -0.026853347, 0.0051871645, -0.0007997887,
                     7.8070574e-05},
                    {0.12837916709551256, -0.37612638903183343, 0.11283791670936949,
                     -0.02686617064195855, 0.005223977596726443, -0.0008548325484220256,
                     0.0001205528045944609, -1.4924464563894979e-05, 1.644413142678011e-06,
                     -1.618378766886561e-07, 1.3615517613666596e-08, -7.604937728415013e-10});
}

/// Error function: below 1 a + a q(a^2), from there on 1 - 2 P(N > sqrt(2) a).
template <ScalarEmitter E>
typename E::F dev_erf(E& e, typename E::F x) {
  const auto a = e.abs(x);
  const auto one = e.constant(1.0);
  const auto small = e.fma(a, erf_rest(e, a), a);
  const auto upper = normal_upper_tail(e, e.mul(a, e.constant(0x1.6a09e667f3bcdp0)));
  const auto large = e.fma(e.constant(-2.0), upper, one);
  return with_sign_of(e, e.select(e.lt(a, one), small, large), x);
}

/// 1 - erf(x): within 3/4 1 - x - x q(x^2), beyond 2 P(N > sqrt(2) a) or 2 less that. The exponent
/// -a^2 is made from a itself, because it magnifies the rounding of its argument.
template <ScalarEmitter E>
typename E::F dev_erfc(E& e, typename E::F x) {
  const auto one = e.constant(1.0);
  const auto two = e.constant(2.0);
  const FloatPair<E> linear = two_sum(e, one, e.neg(x));
  const auto near = e.add(linear.high, e.fma(e.neg(x), erf_rest(e, x), linear.low));

  const auto a = at_most(e, e.abs(x), e.width() == 32 ? 10.4 : 27.3);
  const auto root_two = constant_by_width(e, 0x1.6a09e6p+0, 0x1.6a09e667f3bcdp+0);
  const auto root_two_low = constant_by_width(e, 0x1.9fcef4p-26, -0x1.bdd3413b26456p-54);
  const FloatPair<E> scaled = two_product(e, a, root_two);
  const auto scaled_low = e.fma(a, root_two_low, scaled.low);
  const NormalRatio<E> ratio = normal_ratio(e, scaled.high, &scaled_low);
  const auto square = e.mul(a, a);
  const auto rest = e.neg(e.fma(a, a, e.neg(square)));
  const auto reduced = reduce_exp(e, e.neg(square), &rest);
  // ratio (1 + high + tail), the largest terms last
  const auto tail_share = e.fma(ratio.value, expm1_tail(e, reduced), ratio_low(e, ratio));
  const auto product = e.add(ratio.value, e.fma(ratio.value, reduced.high, tail_share));
  const auto tail = scale_by_exponent(e, e.add(product, product), reduced.exponent);
  const auto far = e.select(e.lt(x, e.constant(0.0)), e.sub(two, tail), tail);
  return e.select(e.lt(e.abs(x), e.constant(0.75)), near, far);
}

/// x Phi(x), the exact form of GELU; gelu(-inf) = -0.
template <ScalarEmitter E>
typename E::F dev_gelu(E& e, typename E::F x) {
  const FloatPair<E> near = normal_cdf_inner(e, x);
  const auto inner = e.fma(x, near.high, e.mul(x, near.low));
  const auto far = normal_cdf_outer(e, x);
  const auto outer = e.select(e.eq(far, e.constant(0.0)), e.constant(-0.0), e.mul(x, far));
  return e.select(e.lt(e.abs(x), e.constant(1.0)), inner, outer);
}

/// Phi(x) + x phi(x), the derivative of GELU. Within 1, 1/2 + x (2 c + x^2 q(x^2)), q minimax of
/// degree 4 (f32, 2^-28.4 absolute) and 9 (f64, 2^-59.3).
template <ScalarEmitter E>
typename E::F dev_gelu_grad(E& e, typename E::F x) {
  const auto one = e.constant(1.0);
  const auto a = e.abs(x);
  const auto square = e.mul(x, x);
  const auto q = polynomial(
      e, square, {-0.2659612, 0.059837595, -0.009483305, 0.0011257083, -8.78895e-05},
      {-0.265961520267621, 0.05984134206018433, -0.009498625723406488, 0.0011543468729305355,
       -0.00011333586100096655, 9.323532017085233e-06, -6.595571207182778e-07,
       4.0842462092889886e-08, -2.200768450951843e-09, 8.714451301551765e-11});
  const auto slope = e.fma(square, q, e.constant(0x1.9884533d43651p-1));  // sqrt(2 / pi)
  const auto inner = e.fma(x, slope, e.constant(0.5));
  const NormalTail<E> tail = normal_tail(e, a);
  const auto density = e.constant(-0x1.9884533d43651p-2);  // -1 / sqrt(2 pi)
  const auto below = scale_normal_tail(e, tail, e.fma(tail.argument, density, tail.ratio));
  const auto outer = e.select(e.lt(x, e.constant(0.0)), below, e.sub(one, below));
  return e.select(e.lt(a, one), inner, outer);
}

}  // namespace mezzo::codegen
