// SPDX-License-Identifier: Apache-2.0
#include <mezzo/passes/reduced_axes.h>

#include <algorithm>

namespace mezzo::passes {

using ir::Attr;
using ir::Builder;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

int64_t reduced_count(const Shape& shape, const std::vector<int64_t>& axes) {
  int64_t count = 1;
  for (int64_t axis : axes) count *= shape[static_cast<int>(axis)];
  return count;
}

Value with_kept_axes(Builder& builder, Value value, Shape shape, const std::vector<int64_t>& axes) {
  for (int64_t axis : axes) shape = shape.with(static_cast<int>(axis), 1);
  return builder.reshape(value, shape);
}

namespace {

/// The element of each group at index 0 of the reduced axes.
Value first_elements(Builder& builder, Value x, const std::vector<int64_t>& axes) {
  const size_t rank = static_cast<size_t>(x.type().rank());
  std::vector<int64_t> starts(rank, 0), ends(x.shape().begin(), x.shape().end());
  for (int64_t axis : axes) ends[static_cast<size_t>(axis)] = 1;
  return builder.slice(x, starts, ends);
}

}  // namespace

Value deviations(Builder& builder, Value x, const std::vector<int64_t>& axes) {
  const bool rows = !axes.empty() && axes.front() == x.type().rank() - std::ssize(axes);
  Value pivot = rows ? builder.max(x, axes, true) : first_elements(builder, x, axes);
  pivot = builder.make(OpKind::StopGradient, {pivot});
  Value shifted = builder.make(OpKind::Sub, {x, pivot});
  Value count = builder.constant(Type(x.dtype(), Shape()),
                                 static_cast<double>(reduced_count(x.shape(), axes)));
  Value mean = builder.make(OpKind::Div, {builder.sum(shifted, axes, true), count});
  return builder.make(OpKind::Sub, {shifted, mean});
}

FlatAxes::FlatAxes(Builder& builder, const Shape& shape, const std::vector<int64_t>& axes)
    : builder_(builder) {
  for (int64_t axis = 0; axis < shape.rank(); ++axis)
    if (std::ranges::count(axes, axis) == 0) perm_.push_back(axis);
  axis_ = static_cast<int>(perm_.size());
  std::vector<int64_t> dims;
  for (int64_t axis : perm_) dims.push_back(shape[static_cast<int>(axis)]);
  dims.push_back(reduced_count(shape, axes));
  flat_ = Shape(std::span<const int64_t>(dims));
  perm_.insert(perm_.end(), axes.begin(), axes.end());
  dims.clear();
  for (int64_t axis : perm_) dims.push_back(shape[static_cast<int>(axis)]);
  moved_ = Shape(std::span<const int64_t>(dims));
}

Value FlatAxes::flatten(Value value) const {
  if (!std::ranges::is_sorted(perm_)) value = builder_.transpose(value, perm_);
  return builder_.reshape(value, flat_);
}

Value FlatAxes::of_result(Value value) const {
  return builder_.reshape(value, flat_.with(axis_, 1));
}

Value FlatAxes::restore(Value value) const {
  value = builder_.reshape(value, moved_);
  if (std::ranges::is_sorted(perm_)) return value;
  std::vector<int64_t> inverse(perm_.size());
  for (size_t i = 0; i < perm_.size(); ++i)
    inverse[static_cast<size_t>(perm_[i])] = static_cast<int64_t>(i);
  return builder_.transpose(value, inverse);
}

}  // namespace mezzo::passes
