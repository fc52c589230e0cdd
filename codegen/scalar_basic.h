// SPDX-License-Identifier: Apache-2.0
// Device functions: arithmetic, rounding, comparisons and selection. All but rsqrt are exactly
// rounded.
#pragma once

#include <mezzo/codegen/scalar_emitter.h>

#include <vector>

namespace mezzo::codegen {

template <ScalarEmitter E>
typename E::F dev_add(E& e, typename E::F x, typename E::F y) {
  return e.add(x, y);
}

template <ScalarEmitter E>
typename E::F dev_sub(E& e, typename E::F x, typename E::F y) {
  return e.sub(x, y);
}

template <ScalarEmitter E>
typename E::F dev_mul(E& e, typename E::F x, typename E::F y) {
  return e.mul(x, y);
}

template <ScalarEmitter E>
typename E::F dev_div(E& e, typename E::F x, typename E::F y) {
  return e.div(x, y);
}

/// g * d, but +0 where g is 0, whatever d is: a masked gradient stays 0 at a pole.
template <ScalarEmitter E>
typename E::F dev_mul0(E& e, typename E::F g, typename E::F d) {
  const auto zero = e.constant(0.0);
  return e.select(e.eq(g, zero), zero, e.mul(g, d));
}

template <ScalarEmitter E>
typename E::F dev_neg(E& e, typename E::F x) {
  return e.neg(x);
}

template <ScalarEmitter E>
typename E::F dev_abs(E& e, typename E::F x) {
  return e.abs(x);
}

/// -1, 1, or x itself where it is +-0 or NaN.
template <ScalarEmitter E>
typename E::F dev_sign(E& e, typename E::F x) {
  const auto zero = e.constant(0.0);
  const auto rest = e.select(e.lt(x, zero), e.constant(-1.0), x);
  return e.select(e.gt(x, zero), e.constant(1.0), rest);
}

template <ScalarEmitter E>
typename E::F dev_square(E& e, typename E::F x) {
  return e.mul(x, x);
}

template <ScalarEmitter E>
typename E::F dev_reciprocal(E& e, typename E::F x) {
  return e.div(e.constant(1.0), x);
}

template <ScalarEmitter E>
typename E::F dev_sqrt(E& e, typename E::F x) {
  return e.sqrt(x);
}

/// 1 / sqrt(x), two roundings.
template <ScalarEmitter E>
typename E::F dev_rsqrt(E& e, typename E::F x) {
  return e.div(e.constant(1.0), e.sqrt(x));
}

template <ScalarEmitter E>
typename E::F dev_floor(E& e, typename E::F x) {
  return e.floor(x);
}

template <ScalarEmitter E>
typename E::F dev_ceil(E& e, typename E::F x) {
  return e.ceil(x);
}

template <ScalarEmitter E>
typename E::F dev_trunc(E& e, typename E::F x) {
  return e.trunc(x);
}

/// To the nearest integer, ties to even.
template <ScalarEmitter E>
typename E::F dev_round(E& e, typename E::F x) {
  return e.round_even(x);
}

/// The larger; NaN if either is NaN, maximum(-0, +0) = +0.
template <ScalarEmitter E>
typename E::F dev_maximum(E& e, typename E::F x, typename E::F y) {
  // Equal floats differ in the sign of zero at most.
  const auto equal = e.from_bits(e.iand(e.to_bits(x), e.to_bits(y)));
  const auto tie_or_nan = e.select(e.eq(x, y), equal, e.add(x, y));
  return e.select(e.gt(x, y), x, e.select(e.lt(x, y), y, tie_or_nan));
}

/// The smaller; NaN if either is NaN, minimum(-0, +0) = -0.
template <ScalarEmitter E>
typename E::F dev_minimum(E& e, typename E::F x, typename E::F y) {
  const auto equal = e.from_bits(e.ior(e.to_bits(x), e.to_bits(y)));
  const auto tie_or_nan = e.select(e.eq(x, y), equal, e.add(x, y));
  return e.select(e.lt(x, y), x, e.select(e.gt(x, y), y, tie_or_nan));
}

/// minimum(maximum(x, low), high).
template <ScalarEmitter E>
typename E::F dev_clamp(E& e, typename E::F x, typename E::F low, typename E::F high) {
  return dev_minimum(e, dev_maximum(e, x, low), high);
}

template <ScalarEmitter E>
typename E::B dev_eq(E& e, typename E::F x, typename E::F y) {
  return e.eq(x, y);
}

template <ScalarEmitter E>
typename E::B dev_ne(E& e, typename E::F x, typename E::F y) {
  return e.ne(x, y);
}

template <ScalarEmitter E>
typename E::B dev_lt(E& e, typename E::F x, typename E::F y) {
  return e.lt(x, y);
}

template <ScalarEmitter E>
typename E::B dev_le(E& e, typename E::F x, typename E::F y) {
  return e.le(x, y);
}

template <ScalarEmitter E>
typename E::B dev_gt(E& e, typename E::F x, typename E::F y) {
  return e.gt(x, y);
}

template <ScalarEmitter E>
typename E::B dev_ge(E& e, typename E::F x, typename E::F y) {
  return e.ge(x, y);
}

template <ScalarEmitter E>
typename E::B dev_isnan(E& e, typename E::F x) {
  return e.ne(x, x);
}

template <ScalarEmitter E>
typename E::B dev_isinf(E& e, typename E::F x) {
  return e.eq(e.abs(x), e.constant(std::numeric_limits<double>::infinity()));
}

template <ScalarEmitter E>
typename E::B dev_isfinite(E& e, typename E::F x) {
  return e.lt(e.abs(x), e.constant(std::numeric_limits<double>::infinity()));
}

template <ScalarEmitter E>
typename E::F dev_where(E& e, typename E::B condition, typename E::F x, typename E::F y) {
  return e.select(condition, x, y);
}

/// |x| mod |y| exactly, for finite x and y != 0: `bits` bits of the quotient a step from the
/// largest possible on, each remainder is a float and so is free of rounding. The number of steps
/// is fixed (13 for f32, 41 for f64) because vectors have no common exit.
template <ScalarEmitter E>
typename E::F exact_fmod(E& e, typename E::F x, typename E::F y) {
  const bool narrow = e.width() == 32;
  const int bits = narrow ? 23 : 52;
  const int range =
      narrow ? 127 + 150 : 1023 + 1075;  // exponents from the largest float to the smallest
  auto rest = e.abs(x);
  const auto step = constant_by_width(e, 0x1p23, 0x1p52);
  std::vector<typename E::F> divisors{e.abs(y)};
  for (int covered = bits; covered < range; covered += bits) {
    divisors.push_back(e.mul(divisors.back(), step));
  }
  while (!divisors.empty()) {
    const auto divisor = divisors.back();
    divisors.pop_back();
    const auto quotient = e.trunc(e.div(rest, divisor));
    // The quotient can have been rounded up to the next integer: then the difference is negative
    // and still exact.
    const auto difference = e.fma(e.neg(quotient), divisor, rest);
    const auto fixed =
        e.select(e.lt(difference, e.constant(0.0)), e.add(difference, divisor), difference);
    rest = e.select(e.lt(rest, divisor), rest, fixed);
  }
  return rest;
}

/// x - floor(x / y) y from the exact remainder, rounded once; it has the sign of y, also when 0.
/// NaN for y = 0 and for infinite x.
template <ScalarEmitter E>
typename E::F dev_remainder(E& e, typename E::F x, typename E::F y) {
  const auto zero = e.constant(0.0);
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto rest = with_sign_of(e, exact_fmod(e, x, y), x);
  const auto opposite = e.lt(e.from_bits(e.ixor(e.to_bits(rest), sign_bit(e, y))), zero);
  const auto floored = e.select(opposite, e.add(rest, y), rest);
  const auto result = e.select(e.eq(floored, zero), with_sign_of(e, zero, y), floored);
  const auto defined = e.band(e.lt(e.abs(x), inf), e.gt(e.abs(y), zero));
  const auto nan = e.constant(std::numeric_limits<double>::quiet_NaN());
  return e.select(defined, result, nan);
}

/// floor(x / y), where an infinite or zero divisor gives what division gives. The quotient is not
/// rounded up across an integer: it is (x - remainder) / y to the nearest integer.
template <ScalarEmitter E>
typename E::F dev_floor_div(E& e, typename E::F x, typename E::F y) {
  const auto zero = e.constant(0.0);
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto rest = with_sign_of(e, exact_fmod(e, x, y), x);
  const auto whole = e.round_even(e.div(e.sub(x, rest), y));
  const auto opposite = e.lt(e.from_bits(e.ixor(e.to_bits(rest), sign_bit(e, y))), zero);
  const auto lowered = e.select(opposite, e.sub(whole, e.constant(1.0)), whole);
  const auto plain = e.div(x, y);
  const auto signed_zero = with_sign_of(e, zero, plain);
  const auto quotient = e.select(e.eq(lowered, zero), signed_zero, lowered);
  const auto finite = e.band(e.lt(e.abs(x), inf), e.gt(e.abs(y), zero));
  return e.select(finite, quotient, plain);
}

}  // namespace mezzo::codegen
