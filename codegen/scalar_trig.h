// SPDX-License-Identifier: Apache-2.0
// Device functions: sine, cosine and tangent. "minimax" as in scalar_exp_log.h.
#pragma once

#include <mezzo/codegen/scalar_exp_log.h>

#include <array>
#include <cmath>
#include <vector>

namespace mezzo::codegen {

/// a = (quadrant + 4 k) pi / 2 + high + low with |high| at most a little above pi / 4; the two low
/// bits of `quadrant` count.
template <class E>
struct QuadrantReduction {
  typename E::I quadrant;
  typename E::F high;
  typename E::F low;
};

/// For 0 <= a <= 2^17. pi / 2 in three parts: the first product is taken off without a rounding,
/// the second with its error.
template <ScalarEmitter E>
QuadrantReduction<E> reduce_quadrant_near(E& e, typename E::F a) {
  const auto magic = e.constant(format_of(e).round_magic);
  const auto shifted = e.fma(a, e.constant(0x1.45f306dc9c883p-1), magic);  // 2 / pi
  const auto n = e.sub(shifted, magic);
  const auto minus_n = e.neg(n);
  const auto first = e.fma(minus_n, constant_by_width(e, 0x1.921fb6p+0, 0x1.921fb54442d18p+0), a);
  const FloatPair<E> second =
      two_product(e, minus_n, constant_by_width(e, -0x1.777a5cp-25, 0x1.1a62633145c07p-54));
  const FloatPair<E> sum = two_sum(e, first, second.high);
  const auto third = constant_by_width(e, -0x1.ee59dap-50, -0x1.f1976b7ed8fbcp-110);
  const auto low = e.fma(minus_n, third, e.add(sum.low, second.low));
  return {e.to_bits(shifted), sum.high, low};
}

/// A product of two words of half the width of a lane, in such words.
template <class E>
struct WordProduct {
  typename E::I low;
  typename E::I high;
};

template <ScalarEmitter E>
WordProduct<E> multiply_words(E& e, typename E::I a, typename E::I b) {
  const auto product = e.umul32_low(a, b);
  if (e.width() == 64) return {product, e.umul32_high(a, b)};
  return {e.iand(product, e.iconstant(0xFFFF)), e.ilshr(product, 16)};
}

/// Bits of 1 / (2 pi) in words of half the width of a lane, after as many zeros as the exponent of
/// the last bit of 2^17 lies below 0.
inline std::vector<int64_t> turn_words(int width) {
  if (width == 32)
    return {0x00A2, 0xF983, 0x6E4E, 0x4415, 0x29FC, 0x2757, 0xD1F5,
            0x34DD, 0xC0DB, 0x6295, 0x993C, 0x4390, 0x41FE};
  return {0x00000000, 0x0517CC1B, 0x727220A9, 0x4FE13ABE, 0x8FA9A6EE, 0x06DB14AC, 0xC9E21C82,
          0x0FF28B1D, 0x5EF5DE2B, 0x0DB92371, 0xD2126E97, 0x00324977, 0x504E8C90, 0xE7F0EF58,
          0xE5894D39, 0xF74411AF, 0xA975DA24, 0x274CE381, 0x35A2FBF2, 0x09CC8EB1, 0xCC1A99CF,
          0xA4E422FC, 0x5DEFC941, 0xD8FFC4BF, 0xFEF02CC0, 0x7F79788C, 0x5AD05368, 0xFB69B3F6,
          0x793E584D, 0xBA7A31FB, 0x34F2FF51, 0x6BA93DD6, 0x3F5F2F8B, 0xD9E839CF, 0xBC529497,
          0x535FDAFD, 0x88FC6AE8, 0x42B01982};
}

/// For finite a >= 2^17, exact: the words of 1 / (2 pi) that matter for the exponent of a are
/// selected (no table in memory), multiplied by the mantissa as integers, and of a / (2 pi) four
/// words after the point are kept.
template <ScalarEmitter E>
QuadrantReduction<E> reduce_quadrant_far(E& e, typename E::F a) {
  const FloatFormat& format = format_of(e);
  const int word = e.width() / 2;
  const int word_log2 = word == 16 ? 4 : 5;
  const auto mask = e.iconstant((int64_t{1} << word) - 1);
  const auto bits = e.to_bits(a);
  const int64_t implicit = int64_t{1} << format.mantissa;
  const auto mantissa = e.ior(e.iand(bits, e.iconstant(implicit - 1)), e.iconstant(implicit));
  // a = mantissa * 2^(exponent + 17 - mantissa bits), exponent = word * skipped + shift.
  const auto exponent = e.isub(e.ilshr(bits, format.mantissa), e.iconstant(format.bias + 17));
  const auto shift = e.iand(exponent, e.iconstant(word - 1));
  const auto power = e.from_bits(e.ishl(e.iadd(shift, e.iconstant(format.bias)), format.mantissa));
  const auto base = e.constant(static_cast<double>(implicit));
  const auto factor = e.isub(e.to_bits(e.add(power, base)), e.to_bits(base));

  std::vector<typename E::I> window;
  for (const int64_t each : turn_words(e.width())) window.push_back(e.iconstant(each));
  constexpr size_t kWindow = 7;
  for (int bit = word == 16 ? 2 : 4; bit >= 0; --bit) {
    const auto skip = bit_is_set(e, exponent, word_log2 + bit);
    const size_t distance = size_t{1} << bit;
    const size_t kept = kWindow + distance - 1;
    for (size_t i = 0; i < kept; ++i)
      window[i] = i + distance < window.size()
                      ? select_bits(e, skip, window[i + distance], window[i])
                      : window[i];
    window.resize(kept);
  }

  // The shifted mantissa has three words.
  const WordProduct<E> lower = multiply_words(e, e.iand(mantissa, mask), factor);
  const WordProduct<E> upper = multiply_words(e, e.ilshr(mantissa, word), factor);
  const typename E::I shifted[3] = {lower.low, e.ior(lower.high, upper.low), upper.high};
  std::array<typename E::I, 5> columns;  // from the point on
  for (int c = 0; c < 5; ++c) columns[static_cast<size_t>(c)] = e.iconstant(0);
  for (int part = 0; part < 3; ++part)
    for (int c = 0; c < 5; ++c) {
      const auto at = static_cast<size_t>(c);
      const WordProduct<E> product = multiply_words(e, shifted[part], window[at + size_t(part)]);
      columns[at] = e.iadd(columns[at], product.low);
      if (c > 0) columns[at - 1] = e.iadd(columns[at - 1], product.high);
    }
  for (size_t c = 4; c > 0; --c) {
    columns[c - 1] = e.iadd(columns[c - 1], e.ilshr(columns[c], word));
    columns[c] = e.iand(columns[c], mask);
  }

  // The two bits after the point count quadrants; half a quadrant more rounds to the nearest.
  const auto top = e.iadd(e.iand(columns[0], mask), e.iconstant(int64_t{1} << (word - 3)));
  columns[0] = e.iand(top, e.iconstant((int64_t{1} << (word - 2)) - 1));
  std::array<typename E::F, 4> parts;
  for (int c = 0; c < 4; ++c) {
    const auto at = static_cast<size_t>(c);
    const auto value = small_to_float(e, columns[at], base);
    parts[at] = e.mul(value, e.constant(std::ldexp(1.0, 2 - word * (c + 1))));
  }
  const auto centred = e.sub(parts[0], e.constant(0.5));
  const FloatPair<E> begin = fast_two_sum(e, centred, parts[1]);
  const FloatPair<E> end = fast_two_sum(e, parts[2], parts[3]);
  const FloatPair<E> sum = fast_two_sum(e, begin.high, e.add(begin.low, end.high));
  const auto rest = e.add(sum.low, end.low);
  const auto half_pi = constant_by_width(e, 0x1.921fb6p+0, 0x1.921fb54442d18p+0);
  const auto half_pi_low = constant_by_width(e, -0x1.777a5cp-25, 0x1.1a62633145c07p-54);
  const FloatPair<E> product = two_product(e, sum.high, half_pi);
  const auto low = e.fma(rest, half_pi, e.fma(sum.high, half_pi_low, product.low));
  return {e.ilshr(top, word - 2), product.high, low};
}

/// For a >= 0; of an infinite or NaN a the parts mean nothing.
template <ScalarEmitter E>
QuadrantReduction<E> reduce_quadrant(E& e, typename E::F a) {
  using Parts = std::array<typename E::F, 3>;
  const auto parts = [&](const QuadrantReduction<E>& r) {
    return Parts{e.from_bits(r.quadrant), r.high, r.low};
  };
  const Parts near = parts(reduce_quadrant_near(e, a));
  const auto beyond = e.gt(a, e.constant(0x1p17));
  const Parts all = e.rare(beyond, near, [&] { return parts(reduce_quadrant_far(e, a)); });
  return {e.to_bits(all[0]), all[1], all[2]};
}

/// sin(high + low): h + h^3 q(h^2) + low, q minimax of degree 3 (f32, 2^-37.6) and 6 (f64,
/// 2^-68.8).
template <ScalarEmitter E>
typename E::F sin_reduced(E& e, const QuadrantReduction<E>& r) {
  const auto square = e.mul(r.high, r.high);
  const auto q = polynomial(
      e, square, {-0.16666667, 0.00833338, -0.00019853511, 2.8375155e-06},
      {-0.16666666666666666, 0.008333333333333038, -0.0001984126984095587, 2.7557319069574336e-06,
       -2.5052069567789895e-08, 1.605411649161577e-10, -7.378825462847708e-13});
  return e.add(r.high, e.fma(e.mul(r.high, square), q, r.low));
}

/// cos(high + low): 1 - h^2 / 2 + h^4 q(h^2) - h low, q minimax of degree 2 (f32, 2^-32.8) and 6
/// (f64, 2^-74.7).
template <ScalarEmitter E>
typename E::F cos_reduced(E& e, const QuadrantReduction<E>& r) {
  const auto square = e.mul(r.high, r.high);
  const auto q = polynomial(e, square, {0.041666646, -0.0013887332, 2.443619e-05},
                            {0.041666666666666664, -0.0013888888888888376, 2.4801587301161335e-05,
                             -2.7557319049861474e-07, 2.0876719174822243e-09,
                             -1.1466507664558292e-11, 4.575652501330091e-14});
  const auto tail = e.fma(e.mul(square, square), q, e.neg(e.mul(r.high, r.low)));
  return e.add(e.constant(1.0), e.fma(square, e.constant(-0.5), tail));
}

/// `value` with its sign flipped where bit 1 of `quadrant` is set.
template <ScalarEmitter E>
typename E::F sign_by_quadrant(E& e, typename E::F value, typename E::I quadrant) {
  const auto sign = e.ishl(e.iand(quadrant, e.iconstant(2)), e.width() - 2);
  return e.from_bits(e.ixor(e.to_bits(value), sign));
}

/// `value` where a is finite, else NaN.
template <ScalarEmitter E>
typename E::F nan_unless_finite(E& e, typename E::F a, typename E::F value) {
  const auto finite = e.lt(a, e.constant(std::numeric_limits<double>::infinity()));
  return e.select(finite, value, e.sub(a, a));
}

/// Sine; NaN at infinity, -0 stays -0.
template <ScalarEmitter E>
typename E::F dev_sin(E& e, typename E::F x) {
  const auto a = e.abs(x);
  const QuadrantReduction<E> r = reduce_quadrant(e, a);
  const auto odd = bit_is_set(e, r.quadrant, 0);
  const auto magnitude =
      sign_by_quadrant(e, e.select(odd, cos_reduced(e, r), sin_reduced(e, r)), r.quadrant);
  const auto value = e.from_bits(e.ixor(e.to_bits(magnitude), sign_bit(e, x)));
  return nan_unless_finite(e, a, value);
}

/// Cosine; NaN at infinity.
template <ScalarEmitter E>
typename E::F dev_cos(E& e, typename E::F x) {
  const auto a = e.abs(x);
  const QuadrantReduction<E> r = reduce_quadrant(e, a);
  const auto odd = bit_is_set(e, r.quadrant, 0);
  const auto value = e.select(odd, sin_reduced(e, r), cos_reduced(e, r));
  return nan_unless_finite(e, a, sign_by_quadrant(e, value, e.iadd(r.quadrant, e.iconstant(1))));
}

/// Tangent: t = h + h^3 q(h^2) + low (1 + tan(h)^2), or -1 / t in odd quadrants with the rest of
/// the sum put back; q minimax of degree 6 (f32, 2^-29.4) and 14 (f64, 2^-59.8). NaN at infinity,
/// -0 stays -0.
template <ScalarEmitter E>
typename E::F dev_tan(E& e, typename E::F x) {
  const auto a = e.abs(x);
  const QuadrantReduction<E> r = reduce_quadrant(e, a);
  const auto square = e.mul(r.high, r.high);
  const auto q = polynomial(
      e, square,
      {0.33333352, 0.13332583, 0.054068256, 0.021244109, 0.01092113, -2.7448823e-06, 0.0044148327},
      {0.3333333333333338, 0.13333333333325267, 0.053968253973038054, 0.02186948839247849,
       0.008863238080091585, 0.00359209884955321, 0.0014560618572279033, 0.0005887776502460737,
       0.00024406986394180928, 8.274179166866152e-05, 6.868480605156601e-05, -2.742778017081621e-05,
       5.0072949077665766e-05, -2.4951532068075324e-05, 9.941726134383696e-06});
  const auto cube = e.mul(r.high, square);
  const auto first = e.fma(cube, q, r.high);
  const auto low = e.fma(e.mul(first, first), r.low, r.low);
  const FloatPair<E> t = fast_two_sum(e, r.high, e.fma(cube, q, low));
  const auto inverse = e.div(e.constant(-1.0), t.high);
  const auto residual = e.fma(t.low, inverse, e.fma(t.high, inverse, e.constant(1.0)));
  const auto cotangent = e.fma(inverse, residual, inverse);
  const auto magnitude = e.select(bit_is_set(e, r.quadrant, 0), cotangent, t.high);
  const auto value = e.from_bits(e.ixor(e.to_bits(magnitude), sign_bit(e, x)));
  return nan_unless_finite(e, a, value);
}

}  // namespace mezzo::codegen
