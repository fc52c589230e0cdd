// SPDX-License-Identifier: Apache-2.0
// Decompositions of what is drawn from random numbers.
#include <mezzo/passes/decompose_random.h>

#include <cmath>

namespace mezzo::passes {

Value drop(Parts& parts, Value x, const DropoutSource& source) {
  if (source.rate == 0) return x;
  if (source.rate == 1) return parts.builder.constant(x.type(), 0);
  std::vector<Value> operands{source.rng};
  if (source.offset) operands.push_back(source.offset);
  const Type mask(DType::Bool, x.shape());
  Value dropped = parts.builder
                      .create(OpKind::Bernoulli, operands,
                              {{"p", source.rate}, {"stream", source.stream}}, std::span(&mask, 1))
                      ->result();
  Value kept = parts.make(OpKind::Mul, {x, parts.scalar(x, 1 / (1 - source.rate))});
  return parts.make(OpKind::Where, {dropped, parts.scalar(x, 0), kept});
}

std::vector<Value> decompose_dropout(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value x = parts.widen(op.operand(0));
  Value y = drop(parts, x,
                 {op.float_attr("rate"), op.int_attr("stream"), op.operand(1),
                  op.has(2) ? op.operand(2) : Value()});
  return {parts.narrow(y, op.operand(0).dtype())};
}

/// The first largest x - ln(-ln u), in f32 (f64 for f64): one uniform number for each class.
std::vector<Value> decompose_categorical(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value x = parts.widen(op.operand(0));
  if (x.type().elements() == 0) {
    const Shape shape = x.shape().without(static_cast<int>(op.int_attr("axis")));
    return {builder.constant(Type(DType::I32, shape), 0)};
  }
  std::vector<Value> operands(op.operands.begin() + 1, op.operands.end());
  const Type type = x.type();
  Value u = builder
                .create(OpKind::RandomUniform, operands, {{"stream", op.int_attr("stream")}},
                        std::span(&type, 1))
                ->result();
  // 0 counts as half a step: a finite noise, which no class of -inf outdoes.
  double least = x.dtype() == DType::F64 ? 0x1p-54 : 0x1p-25;
  u = parts.make(OpKind::Maximum, {u, parts.scalar(u, least)});
  Value wait = parts.make(OpKind::Neg, {parts.make(OpKind::Log, {u})});
  Value score = parts.make(OpKind::Sub, {x, parts.make(OpKind::Log, {wait})});
  return {parts.make(OpKind::Argmax, {score}, {{"axis", op.int_attr("axis")}})};
}

}  // namespace mezzo::passes
