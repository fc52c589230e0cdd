// SPDX-License-Identifier: Apache-2.0
// Device functions: bounds, interpolation and the activations without an exponential.
#pragma once

#include <mezzo/codegen/scalar_basic.h>

namespace mezzo::codegen {

/// min(max(x, low), high); NaN if any is NaN.
template <ScalarEmitter E>
typename E::F dev_clamp(E& e, typename E::F x, typename E::F low, typename E::F high) {
  return dev_minimum(e, dev_maximum(e, x, low), high);
}

/// x + weight (y - x) as (x - weight x) + weight y with the errors of all products and sums, so
/// that what cancels is exact. Where that overflows, from quarters of the ends; where an operand is
/// infinite, as written.
template <ScalarEmitter E>
typename E::F dev_lerp(E& e, typename E::F x, typename E::F y, typename E::F weight) {
  const FloatPair<E> gone = two_product(e, e.neg(weight), x);
  const FloatPair<E> come = two_product(e, weight, y);
  const FloatPair<E> left = two_sum(e, x, gone.high);
  const FloatPair<E> sum = two_sum(e, left.high, come.high);
  const auto errors = e.add(left.low, sum.low);
  const auto product_errors = e.add(gone.low, come.low);
  const auto exact = e.add(sum.high, e.add(errors, product_errors));
  const auto quarter = e.constant(0.25);
  const auto x_quarter = e.mul(x, quarter);
  const auto difference = e.sub(e.mul(y, quarter), x_quarter);
  const auto scaled = e.mul(e.fma(weight, difference, x_quarter), e.constant(4.0));
  const auto plain = e.add(x, e.mul(weight, e.sub(y, x)));
  const auto finite = e.lt(e.abs(scaled), e.constant(std::numeric_limits<double>::infinity()));
  return e.select(e.eq(exact, exact), exact, e.select(finite, scaled, plain));
}

/// min(max(x, 0), 6); relu6(-0) = +0, NaN stays.
template <ScalarEmitter E>
typename E::F dev_relu6(E& e, typename E::F x) {
  const auto zero = e.constant(0.0);
  return e.select(e.le(x, zero), zero, at_most(e, x, 6.0));
}

/// x, or slope x where x is not positive.
template <ScalarEmitter E>
typename E::F dev_leaky_relu(E& e, typename E::F x, typename E::F slope) {
  return e.select(e.gt(x, e.constant(0.0)), x, e.mul(x, slope));
}

/// x / (1 + |x|); -1 and 1 at the infinities.
template <ScalarEmitter E>
typename E::F dev_softsign(E& e, typename E::F x) {
  const auto a = at_most(e, e.abs(x), 0x1p60);
  return with_sign_of(e, e.div(a, e.add(e.constant(1.0), a)), x);
}

/// min(max(x + 3, 0), 6) / 6.
template <ScalarEmitter E>
typename E::F dev_hard_sigmoid(E& e, typename E::F x) {
  const auto six = e.constant(6.0);
  return e.div(at_most(e, at_least(e, e.add(x, e.constant(3.0)), 0.0), 6.0), six);
}

/// x min(max(x + 3, 0), 6) / 6, between the bounds with the errors of x + 3 and of its product.
template <ScalarEmitter E>
typename E::F dev_hard_swish(E& e, typename E::F x) {
  const auto three = e.constant(3.0);
  const FloatPair<E> sum = two_sum(e, x, three);
  FloatPair<E> product = two_product(e, x, sum.high);
  product.low = e.fma(x, sum.low, product.low);
  const auto quotient = e.div(product.high, e.constant(6.0));
  const auto inner = e.fma(product.low, e.constant(1.0 / 6), quotient);
  const auto outer = e.select(e.ge(x, three), x, inner);
  return e.select(e.le(x, e.constant(-3.0)), e.constant(-0.0), outer);
}

/// min(max(x, -1), 1); NaN stays.
template <ScalarEmitter E>
typename E::F dev_hard_tanh(E& e, typename E::F x) {
  return at_most(e, at_least(e, x, -1.0), 1.0);
}

}  // namespace mezzo::codegen
