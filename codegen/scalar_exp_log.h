// SPDX-License-Identifier: Apache-2.0
// Device functions: exponentials and logarithms. Branch-free; no integer division, no conversion
// between integers and floats and no arithmetic shift, because AVX2 has none of them for 64-bit
// lanes. "minimax" below: Remez exchange in 45 digits, the leading coefficients rounded one by one
// and the rest fitted again; the figure is the largest relative error of the function that the
// polynomial is for.
#pragma once

#include <mezzo/codegen/scalar_emitter.h>

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

/// exp(r) - 1 for |r| <= ln 2 / 2: r + r^2 q(r), q minimax of degree 4 (f32, 2^-26.1) and 10 (f64,
/// 2^-61.3).
template <ScalarEmitter E>
typename E::F expm1_reduced(E& e, const ExpReduction<E>& reduced) {
  const auto r = e.add(reduced.high, reduced.low);
  const auto q = polynomial(
      e, r, {0.49999997, 0.16666539, 0.041667756, 0.008367122, 0.0013835767},
      {0.5, 0.16666666666666677, 0.04166666666666669, 0.00833333333332178, 0.0013888888888887933,
       0.00019841269885282023, 2.480158729082125e-05, 2.7557245304957857e-06, 2.75573208206243e-07,
       2.5108610189287804e-08, 2.0896063823063514e-09});
  return e.add(reduced.high, e.fma(e.mul(r, r), q, reduced.low));
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

/// n ln 2 + log(1 + f) for |f| <= 1/3: f - f^2/2 + f^3 q(f), q minimax of degree 7 (f32, 2^-27.6)
/// and 18 (f64, 2^-56.6) over [-1/3, 1/3].
template <ScalarEmitter E>
typename E::F log_of_parts(E& e, typename E::F n, typename E::F f) {
  const auto q = polynomial(
      e, f,
      {0.33333215, -0.24999784, 0.20010477, -0.16681208, 0.14004429, -0.1217292, 0.13992678,
       -0.12946828},
      {0.3333333333333323, -0.25000000000013345, 0.20000000000055193, -0.16666666662928833,
       0.14285714276462047, -0.12500000389151084, 0.11111111845353247, -0.09999979289117406,
       0.09090876405549216, -0.08333972287918101, 0.07693193191908922, -0.07130791027616483,
       0.06651541949562607, -0.06390904596308775, 0.06045250855988143, -0.045735286092834684,
       0.042020376784510795, -0.08624809838319487, 0.08453300761344394});
  const auto tail = e.fma(f, q, e.constant(-0.5));
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

/// Natural logarithm; log(+-0) = -inf, NaN below 0.
template <ScalarEmitter E>
typename E::F dev_log(E& e, typename E::F x) {
  const FloatFormat& format = format_of(e);
  const double base = e.width() == 32 ? 0x1p23 : 0x1p52;
  const double lift = e.width() == 32 ? 24 : 54;
  const auto subnormal = e.lt(x, e.constant(format.min_normal));
  const auto lifted = e.mul(x, constant_by_width(e, 0x1p24, 0x1p54));
  const auto reduced = reduce_log(e, e.select(subnormal, lifted, x));
  const auto offset =
      e.select(subnormal, e.constant(base + format.bias + lift), e.constant(base + format.bias));
  const auto n = small_to_float(e, reduced.biased, offset);
  const auto value = log_of_parts(e, n, e.sub(reduced.m, e.constant(1.0)));
  return log_specials(e, x, value);
}

/// log(1 + x + low) for x > -1, |low| at most half a step of x: the reduced argument is made from x
/// itself, so nothing is lost in 1 + x.
template <ScalarEmitter E>
typename E::F log1p_sum(E& e, typename E::F x, const typename E::F* low) {
  const FloatFormat& format = format_of(e);
  const double base = e.width() == 32 ? 0x1p23 : 0x1p52;
  const auto one = e.constant(1.0);
  const auto biased = reduce_log(e, e.add(one, x)).biased;
  // 2^-n as 2^(2-n) / 4, because 2^-n itself can be subnormal.
  const auto exponent = e.isub(e.iconstant(2 * format.bias + 2), biased);
  const auto scale = e.mul(e.from_bits(e.ishl(exponent, format.mantissa)), e.constant(0.25));
  auto f = e.fma(scale, x, e.sub(scale, one));
  if (low != nullptr) f = e.fma(scale, *low, f);
  return log_of_parts(e, small_to_float(e, biased, e.constant(base + format.bias)), f);
}

/// log(1 + x); -inf at -1, NaN below, -0 stays -0.
template <ScalarEmitter E>
typename E::F dev_log1p(E& e, typename E::F x) {
  const auto value = log_specials(e, e.add(e.constant(1.0), x), log1p_sum<E>(e, x, nullptr));
  const auto tiny = constant_by_width(e, 0x1p-60, 0x1p-120);
  return e.select(e.lt(e.abs(x), tiny), x, value);
}

/// log(1 + e^x) without overflow: max(x, 0) + log1p(e^-|x|), the exponential carried with its
/// rounding error.
template <ScalarEmitter E>
typename E::F dev_softplus(E& e, typename E::F x) {
  const auto zero = e.constant(0.0);
  const auto one = e.constant(1.0);
  const auto reduced = reduce_exp(e, clamp_exp(e, e.neg(e.abs(x))));
  const auto above_one = expm1_reduced(e, reduced);
  const auto value = e.add(one, above_one);
  const auto error = e.sub(above_one, e.sub(value, one));
  const auto high = scale_by_exponent(e, value, reduced.exponent);
  const auto low = scale_by_exponent(e, error, reduced.exponent);
  return e.add(e.select(e.lt(x, zero), zero, x), log1p_sum(e, high, &low));
}

/// log(1 / (1 + e^-x)) = -softplus(-x).
template <ScalarEmitter E>
typename E::F dev_log_sigmoid(E& e, typename E::F x) {
  return e.neg(dev_softplus(e, e.neg(x)));
}

}  // namespace mezzo::codegen
