// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/norms.h>

#include <mezzo/dsl/axes.h>
#include <mezzo/dsl/trace.h>

namespace mezzo {

using detail::Trace;
using ir::Attrs;
using ir::OpKind;
using ir::Value;

namespace {

ir::Op* make_norm(OpKind kind, const std::vector<Operand>& operands, Attrs attrs) {
  const ir::Location location = operands[0].location();
  Trace& trace = Trace::require(ir::to_string(kind), location);
  return trace.create(kind, detail::promote(trace, kind, operands), std::move(attrs), location);
}

Tensor result_of(const ir::Op* op, int index = 0, ir::Location location = {}) {
  return Trace::require(op->info().name, location).tensor(op->result(index));
}

Tensor over_last_axes(OpKind kind, const std::vector<Operand>& operands, int64_t axis, double eps) {
  return result_of(make_norm(
      kind, operands, {{"axis", detail::from_start(axis, operands[0].rank())}, {"eps", eps}}));
}

}  // namespace

Tensor layer_norm(Operand x, LayerNormOptions options) {
  return over_last_axes(OpKind::LayerNorm, {x}, options.axis, options.eps);
}
Tensor layer_norm(Operand x, Operand weight, LayerNormOptions options) {
  return over_last_axes(OpKind::LayerNorm, {x, weight}, options.axis, options.eps);
}
Tensor layer_norm(Operand x, Operand weight, Operand bias, LayerNormOptions options) {
  return over_last_axes(OpKind::LayerNorm, {x, weight, bias}, options.axis, options.eps);
}

Tensor rms_norm(Operand x, RmsNormOptions options) {
  return over_last_axes(OpKind::RmsNorm, {x}, options.axis, options.eps);
}
Tensor rms_norm(Operand x, Operand weight, RmsNormOptions options) {
  return over_last_axes(OpKind::RmsNorm, {x, weight}, options.axis, options.eps);
}

Tensor group_norm(Operand x, int64_t groups, GroupNormOptions options) {
  return result_of(make_norm(OpKind::GroupNorm, {x}, {{"groups", groups}, {"eps", options.eps}}));
}
Tensor group_norm(Operand x, int64_t groups, Operand weight, Operand bias,
                  GroupNormOptions options) {
  return result_of(
      make_norm(OpKind::GroupNorm, {x, weight, bias}, {{"groups", groups}, {"eps", options.eps}}));
}

namespace {

BatchNormalized batch_normalized(const std::vector<Operand>& operands, double eps) {
  const ir::Op* op = make_norm(OpKind::BatchNorm, operands, {{"eps", eps}});
  return {result_of(op), result_of(op, 1), result_of(op, 2)};
}

/// Statistics are f32 where x has 16 bits, so that they are no part of its promotion.
Tensor normalized_by(const std::vector<Operand>& operands, double eps) {
  const ir::Location location = operands[0].location();
  const OpKind kind = OpKind::BatchNormInference;
  Trace& trace = Trace::require(ir::to_string(kind), location);
  std::vector<Operand> others{operands[0]};
  others.insert(others.end(), operands.begin() + 3, operands.end());
  std::vector<Value> values = detail::promote(trace, kind, others);
  const DType wide = values[0].dtype() == f64 ? f64 : f32;
  for (size_t i : {size_t{1}, size_t{2}}) {
    Value statistic = detail::single(trace, kind, operands[i]);
    if (statistic.dtype() != wide)
      statistic =
          trace.make(OpKind::Cast, {statistic}, {}, location, {statistic.type().with(wide)});
    values.insert(values.begin() + static_cast<std::ptrdiff_t>(i), statistic);
  }
  return trace.tensor(trace.create(kind, values, {{"eps", eps}}, location)->result());
}

}  // namespace

BatchNormalized batch_norm(Operand x, BatchNormOptions options) {
  return batch_normalized({x}, options.eps);
}
BatchNormalized batch_norm(Operand x, Operand weight, Operand bias, BatchNormOptions options) {
  return batch_normalized({x, weight, bias}, options.eps);
}

Tensor batch_norm_inference(Operand x, Operand mean, Operand variance, BatchNormOptions options) {
  return normalized_by({x, mean, variance}, options.eps);
}
Tensor batch_norm_inference(Operand x, Operand mean, Operand variance, Operand weight, Operand bias,
                            BatchNormOptions options) {
  return normalized_by({x, mean, variance, weight, bias}, options.eps);
}

}  // namespace mezzo
