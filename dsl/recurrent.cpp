// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/recurrent.h>

#include <mezzo/dsl/trace.h>
#include <mezzo/ir/builder.h>

#include <string>

namespace mezzo {

using detail::Trace;
using ir::OpKind;
using ir::Value;

namespace {

/// Operands in one type; those that products do not read in the type of the accumulators.
ir::Op* recurrent(OpKind kind, const std::vector<Operand>& given, ir::Attrs attrs) {
  const ir::Location location = given[0].location();
  Trace& trace = Trace::require(ir::to_string(kind), location);
  std::vector<Value> operands = detail::promote(trace, kind, given);
  const ir::DType wide = ir::default_acc(operands[0].dtype());
  for (size_t i = 0; i < operands.size(); ++i)
    if (ir::op_info(kind).precision_of(static_cast<int>(i)) == ir::Precision::Wide &&
        operands[i].dtype() != wide && ir::is_float(operands[i].dtype()))
      operands[i] = trace.make(OpKind::Cast, {operands[i]}, {{"reason", "states are f32"}},
                               location, {operands[i].type().with(wide)});
  return trace.create(kind, operands, std::move(attrs), location);
}

Tensor result(const ir::Op* op, const Operand& x, int index) {
  return Trace::require(op->info().name, x.location()).tensor(op->result(index));
}

}  // namespace

Tensor rnn(Operand x, Operand h0, Operand w, Operand u, Operand b, RnnOptions options) {
  return result(
      recurrent(OpKind::Rnn, {x, h0, w, u, b},
                {{"activation", std::string(options.activation)}, {"reverse", options.reverse}}),
      x, 0);
}

LstmResult lstm(Operand x, Operand h0, Operand c0, Operand w, Operand u, Operand b,
                RecurrentOptions options) {
  const ir::Op* op = recurrent(OpKind::Lstm, {x, h0, c0, w, u, b}, {{"reverse", options.reverse}});
  return {result(op, x, 0), result(op, x, 1)};
}

Tensor gru(Operand x, Operand h0, Operand w, Operand u, Operand b, Operand v,
           RecurrentOptions options) {
  return result(recurrent(OpKind::Gru, {x, h0, w, u, b, v}, {{"reverse", options.reverse}}), x, 0);
}

}  // namespace mezzo
