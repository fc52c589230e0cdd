// SPDX-License-Identifier: Apache-2.0
// Device functions: Philox4x32-10 and the numbers made from its words. Words are 32 bits in lanes
// of the emitter's width. Only exact operations up to the uniform numbers.
#pragma once

#include <mezzo/codegen/scalar_exp_log.h>

#include <array>

namespace mezzo::codegen {

/// The low 32 bits of a + b.
template <ScalarEmitter E>
typename E::I add_word(E& e, typename E::I a, typename E::I b) {
  const auto sum = e.iadd(a, b);
  return e.width() == 32 ? sum : e.iand(sum, e.iconstant(INT64_C(0xFFFFFFFF)));
}

/// The four words of Philox4x32-10 for a counter and a key.
template <ScalarEmitter E>
std::array<typename E::I, 4> dev_philox(E& e, std::array<typename E::I, 4> counter,
                                        std::array<typename E::I, 2> key) {
  const auto multiplier0 = e.iconstant(INT64_C(0xD2511F53));
  const auto multiplier1 = e.iconstant(INT64_C(0xCD9E8D57));
  const auto weyl0 = e.iconstant(INT64_C(0x9E3779B9));
  const auto weyl1 = e.iconstant(INT64_C(0xBB67AE85));
  for (int round = 0; round < 10; ++round) {
    if (round > 0) key = {add_word(e, key[0], weyl0), add_word(e, key[1], weyl1)};
    const auto high0 = e.umul32_high(multiplier0, counter[0]);
    const auto low0 = e.umul32_low(multiplier0, counter[0]);
    const auto high1 = e.umul32_high(multiplier1, counter[2]);
    const auto low1 = e.umul32_low(multiplier1, counter[2]);
    counter = {e.ixor(e.ixor(high1, counter[1]), key[0]), low1,
               e.ixor(e.ixor(high0, counter[3]), key[1]), low0};
  }
  return counter;
}

/// An integer in [0, 2^mantissa) as a float.
template <ScalarEmitter E>
typename E::F word_to_float(E& e, typename E::I value) {
  return small_to_float(e, value, constant_by_width(e, 0x1p23, 0x1p52));
}

/// The top `bits` bits of a word as a float in [0, 1): 24 for f32, 11 for f16, 8 for bf16.
/// Width 32.
template <ScalarEmitter E>
typename E::F dev_uniform(E& e, typename E::I word, int bits = 24) {
  if (bits < 24) {
    return e.mul(word_to_float(e, e.ilshr(word, 32 - bits)), e.constant(1.0 / (1 << bits)));
  }
  // 24 bits do not fit a mantissa: two exact parts.
  const auto high = word_to_float(e, e.ilshr(word, 16));
  const auto low = word_to_float(e, e.iand(e.ilshr(word, 8), e.iconstant(0xFF)));
  return e.fma(high, e.constant(0x1p-16), e.mul(low, e.constant(0x1p-24)));
}

/// Whether a word is less than `limit`, at most 2^32: in two exact parts of 16 bits.
template <ScalarEmitter E>
typename E::B dev_word_below(E& e, typename E::I word, uint64_t limit) {
  const auto high = word_to_float(e, e.ilshr(word, 16));
  const auto low = word_to_float(e, e.iand(word, e.iconstant(0xFFFF)));
  const auto high_limit = e.constant(static_cast<double>(limit >> 16));
  const auto low_limit = e.constant(static_cast<double>(limit & 0xFFFF));
  return e.bor(e.lt(high, high_limit), e.band(e.eq(high, high_limit), e.lt(low, low_limit)));
}

/// The top 53 bits of two words as a float in [0, 1). Width 64.
template <ScalarEmitter E>
typename E::F dev_uniform53(E& e, typename E::I high_word, typename E::I low_word) {
  const auto low = e.mul(word_to_float(e, e.ilshr(low_word, 11)), e.constant(0x1p-53));
  return e.fma(word_to_float(e, high_word), e.constant(0x1p-32), low);
}

template <class E>
struct SinCos {
  typename E::F sin;
  typename E::F cos;
};

/// sin and cos of 2 pi t for t in [0, 1]. The reduction t - k/4 is exact; |r| <= 1/8: sin = r
/// p(r^2) with p minimax of degree 3 (f32, 2^-25.1) and 6 (f64, 2^-54.5), cos = 1 + r^2 q(r^2), q
/// minimax of degree 3 (2^-31.2) and 6 (2^-61.5).
template <ScalarEmitter E>
SinCos<E> dev_sincos2pi(E& e, typename E::F t) {
  const auto magic = e.constant(format_of(e).round_magic);
  const auto shifted = e.fma(t, e.constant(4.0), magic);
  const auto r = e.fma(e.sub(shifted, magic), e.constant(-0.25), t);
  const auto z = e.mul(r, r);
  const auto p =
      polynomial(e, z, {6.2831855, -41.341866, 81.625626, -76.77499},
                 {6.283185307179586, -41.34170224039859, 81.60524927516164, -76.70585948847138,
                  42.05865827829492, -15.092277961347756, 3.748221061442097});
  const auto q =
      polynomial(e, z, {-19.739208, 64.93914, -85.42312, 58.56128},
                 {-19.739208802178716, 64.93939402266663, -85.45681720595773, 60.24464121910098,
                  -26.426240179271094, 7.902577367990378, -1.6872301104133647});
  const auto one = e.constant(1.0);
  const auto sine = e.mul(r, p);
  const auto cosine = e.fma(z, q, one);
  // Quarter k: its low bit swaps the two, its second bit (of k + 1 for cos) is the sign.
  const auto quarter = e.to_bits(shifted);
  const auto low_bit_as_sign = e.ishl(quarter, e.width() - 1);
  const auto swapped = e.lt(e.from_bits(e.ior(low_bit_as_sign, e.to_bits(one))), e.constant(0.0));
  const auto sign_of = [&](typename E::I k) {
    return sign_bit(e, e.from_bits(e.ishl(k, e.width() - 2)));
  };
  const auto flip = [&](typename E::F value, typename E::I sign) {
    return e.from_bits(e.ixor(e.to_bits(value), sign));
  };
  const auto next = e.iadd(quarter, e.iconstant(1));
  return {flip(e.select(swapped, cosine, sine), sign_of(quarter)),
          flip(e.select(swapped, sine, cosine), sign_of(next))};
}

/// Two independent standard normal numbers (Box-Muller) from u in (0, 1] and t in [0, 1): r cos, r
/// sin with r = sqrt(-2 ln u), angle 2 pi t.
template <ScalarEmitter E>
std::array<typename E::F, 2> dev_box_muller(E& e, typename E::F u, typename E::F t) {
  const auto radius = e.sqrt(e.abs(e.mul(e.constant(-2.0), dev_log(e, u))));
  const auto angle = dev_sincos2pi(e, t);
  return {e.mul(radius, angle.cos), e.mul(radius, angle.sin)};
}

/// The f32 pair from adjacent words a, b.
template <ScalarEmitter E>
std::array<typename E::F, 2> dev_normal(E& e, typename E::I a, typename E::I b) {
  const auto u = e.add(dev_uniform(e, a), e.constant(0x1p-24));
  return dev_box_muller(e, u, dev_uniform(e, b));
}

/// The f64 pair from four words.
template <ScalarEmitter E>
std::array<typename E::F, 2> dev_normal(E& e, const std::array<typename E::I, 4>& words) {
  const auto u = e.add(dev_uniform53(e, words[0], words[1]), e.constant(0x1p-53));
  return dev_box_muller(e, u, dev_uniform53(e, words[2], words[3]));
}

}  // namespace mezzo::codegen
