// SPDX-License-Identifier: Apache-2.0
// Reading and adding by index. Indices are of an integer type and lie in [0, length of the axis): a
// negative or larger one is an error of the run (UserError), on every device; it reads 0 and adds
// nothing. Axes count from the end when negative.
#pragma once

#include <mezzo/dsl/operands.h>

namespace mezzo {

/// numpy.take: x.shape[:axis] + indices.shape + x.shape[axis + 1:]. A number as index drops the
/// axis.
Tensor gather(Operand x, Operand indices, int64_t axis = 0);
/// numpy.take_along_axis, torch.gather: the element of x at each index along `axis`. The other axes
/// of x and of the indices are equal or one of them is 1.
Tensor take_along_axis(Operand x, Operand indices, int64_t axis = -1);

/// x plus updates at the indices along `axis`: the adjoint of `gather`, whose result shape the
/// updates have. What is added at one place is added in f32 (f64, or i64 for integers), in the
/// order of the indices, and rounded once.
Tensor scatter_add(Operand x, Operand indices, Operand updates, int64_t axis = 0);
/// x plus updates, which have the shape of the indices: the adjoint of `take_along_axis`,
/// torch.scatter_add. The other axes of x and of the indices are equal.
Tensor add_along_axis(Operand x, Operand indices, Operand updates, int64_t axis = -1);

/// Rows of a table [count, width]: indices.shape + [width]. Its gradient adds in f32.
Tensor embedding(Operand table, Operand indices);
/// 1 at the index along a new last axis of that length, else 0.
Tensor one_hot(Operand indices, int64_t classes, DType dtype = f32);

/// `sizes` elements along each axis from `starts` on, which are integer scalars, tensors or
/// numbers. What would reach beyond an axis is an error as any index out of range, nothing is moved
/// to fit.
Tensor dynamic_slice(Operand x, Operands starts, Dims sizes);

}  // namespace mezzo
