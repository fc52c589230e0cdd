// SPDX-License-Identifier: Apache-2.0
// Gradient rules of order along an axis: cotangents go back to the places that the values came
// from, which is the order of the indices of those places.
#include <mezzo/passes/autodiff.h>

namespace mezzo::passes {

using ir::Attr;
using ir::OpKind;
using ir::Value;

namespace {

Value order_of(GradContext& c, Value keys, bool descending) {
  return c.builder.make(OpKind::Argsort, {keys},
                        {{"axis", c.op().int_attr("axis")}, {"descending", descending}});
}

/// `g` in order `order`: element k of it goes to place order[k].
void take_back(GradContext& c, Value g, Value order) {
  c.accumulate(0, c.builder.make(OpKind::SortBy, {g, order}, {{"axis", c.op().int_attr("axis")}}));
}

}  // namespace

void grad_sort(GradContext& c) {
  take_back(c, c.cotangent(), order_of(c, c.operand(0), c.op().bool_attr("descending")));
}

void grad_sort_by(GradContext& c) {
  take_back(c, c.cotangent(), order_of(c, c.operand(1), c.op().bool_attr("descending")));
}

/// What is not among the k taken gets 0.
void grad_topk(GradContext& c) {
  const size_t rank = static_cast<size_t>(c.operand(0).type().rank());
  const auto axis = static_cast<int>(c.op().int_attr("axis"));
  std::vector<int64_t> none(rank, 0), left(rank, 0);
  left[static_cast<size_t>(axis)] = c.operand(0).shape()[axis] - c.op().int_attr("k");
  Value g = c.builder.make(OpKind::Pad, {c.cotangent()},
                           {{"low", Attr(none)}, {"high", Attr(left)}, {"interior", Attr(none)}});
  take_back(c, g, order_of(c, c.operand(0), c.op().bool_attr("largest")));
}

}  // namespace mezzo::passes
