// SPDX-License-Identifier: Apache-2.0
// Device functions: the logarithm of the gamma function and its first two derivatives. A polynomial
// around the zeros, an asymptotic series beyond, a reflection below 0. "minimax" as in
// scalar_exp_log.h.
#pragma once

#include <mezzo/codegen/scalar_pow.h>

namespace mezzo::codegen {

/// y less the nearest integer, exactly.
template <ScalarEmitter E>
typename E::F from_nearest_integer(E& e, typename E::F y) {
  return e.sub(y, e.round_even(y));
}

/// a + b, or a alone where it is infinite and b has no meaning.
template <ScalarEmitter E>
typename E::F add_unless_infinite(E& e, typename E::F a, typename E::F b) {
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  return e.select(e.eq(e.abs(a), inf), a, e.add(a, b));
}

/// 1 / y; an infinite one has no rest.
template <ScalarEmitter E>
FloatPair<E> inverse_pair(E& e, typename E::F y) {
  const auto one = e.constant(1.0);
  const auto inverse = e.div(one, y);
  const auto low = e.mul(inverse, e.fma(e.neg(y), inverse, one));
  return {inverse, e.select(e.eq(low, low), low, e.constant(0.0))};
}

/// The square of an inverse; an infinite one has no rest.
template <ScalarEmitter E>
FloatPair<E> square_of_inverse(E& e, const FloatPair<E>& inverse) {
  const FloatPair<E> square = two_product(e, inverse.high, inverse.high);
  const auto low = e.fma(e.add(inverse.high, inverse.high), inverse.low, square.low);
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  return {square.high, e.select(e.lt(square.high, inf), low, e.constant(0.0))};
}

/// log gamma(1 + u) for -0.3 <= u <= 1.5: u (u - 1) p(u - 0.6), p minimax of degree 14 (f32,
/// 2^-28.5) and 31 (f64, 2^-58.4).
template <ScalarEmitter E>
FloatPair<E> lgamma_near_zeros(E& e, typename E::F u) {
  const auto one = e.constant(1.0);
  const auto p =
      polynomial(e, e.sub(u, e.constant(0.6)),
                 {0.46913236, -0.1342541, 0.05443917, -0.025433037, 0.012816538, -0.006745163,
                  0.0035389983, -0.00197308, 0.0015188819, -0.0007886173, -0.0002902222,
                  1.0159533e-05, 0.00065919734, -0.00022906535, -9.9839905e-05},
                 {0.46913235706981576,     -0.13425408899797128,    0.054439969616381936,
                  -0.025433536502752558,   0.012800962939271316,    -0.006737661429604747,
                  0.003651754673978615,    -0.0020201104349834064,  0.001134392754798704,
                  -0.0006443597377896789,  0.00036933851005856367,  -0.0002132608408195902,
                  0.0001238882367140219,   -7.23458587127077e-05,   4.246914341586762e-05,
                  -2.500891285209493e-05,  1.4624064597833868e-05,  -8.652802125330878e-06,
                  5.633041314780218e-06,   -3.4055544950032812e-06, 8.768748833985793e-07,
                  -4.1243162214978926e-07, 2.233278338820037e-06,   -1.5086650540347854e-06,
                  -1.5540532104761051e-06, 1.1045667430853218e-06,  1.4758676764598936e-06,
                  -1.000696455100007e-06,  -6.36749295846833e-07,   4.2703570214473307e-07,
                  1.716982545054055e-07,   -1.1117545115182143e-07});
  const auto v = e.sub(u, one);
  const auto v_low = e.sub(u, e.add(v, one));
  const FloatPair<E> w = two_product(e, u, v);
  const FloatPair<E> value = two_product(e, w.high, p);
  return {value.high, e.fma(e.fma(u, v_low, w.low), p, value.low)};
}

/// log gamma(y) for y >= 2.5 by (y - 1/2) (log y - 1) + c + q(1 / y^2) / y, q minimax of degree 4
/// (f32, 2^-33.5) and 12 (f64, 2^-57.2); infinite where the product is.
template <ScalarEmitter E>
FloatPair<E> lgamma_series(E& e, typename E::F y, const FloatPair<E>& log_y) {
  const auto w = e.div(e.constant(1.0), y);
  const auto q = polynomial(
      e, e.mul(w, w), {0.083333336, -0.002777933, 0.00079552335, -0.0005828076, 0.00051779975},
      {0.0833333333333332, -0.002777777777671964, 0.0007936507679027411, -0.0005952351528379393,
       0.0008415585912103468, -0.0019095057518959014, 0.00618038671114798, -0.02475978981955187,
       0.10278694811775367, -0.3723178616184825, 1.0139077411394701, -1.7638381952441042,
       1.4387092425709127});
  FloatPair<E> slope = two_sum(e, log_y.high, e.constant(-1.0));
  slope.low = e.add(slope.low, log_y.low);
  const FloatPair<E> product = multiply(e, two_sum(e, y, e.constant(-0.5)), slope);
  // (log(2 pi) - 1) / 2
  const auto c = constant_by_width(e, 0x1.acfe3ap-2, 0x1.acfe390c97d69p-2);
  const auto c_low = constant_by_width(e, -0x1.e6d052p-27, 0x1.3494bc9001442p-56);
  const FloatPair<E> sum = two_sum(e, product.high, c);
  return {sum.high, e.add(sum.low, e.add(e.fma(w, q, c_low), product.low))};
}

/// sin(pi f) / pi for 0 <= f <= 1/2: f + f^3 s(f^2), s minimax of degree 4 (f32, 2^-35.6) and 8
/// (f64, 2^-71.4), the rounding errors from its last step on kept.
template <ScalarEmitter E>
FloatPair<E> sin_pi_over_pi(E& e, typename E::F f) {
  const FloatPair<E> square = two_product(e, f, f);
  const auto slope =
      polynomial(e, square.high, {0.811742, -0.19074535, 0.02610443, -0.0022146914},
                 {0.8117424252833497, -0.1907518241219113, 0.026147847813965522,
                  -0.002346080991869654, 0.0001484284924873791, -6.974667749081701e-06,
                  2.50499701184471e-07, -4.859890964694981e-09});
  const auto first = constant_by_width(e, -1.644934, -1.6449340668482264);
  const auto s = e.fma(slope, square.high, first);
  const auto s_low = e.fma(slope, square.high, e.sub(first, s));
  const FloatPair<E> factor = multiply(e, square, {s, s_low});
  const auto sine = e.fma(f, factor.high, f);
  return {sine, e.fma(f, factor.low, e.fma(f, factor.high, e.sub(f, sine)))};
}

/// log |gamma(x)|: infinite at 0, the negative integers and both infinities. Below -0.3 by
/// -log(y |sin(pi y)| / pi) - log gamma(y) with y = -x. Near its zeros below -2 the result is a
/// difference, exact to 2 ulp of the larger term.
template <ScalarEmitter E>
typename E::F dev_lgamma(E& e, typename E::F x) {
  const auto zero = e.constant(0.0);
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto a = e.abs(x);
  const auto reflected = e.lt(x, e.constant(-0.3));
  const auto g = e.select(reflected, a, x);
  const FloatPair<E> log_g = log_pair(e, e.abs(g));

  const auto below = e.lt(g, e.constant(0.7));
  const FloatPair<E> near = lgamma_near_zeros(e, e.select(below, g, e.sub(g, e.constant(1.0))));
  const FloatPair<E> shifted = two_sum(e, e.neg(log_g.high), near.high);
  const auto shifted_low = e.add(shifted.low, e.sub(near.low, log_g.low));
  const FloatPair<E> series = lgamma_series(e, g, log_g);
  const auto far = e.ge(g, e.constant(2.5));
  const auto high = e.select(far, series.high, e.select(below, shifted.high, near.high));
  const auto low = e.select(far, series.low, e.select(below, shifted_low, near.low));
  const auto direct = add_unless_infinite(e, high, low);

  const auto f = e.abs(from_nearest_integer(e, a));
  const FloatPair<E> sine = sin_pi_over_pi(e, f);
  const FloatPair<E> product = two_product(e, a, sine.high);
  const FloatPair<E> log_product = log_pair(e, product.high);
  const auto product_low = e.div(e.fma(a, sine.low, product.low), product.high);
  const FloatPair<E> sum = two_sum(e, e.neg(log_product.high), e.neg(high));
  const auto sum_low = e.add(e.sub(sum.low, low), e.neg(e.add(log_product.low, product_low)));
  const auto mirrored = e.add(sum.high, sum_low);

  const auto pole = e.bor(e.eq(a, inf), e.bor(e.eq(a, zero), e.band(reflected, e.eq(f, zero))));
  const auto value = e.select(pole, inf, e.select(reflected, mirrored, direct));
  return e.select(e.eq(x, x), value, x);
}

/// The derivative of log gamma, psi. Between 1 and 2 (z - z0) p(z - 3/2) with z0 its zero, p
/// minimax of degree 10 (f32, 2^-28.0) and 22 (f64, 2^-58.5); from 2 on log z - 1 / (2 z) - q(1 /
/// z^2) / z^2, q of degree 5 (f32, 2^-33.2) and 15 (f64, 2^-56.4); below 1 psi(z + 1) - 1 / z;
/// below 0 psi(1 + y)
/// + pi cot(pi y) with y = -x, pi cot(pi f) = 1 / f - f k(f^2), k of degree 6 (f32, 2^-28.1) and 14
/// (f64, 2^-58.5), exact to 2 ulp of the larger term. psi(+-0) = -+inf, NaN at negative integers.
template <ScalarEmitter E>
typename E::F dev_digamma(E& e, typename E::F x) {
  const auto zero = e.constant(0.0);
  const auto half = e.constant(0.5);
  const auto one = e.constant(1.0);
  const auto two = e.constant(2.0);
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto y = e.abs(x);
  const auto negative = e.lt(with_sign_of(e, one, x), zero);
  const auto below_one = e.lt(y, one);
  const auto below_two = e.lt(y, two);

  const auto u = e.select(below_one, y, e.sub(y, one));
  const auto p =
      polynomial(e, e.sub(u, half),
                 {0.9510559, -0.42362753, 0.24054085, -0.1483974, 0.09503903, -0.062077597,
                  0.040239967, -0.025667734, 0.01990505, -0.016591998, 0.006440776},
                 {0.9510558760318328,     -0.42362742128146114,    0.24054248424082933,
                  -0.14840492305372585,   0.09498872444606515,     -0.0619221332890874,
                  0.04076083436882735,    -0.026975796110835462,   0.017907234572605204,
                  -0.01190823228424008,   0.007927279066810492,    -0.005279774960291676,
                  0.0035151067635390476,  -0.0023468495476304777,  0.0015858179956664792,
                  -0.0010293208857800006, 0.0005830757578389831,   -0.0005089949530818752,
                  0.0006455334878067714,  -0.00010318257851306692, -0.00044506977640110625,
                  -0.0002104276976434241, 0.0005125677758046649});
  FloatPair<E> from_zero =
      two_sum(e, u, e.neg(constant_by_width(e, 0x1.d8b6180000000p-2, 0x1.d8b618d5af8fep-2)));
  from_zero.low =
      e.sub(from_zero.low, constant_by_width(e, 0x1.ab5f200000000p-27, -0x1.1e563779a1f5bp-56));
  FloatPair<E> inner = two_product(e, from_zero.high, p);
  inner.low = e.fma(from_zero.low, p, inner.low);

  const FloatPair<E> inverse = inverse_pair(e, y);
  const auto s = e.mul(inverse.high, inverse.high);
  const auto q = polynomial(
      e, s, {0.08333332, -0.008332287, 0.0039382637, -0.0037468679, 0.0041944296, -0.002917013},
      {0.08333333333332625, -0.00833333332969727, 0.003968253308231107, -0.004166605183123302,
       0.007572278115889638, -0.020960578300880658, 0.07971633493116022, -0.3678393754556441,
       1.7852008028744966, -8.041956912266217, 30.711748707154825, -93.05431051235227,
       210.78762863600102, -331.99035418947625, 322.37697356105934, -144.81357234092835});
  const FloatPair<E> log_y = log_pair(e, y);
  const auto base = e.select(below_two, inner.high, log_y.high);
  const auto base_low = e.select(below_two, inner.low, e.fma(e.neg(s), q, log_y.low));
  // psi(y) or psi(1 + y) adds so many inverses.
  const auto positive_share =
      e.select(below_one, e.constant(-1.0), e.select(below_two, zero, e.constant(-0.5)));
  const auto negative_share = e.select(below_one, zero, e.select(below_two, one, half));
  const auto share = e.select(negative, negative_share, positive_share);
  const auto none = e.eq(share, zero);
  const auto part = e.select(none, zero, e.mul(inverse.high, share));
  const auto part_low = e.select(none, zero, e.mul(inverse.low, share));
  const FloatPair<E> sum = two_sum(e, base, part);
  const auto low = e.add(sum.low, e.add(base_low, part_low));
  const auto direct = add_unless_infinite(e, sum.high, low);

  const auto f = from_nearest_integer(e, y);
  const auto square = e.mul(f, f);
  const auto k = polynomial(
      e, square, {3.2898693, 2.1645315, 2.0384746, 1.9495649, 2.4777577, -0.043936037, 6.1250024},
      {3.289868133696456, 2.164646467421035, 2.0346861241475285, 2.0081546993660186,
       2.0019897149310903, 2.000476287050153, 2.0004286642376368, 1.9958529697523917,
       2.0411161053455915, 1.7062990490562033, 3.5163594665718922, -3.5518868334644518,
       15.841350403182593, -19.599906229587653, 19.113735306884678});
  const FloatPair<E> inverse_f = inverse_pair(e, f);
  const FloatPair<E> whole = two_sum(e, inverse_f.high, sum.high);
  const auto rest = e.add(e.add(whole.low, low), e.fma(e.neg(f), k, inverse_f.low));
  const auto mirrored = add_unless_infinite(e, whole.high, rest);

  const auto nan = e.constant(std::numeric_limits<double>::quiet_NaN());
  const auto pole = e.band(e.eq(f, zero), e.ge(y, half));
  const auto below = e.select(pole, nan, mirrored);
  return e.select(e.eq(x, inf), inf, e.select(negative, below, direct));
}

/// The derivative of digamma. Between 1 and 2 p(z - 3/2), p minimax of degree 12 (f32, 2^-29.3) and
/// 24 (f64, 2^-58.9); from 2 on 1 / z + 1 / (2 z^2) + q(1 / z^2) / z^3, q of degree 5 (f32,
/// 2^-31.1) and 17 (f64, 2^-57.0); below 1 psi'(z + 1) + 1 / z^2; below 0 pi^2 / sin(pi y)^2 -
/// psi'(1 + y) with y = -x, the first 1 / f^2 + k(f^2), k of degree 7 (f32, 2^-27.6) and 16 (f64,
/// 2^-60.8). Infinite at 0 and the negative integers.
template <ScalarEmitter E>
typename E::F dev_trigamma(E& e, typename E::F x) {
  const auto zero = e.constant(0.0);
  const auto half = e.constant(0.5);
  const auto one = e.constant(1.0);
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto y = e.abs(x);
  const auto negative = e.lt(x, zero);
  const auto below_one = e.lt(y, one);
  const auto below_two = e.lt(y, e.constant(2.0));

  const auto u = e.select(below_one, y, e.sub(y, one));
  const auto p = polynomial(
      e, e.sub(u, half),
      {0.9348022, -0.82879686, 0.70455325, -0.57902515, 0.46269456, -0.36248448, 0.2844937,
       -0.2077812, 0.1072675, -0.12193259, 0.2607707, -0.07030641, -0.17919934},
      {0.9348022005446793,   -0.8287966442343194,   0.704545517001195,     -0.579041637778079,
       0.46306452510609,     -0.362149365002762,    0.27808081297865034,   -0.2103098741431152,
       0.15705321566557773,  -0.11604069515530832,  0.08496847308077593,   -0.06174089464814423,
       0.04457126062089699,  -0.03198039630096029,  0.022797638500760557,  -0.01628624966252002,
       0.011796885152262297, -0.00790125467090779,  0.004463039967416945,  -0.004720123813639677,
       0.006219530745098538, -0.000540774298805282, -0.004071939626548786, -0.0024504963892032113,
       0.004670399190321451});
  const FloatPair<E> inverse = inverse_pair(e, y);
  const FloatPair<E> square = square_of_inverse(e, inverse);
  const auto q =
      polynomial(e, square.high,
                 {0.16666654, -0.033322293, 0.023485916, -0.028679123, 0.036699556, -0.02718272},
                 {0.16666666666665217, -0.033333333324001534, 0.023809521682994814,
                  -0.033333083828420394, 0.07573972872025977, -0.2522537502715054,
                  1.1367796772501177, -6.3002088961838325, 38.126482847963985, -224.67578539254995,
                  1182.2659834920833, -5235.563384944598, 18685.97404157451, -51707.236866785875,
                  106072.55067073701, -151152.36461041254, 133166.94808916328, -54521.67718942839});
  const auto series_low =
      e.fma(e.fma(square.high, q, e.mul(inverse.high, half)), inverse.high, inverse.low);
  const auto base = e.select(below_two, p, inverse.high);
  const auto base_low = e.select(below_two, zero, series_low);
  const auto part = e.select(below_one, square.high, zero);
  const auto part_low = e.select(below_one, square.low, zero);
  const FloatPair<E> sum = two_sum(e, base, part);
  const auto direct = add_unless_infinite(e, sum.high, e.add(sum.low, e.add(base_low, part_low)));

  const auto f = from_nearest_integer(e, y);
  const auto f_square = e.mul(f, f);
  const auto k = polynomial(
      e, f_square,
      {3.2898662, 6.494177, 10.163388, 14.263922, 15.675317, 37.14699, -28.243568, 122.81034},
      {3.2898681336964537, 6.493939402266403, 10.173430619921522, 14.057082979680562,
       18.017902743085646, 22.00539977413517, 26.001947313170145, 29.99403520009126,
       34.08594647946598, 37.14181701424201, 48.46192629592438, 9.44823959808234,
       203.55468371403796, -413.60572915546777, 1044.0855973218092, -1253.6064577138693,
       954.4662167232425});
  const FloatPair<E> pole = square_of_inverse(e, inverse_pair(e, f));
  const auto minus = e.select(below_one, zero, square.high);
  const auto rest = e.add(e.sub(e.sub(k, base), base_low), e.add(pole.low, minus));
  const auto mirrored = add_unless_infinite(e, pole.high, rest);
  const auto value = e.select(negative, mirrored, direct);
  return e.select(e.eq(x, inf), zero, value);
}

}  // namespace mezzo::codegen
