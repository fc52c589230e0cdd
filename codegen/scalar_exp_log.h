// SPDX-License-Identifier: Apache-2.0
// Device functions: exponentials and logarithms. Branch-free; no integer division, no conversion
// between integers and floats and no arithmetic shift, because AVX2 has none of them for 64-bit
// lanes. "minimax" below: Remez exchange in 45 digits, the leading coefficients rounded one by one
// and the rest fitted again; the figure is the largest relative error of the function that the
// polynomial is for.
#pragma once

#include <mezzo/codegen/scalar_emitter.h>

#include <numbers>

namespace mezzo::codegen {

/// x = n ln 2 + r with |r| <= ln 2 / 2 and r = high + low: `high` is exact, `low` holds the rest of
/// ln 2.
template <class E>
struct ExpReduction {
  typename E::F high;
  typename E::F low;
  typename E::F n;         ///< integral float
  typename E::I exponent;  ///< n + 2 * bias
};

/// Reduces x, or x + *low; x is within the range where n fits, NaN stays in `high`.
template <ScalarEmitter E>
ExpReduction<E> reduce_exp(E& e, typename E::F x, const typename E::F* low = nullptr) {
  const FloatFormat& format = format_of(e);
  const auto magic = e.constant(format.round_magic);
  const auto shifted = e.fma(x, e.constant(0x1.71547652b82fep0), magic);  // 1 / ln 2
  const auto n = e.sub(shifted, magic);
  const auto minus_n = e.neg(n);
  const auto high = e.fma(minus_n, constant_by_width(e, 0x1.62e43p-1, 0x1.62e42fefa39efp-1), x);
  const auto ln2_low = constant_by_width(e, -0x1.05c61p-29, 0x1.abc9e3b39803fp-56);
  const auto rest = low == nullptr ? e.mul(minus_n, ln2_low) : e.fma(minus_n, ln2_low, *low);
  const auto exponent =
      e.iadd(e.to_bits(shifted), e.iconstant(2 * format.bias - format.round_bits));
  return {high, rest, n, exponent};
}

/// value * 2^n in two steps, so that a subnormal result is rounded once.
template <ScalarEmitter E>
typename E::F scale_by_exponent(E& e, typename E::F value, typename E::I exponent) {
  const int mantissa = format_of(e).mantissa;
  const auto half = e.ilshr(exponent, 1);
  const auto rest = e.isub(exponent, half);
  return e.mul(e.mul(value, e.from_bits(e.ishl(half, mantissa))),
               e.from_bits(e.ishl(rest, mantissa)));
}

/// exp(r) - 1 - high for |r| <= ln 2 / 2: low + r^2 q(r), q minimax of degree 4 (f32, 2^-26.1) and
/// 10 (f64, 2^-61.3).
template <ScalarEmitter E>
typename E::F expm1_tail(E& e, const ExpReduction<E>& reduced) {
  const auto r = e.add(reduced.high, reduced.low);
  const auto q = polynomial(
      e, r, {0.49999997, 0.16666539, 0.041667756, 0.008367122, 0.0013835767},
      {0.5, 0.16666666666666677, 0.04166666666666669, 0.00833333333332178, 0.0013888888888887933,
       0.00019841269885282023, 2.480158729082125e-05, 2.7557245304957857e-06, 2.75573208206243e-07,
       2.5108610189287804e-08, 2.0896063823063514e-09});
  return e.fma(e.mul(r, r), q, reduced.low);
}

/// exp(r) - 1 for |r| <= ln 2 / 2.
template <ScalarEmitter E>
typename E::F expm1_reduced(E& e, const ExpReduction<E>& reduced) {
  return e.add(reduced.high, expm1_tail(e, reduced));
}

/// x limited to where exp changes: below it exp is 0, above it infinity.
template <ScalarEmitter E>
typename E::F clamp_exp(E& e, typename E::F x) {
  const bool narrow = e.width() == 32;
  return at_most(e, at_least(e, x, narrow ? -104.5 : -746.0), narrow ? 89.0 : 710.0);
}

/// e^x.
template <ScalarEmitter E>
typename E::F dev_exp(E& e, typename E::F x) {
  const auto reduced = reduce_exp(e, clamp_exp(e, x));
  const auto value = e.add(e.constant(1.0), expm1_reduced(e, reduced));
  return scale_by_exponent(e, value, reduced.exponent);
}

/// 2^x = 2^n (1 + r p(r)) with |r| <= 1/2, exact where x is an integer; p minimax of degree 5 (f32,
/// 2^-28.9) and 11 (f64, 2^-63.9).
template <ScalarEmitter E>
typename E::F dev_exp2(E& e, typename E::F x) {
  const bool narrow = e.width() == 32;
  const FloatFormat& format = format_of(e);
  const auto bounded =
      at_most(e, at_least(e, x, narrow ? -151.0 : -1076.0), narrow ? 128.0 : 1024.0);
  const auto magic = e.constant(format.round_magic);
  const auto shifted = e.add(bounded, magic);
  const auto r = e.sub(bounded, e.sub(shifted, magic));
  const auto p = polynomial(
      e, r, {0.6931472, 0.24022594, 0.055503663, 0.009625447, 0.0013387928, 0.00013331587},
      {0.6931471805599453, 0.24022650695909997, 0.05550410866482377, 0.009618129107670846,
       0.0013333558145897872, 0.0001540353031477219, 1.5252734321149244e-05, 1.3215550333291807e-06,
       1.0177861688453635e-07, 7.03162231567089e-09, 4.484574351929605e-10,
       5.7421886847399605e-11});
  const auto exponent =
      e.iadd(e.to_bits(shifted), e.iconstant(2 * format.bias - format.round_bits));
  return scale_by_exponent(e, e.fma(r, p, e.constant(1.0)), exponent);
}

/// e^x - 1 without cancellation: 2^n (exp(r) - 1) + (2^n - 1).
template <ScalarEmitter E>
typename E::F dev_expm1(E& e, typename E::F x) {
  const bool narrow = e.width() == 32;
  const FloatFormat& format = format_of(e);
  const auto bounded = at_most(e, at_least(e, x, narrow ? -18.0 : -39.0), narrow ? 89.0 : 710.0);
  const auto reduced = reduce_exp(e, bounded);
  const auto p = expm1_reduced(e, reduced);
  // 2^(bias + 1) is no float: there scale by 2^bias, then by 2.
  const auto one = e.constant(1.0);
  const auto largest = e.constant(format.bias);
  const auto beyond = e.gt(reduced.n, largest);
  const auto n = e.select(beyond, largest, reduced.n);
  const auto bits = e.to_bits(e.add(n, e.constant(format.round_magic)));
  const auto scale = e.from_bits(
      e.ishl(e.iadd(bits, e.iconstant(format.bias - format.round_bits)), format.mantissa));
  const auto value =
      e.mul(e.fma(p, scale, e.sub(scale, one)), e.select(beyond, e.constant(2.0), one));
  return e.select(e.eq(x, e.constant(0.0)), x, value);
}

/// (log(1 + f) - f) / f^2 for |f| <= 1/3: f q(f) - 1/2, q minimax of degree 7 (f32, 2^-27.6 of the
/// logarithm) and 18 (f64, 2^-56.6).
template <ScalarEmitter E>
typename E::F log_tail(E& e, typename E::F f) {
  const auto q = polynomial(
      e, f,
      {0.33333215, -0.24999784, 0.20010477, -0.16681208, 0.14004429, -0.1217292, 0.13992678,
       -0.12946828},
      {0.3333333333333323, -0.25000000000013345, 0.20000000000055193, -0.16666666662928833,
       0.14285714276462047, -0.12500000389151084, 0.11111111845353247, -0.09999979289117406,
       0.09090876405549216, -0.08333972287918101, 0.07693193191908922, -0.07130791027616483,
       0.06651541949562607, -0.06390904596308775, 0.06045250855988143, -0.045735286092834684,
       0.042020376784510795, -0.08624809838319487, 0.08453300761344394});
  return e.fma(f, q, e.constant(-0.5));
}

/// n ln 2 + log(1 + f) for |f| <= 1/3.
template <ScalarEmitter E>
typename E::F log_of_parts(E& e, typename E::F n, typename E::F f) {
  const auto tail = log_tail(e, f);
  const auto low = e.mul(n, constant_by_width(e, -0x1.05c61p-29, 0x1.abc9e3b39803fp-56));
  const auto fraction = e.add(f, e.fma(e.mul(f, f), tail, low));
  return e.fma(n, constant_by_width(e, 0x1.62e43p-1, 0x1.62e42fefa39efp-1), fraction);
}

/// x = 2^n m with m in [2/3, 4/3), for positive normal x: the biased exponent n + bias and m.
template <class E>
struct LogReduction {
  typename E::I biased;
  typename E::F m;
};

template <ScalarEmitter E>
LogReduction<E> reduce_log(E& e, typename E::F x) {
  const FloatFormat& format = format_of(e);
  const int64_t two_thirds = e.width() == 32 ? INT64_C(0x3F2AAAAB) : INT64_C(0x3FE5555555555555);
  const int64_t one = int64_t{format.bias} << format.mantissa;
  const auto shifted = e.iadd(e.to_bits(x), e.iconstant(one - two_thirds));
  const auto fraction = e.iand(shifted, e.iconstant((int64_t{1} << format.mantissa) - 1));
  return {e.ilshr(shifted, format.mantissa),
          e.from_bits(e.iadd(fraction, e.iconstant(two_thirds)))};
}

/// The integer `value` in [0, 2^mantissa) plus 2^mantissa, made a float by its bits alone, minus
/// `offset_plus_base`.
template <ScalarEmitter E>
typename E::F small_to_float(E& e, typename E::I value, typename E::F offset_plus_base) {
  const FloatFormat& format = format_of(e);
  const int64_t base = int64_t{format.bias + format.mantissa}
                       << format.mantissa;  // bits of 2^mantissa
  return e.sub(e.from_bits(e.ior(value, e.iconstant(base))), offset_plus_base);
}

/// `value` where x is positive and finite, else the logarithm of x = +-0, below 0, inf or NaN.
template <ScalarEmitter E>
typename E::F log_specials(E& e, typename E::F x, typename E::F value) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto zero = e.constant(0.0);
  const auto ordinary = e.band(e.gt(x, zero), e.lt(x, e.constant(inf)));
  const auto nan = e.constant(std::numeric_limits<double>::quiet_NaN());
  const auto other = e.select(e.eq(x, zero), e.constant(-inf), e.select(e.lt(x, zero), nan, x));
  return e.select(ordinary, value, other);
}

/// x = 2^n (1 + f) with |f| <= 1/3.
template <class E>
struct LogParts {
  typename E::F n;
  typename E::F f;
};

/// The parts of a positive finite x, subnormals too.
template <ScalarEmitter E>
LogParts<E> log_parts(E& e, typename E::F x) {
  const FloatFormat& format = format_of(e);
  const double base = e.width() == 32 ? 0x1p23 : 0x1p52;
  const double lift = e.width() == 32 ? 24 : 54;
  const auto subnormal = e.lt(x, e.constant(format.min_normal));
  const auto lifted = e.mul(x, constant_by_width(e, 0x1p24, 0x1p54));
  const auto reduced = reduce_log(e, e.select(subnormal, lifted, x));
  const auto offset =
      e.select(subnormal, e.constant(base + format.bias + lift), e.constant(base + format.bias));
  return {small_to_float(e, reduced.biased, offset), e.sub(reduced.m, e.constant(1.0))};
}

/// Natural logarithm; log(+-0) = -inf, NaN below 0.
template <ScalarEmitter E>
typename E::F dev_log(E& e, typename E::F x) {
  const LogParts<E> parts = log_parts(e, x);
  return log_specials(e, x, log_of_parts(e, parts.n, parts.f));
}

/// whole + log(1 + f) * (scale + scale_low) for a logarithm to another base: whole.high is exact
/// and 0 or larger than the rest.
template <ScalarEmitter E>
typename E::F log_to_base(E& e, typename E::F f, const FloatPair<E>& scale,
                          const FloatPair<E>& whole) {
  const auto high = e.mul(f, scale.high);
  const auto low = e.fma(f, scale.low, e.fma(f, scale.high, e.neg(high)));
  const auto tail = e.mul(e.mul(f, f), log_tail(e, f));
  const FloatPair<E> sum = fast_two_sum(e, whole.high, high);
  const auto rest = e.fma(tail, scale.high, e.add(low, whole.low));
  return e.add(sum.high, e.add(sum.low, rest));
}

/// Logarithm to base 2, exact at powers of two.
template <ScalarEmitter E>
typename E::F dev_log2(E& e, typename E::F x) {
  const LogParts<E> parts = log_parts(e, x);
  const FloatPair<E> scale{constant_by_width(e, 0x1.715476p+0, 0x1.71547652b82fep+0),
                           constant_by_width(e, 0x1.4ae0cp-26, 0x1.777d0ffda0d24p-56)};
  const FloatPair<E> whole{parts.n, e.constant(0.0)};
  return log_specials(e, x, log_to_base(e, parts.f, scale, whole));
}

/// Logarithm to base 10. The high part of log10(2) has so few bits that its product with n is
/// exact.
template <ScalarEmitter E>
typename E::F dev_log10(E& e, typename E::F x) {
  const LogParts<E> parts = log_parts(e, x);
  const FloatPair<E> scale{constant_by_width(e, 0x1.bcb7b2p-2, 0x1.bcb7b1526e50ep-2),
                           constant_by_width(e, -0x1.5b235ep-27, 0x1.95355baaafad3p-57)};
  const auto step = constant_by_width(e, 0x1.344p-2, 0x1.34413509f8p-2);
  const auto step_low = constant_by_width(e, 0x1.3509f8p-18, -0x1.80433b83b532ap-44);
  const FloatPair<E> whole{e.mul(parts.n, step), e.mul(parts.n, step_low)};
  return log_specials(e, x, log_to_base(e, parts.f, scale, whole));
}

/// 1 + x = 2^n m with m in [2/3, 4/3), for x > -1: n + bias and 2^-n.
template <class E>
struct Log1pReduction {
  typename E::I biased;
  typename E::F scale;
};

template <ScalarEmitter E>
Log1pReduction<E> reduce_log1p(E& e, typename E::F x) {
  const FloatFormat& format = format_of(e);
  const auto biased = reduce_log(e, e.add(e.constant(1.0), x)).biased;
  // 2^-n as 2^(2-n) / 4, because 2^-n itself can be subnormal.
  const auto exponent = e.isub(e.iconstant(2 * format.bias + 2), biased);
  return {biased, e.mul(e.from_bits(e.ishl(exponent, format.mantissa)), e.constant(0.25))};
}

/// log(1 + x + low) for x > -1, |low| at most half a step of x: the reduced argument is made from x
/// itself, so nothing is lost in 1 + x.
template <ScalarEmitter E>
typename E::F log1p_sum(E& e, typename E::F x, const typename E::F* low) {
  const double base = e.width() == 32 ? 0x1p23 : 0x1p52;
  const Log1pReduction<E> reduced = reduce_log1p(e, x);
  auto f = e.fma(reduced.scale, x, e.sub(reduced.scale, e.constant(1.0)));
  if (low != nullptr) f = e.fma(reduced.scale, *low, f);
  const auto n = small_to_float(e, reduced.biased, e.constant(base + format_of(e).bias));
  return log_of_parts(e, n, f);
}

/// log(1 + x); -inf at -1, NaN below, -0 stays -0.
template <ScalarEmitter E>
typename E::F dev_log1p(E& e, typename E::F x) {
  const auto value = log_specials(e, e.add(e.constant(1.0), x), log1p_sum<E>(e, x, nullptr));
  const auto tiny = constant_by_width(e, 0x1p-60, 0x1p-120);
  return e.select(e.lt(e.abs(x), tiny), x, value);
}

/// n ln 2 + log(1 + f.high + f.low) for |f| <= 1/3 as a sum; the first product with ln 2 is exact.
template <ScalarEmitter E>
FloatPair<E> log_pair(E& e, typename E::F n, const FloatPair<E>& f) {
  const auto whole = e.mul(n, constant_by_width(e, 0x1.62e4p-1, 0x1.62e42fefa3p-1));
  const FloatPair<E> sum = fast_two_sum(e, whole, f.high);
  const auto slope_low = e.fma(e.neg(f.low), f.high, f.low);
  const auto low = e.fma(n, constant_by_width(e, 0x1.7f7d1cp-20, 0x1.3de6af278ece6p-42), slope_low);
  const auto tail = e.fma(e.mul(f.high, f.high), log_tail(e, f.high), low);
  return {sum.high, e.add(sum.low, tail)};
}

/// log(1 + u.high + u.low) for u > -1 as a sum: the reduced argument is a sum of two floats.
template <ScalarEmitter E>
FloatPair<E> log1p_pair(E& e, const FloatPair<E>& u) {
  const double base = e.width() == 32 ? 0x1p23 : 0x1p52;
  const Log1pReduction<E> reduced = reduce_log1p(e, u.high);
  const auto shift = e.sub(reduced.scale, e.constant(1.0));
  FloatPair<E> f = two_sum(e, e.mul(reduced.scale, u.high), shift);
  f.low = e.fma(reduced.scale, u.low, f.low);
  const auto n = small_to_float(e, reduced.biased, e.constant(base + format_of(e).bias));
  return log_pair(e, n, f);
}

/// log(1 + u.high + u.low) for u > -1, with one rounding more than the polynomial's.
template <ScalarEmitter E>
typename E::F log1p_of_pair(E& e, const FloatPair<E>& u) {
  const FloatPair<E> logarithm = log1p_pair(e, u);
  return e.add(logarithm.high, logarithm.low);
}

/// x times the logarithm of a function of y, which is given as a sum and, for what has none, as a
/// value; 0 where x is 0 and y a number.
template <ScalarEmitter E>
typename E::F times_logarithm(E& e, typename E::F x, typename E::F y, const FloatPair<E>& sum,
                              typename E::F value) {
  const auto zero = e.constant(0.0);
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto plain = e.mul(x, value);
  const auto product = e.fma(x, sum.high, e.mul(x, sum.low));
  const auto finite = e.band(e.lt(e.abs(value), inf), e.lt(e.abs(product), inf));
  const auto usable = e.band(finite, e.ne(sum.high, zero));
  const auto nothing = e.select(e.ne(y, y), y, zero);
  return e.select(e.eq(x, zero), nothing, e.select(usable, product, plain));
}

/// x log(y), and 0 where x is 0 and y a number.
template <ScalarEmitter E>
typename E::F dev_xlogy(E& e, typename E::F x, typename E::F y) {
  const LogParts<E> parts = log_parts(e, y);
  const FloatPair<E> sum = log_pair<E>(e, parts.n, {parts.f, e.constant(0.0)});
  return times_logarithm(e, x, y, sum, log_specials(e, y, e.add(sum.high, sum.low)));
}

/// x log(1 + y), and 0 where x is 0 and y a number.
template <ScalarEmitter E>
typename E::F dev_xlog1py(E& e, typename E::F x, typename E::F y) {
  const FloatPair<E> sum = log1p_pair<E>(e, {y, e.constant(0.0)});
  const auto value = log_specials(e, e.add(e.constant(1.0), y), e.add(sum.high, sum.low));
  const auto tiny = e.lt(e.abs(y), constant_by_width(e, 0x1p-60, 0x1p-120));
  return times_logarithm(e, x, y, sum, e.select(tiny, y, value));
}

/// e^x of a reduced x <= 0, with its rounding error.
template <ScalarEmitter E>
FloatPair<E> exp_pair(E& e, const ExpReduction<E>& reduced) {
  const auto one = e.constant(1.0);
  const auto above_one = expm1_reduced(e, reduced);
  const auto value = e.add(one, above_one);
  const auto error = e.sub(above_one, e.sub(value, one));
  const auto high = scale_by_exponent(e, value, reduced.exponent);
  return {high, scale_by_exponent(e, error, reduced.exponent)};
}

/// log(1 + e^x) without overflow: max(x, 0) + log1p(e^-|x|).
template <ScalarEmitter E>
typename E::F dev_softplus(E& e, typename E::F x) {
  const auto zero = e.constant(0.0);
  const FloatPair<E> power = exp_pair(e, reduce_exp(e, clamp_exp(e, e.neg(e.abs(x)))));
  return e.add(e.select(e.lt(x, zero), zero, x), log1p_sum(e, power.high, &power.low));
}

/// log(1 / (1 + e^-x)) = -softplus(-x).
template <ScalarEmitter E>
typename E::F dev_log_sigmoid(E& e, typename E::F x) {
  return e.neg(dev_softplus(e, e.neg(x)));
}

/// log(e^x + e^y) = max + log1p(e^(min - max)); equal infinities give themselves. Where the maximum
/// is negative it cancels, and the result is exact to 2 ulp of the maximum.
template <ScalarEmitter E>
typename E::F dev_logaddexp(E& e, typename E::F x, typename E::F y) {
  const auto swapped = e.lt(x, y);
  const auto high = e.select(swapped, y, x);
  const FloatPair<E> difference = two_sum(e, e.select(swapped, x, y), e.neg(high));
  // Where the power is 0 anyhow, what is missing in the difference may be anything.
  const auto bounded = clamp_exp(e, difference.high);
  const auto low = e.select(e.eq(bounded, difference.high), difference.low, e.constant(0.0));
  const auto rest = log1p_of_pair(e, exp_pair(e, reduce_exp(e, bounded, &low)));
  return e.select(e.eq(x, y), e.add(x, e.constant(std::numbers::ln2)), e.add(high, rest));
}

}  // namespace mezzo::codegen
