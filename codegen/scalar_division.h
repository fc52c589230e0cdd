// SPDX-License-Identifier: Apache-2.0
// Device functions: division that floors. Both are exact before their one rounding.
#pragma once

#include <mezzo/codegen/scalar_exp_log.h>

namespace mezzo::codegen {

/// Whether r is not 0 and its sign is not that of y.
template <ScalarEmitter E>
typename E::B of_other_sign(E& e, typename E::F r, typename E::F y) {
  const auto zero = e.constant(0.0);
  return e.bor(e.band(e.lt(r, zero), e.gt(y, zero)), e.band(e.gt(r, zero), e.lt(y, zero)));
}

/// The floor of the exact quotient, rounded; the quotient where that is not finite. A rounded
/// quotient that is no integer has its exact one between the same two. Else its error r = x - q y
/// is exact, and floor(r / y), put right by its own error, is what q is off by: at most 1 below
/// 2^24 (f32), and beyond what the last rounding has to see.
template <ScalarEmitter E>
typename E::F dev_floor_div(E& e, typename E::F x, typename E::F y) {
  const auto zero = e.constant(0.0);
  const auto quotient = e.div(x, y);
  const auto below = e.floor(quotient);
  // A quotient of 0 has the error x, also of an infinite y.
  const auto divisor = e.select(e.eq(quotient, zero), e.constant(1.0), y);
  const auto error = e.fma(e.neg(quotient), divisor, x);
  const auto steps = e.floor(e.div(error, y));
  const auto rest = e.fma(e.neg(steps), divisor, error);
  const auto less = e.select(of_other_sign(e, rest, y), e.constant(1.0), zero);
  const auto off = e.sub(steps, less);
  const auto moved = e.select(e.eq(off, zero), quotient, e.add(quotient, off));
  const auto whole = e.select(e.eq(below, quotient), moved, below);
  const auto finite = e.lt(e.abs(quotient), e.constant(std::numeric_limits<double>::infinity()));
  return e.select(finite, whole, quotient);
}

/// a mod b for positive a >= b whose quotient is large or infinite: mantissas m, and 2^exponent
/// times m(a) mod m(b) by steps that shift by as many bits as leave the error of a quotient below
/// half. The remainder stays between -0.8 m(b) and 0.8 m(b), so that each step is exact.
template <ScalarEmitter E>
typename E::F far_remainder(E& e, typename E::F a, typename E::F b) {
  const FloatFormat& format = format_of(e);
  const bool narrow = e.width() == 32;
  const double bits = narrow ? 22 : 51;
  // From the largest number to the smallest subnormal.
  const int most = narrow ? 276 : 2097;
  const auto one = e.constant(1.0);
  const auto zero = e.constant(0.0);
  const double base = narrow ? 0x1p23 : 0x1p52;
  struct Parts {
    typename E::F mantissa, exponent, unit, unlift;
  };
  const auto parts = [&](typename E::F value) -> Parts {
    const auto subnormal = e.lt(value, e.constant(format.min_normal));
    const auto lifted = e.mul(value, constant_by_width(e, 0x1p24, 0x1p54));
    const auto pattern = e.to_bits(e.select(subnormal, lifted, value));
    const auto fraction = e.iand(pattern, e.iconstant((int64_t{1} << format.mantissa) - 1));
    const auto biased = e.ilshr(pattern, format.mantissa);
    const auto offset =
        e.select(subnormal, constant_by_width(e, base + 24, base + 54), e.constant(base));
    return {e.from_bits(e.ior(fraction, e.to_bits(one))), small_to_float(e, biased, offset),
            e.from_bits(e.ishl(biased, format.mantissa)),
            e.select(subnormal, constant_by_width(e, 0x1p-24, 0x1p-54), one)};
  };
  const Parts from = parts(a), by = parts(b);
  const auto inverse = e.div(one, by.mantissa);
  const auto reduce = [&](typename E::F value) {
    const auto steps = e.round_even(e.mul(value, inverse));
    return e.fma(e.neg(steps), by.mantissa, value);
  };
  const auto exponent = e.sub(from.exponent, by.exponent);
  const auto turns = e.floor(e.mul(e.add(exponent, e.constant(0.5)), e.constant(1 / bits)));
  const auto odd_bits = e.fma(turns, e.constant(-bits), exponent);
  const auto biased = e.iadd(e.to_bits(e.add(odd_bits, e.constant(format.round_magic))),
                             e.iconstant(format.bias - format.round_bits));
  const auto shift = e.from_bits(e.ishl(biased, format.mantissa));
  auto rest = reduce(e.mul(reduce(from.mantissa), shift));
  for (int turn = 0; turn < most / static_cast<int>(bits); ++turn) {
    const auto next = reduce(e.mul(rest, constant_by_width(e, 0x1p22, 0x1p51)));
    rest = e.select(e.gt(turns, e.constant(turn)), next, rest);
  }
  const auto positive = e.select(e.lt(rest, zero), e.add(rest, by.mantissa), rest);
  return e.mul(e.mul(positive, by.unit), by.unlift);
}

/// x - floor(x / y) y: |x| mod |y| exactly, then |y| less that where the signs differ, one
/// rounding. The sign is that of y, also of a zero; NaN where y is 0 or x is infinite.
template <ScalarEmitter E>
typename E::F dev_remainder(E& e, typename E::F x, typename E::F y) {
  using Parts = std::array<typename E::F, 1>;
  const auto zero = e.constant(0.0);
  const auto inf = e.constant(std::numeric_limits<double>::infinity());
  const auto a = e.abs(x);
  const auto b = e.abs(y);
  const auto quotient = e.div(a, b);
  // Rounded up to an integer, a quotient is one too large.
  const auto rest = e.fma(e.neg(e.trunc(quotient)), b, a);
  const auto near = e.select(e.lt(rest, zero), e.add(rest, b), rest);
  const auto defined = e.band(e.gt(b, zero), e.lt(a, inf));
  const auto far = e.band(e.ge(quotient, constant_by_width(e, 0x1p23, 0x1p52)), defined);
  const Parts all = e.rare(far, Parts{near}, [&] { return Parts{far_remainder(e, a, b)}; });
  const auto magnitude = e.select(e.lt(a, b), a, all[0]);
  const auto folded = e.select(of_other_sign(e, x, y), e.sub(b, magnitude), magnitude);
  const auto floored = e.select(e.eq(magnitude, zero), zero, folded);
  const auto nan = e.constant(std::numeric_limits<double>::quiet_NaN());
  return e.select(defined, with_sign_of(e, floored, y), nan);
}

}  // namespace mezzo::codegen
