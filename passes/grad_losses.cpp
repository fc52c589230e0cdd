// SPDX-License-Identifier: Apache-2.0
// Gradient rules of losses. Those of elements are computed in f32 (f64 for f64) whatever the type
// of their operands, and rounded once; each multiplies the cotangent with mul0.
#include <mezzo/ir/error.h>
#include <mezzo/passes/autodiff.h>

namespace mezzo::passes {

using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Value;

namespace {

/// The gradient by logits: an op of logits, targets, the cotangent and the weights of the classes.
void accumulate_by_logits(GradContext& c, OpKind kind, Attrs attrs) {
  std::vector<Value> operands{c.operand(0), c.operand(1), c.cotangent()};
  if (c.op().num_operands() > 2) operands.push_back(c.operand(2));
  if (c.wants(0)) c.accumulate(0, c.builder.create(kind, operands, std::move(attrs))->result());
}

void refuse_weights(GradContext& c) {
  if (c.op().num_operands() > 2 && c.wants(2))
    throw UserError(c.op().location(),
                    std::string(c.op().info().name) +
                        ": the weights of the classes have no gradient (weight " +
                        to_string(c.operand(2).type()) + ")",
                    "weights say how much a class counts; stop_gradient(weight) makes them a "
                    "constant");
}

/// Elements in f32, or in f64.
struct Wide {
  GradContext& c;
  DType dtype;

  explicit Wide(GradContext& context)
      : c(context), dtype(context.operand(0).dtype() == DType::F64 ? DType::F64 : DType::F32) {}

  Value operand(int index) {
    return c.builder.cast(c.operand(index), dtype, "a loss is differentiated in f32");
  }
  Value scalar(double value) { return c.scalar(dtype, value); }
  Value one_less(Value x) { return c.make(OpKind::Sub, {scalar(1), x}); }
  /// Adds cotangent × derivative to that of an operand.
  void accumulate(int index, Value derivative) {
    Value g = c.builder.cast(c.cotangent(), dtype, "a loss is differentiated in f32");
    Value product = c.make(OpKind::Mul0, {g, derivative});
    c.accumulate(index, c.builder.cast(product, c.operand(index).dtype(),
                                       "a loss is differentiated in f32"));
  }
};

/// max(ln p, -100).
Value clamped(Wide& w, OpKind log, Value x) {
  return w.c.make(OpKind::Maximum, {w.c.make(log, {x}), w.scalar(-100)});
}

}  // namespace

void grad_cross_entropy(GradContext& c) {
  refuse_weights(c);
  accumulate_by_logits(c, OpKind::CrossEntropyGrad,
                       c.attributes({"reduce", "ignore_index", "label_smoothing"}));
}

/// By the target: -(1 - smoothing) weight × ln p.
void grad_soft_cross_entropy(GradContext& c) {
  refuse_weights(c);
  accumulate_by_logits(c, OpKind::SoftCrossEntropyGrad,
                       c.attributes({"reduce", "label_smoothing"}));
  if (!c.wants(1)) return;
  Value x = c.operand(0), g = c.cotangent();
  const int axis = x.type().rank() - 1;
  double factor = c.op().float_attr("label_smoothing") - 1;
  if (c.op().string_attr("reduce") == "mean") {
    const double rows =
        static_cast<double>(x.type().elements()) / static_cast<double>(x.shape()[axis]);
    factor /= rows > 0 ? rows : 1;
  }
  Value slope = c.builder.make(OpKind::LogSoftmax, {x}, {{"axis", axis}});
  slope = c.make(OpKind::Mul, {slope, c.scalar(x.dtype(), factor)});
  if (c.op().num_operands() > 2) slope = c.make(OpKind::Mul0, {c.operand(2), slope});
  if (c.op().string_attr("reduce") == "none") g = c.builder.reshape(g, x.shape().with(axis, 1));
  c.accumulate(1, c.make(OpKind::Mul0, {g, slope}));
}

/// By p: (p - t) / max(p (1 - p), 1e-12), also where a logarithm is clamped, so that a probability
/// of 0 is not beyond rescue; by t: the difference of the clamped logarithms.
void grad_bce(GradContext& c) {
  Wide w(c);
  Value p = w.operand(0), t = w.operand(1);
  if (c.wants(0)) {
    Value spread = c.make(OpKind::Mul, {p, w.one_less(p)});
    spread = c.make(OpKind::Maximum, {spread, w.scalar(1e-12)});
    w.accumulate(0, c.make(OpKind::Div, {c.make(OpKind::Sub, {p, t}), spread}));
  }
  if (c.wants(1)) {
    Value no = clamped(w, OpKind::Log1p, c.make(OpKind::Neg, {p}));
    w.accumulate(1, c.make(OpKind::Sub, {no, clamped(w, OpKind::Log, p)}));
  }
}

/// By x: (1 - t) sigmoid(x) - w t sigmoid(-x), which keeps its digits in both tails; by t:
/// w softplus(-x) - softplus(x), which is -x without a weight; by w: t softplus(-x).
void grad_bce_with_logits(GradContext& c) {
  Wide w(c);
  Value x = w.operand(0), t = w.operand(1), minus_x = c.make(OpKind::Neg, {x});
  const bool weighted = c.op().num_operands() > 2;
  if (c.wants(0)) {
    Value yes = weighted ? c.make(OpKind::Mul0, {t, w.operand(2)}) : t;
    yes = c.make(OpKind::Mul, {yes, c.make(OpKind::Sigmoid, {minus_x})});
    Value no = c.make(OpKind::Mul, {w.one_less(t), c.make(OpKind::Sigmoid, {x})});
    w.accumulate(0, c.make(OpKind::Sub, {no, yes}));
  }
  if (c.wants(1) && !weighted) w.accumulate(1, minus_x);
  if (!weighted) return;
  Value cost = c.make(OpKind::Softplus, {minus_x});
  if (c.wants(1))
    w.accumulate(1, c.make(OpKind::Sub, {c.make(OpKind::Mul0, {w.operand(2), cost}),
                                         c.make(OpKind::Softplus, {x})}));
  if (c.wants(2)) w.accumulate(2, c.make(OpKind::Mul0, {t, cost}));
}

/// By x: -t. By the target: ln t + 1 - x, and 0 at a target of 0, whose part is masked; of a
/// logarithm l: e^l (l + 1 - x).
void grad_kl_div(GradContext& c) {
  Wide w(c);
  const bool log_target = c.op().bool_attr("log_target");
  Value x = w.operand(0), t = w.operand(1);
  Value share = log_target ? c.make(OpKind::Exp, {t}) : t;
  if (c.wants(0)) w.accumulate(0, c.make(OpKind::Neg, {share}));
  if (!c.wants(1)) return;
  Value zero = c.make(OpKind::Eq, {share, w.scalar(0)});
  Value log_t = t;
  if (!log_target) log_t = c.make(OpKind::Log, {c.make(OpKind::Where, {zero, w.scalar(1), t})});
  Value slope = c.make(OpKind::Sub, {c.make(OpKind::Add, {log_t, w.scalar(1)}), x});
  w.accumulate(1, log_target ? c.make(OpKind::Mul0, {share, slope})
                             : c.make(OpKind::Where, {zero, w.scalar(0), slope}));
}

}  // namespace mezzo::passes
