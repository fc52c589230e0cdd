// SPDX-License-Identifier: Apache-2.0
// Gradient rules of recurrent sequences: one op that walks the steps backwards, with what the
// forward op saved of each of them.
#include <mezzo/ir/builder.h>
#include <mezzo/passes/autodiff.h>

namespace mezzo::passes {

using ir::DType;
using ir::OpKind;
using ir::Type;
using ir::Value;

namespace {

/// `grad` reads x, the initial states and the weights of the forward op, all its results and then
/// their cotangents; it gives the cotangents of all operands, in their order.
void by_op(GradContext& c, OpKind grad, int states) {
  const DType narrow = c.operand(0).dtype(), wide = ir::default_acc(narrow);
  const int weights = 1 + states, results = c.op().num_results();
  std::vector<Value> operands;
  for (int i = 0; i < weights + 2; ++i) operands.push_back(c.operand(i));
  for (int i = 0; i < results; ++i)
    operands.push_back(
        c.builder.cast(c.result(i), i == 0 ? narrow : wide, "as the backward pass reads it"));
  for (int i = 0; i < results; ++i)
    operands.push_back(c.builder.cast(c.cotangent(i), wide, "cotangents of states are f32"));
  ir::Attrs attrs = c.attributes({"reverse", "activation"});
  std::vector<Type> types;
  for (int i = 0; i < c.op().num_operands(); ++i) types.push_back(c.operand(i).type());
  const ir::Op* gradient = c.builder.create(grad, operands, std::move(attrs), types);
  for (int i = 0; i < c.op().num_operands(); ++i) c.accumulate(i, gradient->result(i));
}

}  // namespace

void grad_rnn(GradContext& c) { by_op(c, OpKind::RnnGrad, 1); }
void grad_lstm(GradContext& c) { by_op(c, OpKind::LstmGrad, 2); }
void grad_gru(GradContext& c) { by_op(c, OpKind::GruGrad, 1); }

}  // namespace mezzo::passes
