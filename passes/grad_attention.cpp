// SPDX-License-Identifier: Apache-2.0
// Gradient rules of attention and of dropout: both draw the random numbers of the forward pass
// anew.
#include <mezzo/ir/attention.h>
#include <mezzo/passes/autodiff.h>

namespace mezzo::passes {

using ir::OpKind;
using ir::Type;
using ir::Value;

/// The same elements dropped, the same factor.
void grad_dropout(GradContext& c) {
  std::vector<Value> operands{c.cotangent()};
  for (int i = 1; i < c.op().num_operands(); ++i) operands.push_back(c.operand(i));
  c.accumulate(
      0, c.builder
             .create(OpKind::Dropout, operands,
                     {{"rate", c.op().float_attr("rate")}, {"stream", c.op().int_attr("stream")}})
             ->result());
}

void grad_attention(GradContext& c) {
  const ir::AttentionOperands at = ir::attention_operands(
      OpKind::Attention, c.op().attrs(), static_cast<size_t>(c.op().num_operands()));
  const bool by_mask = at.mask >= 0 && c.wants(at.mask);
  Value q = c.operand(0), k = c.operand(1), v = c.operand(2);
  auto as_operand = [&](Value value) {
    return c.builder.cast(value, q.dtype(), "cotangent of a product with f32 result");
  };
  std::vector<Value> operands{
      q, k, v, as_operand(c.result(0)), c.result(1), as_operand(c.cotangent(0)), c.cotangent(1)};
  for (int i = 3; i < c.op().num_operands(); ++i) operands.push_back(c.operand(i));
  ir::Attrs attrs = c.attributes({"scale", "causal", "masked", "rate", "stream"});
  std::vector<Type> types{q.type(), k.type(), v.type()};
  if (by_mask) {
    attrs.set("mask_grad", true);
    types.push_back(c.operand(at.mask).type());
  }
  const ir::Op* gradient =
      c.builder.create(OpKind::AttentionGrad, operands, std::move(attrs), types);
  for (int i = 0; i < 3; ++i) c.accumulate(i, gradient->result(i));
  if (by_mask) c.accumulate(at.mask, gradient->result(3));
}

}  // namespace mezzo::passes
