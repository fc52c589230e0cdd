// SPDX-License-Identifier: Apache-2.0
// Joining, cutting and rearranging tensors. Elements keep their bits. Axes count from the end when
// negative.
#pragma once

#include <mezzo/dsl/operands.h>

#include <concepts>

namespace mezzo {

namespace detail {
std::vector<Tensor> split_evenly(const Operand& x, int64_t parts, int64_t axis);
}

/// One behind the other along an axis; the other axes are equal. Types are promoted as those of any
/// op.
Tensor concat(Operands parts, int64_t axis = 0);
/// Along a new axis; all have one shape.
Tensor stack(Operands parts, int64_t axis = 0);
/// `parts` pieces of equal length along an axis, which must divide into them. (`{3}` is a list.)
template <std::integral Count>
std::vector<Tensor> split(Operand x, Count parts, int64_t axis = 0) {
  return detail::split_evenly(x, static_cast<int64_t>(parts), axis);
}
/// Pieces of these lengths, which add up to that of the axis.
std::vector<Tensor> split(Operand x, Dims lengths, int64_t axis = 0);

/// Reversed along `axes`, all when left out.
Tensor flip(Operand x, Axes axes = {});
/// Element i moves to i + shift along the axis; what leaves at an end comes in at the other.
Tensor roll(Operand x, int64_t shift, int64_t axis = 0);
/// The whole tensor again and again along each axis: numpy.tile.
Tensor tile(Operand x, Dims repeats);
/// Each element `count` times along an axis: numpy.repeat, torch.repeat_interleave.
Tensor repeat(Operand x, int64_t count, int64_t axis = 0);

enum class PadMode : uint8_t {
  Constant,  // the value
  Edge,      // the nearest element
  Reflect    // mirrored at the first and last element, which are not repeated
};
/// `low` elements before and `high` behind each axis.
Tensor pad(Operand x, Dims low, Dims high, PadMode mode, Operand value = 0);

/// Without the axes of length 1, or without these ones, which must have length 1.
Tensor squeeze(Operand x, Axes axes = {});
/// With a new axis of length 1 that becomes axis number `axis`.
Tensor unsqueeze(Operand x, int64_t axis);
/// The same by NumPy's name.
inline Tensor expand_dims(Operand x, int64_t axis) { return unsqueeze(std::move(x), axis); }

/// The diagonal: elements at equal places of two axes, `offset` to the right of the main one, as a
/// new last axis in place of the two.
Tensor diagonal(Operand x, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1);
/// Zeros above, or below, the diagonal of the last two axes that lies `diagonal` to the right of
/// the main one.
Tensor tril(Operand x, int64_t diagonal = 0);
Tensor triu(Operand x, int64_t diagonal = 0);

/// A matrix with 1 on the diagonal that lies `offset` to the right of the main one; square when
/// `columns` is left out.
Tensor eye(int64_t rows, int64_t columns = -1, int64_t offset = 0, DType dtype = f32,
           ir::Location location = ir::Location::here());
/// `count` numbers from `start` to `stop`, both included, computed in f64 and rounded once.
Tensor linspace(double start, double stop, int64_t count, DType dtype = f32,
                ir::Location location = ir::Location::here());

}  // namespace mezzo
