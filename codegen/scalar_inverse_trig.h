// SPDX-License-Identifier: Apache-2.0
// Device functions: inverse trigonometric functions. "minimax" as in scalar_exp_log.h.
#pragma once

#include <mezzo/codegen/scalar_emitter.h>

namespace mezzo::codegen {

/// quarters * pi / 4 for 1, 2, 3 and 4 quarters.
template <ScalarEmitter E>
FloatPair<E> quarter_turns(E& e, int quarters) {
  if (quarters == 3)
    return {constant_by_width(e, 0x1.2d97c8p+1, 0x1.2d97c7f3321d2p+1),
            constant_by_width(e, -0x1.99bc5cp-28, 0x1.a79394c9e8a0ap-54)};
  const double scale = quarters;
  return {constant_by_width(e, scale * 0x1.921fb6p-1, scale * 0x1.921fb54442d18p-1),
          constant_by_width(e, scale * -0x1.777a5cp-26, scale * 0x1.1a62633145c07p-55)};
}

template <ScalarEmitter E>
FloatPair<E> select_pair(E& e, typename E::B b, const FloatPair<E>& x, const FloatPair<E>& y) {
  return {e.select(b, x.high, y.high), e.select(b, x.low, y.low)};
}

/// asin(s) - s for |s| <= 1/2, z = s^2: s z q(z), q minimax of degree 4 (f32, 2^-27.6) and 11 (f64,
/// 2^-55.9).
template <ScalarEmitter E>
typename E::F asin_rest(E& e, typename E::F s, typename E::F z) {
  const auto q = polynomial(
      e, z, {0.16666754, 0.07495252, 0.04547604, 0.024152124, 0.042211667},
      {0.16666666666665383, 0.0750000000034751, 0.044642856810787605, 0.030381960143955666,
       0.022371729701236465, 0.017360162748307706, 0.013880657938576199, 0.012198443326910129,
       0.006408664284809073, 0.01982881714839184, -0.01664875485088066, 0.03216848819392631});
  return e.mul(e.mul(s, z), q);
}

/// asin(s) - s and s itself, of a = s up to 1/2 and of s = sqrt((1 - a) / 2) from there; that root
/// is NaN beyond 1.
template <class E>
struct AsinReduction {
  typename E::B large;
  FloatPair<E> s;
  typename E::F rest;
};

template <ScalarEmitter E>
AsinReduction<E> reduce_asin(E& e, typename E::F a) {
  const auto half = e.constant(0.5);
  const auto large = e.gt(a, half);
  const auto z_large = e.mul(e.sub(e.constant(1.0), a), half);
  const auto z = e.select(large, z_large, e.mul(a, a));
  const auto root = e.sqrt(z);
  // At a = 1 the root is 0 and so is its error.
  const auto divisor = e.select(e.eq(root, e.constant(0.0)), half, root);
  const auto root_low = e.div(e.mul(e.fma(e.neg(root), root, z), half), divisor);
  const auto s = e.select(large, root, a);
  const auto s_low = e.select(large, root_low, e.constant(0.0));
  return {large, {s, s_low}, asin_rest(e, s, z)};
}

/// Arc sine: beyond 1/2 pi / 2 - 2 asin(sqrt((1 - a) / 2)); NaN beyond 1.
template <ScalarEmitter E>
typename E::F dev_asin(E& e, typename E::F x) {
  const AsinReduction<E> r = reduce_asin(e, e.abs(x));
  const auto small = e.add(r.s.high, r.rest);
  const FloatPair<E> right = quarter_turns(e, 2);
  const auto minus_two = e.constant(-2.0);
  const FloatPair<E> sum = fast_two_sum(e, right.high, e.mul(r.s.high, minus_two));
  const auto low = e.add(sum.low, right.low);
  const auto large = e.add(sum.high, e.fma(e.add(r.s.low, r.rest), minus_two, low));
  return with_sign_of(e, e.select(r.large, large, small), x);
}

/// Arc cosine: pi / 2 - asin(x) within 1/2, 2 asin(sqrt((1 - a) / 2)) above, pi less that below;
/// NaN beyond 1.
template <ScalarEmitter E>
typename E::F dev_acos(E& e, typename E::F x) {
  const AsinReduction<E> r = reduce_asin(e, e.abs(x));
  const auto negative = e.lt(x, e.constant(0.0));
  // base + factor * (s + rest)
  const FloatPair<E> zero{e.constant(0.0), e.constant(0.0)};
  const FloatPair<E> far = select_pair(e, negative, quarter_turns(e, 4), zero);
  const FloatPair<E> base = select_pair(e, r.large, far, quarter_turns(e, 2));
  const auto near_factor = e.select(negative, e.constant(1.0), e.constant(-1.0));
  const auto far_factor = e.mul(near_factor, e.constant(-2.0));
  const auto factor = e.select(r.large, far_factor, near_factor);
  const FloatPair<E> sum = two_sum(e, base.high, e.mul(r.s.high, factor));
  const auto low = e.add(sum.low, base.low);
  return e.add(sum.high, e.fma(e.add(r.s.low, r.rest), factor, low));
}

/// atan(t) for 0 <= t = num / den <= 1: above tan(pi / 8) pi / 4 + atan((num - den) / (num + den));
/// t + t^3 q(t^2), q minimax of degree 4 (f32, 2^-30.5) and
/// 10 (f64, 2^-59.5).
template <class E>
struct AtanReduction {
  typename E::B shifted;  ///< pi / 4 is to be added
  typename E::F high;
  typename E::F low;
};

template <ScalarEmitter E>
AtanReduction<E> atan_of_ratio(E& e, typename E::F num, typename E::F den) {
  const auto shifted = e.gt(num, e.mul(den, e.constant(0x1.a827999fcef32p-2)));
  const FloatPair<E> difference = two_sum(e, num, e.neg(den));
  const FloatPair<E> sum = fast_two_sum(e, den, num);
  const auto zero = e.constant(0.0);
  const FloatPair<E> t = divide(e, select_pair(e, shifted, difference, {num, zero}),
                                select_pair(e, shifted, sum, {den, zero}));
  const auto square = e.mul(t.high, t.high);
  const auto q = polynomial(
      e, square, {-0.33333316, 0.19998531, -0.1424447, 0.106006, -0.060964484},
      {-0.333333333333332, 0.1999999999995381, -0.14285714280221837, 0.11111110784949811,
       -0.09090897809154333, 0.0769206131709914, -0.0666311906936939, 0.05848018934763042,
       -0.050399876649146975, 0.03808452444356535, -0.017931946305160464});
  return {shifted, t.high, e.fma(e.mul(t.high, square), q, t.low)};
}

/// base + high + low.
template <ScalarEmitter E>
typename E::F add_to_turn(E& e, const FloatPair<E>& base, typename E::F high, typename E::F low) {
  const FloatPair<E> sum = two_sum(e, base.high, high);
  return e.add(sum.high, e.add(sum.low, e.add(low, base.low)));
}

/// Arc tangent: from 1 on pi / 2 - atan(1 / a).
template <ScalarEmitter E>
typename E::F dev_atan(E& e, typename E::F x) {
  const auto one = e.constant(1.0);
  // Where this limits it, the result is pi / 2 already.
  const auto a = at_most(e, e.abs(x), e.width() == 32 ? 0x1p40 : 0x1p80);
  const auto inverted = e.gt(a, one);
  const AtanReduction<E> r =
      atan_of_ratio(e, e.select(inverted, one, a), e.select(inverted, a, one));
  const FloatPair<E> zero{e.constant(0.0), e.constant(0.0)};
  const FloatPair<E> quarter = quarter_turns(e, 1);
  // pi / 2 - pi / 4 = pi / 4
  const FloatPair<E> outer = select_pair(e, r.shifted, quarter, quarter_turns(e, 2));
  const FloatPair<E> inner = select_pair(e, r.shifted, quarter, zero);
  const FloatPair<E> base = select_pair(e, inverted, outer, inner);
  const auto high = e.select(inverted, e.neg(r.high), r.high);
  const auto low = e.select(inverted, e.neg(r.low), r.low);
  return with_sign_of(e, e.abs(add_to_turn(e, base, high, low)), x);
}

/// The angle of the point (x, y) in [-pi, pi], with the signed zeros and infinities of IEEE 754.
template <ScalarEmitter E>
typename E::F dev_atan2(E& e, typename E::F y, typename E::F x) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto inf = e.constant(infinity);
  const auto zero = e.constant(0.0);
  const auto one = e.constant(1.0);
  const auto a = e.abs(y);
  const auto b = e.abs(x);
  const auto steep = e.gt(a, b);
  auto den = e.select(steep, a, b);
  auto num = e.select(steep, b, a);
  // Both into the range where neither their sum nor their quotient's rest leaves the format.
  const auto large = e.gt(den, constant_by_width(e, 0x1p120, 0x1p1000));
  const auto small = e.lt(den, constant_by_width(e, 0x1p-60, 0x1p-500));
  const auto down = e.constant(0x1p-10);
  const auto up = constant_by_width(e, 0x1p64, 0x1p520);
  const auto scale = e.select(large, down, e.select(small, up, one));
  den = e.mul(den, scale);
  num = e.mul(num, scale);
  // 0 / 0 is taken as 0 / 1, inf / inf as 1 / 1, finite / inf as 0 / 1.
  const auto edge = e.bor(e.eq(den, zero), e.eq(den, inf));
  const auto both = e.band(e.eq(num, inf), e.eq(den, inf));
  num = e.select(edge, e.select(both, one, zero), num);
  den = e.select(edge, one, den);
  const AtanReduction<E> r = atan_of_ratio(e, num, den);

  const auto behind = e.lt(with_sign_of(e, one, x), zero);
  const FloatPair<E> none{zero, zero};
  const FloatPair<E> quarter = quarter_turns(e, 1), half = quarter_turns(e, 2);
  const FloatPair<E> three = quarter_turns(e, 3), whole = quarter_turns(e, 4);
  // Flat: r, or pi - r behind. Steep: pi / 2 - r, or pi / 2 + r behind.
  const FloatPair<E> flat = select_pair(e, behind, select_pair(e, r.shifted, three, whole),
                                        select_pair(e, r.shifted, quarter, none));
  const FloatPair<E> upright = select_pair(e, behind, select_pair(e, r.shifted, three, half),
                                           select_pair(e, r.shifted, quarter, half));
  const FloatPair<E> base = select_pair(e, steep, upright, flat);
  const auto backward = e.bor(e.band(steep, e.bnot(behind)), e.band(behind, e.bnot(steep)));
  const auto high = e.select(backward, e.neg(r.high), r.high);
  const auto low = e.select(backward, e.neg(r.low), r.low);
  const auto value = with_sign_of(e, e.abs(add_to_turn(e, base, high, low)), y);
  const auto ordered = e.band(e.eq(x, x), e.eq(y, y));
  return e.select(ordered, value, e.add(x, y));
}

}  // namespace mezzo::codegen
