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

/// 1 / (1 + e^-x): through e^-|x|, so that neither end overflows.
template <ScalarEmitter E>
typename E::F dev_sigmoid(E& e, typename E::F x) {
  const auto one = e.constant(1.0);
  const auto power = dev_exp(e, e.neg(e.abs(x)));
  const auto numerator = e.select(e.lt(x, e.constant(0.0)), power, one);
  return e.div(numerator, e.add(one, power));
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

/// The factors of the upper tail of the normal distribution at a >= 0: P(N > a) = exp(-a^2 / 2) *
/// ratio.
template <class E>
struct NormalTail {
  typename E::F argument;      ///< a, limited to where the tail is not 0
  typename E::F ratio;         ///< exp(a^2 / 2) P(N > a)
  typename E::F power_minus1;  ///< exp(-a^2 / 2) = (1 + power_minus1) * 2^n
  typename E::I exponent;      ///< n + 2 * bias
};

/// ratio = w q(t) with w = 1 / (a + k), t = 1 - 2 k w, k = 4 (f32) or 5 (f64), q minimax over all a
/// >= 0 of degree 9 (f32, 2^-25.5) and 22 (f64, 2^-53.3). The rounding errors of a + k and of w are
/// put back: near 0 the ratio is steeper in w than its own last bit allows. a^2 is carried as a sum
/// of two floats.
template <ScalarEmitter E>
NormalTail<E> normal_tail(E& e, typename E::F a_unbounded) {
  const bool narrow = e.width() == 32;
  const auto a = at_most(e, a_unbounded, narrow ? 14.6 : 38.7);
  const auto k = constant_by_width(e, 4.0, 5.0);
  const auto one = e.constant(1.0);
  const auto d = e.add(a, k);
  const auto d_low = e.sub(a, e.sub(d, k));
  const auto w = e.div(one, d);
  const auto minus_w = e.neg(w);
  const auto w_low = e.mul(w, e.fma(minus_w, d_low, e.fma(minus_w, d, one)));
  const auto minus_2k = constant_by_width(e, -8.0, -10.0);
  const auto t = e.fma(minus_2k, w_low, e.fma(minus_2k, w, one));
  const auto q =
      polynomial(e, t,
                 {0.75528514, -0.60789657, 0.38713625, -0.18652377, 0.06041119, -0.007522344,
                  -0.0035390945, 0.0015554479, 0.00020995515, -0.0001093567},
                 {0.769193049750063,      -0.6653825028900557,     0.4953056159699706,
                  -0.3135331566714035,    0.1650203661707386,      -0.06911863870318807,
                  0.02079506679234176,    -0.0029933768161722715,  -0.0007978693215757082,
                  0.0005448994365278372,  -5.9376154762953296e-05, -4.97646609964372e-05,
                  1.6682552524872914e-05, 3.986742511754216e-06,   -2.7714895550692246e-06,
                  -3.484509847472678e-07, 4.3429934851336383e-07,  5.717220493426354e-08,
                  -6.395201528255096e-08, -1.992242014905309e-08,  4.24554902288331e-09,
                  5.0194697122953435e-09, 1.392865938003419e-09});
  const auto ratio = e.fma(w, q, e.mul(w_low, q));
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
  return scale_by_exponent(e, e.fma(factor, tail.power_minus1, factor), tail.exponent);
}

/// P(N > a) for a >= 0, N standard normal.
template <ScalarEmitter E>
typename E::F dev_normal_upper_tail(E& e, typename E::F a) {
  const NormalTail<E> tail = normal_tail(e, a);
  return scale_normal_tail(e, tail, tail.ratio);
}

/// Phi(x), the distribution function of the standard normal.
template <ScalarEmitter E>
typename E::F dev_normal_cdf(E& e, typename E::F x) {
  const auto upper = dev_normal_upper_tail(e, e.abs(x));
  return e.select(e.lt(x, e.constant(0.0)), upper, e.sub(e.constant(1.0), upper));
}

/// Error function: below 1 a + a q(a^2), q minimax of degree 6 (f32, 2^-29.1) and 11 (f64,
/// 2^-56.0); from 1 on 1 - 2 P(N > sqrt(2) a).
template <ScalarEmitter E>
typename E::F dev_erf(E& e, typename E::F x) {
  const auto a = e.abs(x);
  const auto one = e.constant(1.0);
  const auto q =
      polynomial(e, e.mul(a, a),
                 {0.12837917, -0.37612626, 0.11283579, -0.026853347, 0.0051871645, -0.0007997887,
                  7.8070574e-05},
                 {0.12837916709551256, -0.37612638903183343, 0.11283791670936949,
                  -0.02686617064195855, 0.005223977596726443, -0.0008548325484220256,
                  0.0001205528045944609, -1.4924464563894979e-05, 1.644413142678011e-06,
                  -1.618378766886561e-07, 1.3615517613666596e-08, -7.604937728415013e-10});
  const auto small = e.fma(a, q, a);
  const auto upper = dev_normal_upper_tail(e, e.mul(a, e.constant(0x1.6a09e667f3bcdp0)));
  const auto large = e.fma(e.constant(-2.0), upper, one);
  return with_sign_of(e, e.select(e.lt(a, one), small, large), x);
}

/// x Phi(x), the exact form of GELU; gelu(-inf) = -0.
template <ScalarEmitter E>
typename E::F dev_gelu(E& e, typename E::F x) {
  const auto zero = e.constant(0.0);
  const auto phi = dev_normal_cdf(e, x);
  return e.select(e.eq(phi, zero), e.constant(-0.0), e.mul(x, phi));
}

/// Phi(x) + x phi(x), the derivative of GELU.
template <ScalarEmitter E>
typename E::F dev_gelu_grad(E& e, typename E::F x) {
  const NormalTail<E> tail = normal_tail(e, e.abs(x));
  const auto density = e.constant(-0x1.9884533d43651p-2);  // -1 / sqrt(2 pi)
  const auto below = scale_normal_tail(e, tail, e.fma(tail.argument, density, tail.ratio));
  return e.select(e.lt(x, e.constant(0.0)), below, e.sub(e.constant(1.0), below));
}

}  // namespace mezzo::codegen
