// SPDX-License-Identifier: Apache-2.0
// Shape rules of reductions to bools, counts and statistics, of scans and of order along an axis.
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace mezzo::ir {

namespace {

/// Most elements that an i32 can count, and most places that it can name.
constexpr int64_t kMostCounted = std::numeric_limits<int32_t>::max();

void expect_floats(const InferContext& context) {
  for (size_t i = 0; i < context.operands.size(); ++i) expect_float(context, static_cast<int>(i));
}

/// The reduced axes ascend without repetition and are there.
Shape shape_of_reduction(const InferContext& context) {
  const Type& type = context.operands[0];
  const std::vector<int64_t> axes = context.ints("axes");
  check_axes(context, axes, type.rank());
  return reduced_shape(type.shape, axes, context.attrs.get_bool("keepdims"));
}

int64_t reduced_elements(const InferContext& context) {
  int64_t count = 1;
  for (int64_t axis : context.ints("axes"))
    count *= context.operands[0].shape[static_cast<int>(axis)];
  return count;
}

/// The axis that a scan or an order runs along.
int64_t axis_of(const InferContext& context) {
  return check_axis(context, context.attrs.get_int("axis"), context.operands[0].rank());
}

/// Places along the axis are i32.
void check_places(const InferContext& context, int64_t axis) {
  const int64_t length = context.operands[0].shape[static_cast<int>(axis)];
  if (length > kMostCounted)
    context.fail(fmt::format("the axis has {} elements, whose indices do not fit i32", length),
                 "cut the axis into parts of 2147483647 elements at most");
}

}  // namespace

std::vector<Type> infer_reduce_to_bool(const InferContext& context) {
  return {Type(DType::Bool, shape_of_reduction(context))};
}

std::vector<Type> infer_reduce_to_count(const InferContext& context) {
  const Shape shape = shape_of_reduction(context);
  if (const int64_t count = reduced_elements(context); count > kMostCounted)
    context.fail(fmt::format("counts {} elements, more than i32 holds", count),
                 "count over fewer axes and add the counts as i64");
  return {Type(DType::I32, shape)};
}

std::vector<Type> infer_reduce_floats(const InferContext& context) {
  expect_floats(context);
  const Shape shape = shape_of_reduction(context);
  if (context.kind == OpKind::Norm) {
    const double order = context.number("ord");
    if (!(order > 0) || !std::isfinite(order))
      context.fail(fmt::format("ord must be positive and finite, not {}", order),
                   "of order inf it is max of abs; count_nonzero counts what is not 0");
  }
  return {context.operands[0].with(shape)};
}

std::vector<Type> infer_scan(const InferContext& context) {
  const Type& type = context.operands[0];
  axis_of(context);
  const bool adds = context.kind == OpKind::Cumsum || context.kind == OpKind::Cumprod;
  if (type.dtype != DType::Bool) return {type};
  if (!adds) expect_number(context);
  return {type.with(DType::I64)};
}

std::vector<Type> infer_linear_scan(const InferContext& context) {
  expect_floats(context);
  const Type &a = context.operands[0], &b = context.operands[1];
  if (!(a == b))
    context.fail("types differ, " + to_string(a) + " and " + to_string(b),
                 "broadcast or cast one of them first");
  axis_of(context);
  return {b};
}

std::vector<Type> infer_sort(const InferContext& context) {
  check_places(context, axis_of(context));
  return {context.operands[0]};
}

std::vector<Type> infer_argsort(const InferContext& context) {
  check_places(context, axis_of(context));
  return {context.operands[0].with(DType::I32)};
}

std::vector<Type> infer_sort_by(const InferContext& context) {
  const Type &x = context.operands[0], &keys = context.operands[1];
  if (!(x.shape == keys.shape))
    context.fail("shapes differ, " + to_string(x) + " and " + to_string(keys),
                 "there is one key for each element of x");
  check_places(context, axis_of(context));
  return {x};
}

std::vector<Type> infer_topk(const InferContext& context) {
  const Type& type = context.operands[0];
  const int64_t axis = axis_of(context), k = context.attrs.get_int("k");
  check_places(context, axis);
  const int64_t length = type.shape[static_cast<int>(axis)];
  if (k > length)
    context.fail(
        fmt::format("k {} is more than the {} along axis {}", k, counted(length, "element"), axis),
        "k may be the length of the axis at most");
  const Type values = type.with(type.shape.with(static_cast<int>(axis), k));
  return {values, values.with(DType::I32)};
}

}  // namespace mezzo::ir
