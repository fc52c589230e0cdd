// SPDX-License-Identifier: Apache-2.0
// Products of vectors and of tensors by names of their axes.
#pragma once

#include <mezzo/dsl/operands.h>
#include <mezzo/dsl/ops.h>

#include <string_view>

namespace mezzo {

/// numpy.dot: of two vectors the sum of their products, of matrices their product, else the sum
/// over the last axis of `a` and the last but one of `b`. A scalar multiplies.
Tensor dot(Operand a, Operand b);
/// Every element of `a` times every element of `b`, [elements of a, elements of b].
Tensor outer(Operand a, Operand b);

/// numpy.einsum: `"bij,bjk->bik"`. One letter names an axis; letters that the result lacks are
/// summed over, a letter twice in one operand takes its diagonal, `...` stands for any axes, which
/// broadcast, as do axes of length 1. Without `->` the result has `...` and then the letters that
/// stand once, in alphabetical order. Operands are taken together from left to right; what two of
/// them share and nobody needs later is summed by a matrix product.
Tensor einsum(std::string_view equation, Operands operands);

namespace detail {
/// A product of which one operand at least is a vector.
Tensor vector_product(const Operand& a, const Operand& b, MatmulOptions options);
}  // namespace detail

}  // namespace mezzo
