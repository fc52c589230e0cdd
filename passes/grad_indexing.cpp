// SPDX-License-Identifier: Apache-2.0
// Gradient rules of padding, reversal, concatenation, reading and adding by index. Reading by index
// and adding by index are each other's adjoint.
#include <mezzo/passes/autodiff.h>

namespace mezzo::passes {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

using Ints = std::vector<int64_t>;

Value slice(GradContext& c, Value value, const Ints& starts, const Ints& ends, const Ints& steps) {
  return c.builder.make(OpKind::Slice, {value},
                        {{"starts", Attr(starts)}, {"ends", Attr(ends)}, {"steps", Attr(steps)}});
}

/// The attributes of the op that make its adjoint: the axis.
Attrs along(const GradContext& c) { return {{"axis", c.op().int_attr("axis")}}; }

/// Zeros of the operand's type, with the cotangent added at the indices.
Value added(GradContext& c, OpKind kind) {
  const Value zeros = c.builder.constant(c.operand(0).type(), 0);
  return c.builder.make(kind, {zeros, c.operand(1), c.cotangent()}, along(c));
}

/// The cotangent of what was added is what stands at the indices.
void accumulate_updates(GradContext& c, OpKind kind) {
  c.accumulate(0, c.cotangent());
  if (!c.wants(2)) return;
  const Value read = c.builder.make(kind, {c.cotangent(), c.operand(1)}, along(c));
  c.accumulate(2, c.builder.cast(read, c.operand(2).dtype(), "cotangent of what is added"));
}

}  // namespace

/// Of the value the sum over the padding, which a select leaves: what stands inside does not count
/// even where it is not finite.
void grad_pad(GradContext& c) {
  const Ints starts = c.op().ints_attr("low"), interior = c.op().ints_attr("interior");
  Ints ends, steps;
  for (int i = 0; i < c.operand(0).shape().rank(); ++i) {
    const size_t axis = static_cast<size_t>(i);
    const int64_t length = c.operand(0).shape()[i];
    steps.push_back(interior[axis] + 1);
    ends.push_back(starts[axis] + (length == 0 ? 0 : (length - 1) * steps[axis] + 1));
  }
  if (c.wants(0)) c.accumulate(0, slice(c, c.cotangent(), starts, ends, steps));
  if (c.op().num_operands() < 2 || !c.wants(1)) return;
  const Value ones = c.builder.constant(c.operand(0).type().with(DType::Bool), 1);
  const Value inside = c.builder.make(OpKind::Pad, {ones},
                                      {{"low", Attr(starts)},
                                       {"high", Attr(c.op().ints_attr("high"))},
                                       {"interior", Attr(interior)}});
  c.accumulate(1,
               c.make(OpKind::Where, {inside, c.scalar(c.cotangent().dtype(), 0), c.cotangent()}));
}

void grad_flip(GradContext& c) {
  c.accumulate(
      0, c.builder.make(OpKind::Flip, {c.cotangent()}, {{"axes", Attr(c.op().ints_attr("axes"))}}));
}

void grad_concat(GradContext& c) {
  const size_t axis = static_cast<size_t>(c.op().int_attr("axis"));
  const Shape& whole = c.result().shape();
  Ints starts(static_cast<size_t>(whole.rank()), 0), ends(whole.begin(), whole.end());
  const Ints steps(starts.size(), 1);
  for (int i = 0; i < c.op().num_operands(); ++i) {
    ends[axis] = starts[axis] + c.operand(i).shape()[static_cast<int>(axis)];
    if (c.wants(i)) c.accumulate(i, slice(c, c.cotangent(), starts, ends, steps));
    starts[axis] = ends[axis];
  }
}

void grad_gather(GradContext& c) { c.accumulate(0, added(c, OpKind::ScatterAdd)); }
void grad_take_along_axis(GradContext& c) { c.accumulate(0, added(c, OpKind::AddAlongAxis)); }
void grad_scatter_add(GradContext& c) { accumulate_updates(c, OpKind::Gather); }
void grad_add_along_axis(GradContext& c) { accumulate_updates(c, OpKind::TakeAlongAxis); }

}  // namespace mezzo::passes
