// SPDX-License-Identifier: Apache-2.0
// Usual parameters of elementwise operations, and the operators whose operation depends on the
// types. The parameters are operands: a number broadcasts, and a slope may be trained.
#pragma once

#include <mezzo/dsl/ops.h>

namespace mezzo {

/// x, or 0.01 x where x is not positive; `leaky_relu(x, slope)` takes another slope.
inline Tensor leaky_relu(Operand x) { return leaky_relu(x, Operand(0.01).at(x.location())); }
/// x, or e^x - 1 where x is not positive; `elu(x, alpha)` scales that.
inline Tensor elu(Operand x) { return elu(x, Operand(1.0).at(x.location())); }
/// x, or e^x - 1 where x is negative; `celu(x, alpha)` is smooth at 0 for every alpha.
inline Tensor celu(Operand x) { return celu(x, Operand(1.0).at(x.location())); }

namespace detail {

/// All operands are bools.
template <typename... Operands>
bool are_bools(const Operands&... operands) {
  return ((operands.is_tensor() ? operands.type().dtype == boolean
                                : operands.kind() == Operand::Kind::Bool) &&
          ...);
}

}  // namespace detail

/// floor_div's rest, of the sign of the divisor.
inline Tensor operator%(Operand x, Operand y) { return remainder(x, y); }
// Of bools the logical operation, of integers the bitwise one. `&&`, `||` and `!` ask a tensor for
// one truth, which a traced value does not have.
inline Tensor operator&(Operand x, Operand y) {
  return detail::are_bools(x, y) ? logical_and(x, y) : bitwise_and(x, y);
}
inline Tensor operator|(Operand x, Operand y) {
  return detail::are_bools(x, y) ? logical_or(x, y) : bitwise_or(x, y);
}
inline Tensor operator^(Operand x, Operand y) {
  return detail::are_bools(x, y) ? logical_xor(x, y) : bitwise_xor(x, y);
}
inline Tensor operator~(Operand x) {
  return detail::are_bools(x) ? logical_not(x) : bitwise_not(x);
}
inline Tensor& operator%=(Tensor& x, Operand y) { return x = Operand(x, y.location()) % y; }
inline Tensor& operator&=(Tensor& x, Operand y) { return x = Operand(x, y.location()) & y; }
inline Tensor& operator|=(Tensor& x, Operand y) { return x = Operand(x, y.location()) | y; }
inline Tensor& operator^=(Tensor& x, Operand y) { return x = Operand(x, y.location()) ^ y; }

}  // namespace mezzo
