// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/attention.h>

#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <cmath>

namespace mezzo {

using detail::Trace;
using ir::OpKind;
using ir::Value;

namespace {

/// A number that is meant as minus infinity: so large that no score outweighs it, and still a
/// number.
bool is_large(Value value) {
  std::optional<double> number = ir::splat_value(value);
  return number && *number <= -1000 && std::isfinite(*number);
}

/// A mask of large negative numbers, made by a selection or a product.
bool stands_for_bools(Value mask) {
  while (mask.op() && (mask.is(OpKind::Cast) || mask.is(OpKind::Reshape)))
    mask = mask.op()->operand(0);
  if (mask.is(OpKind::Where))
    return is_large(mask.op()->operand(1)) || is_large(mask.op()->operand(2));
  if (mask.is(OpKind::Mul))
    return is_large(mask.op()->operand(0)) || is_large(mask.op()->operand(1));
  return false;
}

}  // namespace

Tensor attention(Operand q, Operand k, Operand v, AttentionOptions options) {
  const ir::Location location = q.location();
  Trace& trace = Trace::require("attention", location);
  std::vector<Value> operands = detail::promote(trace, OpKind::Attention, std::vector{q, k, v});
  if (options.mask.has_value()) {
    Value mask = trace.value(options.mask, "attention", location);
    if (stands_for_bools(mask))
      trace.findings.push_back(
          {"additive-mask", location,
           "attention: the mask adds a large negative number; a query with no key left would read "
           "all of them",
           "a mask of bools, true where a key is read, gives such a query 0"});
    const DType wide = ir::default_acc(operands[0].dtype());
    if (ir::is_float(mask.dtype()) && mask.dtype() != wide)
      mask = trace.make(OpKind::Cast, {mask}, {{"reason", "scores are f32"}}, location,
                        {mask.type().with(wide)});
    operands.push_back(mask);
  }
  const int rank = operands[0].type().rank();
  const double depth = rank > 0 ? static_cast<double>(operands[0].shape()[rank - 1]) : 1;
  ir::Attrs attrs{{"scale", options.scale.value_or(depth > 0 ? 1 / std::sqrt(depth) : 1)},
                  {"causal", options.causal},
                  {"masked", options.mask.has_value()},
                  {"rate", options.dropout}};
  if (options.dropout > 0) {
    operands.push_back(trace.rng(location));
    if (options.offset.has_value())
      operands.push_back(trace.value(options.offset, "attention", location));
    attrs.set("stream", trace.next_stream());
  }
  return trace.tensor(
      trace.create(OpKind::Attention, operands, std::move(attrs), location)->result(0));
}

}  // namespace mezzo
