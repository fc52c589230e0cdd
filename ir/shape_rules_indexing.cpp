// SPDX-License-Identifier: Apache-2.0
// Shape rules of concatenation, reversal, and of reading and adding by index.
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>
#include <mezzo/ir/sizes.h>

#include <algorithm>
#include <limits>

namespace mezzo::ir {

namespace {

/// The attribute `axis`, which must be an axis of `type`.
int checked_axis(const InferContext& context, const Type& type) {
  return check_axis(context, context.attrs.get_int("axis"), type.rank());
}

const Type& checked_indices(const InferContext& context) {
  const Type& indices = context.operands[1];
  if (!is_integer(indices.dtype))
    context.fail(std::string("indices must be of an integer type, not ") + to_string(indices.dtype),
                 "cast them to i32");
  return indices;
}

/// x.shape[:axis] + indices.shape + x.shape[axis + 1:]
Shape gathered_shape(const InferContext& context, const Shape& x, const Shape& indices, int axis) {
  if (x.rank() - 1 + indices.rank() > kMaxRank)
    context.fail("the result would have rank " + std::to_string(x.rank() - 1 + indices.rank()) +
                     ", the largest is " + std::to_string(kMaxRank),
                 "reshape the indices to one axis");
  std::vector<int64_t> dims(x.begin(), x.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), x.begin() + axis + 1, x.end());
  return Shape(std::span<const int64_t>(dims));
}

/// Indices of one rank with x that differ from it along `axis` only.
void check_along(const InferContext& context, const Type& x, const Type& indices, int axis) {
  if (indices.rank() != x.rank())
    context.fail("indices have rank " + std::to_string(indices.rank()) + ", x has rank " +
                     std::to_string(x.rank()),
                 "reshape gives them axes of length 1; gather takes indices of any rank");
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis && indices.shape[i] != x.shape[i])
      context.fail("indices have length " + std::to_string(indices.shape[i]) + " along axis " +
                       std::to_string(i) + ", x has " + std::to_string(x.shape[i]),
                   "they may differ along axis " + std::to_string(axis) + " alone");
}

/// What is added has the type of x, or 16 bits where x has 32.
void check_updates(const InferContext& context, const Shape& shape) {
  const Type &x = context.operands[0], &updates = context.operands[2];
  expect_number(context);
  const bool narrow = x.dtype == DType::F32 && is_16bit(updates.dtype);
  if (updates.dtype != x.dtype && !narrow)
    context.fail(std::string("element types differ, ") + to_string(x.dtype) + " and " +
                     to_string(updates.dtype),
                 "updates have the type of x, or 16 bits where x is f32; only `cast` changes an "
                 "element type");
  if (!(updates.shape == shape))
    context.fail("updates must be " + to_string(updates.with(shape)) + ", not " +
                 to_string(updates));
}

/// Kernels number rows and updates in 32 bits.
void check_counts(const InferContext& context, int64_t rows, int64_t updates) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - 1;
  if (rows > kMost || updates > kMost)
    context.fail("not supported yet: " + counted(std::max(rows, updates), "row") + ", at most " +
                     std::to_string(kMost) + " can be added to",
                 "add to parts of x one after another");
}

}  // namespace

std::vector<Type> infer_flip(const InferContext& context) {
  const Type& type = context.operands[0];
  const std::vector<int64_t> axes = context.ints("axes");
  check_axes(context, axes, type.rank());
  return {type};
}

std::vector<Type> infer_concat(const InferContext& context) {
  if (context.operands.empty()) context.fail("takes at least 1 operand, not 0");
  const Type& first = context.operands[0];
  const int axis = checked_axis(context, first);
  int64_t length = 0;
  for (size_t number = 0; number < context.operands.size(); ++number) {
    const Type& type = context.operands[number];
    expect_same_dtype(context, number);
    if (type.rank() != first.rank())
      context.fail("operand 0 has rank " + std::to_string(first.rank()) + ", operand " +
                       std::to_string(number) + " has rank " + std::to_string(type.rank()),
                   "reshape adds an axis of length 1");
    for (int i = 0; i < first.rank(); ++i)
      if (i != axis && type.shape[i] != first.shape[i])
        context.fail("operand 0 has length " + std::to_string(first.shape[i]) + " along axis " +
                         std::to_string(i) + ", operand " + std::to_string(number) + " has " +
                         std::to_string(type.shape[i]),
                     "they may differ along axis " + std::to_string(axis) + " alone");
    length = saturated_sum(length, type.shape[axis]);
  }
  return {first.with(first.shape.with(axis, length))};
}

std::vector<Type> infer_gather(const InferContext& context) {
  const Type& x = context.operands[0];
  const int axis = checked_axis(context, x);
  const Type& indices = checked_indices(context);
  return {x.with(gathered_shape(context, x.shape, indices.shape, axis))};
}

std::vector<Type> infer_take_along_axis(const InferContext& context) {
  const Type& x = context.operands[0];
  const int axis = checked_axis(context, x);
  const Type& indices = checked_indices(context);
  check_along(context, x, indices, axis);
  return {x.with(indices.shape)};
}

std::vector<Type> infer_scatter_add(const InferContext& context) {
  const Type& x = context.operands[0];
  const int axis = checked_axis(context, x);
  const Type& indices = checked_indices(context);
  check_updates(context, gathered_shape(context, x.shape, indices.shape, axis));
  check_counts(context, x.shape[axis], indices.elements());
  return {x};
}

std::vector<Type> infer_add_along_axis(const InferContext& context) {
  const Type& x = context.operands[0];
  const int axis = checked_axis(context, x);
  const Type& indices = checked_indices(context);
  check_along(context, x, indices, axis);
  check_updates(context, indices.shape);
  check_counts(context, x.elements(), indices.elements());
  return {x};
}

}  // namespace mezzo::ir
