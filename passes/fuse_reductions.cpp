// SPDX-License-Identifier: Apache-2.0
#include <mezzo/passes/fuse_reductions.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/kernel_region.h>

#include <algorithm>

namespace mezzo::passes {

using namespace ir;

namespace {

/// Rows take the last axes, columns the first ones.
bool a_family_takes(const Op& op, const std::vector<int64_t>& axes) {
  int rank = op.operand(0).type().rank();
  if (axes.empty()) return false;
  if (axes.front() == rank - std::ssize(axes)) return true;
  return op.kind() != OpKind::Argmax && axes.back() == std::ssize(axes) - 1;
}

/// The axes in the order kept, reduced; a reshape does where only axes of length 1 move.
Value reduced_axes_last(Value value, const std::vector<int64_t>& axes, Builder& builder) {
  std::vector<int64_t> perm, dims, after;
  for (bool reduced : {false, true})
    for (int64_t axis = 0; axis < value.type().rank(); ++axis)
      if (std::ranges::count(axes, axis) == reduced) perm.push_back(axis);
  for (int64_t axis : perm) {
    dims.push_back(value.shape()[static_cast<int>(axis)]);
    if (dims.back() != 1) after.push_back(axis);
  }
  if (std::ranges::is_sorted(after))
    return builder.reshape(value, Shape(std::span<const int64_t>(dims)));
  return builder.transpose(value, perm);
}

Value normalized(Op& op, const std::vector<int64_t>& axes, Builder& builder) {
  Value operand = op.operand(0);
  const Type& type = op.result().type();
  // The sum or product of one bool is an i64; any other reduction over no axis is its operand.
  if (axes.empty())
    return operand.type() == type ? operand : builder.cast(operand, type.dtype, "of a bool");
  Value moved = reduced_axes_last(operand, axes, builder);
  if (moved != operand) moved.op()->attrs().erase("word");  // the reduction's
  int64_t rank = operand.type().rank();
  Attrs attrs = op.attrs();
  attrs.erase("keepdims");
  if (op.kind() == OpKind::Argmax) {
    attrs.set("axis", rank - 1);
  } else {
    std::vector<int64_t> last;
    for (int64_t axis = rank - std::ssize(axes); axis < rank; ++axis) last.push_back(axis);
    attrs.set("axes", Attr(last));
  }
  Value result = builder.make(op.kind(), {moved}, attrs);
  if (result.type() == type) return result;
  Value shaped = builder.reshape(result, type.shape);
  shaped.op()->attrs().erase("word");
  return shaped;
}

}  // namespace

bool normalize_reductions(Function& function) {
  bool changed = false;
  for (Op& op : function.body()) {
    if (!is_reduction(op.kind())) continue;
    std::vector<int64_t> axes = reduced_axes(op);
    if (a_family_takes(op, axes)) continue;
    Builder builder(&op);
    builder.derive_from(&op);
    Value now = normalized(op, axes, builder);
    if (now.op() && now.name().empty()) now.set_name(op.result().name());
    op.result().replace_all_uses_with(now);
    op.erase();
    changed = true;
  }
  return changed;
}

}  // namespace mezzo::passes
