// SPDX-License-Identifier: Apache-2.0
// Decompositions of losses. An ignored label gives exact 0 whatever its row holds; a share of 0 (a
// weight, a target, a smoothing) leaves its part out, also an infinite one.
#include <mezzo/passes/decompose_rows.h>

#include <limits>

namespace mezzo::passes {

namespace {

/// The class labels of a loss.
struct Labels {
  Value labels;   // i32 [..., 1], range-checked
  Value counted;  // bool [..., 1]: not ignored
  Value hot;      // bool [..., classes]: the class is the label
};

Labels read_labels(Parts& parts, const Composite& op) {
  Value logits = op.operand(0);
  int axis = logits.type().rank() - 1;
  int64_t ignored = op.int_attr("ignore_index"), classes = logits.shape()[axis];
  Labels out;
  Value checked = parts.make(OpKind::CheckIndex, {op.operand(1)},
                             {{"size", classes}, {"ignore_index", ignored}});
  out.labels = parts.builder.reshape(checked, logits.shape().with(axis, 1));
  // An index beyond i32 can be no label.
  bool possible = ignored >= std::numeric_limits<int32_t>::min() &&
                  ignored <= std::numeric_limits<int32_t>::max();
  out.counted =
      possible ? parts.make(OpKind::Ne,
                            {out.labels, parts.scalar(out.labels, static_cast<double>(ignored))})
               : parts.builder.constant(Type(DType::Bool, out.labels.shape()), 1);
  std::vector<int64_t> dims(static_cast<size_t>(axis), 1);
  dims.push_back(classes);
  Value places = parts.builder.make(OpKind::Iota, {}, {{"axis", axis}},
                                    {Type(DType::I32, Shape(std::span<const int64_t>(dims)))});
  out.hot = parts.make(OpKind::Eq, {places, out.labels});
  return out;
}

std::vector<int64_t> all_axes(Value value) {
  std::vector<int64_t> axes;
  for (int i = 0; i < value.type().rank(); ++i) axes.push_back(i);
  return axes;
}

/// A loss over classes while it is taken apart.
class ClassLoss {
 public:
  ClassLoss(const Composite& op, ir::Builder& builder, size_t weight_operand)
      : parts{builder},
        op(op),
        x(parts.widen(op.operand(0))),
        axis(x.type().rank() - 1),
        classes(static_cast<double>(x.shape()[axis])),
        reduce(op.string_attr("reduce")) {
    if (op.has(weight_operand)) weight = parts.widen(op.operand(weight_operand));
  }

  /// What an op gives whose operands have no elements.
  Value nothing(const Shape& shape) {
    return parts.builder.constant(op.operand(0).type().with(shape), 0);
  }
  Shape loss_shape() const { return reduce == "none" ? x.shape().without(axis) : Shape(); }

  Value zero() { return parts.scalar(x, 0); }
  Value row_sum(Value value) { return parts.builder.sum(value, {axis}, true); }
  /// A share times the weight of its class.
  Value weighted(Value share) { return weight ? parts.make(OpKind::Mul0, {share, weight}) : share; }
  /// The share of each class under label smoothing: 1 - e at the label, e / classes everywhere,
  /// times its weight.
  Value shares(const Labels& labels) {
    double smoothing = op.float_attr("label_smoothing"), spread = smoothing / classes;
    return weighted(parts.make(OpKind::Where, {labels.hot, parts.scalar(x, 1 - smoothing + spread),
                                               parts.scalar(x, spread)}));
  }
  /// The same of probabilities.
  Value shares(Value target) {
    double smoothing = op.float_attr("label_smoothing");
    if (smoothing != 0) {
      Value part = parts.make(OpKind::Mul0, {parts.scalar(x, 1 - smoothing), target});
      target = parts.make(OpKind::Add, {part, parts.scalar(x, smoothing / classes)});
    }
    return weighted(target);
  }
  /// -Σ share × ln p of each row.
  Value entropy(Value shares) {
    Value log_p = log_probabilities(parts, shift_rows(parts, x, axis));
    Value sum = row_sum(parts.make(OpKind::Mul0, {shares, log_p}));
    return parts.make(OpKind::Neg, {sum});
  }
  /// -weight × value at the label of each row.
  Value picked(const Labels& labels, Value value) {
    if (weight) value = parts.make(OpKind::Mul0, {weight, value});
    Value at_label = parts.make(OpKind::Where, {labels.hot, value, zero()});
    return parts.make(OpKind::Neg, {row_sum(at_label)});
  }
  /// g × (p Σ share - share), and 0 in rows that do not count or hold -inf alone.
  Value gradient(Value g, Value shares, Value counted) {
    Rows rows = shift_rows(parts, x, axis);
    Value p = parts.make(OpKind::Div, {rows.exp, rows.total});
    Value live = parts.make(OpKind::LogicalNot, {rows.dead});
    if (counted) live = parts.make(OpKind::LogicalAnd, {counted, live});
    // The shares of labels without weights add up to 1.
    if (weight || !counted) p = parts.make(OpKind::Mul0, {row_sum(shares), p});
    // The select stands before the product, so that an ignored row of NaN meets a cotangent of 0.
    Value row_g = parts.make(OpKind::Where, {live, g, zero()});
    return parts.make(OpKind::Mul0, {row_g, parts.make(OpKind::Sub, {p, shares})});
  }
  /// The cotangent of each row's loss, before the mean divides it.
  Value row_cotangent(size_t operand) {
    Value g = parts.widen(op.operand(operand));
    return reduce == "none" ? parts.builder.reshape(g, x.shape().with(axis, 1)) : g;
  }

  /// The weights of the labels that count added up: a sum of ones, exact up to 2^24 labels in f32,
  /// where there are none.
  Value total(const Labels& labels) {
    Value each;
    if (weight)
      each = parts.make(OpKind::Where,
                        {labels.counted,
                         row_sum(parts.make(OpKind::Where, {labels.hot, weight, zero()})), zero()});
    else
      each = parts.builder.cast(labels.counted, x.dtype(), "labels that count are added up");
    return parts.builder.sum(each, all_axes(each));
  }
  /// `value` / `total`, and 0 where nothing counts.
  Value averaged(Value value, Value total) {
    if (!weight)  // a count
      return parts.make(OpKind::Div,
                        {value, parts.make(OpKind::Maximum, {total, parts.scalar(x, 1)})});
    Value none = parts.make(OpKind::Eq, {total, zero()});
    Value safe = parts.make(OpKind::Where, {none, parts.scalar(x, 1), total});
    return parts.make(OpKind::Where, {none, zero(), parts.make(OpKind::Div, {value, safe})});
  }
  /// The result from the loss of each row.
  Value reduced(Value loss) {
    if (reduce == "none") return parts.builder.reshape(loss, loss_shape());
    return parts.builder.sum(loss, all_axes(loss));
  }
  Value reduced(Value loss, const Labels& labels) {
    loss = reduced(parts.make(OpKind::Where, {labels.counted, loss, zero()}));
    return reduce == "mean" ? averaged(loss, total(labels)) : loss;
  }
  std::vector<Value> done(Value value) { return {parts.narrow(value, op.operand(0).dtype())}; }

  Parts parts;
  const Composite& op;
  Value x, weight;
  int axis;
  double classes;
  std::string reduce;
};

}  // namespace

std::vector<Value> decompose_cross_entropy(const Composite& op, ir::Builder& builder) {
  ClassLoss loss(op, builder, 2);
  if (is_empty(loss.x)) return {loss.nothing(loss.loss_shape())};
  Labels labels = read_labels(loss.parts, op);
  if (op.float_attr("label_smoothing") != 0)
    return loss.done(loss.reduced(loss.entropy(loss.shares(labels)), labels));
  Value log_p = log_probabilities(loss.parts, shift_rows(loss.parts, loss.x, loss.axis));
  return loss.done(loss.reduced(loss.picked(labels, log_p), labels));
}

std::vector<Value> decompose_cross_entropy_grad(const Composite& op, ir::Builder& builder) {
  ClassLoss loss(op, builder, 3);
  if (is_empty(loss.x)) return {loss.nothing(loss.x.shape())};
  Labels labels = read_labels(loss.parts, op);
  Value g = loss.row_cotangent(2);
  if (loss.reduce == "mean") g = loss.averaged(g, loss.total(labels));
  return loss.done(loss.gradient(g, loss.shares(labels), labels.counted));
}

std::vector<Value> decompose_soft_cross_entropy(const Composite& op, ir::Builder& builder) {
  ClassLoss loss(op, builder, 2);
  if (is_empty(loss.x)) return {loss.nothing(loss.loss_shape())};
  Value result = loss.reduced(loss.entropy(loss.shares(loss.parts.widen(op.operand(1)))));
  double rows = static_cast<double>(loss.x.type().elements()) / loss.classes;
  if (loss.reduce == "mean")
    result = loss.parts.make(OpKind::Div, {result, loss.parts.scalar(loss.x, rows)});
  return loss.done(result);
}

std::vector<Value> decompose_soft_cross_entropy_grad(const Composite& op, ir::Builder& builder) {
  ClassLoss loss(op, builder, 3);
  if (is_empty(loss.x)) return {loss.nothing(loss.x.shape())};
  Value g = loss.row_cotangent(2);
  double rows = static_cast<double>(loss.x.type().elements()) / loss.classes;
  if (loss.reduce == "mean") g = loss.parts.make(OpKind::Div, {g, loss.parts.scalar(loss.x, rows)});
  Value shares = loss.shares(loss.parts.widen(op.operand(1)));
  return loss.done(loss.gradient(g, shares, Value()));
}

std::vector<Value> decompose_nll(const Composite& op, ir::Builder& builder) {
  ClassLoss loss(op, builder, 2);
  if (is_empty(loss.x)) return {loss.nothing(loss.loss_shape())};
  Labels labels = read_labels(loss.parts, op);
  return loss.done(loss.reduced(loss.picked(labels, loss.x), labels));
}

// --- losses of elements

namespace {

/// The larger of ln p and -100, without a logarithm of 0.
Value clamped_log(Parts& parts, OpKind log, Value x, double pole) {
  Value at_pole = parts.make(OpKind::Eq, {x, parts.scalar(x, pole)});
  Value safe = parts.make(OpKind::Where, {at_pole, parts.scalar(x, 0.5), x});
  Value least = parts.scalar(x, -100);
  Value value = parts.make(OpKind::Maximum, {parts.make(log, {safe}), least});
  return parts.make(OpKind::Where, {at_pole, least, value});
}

}  // namespace

/// -(t max(ln p, -100) + (1 - t) max(ln(1 - p), -100)).
std::vector<Value> decompose_bce(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value p = parts.widen(op.operand(0)), t = parts.widen(op.operand(1));
  Value yes = parts.make(OpKind::Mul, {t, clamped_log(parts, OpKind::Log, p, 0)});
  Value minus_p = parts.make(OpKind::Neg, {p}),
        rest = parts.make(OpKind::Sub, {parts.scalar(p, 1), t});
  Value no = parts.make(OpKind::Mul, {rest, clamped_log(parts, OpKind::Log1p, minus_p, -1)});
  Value loss = parts.make(OpKind::Neg, {parts.make(OpKind::Add, {yes, no})});
  return {parts.narrow(loss, op.operand(0).dtype())};
}

/// w t softplus(-x) + (1 - t) softplus(x): no term cancels another for a target within [0, 1], and
/// none is infinite times 0.
std::vector<Value> decompose_bce_with_logits(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value x = parts.widen(op.operand(0)), t = parts.widen(op.operand(1));
  Value rest = parts.make(OpKind::Sub, {parts.scalar(x, 1), t});
  if (op.has(2)) t = parts.make(OpKind::Mul0, {t, parts.widen(op.operand(2))});
  Value minus_x = parts.make(OpKind::Neg, {x});
  Value yes = parts.make(OpKind::Mul0, {t, parts.make(OpKind::Softplus, {minus_x})});
  Value no = parts.make(OpKind::Mul0, {rest, parts.make(OpKind::Softplus, {x})});
  return {parts.narrow(parts.make(OpKind::Add, {yes, no}), op.operand(0).dtype())};
}

/// t (ln t - x), or e^t (t - x) where the target is given as its logarithm; 0 for a target of 0.
std::vector<Value> decompose_kl_div(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value x = parts.widen(op.operand(0)), t = parts.widen(op.operand(1));
  Value share = t, log_t = t;
  if (op.bool_attr("log_target")) {
    share = parts.make(OpKind::Exp, {t});
  } else {
    // A target of 0 is masked; its logarithm is not taken, which would be a pole.
    Value zero = parts.make(OpKind::Eq, {t, parts.scalar(t, 0)});
    log_t = parts.make(OpKind::Log, {parts.make(OpKind::Where, {zero, parts.scalar(t, 1), t})});
  }
  Value loss = parts.make(OpKind::Mul0, {share, parts.make(OpKind::Sub, {log_t, x})});
  return {parts.narrow(loss, op.operand(0).dtype())};
}

}  // namespace mezzo::passes
