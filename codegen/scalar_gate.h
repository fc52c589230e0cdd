// SPDX-License-Identifier: Apache-2.0
// Device functions: activations that multiply by a gate or by e^x - 1. The exponential is of |x|
// or of a limited x, so that neither end overflows; what it is multiplied by joins before the
// scaling by 2^n, so that a small result is rounded from all its digits.
#pragma once

#include <mezzo/codegen/scalar_exp_log.h>

namespace mezzo::codegen {

/// factor (e^x - 1) for a reduced x <= 0 or so small that 2^n fits: the sum (2^n - 1) + 2^n high
/// keeps its error. Where that is 0 or not finite the factor is multiplied by the rounded sum.
template <ScalarEmitter E>
typename E::F scaled_expm1(E& e, typename E::F factor, const ExpReduction<E>& reduced) {
  const FloatFormat& format = format_of(e);
  const auto power =
      e.from_bits(e.ishl(e.isub(reduced.exponent, e.iconstant(format.bias)), format.mantissa));
  const FloatPair<E> sum = two_sum(e, e.sub(power, e.constant(1.0)), e.mul(power, reduced.high));
  const auto low = e.fma(power, expm1_tail(e, reduced), sum.low);
  const auto value = e.fma(factor, sum.high, e.mul(factor, low));
  const auto finite = e.lt(e.abs(value), e.constant(std::numeric_limits<double>::infinity()));
  const auto usable = e.band(finite, e.ne(value, e.constant(0.0)));
  return e.select(usable, value, e.mul(factor, e.add(sum.high, low)));
}

/// Where e^x is less than half a step of 1.
template <ScalarEmitter E>
double least_expm1(const E& e) {
  return e.width() == 32 ? -18.0 : -39.0;
}

/// factor (e^x - 1) for x <= 0.
template <ScalarEmitter E>
typename E::F curve_below_zero(E& e, typename E::F factor, typename E::F x) {
  const auto curve = scaled_expm1(e, factor, reduce_exp(e, at_least(e, x, least_expm1(e))));
  return e.select(e.eq(x, e.constant(0.0)), e.mul(factor, x), curve);
}

/// x, or alpha (e^x - 1) where x is not positive.
template <ScalarEmitter E>
typename E::F dev_elu(E& e, typename E::F x, typename E::F alpha) {
  const auto zero = e.constant(0.0);
  const auto bounded = at_most(e, x, 0.0);
  return e.select(e.gt(x, zero), x, curve_below_zero(e, alpha, bounded));
}

/// elu with the alpha and the scale that keep mean 0 and variance 1.
template <ScalarEmitter E>
typename E::F dev_selu(E& e, typename E::F x) {
  const auto scale = constant_by_width(e, 0x1.0cfabep+0, 0x1.0cfabd6a91132p+0);
  const auto factor = constant_by_width(e, 0x1.c212ccp+0, 0x1.c212cc640f031p+0);
  const auto above = e.mul(x, scale);
  return e.select(e.gt(x, e.constant(0.0)), above, curve_below_zero(e, factor, at_most(e, x, 0.0)));
}

/// x, or alpha (e^t - 1) where x is negative, with t = x / alpha carried as a sum. For a negative
/// alpha t is positive: from 8 on alpha e^t - alpha with the scaling at last, because e^t need not
/// fit. A small alpha is lifted, so that the error of t does not vanish and 2^n fits.
template <ScalarEmitter E>
typename E::F dev_celu(E& e, typename E::F x, typename E::F alpha) {
  const auto zero = e.constant(0.0);
  const auto one = e.constant(1.0);
  const auto small = e.lt(e.abs(alpha), one);
  const auto lift = e.select(small, e.constant(0x1p100), one);
  const auto lifted = e.mul(alpha, lift);

  const auto t = e.div(x, alpha);
  const auto most =
      e.select(small, constant_by_width(e, 194.0, 1456.0), constant_by_width(e, 90.0, 711.0));
  const auto least = at_least(e, t, least_expm1(e));
  const auto bounded = e.select(e.lt(most, least), most, least);
  const auto error = e.div(e.fma(e.neg(t), lifted, e.mul(x, lift)), lifted);
  // Where t is bounded, what is missing in it may be anything.
  const auto low = e.select(e.eq(bounded, t), error, zero);
  const auto reduced = reduce_exp(e, bounded, &low);
  const auto tiny = e.lt(e.abs(t), constant_by_width(e, 0x1p-30, 0x1p-60));
  const auto near = e.select(tiny, x, scaled_expm1(e, alpha, reduced));

  const auto lowered = e.isub(reduced.exponent, e.iconstant(100));
  const auto exponent = select_bits(e, small, lowered, reduced.exponent);
  const auto power = e.fma(lifted, expm1_reduced(e, reduced), lifted);
  const auto scaled = e.sub(scale_by_exponent(e, power, exponent), alpha);
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto far = e.select(e.lt(t, inf), scaled, e.mul(alpha, t));
  return e.select(e.lt(x, zero), e.select(e.gt(t, e.constant(8.0)), far, near), x);
}

/// x / (1 + e^-u) from the reduction of -|u|, `below` where u is negative; x limited to where e^u
/// vanishes. The quotient 1 / (1 + e^-|u|) keeps what it is off by, and the product with x too.
template <ScalarEmitter E>
typename E::F gated(E& e, typename E::F x, typename E::B below, const ExpReduction<E>& reduced) {
  const auto one = e.constant(1.0);
  const auto tail = expm1_tail(e, reduced);
  const auto fraction = e.add(reduced.high, tail);
  const auto power = scale_by_exponent(e, e.add(one, fraction), reduced.exponent);
  const FloatPair<E> sum = fast_two_sum(e, one, power);
  const auto inverse = e.div(one, sum.high);
  const auto off = e.fma(e.neg(sum.low), inverse, e.fma(e.neg(sum.high), inverse, one));
  const FloatPair<E> product = two_product(e, x, inverse);
  // The largest terms last.
  const auto zero = e.constant(0.0);
  const auto high = e.select(below, reduced.high, zero);
  const auto low = e.select(below, e.add(tail, e.fma(fraction, off, off)), off);
  const auto rest = e.fma(product.high, high, e.fma(product.high, low, product.low));
  const auto value = e.add(product.high, rest);
  return e.select(below, scale_by_exponent(e, value, reduced.exponent), value);
}

/// x where it is so large that a gate is 1, else `value`.
template <ScalarEmitter E>
typename E::F open_gate(E& e, typename E::F x, typename E::F value) {
  return e.select(e.gt(x, constant_by_width(e, 20.0, 40.0)), x, value);
}

/// x / (1 + e^-x); silu(-inf) = -0.
template <ScalarEmitter E>
typename E::F dev_silu(E& e, typename E::F x) {
  const bool narrow = e.width() == 32;
  const auto bounded = at_most(e, at_least(e, x, narrow ? -110.0 : -754.0), 41.0);
  const auto reduced = reduce_exp(e, e.neg(e.abs(bounded)));
  const auto below = e.lt(x, e.constant(0.0));
  return open_gate(e, x, gated(e, bounded, below, reduced));
}

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 = x / (1 + e^-u) with u = x (c + d x^2), which
/// is carried as a sum; gelu_tanh(-inf) = -0.
template <ScalarEmitter E>
typename E::F dev_gelu_tanh(E& e, typename E::F x) {
  const bool narrow = e.width() == 32;
  const auto bounded = at_most(e, at_least(e, x, narrow ? -12.0 : -23.0), 41.0);
  const auto a = e.abs(at_most(e, bounded, narrow ? 12.0 : 23.0));
  const FloatPair<E> square = two_product(e, a, a);
  const auto d = constant_by_width(e, 0x1.2444f2p-4, 0x1.2444f2a4d8b4bp-4);
  const auto d_low = constant_by_width(e, 0x1.49b16ap-29, -0x1.6c843a29d1c70p-61);
  FloatPair<E> term = two_product(e, square.high, d);
  term.low = e.fma(square.high, d_low, e.fma(square.low, d, term.low));
  const auto c = constant_by_width(e, 0x1.988454p+0, 0x1.9884533d43651p+0);
  const auto c_low = constant_by_width(e, -0x1.857936p-25, -0x1.cbc0d30ebfd15p-54);
  FloatPair<E> slope = two_sum(e, c, term.high);
  slope.low = e.add(slope.low, e.add(c_low, term.low));
  FloatPair<E> u = two_product(e, a, slope.high);
  u.low = e.fma(a, slope.low, u.low);
  const auto minus_low = e.neg(u.low);
  const auto reduced = reduce_exp(e, e.neg(u.high), &minus_low);
  const auto below = e.lt(x, e.constant(0.0));
  return open_gate(e, x, gated(e, bounded, below, reduced));
}

/// x tanh(log(1 + e^x)); mish(-inf) = -0. With p = e^-|x| the gate is (1 + 2 p) / (1 + 2 p + 2 p^2)
/// above 0 and p (2 + p) / (2 + 2 p + p^2) below.
template <ScalarEmitter E>
typename E::F dev_mish(E& e, typename E::F x) {
  const bool narrow = e.width() == 32;
  const auto one = e.constant(1.0);
  const auto two = e.constant(2.0);
  const auto below = e.lt(x, e.constant(0.0));
  const auto bounded = at_most(e, at_least(e, x, narrow ? -110.0 : -754.0), 41.0);
  const auto reduced = reduce_exp(e, e.neg(e.abs(bounded)));
  const FloatPair<E> p = exp_pair(e, reduced);
  FloatPair<E> square = two_product(e, p.high, p.high);
  square.low = e.fma(e.add(p.high, p.high), p.low, square.low);

  const auto first = e.select(below, two, one);
  const auto slope = e.select(below, one, two);
  FloatPair<E> above_line = fast_two_sum(e, first, e.mul(slope, p.high));
  above_line.low = e.fma(slope, p.low, above_line.low);
  const FloatPair<E> sum = fast_two_sum(e, p.high, square.high);
  const auto sum_low = e.add(sum.low, e.add(p.low, square.low));
  const auto more = e.select(below, sum.high, e.add(square.high, square.high));
  const auto more_low = e.select(below, sum_low, e.add(square.low, square.low));
  FloatPair<E> under_line = fast_two_sum(e, above_line.high, more);
  under_line.low = e.add(under_line.low, e.add(above_line.low, more_low));
  const FloatPair<E> gate = divide(e, above_line, under_line);

  const FloatPair<E> product = two_product(e, bounded, gate.high);
  const auto rest = e.fma(bounded, gate.low, product.low);
  const auto fraction = expm1_reduced(e, reduced);
  const auto share = e.fma(product.high, fraction, e.fma(rest, fraction, rest));
  const auto value = e.add(product.high, e.select(below, share, rest));
  const auto scaled = e.select(below, scale_by_exponent(e, value, reduced.exponent), value);
  return open_gate(e, x, scaled);
}

}  // namespace mezzo::codegen
