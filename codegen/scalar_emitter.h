// SPDX-License-Identifier: Apache-2.0
// What a device function needs of a back end. The functions in codegen/scalar_*.h are written once,
// as templates over an emitter E; the emitter of a back end turns each call into an instruction.
// All back ends then run the same operations in the same order, so they give the same bits.
//
// An emitter has the value types E::F (float, f32 or f64), E::I (integer of the same width, two's
// complement, no sign of its own) and E::B (mask), all cheap to copy, and is of one width for its
// whole life. Operations are IEEE 754, to nearest even, with subnormals and without any contraction
// or reassociation.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace mezzo::codegen {

/// The type that `rare` is asked about in the concept.
template <class F>
struct RareMaker {
  std::array<F, 1> operator()() const;
};

/// The operations of an emitter. Comparisons are ordered (false on NaN) except `ne`, which is true
/// on NaN.
template <class E>
concept ScalarEmitter = requires(E e, typename E::F x, typename E::I i, typename E::B b) {
  { e.width() } -> std::convertible_to<int>;                   // 32 or 64
  { e.constant(1.0) } -> std::same_as<typename E::F>;          // rounded to the width
  { e.iconstant(int64_t{1}) } -> std::same_as<typename E::I>;  // low bits
  { e.add(x, x) } -> std::same_as<typename E::F>;
  { e.sub(x, x) } -> std::same_as<typename E::F>;
  { e.mul(x, x) } -> std::same_as<typename E::F>;
  { e.div(x, x) } -> std::same_as<typename E::F>;
  { e.fma(x, x, x) } -> std::same_as<typename E::F>;  // x * y + z, one rounding
  { e.neg(x) } -> std::same_as<typename E::F>;        // flips the sign bit
  { e.abs(x) } -> std::same_as<typename E::F>;        // clears the sign bit
  { e.sqrt(x) } -> std::same_as<typename E::F>;
  { e.floor(x) } -> std::same_as<typename E::F>;
  { e.ceil(x) } -> std::same_as<typename E::F>;
  { e.trunc(x) } -> std::same_as<typename E::F>;
  { e.round_even(x) } -> std::same_as<typename E::F>;
  { e.lt(x, x) } -> std::same_as<typename E::B>;
  { e.le(x, x) } -> std::same_as<typename E::B>;
  { e.gt(x, x) } -> std::same_as<typename E::B>;
  { e.ge(x, x) } -> std::same_as<typename E::B>;
  { e.eq(x, x) } -> std::same_as<typename E::B>;
  { e.ne(x, x) } -> std::same_as<typename E::B>;
  { e.band(b, b) } -> std::same_as<typename E::B>;
  { e.bor(b, b) } -> std::same_as<typename E::B>;
  { e.bnot(b) } -> std::same_as<typename E::B>;
  { e.select(b, x, x) } -> std::same_as<typename E::F>;  // b ? x : y, a bitwise copy
  { e.to_bits(x) } -> std::same_as<typename E::I>;
  { e.from_bits(i) } -> std::same_as<typename E::F>;
  { e.iadd(i, i) } -> std::same_as<typename E::I>;
  { e.isub(i, i) } -> std::same_as<typename E::I>;
  { e.iand(i, i) } -> std::same_as<typename E::I>;
  { e.ior(i, i) } -> std::same_as<typename E::I>;
  { e.ixor(i, i) } -> std::same_as<typename E::I>;
  { e.ishl(i, 1) } -> std::same_as<typename E::I>;   // by a constant in [0, width)
  { e.ilshr(i, 1) } -> std::same_as<typename E::I>;  // logical
  // Low and high 32 bits of the product of two 32-bit words; a 64-bit lane holds a word
  // zero-extended.
  { e.umul32_low(i, i) } -> std::same_as<typename E::I>;
  { e.umul32_high(i, i) } -> std::same_as<typename E::I>;
  // The third operand's values where b holds, else the second's. The function is called once; what
  // it emits is branched around where b holds nowhere (in no lane, in no thread).
  {
    e.rare(b, std::array<typename E::F, 1>{x}, RareMaker<typename E::F>{})
  } -> std::same_as<std::array<typename E::F, 1>>;
};

/// Facts of the float format of an emitter's width.
struct FloatFormat {
  int mantissa;        ///< stored mantissa bits
  int bias;            ///< exponent bias
  double round_magic;  ///< 1.5 * 2^mantissa: adding it leaves a small integer in the low bits
  int64_t round_bits;  ///< bits of round_magic
  double min_normal;
  double max_finite;
};

inline constexpr FloatFormat kFloat32{23, 127, 0x1.8p23, 0x4B400000, 0x1p-126, 0x1.fffffep127};
inline constexpr FloatFormat kFloat64{
    52, 1023, 0x1.8p52, 0x4338000000000000, 0x1p-1022, std::numeric_limits<double>::max()};

template <ScalarEmitter E>
const FloatFormat& format_of(const E& e) {
  return e.width() == 32 ? kFloat32 : kFloat64;
}

/// The constant of this width.
template <ScalarEmitter E>
typename E::F constant_by_width(E& e, double f32, double f64) {
  return e.constant(e.width() == 32 ? f32 : f64);
}

/// c[0] + c[1] x + c[2] x^2 + ... by fused multiply-adds from the highest power down; the list of
/// this width.
template <ScalarEmitter E>
typename E::F polynomial(E& e, typename E::F x, std::initializer_list<double> f32,
                         std::initializer_list<double> f64) {
  const std::initializer_list<double>& list = e.width() == 32 ? f32 : f64;
  const double* c = list.end() - 1;
  typename E::F sum = e.constant(*c);
  while (c != list.begin()) sum = e.fma(sum, x, e.constant(*--c));
  return sum;
}

/// `x` where x <= limit or x is NaN, else `limit`.
template <ScalarEmitter E>
typename E::F at_most(E& e, typename E::F x, double limit) {
  const typename E::F bound = e.constant(limit);
  return e.select(e.lt(bound, x), bound, x);
}

/// `x` where x >= limit or x is NaN, else `limit`.
template <ScalarEmitter E>
typename E::F at_least(E& e, typename E::F x, double limit) {
  const typename E::F bound = e.constant(limit);
  return e.select(e.gt(bound, x), bound, x);
}

/// An unevaluated sum high + low, |low| at most about a step of high.
template <class E>
struct FloatPair {
  typename E::F high;
  typename E::F low;
};

/// a + b for |a| >= |b| or a = 0, with the error of the sum.
template <ScalarEmitter E>
FloatPair<E> fast_two_sum(E& e, typename E::F a, typename E::F b) {
  const auto sum = e.add(a, b);
  return {sum, e.sub(b, e.sub(sum, a))};
}

/// a + b with the error of the sum, whichever is larger.
template <ScalarEmitter E>
FloatPair<E> two_sum(E& e, typename E::F a, typename E::F b) {
  const auto sum = e.add(a, b);
  const auto part_b = e.sub(sum, a);
  const auto part_a = e.sub(sum, part_b);
  return {sum, e.add(e.sub(a, part_a), e.sub(b, part_b))};
}

/// a * b with the error of the product.
template <ScalarEmitter E>
FloatPair<E> two_product(E& e, typename E::F a, typename E::F b) {
  const auto product = e.mul(a, b);
  return {product, e.fma(a, b, e.neg(product))};
}

/// (a.high + a.low) / (b.high + b.low), one division.
template <ScalarEmitter E>
FloatPair<E> divide(E& e, const FloatPair<E>& a, const FloatPair<E>& b) {
  const auto inverse = e.div(e.constant(1.0), b.high);
  const auto quotient = e.mul(a.high, inverse);
  const auto minus_q = e.neg(quotient);
  const auto residual = e.fma(minus_q, b.low, e.add(e.fma(minus_q, b.high, a.high), a.low));
  return {quotient, e.mul(residual, inverse)};
}

/// The square root of a positive sum.
template <ScalarEmitter E>
FloatPair<E> square_root(E& e, const FloatPair<E>& a) {
  const auto root = e.sqrt(a.high);
  const auto residual = e.add(e.fma(e.neg(root), root, a.high), a.low);
  return {root, e.div(e.mul(residual, e.constant(0.5)), root)};
}

/// b ? i : j.
template <ScalarEmitter E>
typename E::I select_bits(E& e, typename E::B b, typename E::I i, typename E::I j) {
  return e.to_bits(e.select(b, e.from_bits(i), e.from_bits(j)));
}

/// Whether the bit of that number, below those of the exponent, is set.
template <ScalarEmitter E>
typename E::B bit_is_set(E& e, typename E::I i, int bit) {
  const FloatFormat& format = format_of(e);
  const auto one = e.iconstant(int64_t{format.bias} << format.mantissa);
  const auto marked = e.from_bits(e.ior(one, e.iand(i, e.iconstant(int64_t{1} << bit))));
  return e.ne(marked, e.constant(1.0));
}

/// The sign bit of x alone.
template <ScalarEmitter E>
typename E::I sign_bit(E& e, typename E::F x) {
  return e.iand(e.to_bits(x), e.iconstant(e.width() == 32 ? INT64_C(0x80000000)
                                                          : std::numeric_limits<int64_t>::min()));
}

/// `magnitude` (sign bit clear) with the sign of x.
template <ScalarEmitter E>
typename E::F with_sign_of(E& e, typename E::F magnitude, typename E::F x) {
  return e.from_bits(e.ior(e.to_bits(magnitude), sign_bit(e, x)));
}

}  // namespace mezzo::codegen
