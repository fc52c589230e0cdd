// SPDX-License-Identifier: Apache-2.0
// Operations on tensors. The names are those of ir/ops.def; elementwise functions are made from the
// table, so that a new row is a new function. Types are promoted here and nowhere else: f16 with
// bf16 gives f32, an integer tensor with a float literal gives f32, a literal takes the type of its
// tensor unless that would make it 0, infinite or 1.
#pragma once

#include <mezzo/dsl/operand.h>

#include <string_view>
#include <vector>

namespace mezzo {

namespace detail {

/// Promotes the operands and makes the op of that name at the place of the first one.
Tensor elementwise(const char* op, std::initializer_list<Operand> operands);

/// Operands of a row: -1 for any number, 0 for rows that have a function of their own.
consteval int arity(std::string_view operands, std::string_view types) {
  if (types == "Cast") return 0;
  int count = 1;
  for (char c : operands) {
    if (c == '*') return -1;
    if (c == ',') ++count;
  }
  return count;
}

}  // namespace detail

// clang-format off
#define ELEMENTWISE(Kind, name, operands, types, ...)                                  \
  template <int N = detail::arity(operands, #types)>                                   \
    requires(N == 1)                                                                   \
  Tensor name(Operand x) { return detail::elementwise(#name, {x}); }                   \
  template <int N = detail::arity(operands, #types)>                                   \
    requires(N == 2)                                                                   \
  Tensor name(Operand x, Operand y) { return detail::elementwise(#name, {x, y}); }     \
  template <int N = detail::arity(operands, #types)>                                   \
    requires(N == 3)                                                                   \
  Tensor name(Operand x, Operand y, Operand z) {                                       \
    return detail::elementwise(#name, {x, y, z});                                      \
  }                                                                                    \
  template <int N = detail::arity(operands, #types)>                                   \
    requires(N == -1)                                                                  \
  Tensor name(std::initializer_list<Operand> all) { return detail::elementwise(#name, all); }
#include <mezzo/ir/ops.def>
// clang-format on

inline Tensor operator+(Operand x, Operand y) { return add(x, y); }
inline Tensor operator-(Operand x, Operand y) { return sub(x, y); }
inline Tensor operator*(Operand x, Operand y) { return mul(x, y); }
inline Tensor operator/(Operand x, Operand y) { return div(x, y); }
inline Tensor operator-(Operand x) { return neg(x); }
inline Tensor operator==(Operand x, Operand y) { return eq(x, y); }
inline Tensor operator!=(Operand x, Operand y) { return ne(x, y); }
inline Tensor operator<(Operand x, Operand y) { return lt(x, y); }
inline Tensor operator<=(Operand x, Operand y) { return le(x, y); }
inline Tensor operator>(Operand x, Operand y) { return gt(x, y); }
inline Tensor operator>=(Operand x, Operand y) { return ge(x, y); }
inline Tensor& operator+=(Tensor& x, Operand y) { return x = add(Operand(x, y.location()), y); }
inline Tensor& operator-=(Tensor& x, Operand y) { return x = sub(Operand(x, y.location()), y); }
inline Tensor& operator*=(Tensor& x, Operand y) { return x = mul(Operand(x, y.location()), y); }
inline Tensor& operator/=(Tensor& x, Operand y) { return x = div(Operand(x, y.location()), y); }

/// The user's own change of element type: honoured in every policy and rounding mode.
Tensor cast(Operand x, DType dtype);

/// Σ over `axes` (all when left out), accumulated in f32; bools are counted in i64.
Tensor sum(Operand x, Axes axes = {}, bool keepdims = false);
/// Σ x / n, divided in f32 before it is rounded; NaN of nothing.
Tensor mean(Operand x, Axes axes = {}, bool keepdims = false);
/// NaN where one element is NaN; of no elements a UserError.
Tensor max(Operand x, Axes axes = {}, bool keepdims = false);
Tensor min(Operand x, Axes axes = {}, bool keepdims = false);
/// Index (i32) of the first maximum along `axis`, of the first NaN if there is one; an axis of no
/// elements is a UserError.
Tensor argmax(Operand x, int64_t axis = -1, bool keepdims = false);
/// e^x / Σ e^x along `axis`, and its logarithm; of nothing but -inf 0 and -inf, beside +inf NaN.
Tensor softmax(Operand x, int64_t axis = -1);
Tensor log_softmax(Operand x, int64_t axis = -1);

struct MatmulOptions {
  /// The last two axes change places first.
  bool transpose_a = false, transpose_b = false;
};
/// Product of the last two axes; the axes before them broadcast. A vector on the left is a row, one
/// on the right a column, and the axis that it lacks is not in the result, as in NumPy.
Tensor matmul(Operand a, Operand b, MatmulOptions options = {});

/// One length may be -1: it follows from the others.
Tensor reshape(Operand x, Dims shape);
/// Axes in the order `perm`; reversed when left out.
Tensor transpose(Operand x, Axes perm = {});
/// One start and one end for each axis, negative ones counted from the end; steps are 1 when left
/// out. A negative step goes backwards from the start to what stands behind the end; an end below
/// -length lies before the first element. Throws UserError where either lies outside of the axis.
Tensor slice(Operand x, Dims starts, Dims ends, Dims steps = {});
/// Zeros around the tensor and, with `interior`, between its elements.
Tensor pad(Operand x, Dims low, Dims high, Dims interior = {});
/// Axes of length 1, and those that are missing in front, repeat; throws UserError for others.
Tensor broadcast_to(Operand x, Dims shape);

using ir::Location;
/// A constant whose elements are all `value`; throws UserError when an integer type cannot hold it.
/// What 16 bits make 0, infinite or 1 is kept wide and cast, with a finding.
Tensor full(Dims shape, Literal value, DType dtype = f32, Location location = Location::here());
/// A constant with these elements in row-major order; throws and finds as `full` does.
Tensor constant(std::vector<double> values, Dims shape, DType dtype = f32,
                Location location = Location::here());
/// 0, 1, 2 ... along `axis`.
Tensor iota(Dims shape, DType dtype = i32, int64_t axis = 0, Location location = Location::here());

}  // namespace mezzo
