// SPDX-License-Identifier: Apache-2.0
// Device functions: arithmetic, rounding, comparisons and selection. All but rsqrt are exactly
// rounded.
#pragma once

#include <mezzo/codegen/scalar_emitter.h>

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

}  // namespace mezzo::codegen
