// SPDX-License-Identifier: Apache-2.0
// Gradient rules of normalisations. Each is one op with the cotangents of all operands; layer,
// group and RMS norm take their statistics anew, batch norm reads those that it gave.
#include <mezzo/passes/autodiff.h>

#include <algorithm>

namespace mezzo::passes {

using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Value;

namespace {

/// Hands the results of `op` to operand 0 and, from `weight` on, to weight and bias.
void accumulate_results(GradContext& c, const ir::Op& op, int weight) {
  c.accumulate(0, op.result(0));
  for (int i = weight; i < c.op().num_operands(); ++i) c.accumulate(i, op.result(i - weight + 1));
}

Attrs shared_attrs(GradContext& c, const char* name) {
  Attrs attrs{{"eps", c.op().float_attr("eps")}};
  if (name) attrs.set(name, c.op().int_attr(name));
  return attrs;
}

void grad_recomputed(GradContext& c, OpKind kind, const char* attribute) {
  std::vector<Value> operands{c.operand(0), c.cotangent()};
  if (c.op().num_operands() > 1) operands.push_back(c.operand(1));
  accumulate_results(c, *c.builder.create(kind, operands, shared_attrs(c, attribute)), 1);
}

}  // namespace

void grad_layer_norm(GradContext& c) { grad_recomputed(c, OpKind::LayerNormGrad, "axis"); }
void grad_rms_norm(GradContext& c) { grad_recomputed(c, OpKind::RmsNormGrad, "axis"); }
void grad_group_norm(GradContext& c) { grad_recomputed(c, OpKind::GroupNormGrad, "groups"); }

namespace {

bool is_zero(Value value) { return ir::splat_value(value) == 0.0; }

/// What the mean and the variance of batch_norm, read by themselves, add to the cotangent of x:
/// dmean / n and 2 (x - mean - shift) dvariance / n.
void accumulate_statistics(GradContext& c) {
  Value dmean = c.cotangent(1), dvariance = c.cotangent(2), x = c.operand(0);
  if (is_zero(dmean) && is_zero(dvariance)) return;
  const DType wide = dmean.dtype();
  const double count = static_cast<double>(x.type().elements() /
                                           std::max<int64_t>(1, x.shape()[x.shape().rank() - 1]));
  // The rounded mean alone may be off by as much as the elements differ.
  Value centred = c.make(OpKind::Sub, {c.builder.cast(x, wide), c.result(1)});
  centred = c.make(OpKind::Sub, {centred, c.result(3)});
  Value slope = c.make(OpKind::Mul, {dvariance, c.scalar(wide, 2)});
  Value total = c.make(OpKind::Add, {dmean, c.make(OpKind::Mul0, {slope, centred})});
  total = c.make(OpKind::Div, {total, c.scalar(wide, count)});
  c.accumulate(0, c.builder.cast(total, x.dtype(), "cotangent of x by its statistics"));
}

}  // namespace

void grad_batch_norm(GradContext& c) {
  std::vector<Value> operands{c.operand(0), c.cotangent(), c.result(1), c.result(2), c.result(3)};
  if (c.op().num_operands() > 1) operands.push_back(c.operand(1));
  accumulate_results(
      c, *c.builder.create(OpKind::BatchNormGrad, operands, shared_attrs(c, nullptr)), 1);
  accumulate_statistics(c);
}

}  // namespace mezzo::passes
