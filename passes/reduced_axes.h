// SPDX-License-Identifier: Apache-2.0
// Axes of a reduction as its decomposition and its gradient see them.
#pragma once

#include <mezzo/ir/builder.h>

#include <cstdint>
#include <vector>

namespace mezzo::passes {

/// Elements that a reduction over `axes` makes one.
int64_t reduced_count(const ir::Shape& shape, const std::vector<int64_t>& axes);

/// `value`, the result of a reduction over `axes` of a value of shape `shape`, with the reduced
/// axes as axes of length 1.
ir::Value with_kept_axes(ir::Builder& builder, ir::Value value, ir::Shape shape,
                         const std::vector<int64_t>& axes);

/// x minus its mean over `axes`, in the type of x, f32 or f64: x less an element of its own group
/// (the largest where the reduced axes are the last ones, so that a row stays one kernel, else the
/// first), less the mean of that. No gradient flows through the element, which changes nothing.
/// There must be an element in each group.
ir::Value deviations(ir::Builder& builder, ir::Value x, const std::vector<int64_t>& axes);

/// A layout that has the reduced axes as one, behind the others, in row-major order.
class FlatAxes {
 public:
  FlatAxes(ir::Builder& builder, const ir::Shape& shape, const std::vector<int64_t>& axes);
  /// Number of the one axis, and its length.
  int axis() const { return axis_; }
  int64_t length() const { return flat_[axis_]; }
  /// A value of the shape of the operand.
  ir::Value flatten(ir::Value value) const;
  /// A value of the shape of the result, the one axis of length 1.
  ir::Value of_result(ir::Value value) const;
  /// What `flatten` has changed, as it was.
  ir::Value restore(ir::Value value) const;

 private:
  ir::Builder& builder_;
  std::vector<int64_t> perm_;
  ir::Shape moved_, flat_;
  int axis_ = 0;
};

}  // namespace mezzo::passes
