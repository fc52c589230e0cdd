// SPDX-License-Identifier: Apache-2.0
// The interpreter: losses and their gradients, each evaluated whole in double and rounded once.
// A share of 0 (a weight, a target, a smoothing) leaves its part out, also an infinite one.
#include <mezzo/ir/interpreter_rows.h>

namespace mezzo::ir {

namespace {

/// What losses over classes read: [rows, classes], perhaps a weight for each class.
struct ClassRows {
  const InterpreterTensor& logits;
  const InterpreterTensor* weights;
  int64_t classes, rows;
  bool mean, each;

  ClassRows(OpRun& run, int weight_operand)
      : logits(run.operand(0)),
        weights(run.num_operands() > weight_operand ? &run.operand(weight_operand) : nullptr),
        classes(logits.type.shape[logits.type.rank() - 1]),
        rows(logits.elements() / classes),
        mean(run.op.string_attr("reduce") == "mean"),
        each(run.op.string_attr("reduce") == "none") {}

  double weight(int64_t k) const { return weights ? weights->floats[static_cast<size_t>(k)] : 1; }
  std::vector<double> row_of(int64_t row) const {
    auto first = logits.floats.begin() + row * classes;
    return {first, first + classes};
  }
  /// The cotangent of a row's loss.
  double cotangent(const InterpreterTensor& dloss, int64_t row) const {
    return dloss.floats[each ? static_cast<size_t>(row) : 0];
  }

  /// Σ share × -ln p.
  double loss(const std::vector<double>& x, const std::vector<double>& shares) const {
    RowSum sum(x);
    double total = 0;
    for (size_t k = 0; k < x.size(); ++k) total += mul0(shares[k], -sum.log_softmax(x[k]));
    return total;
  }
  /// Stores cotangent × (p Σ share - share); nothing in a row of -inf, whatever the cotangent.
  void store_gradient(OpRun& run, int64_t row, const std::vector<double>& shares,
                      double cotangent) const {
    std::vector<double> x = row_of(row);
    RowSum sum(x);
    if (sum.nothing()) return;  // results start as zeros
    double whole = 0;
    for (double share : shares) whole += share;
    for (int64_t k = 0; k < classes; ++k) {
      size_t at = static_cast<size_t>(k);
      double derivative = mul0(whole, sum.softmax(x[at])) - shares[at];
      run.store(row * classes + k, mul0(cotangent, derivative));
    }
  }
};

/// One label a row. The mean is over the labels that are not ignored, each as heavy as its class.
struct Labels {
  ClassRows data;
  const InterpreterTensor& labels;
  int64_t ignored;
  double total = 0;

  Labels(OpRun& run, int weight_operand)
      : data(run, weight_operand),
        labels(run.operand(1)),
        ignored(run.op.int_attr("ignore_index")) {
    for (int64_t row = 0; row < data.rows; ++row) {
      if (label(row) == ignored) continue;
      if (!in_range(row)) run.execution.index_range = true;
      total += in_range(row) ? data.weight(label(row)) : data.weights ? 0 : 1;
    }
  }

  int64_t label(int64_t row) const { return labels.integers[static_cast<size_t>(row)]; }
  bool in_range(int64_t row) const { return label(row) >= 0 && label(row) < data.classes; }
  /// The row adds to the loss: its label is a class and is not ignored.
  bool used(int64_t row) const { return label(row) != ignored && in_range(row); }
  /// (1 - ε) w at the label, ε w / classes everywhere.
  std::vector<double> shares(int64_t row, double smoothing) const {
    std::vector<double> out;
    for (int64_t k = 0; k < data.classes; ++k) {
      double share = smoothing / static_cast<double>(data.classes);
      if (k == label(row)) share += 1 - smoothing;
      out.push_back(mul0(share, data.weight(k)));
    }
    return out;
  }
  double averaged(double sum) const {
    if (!data.mean) return sum;
    return total == 0 ? 0 : sum / total;
  }
};

/// (1 - ε) w t + ε w / classes of a row of probabilities.
std::vector<double> soft_shares(const ClassRows& data, OpRun& run, int64_t row) {
  double smoothing = run.op.float_attr("label_smoothing");
  std::vector<double> out;
  for (int64_t k = 0; k < data.classes; ++k) {
    double target = run.operand(1).floats[static_cast<size_t>(row * data.classes + k)];
    double share = mul0(1 - smoothing, target) + smoothing / static_cast<double>(data.classes);
    out.push_back(mul0(share, data.weight(k)));
  }
  return out;
}

}  // namespace

void eval_cross_entropy(OpRun& run) {
  Labels labels(run, 2);
  double smoothing = run.op.float_attr("label_smoothing"), sum = 0;
  for (int64_t row = 0; row < labels.data.rows; ++row) {
    double loss = 0;
    if (labels.used(row))
      loss = labels.data.loss(labels.data.row_of(row), labels.shares(row, smoothing));
    if (labels.data.each) run.store(row, loss);
    sum += loss;
  }
  if (!labels.data.each) run.store(0, labels.averaged(sum));
}

void eval_cross_entropy_grad(OpRun& run) {
  Labels labels(run, 3);
  double smoothing = run.op.float_attr("label_smoothing");
  for (int64_t row = 0; row < labels.data.rows; ++row)
    if (labels.used(row))
      labels.data.store_gradient(run, row, labels.shares(row, smoothing),
                                 labels.averaged(labels.data.cotangent(run.operand(2), row)));
}

void eval_soft_cross_entropy(OpRun& run) {
  ClassRows data(run, 2);
  double sum = 0;
  for (int64_t row = 0; row < data.rows; ++row) {
    double loss = data.loss(data.row_of(row), soft_shares(data, run, row));
    if (data.each) run.store(row, loss);
    sum += loss;
  }
  if (data.each) return;
  run.store(0, data.mean && data.rows > 0 ? sum / static_cast<double>(data.rows) : sum);
}

void eval_soft_cross_entropy_grad(OpRun& run) {
  ClassRows data(run, 3);
  for (int64_t row = 0; row < data.rows; ++row) {
    double cotangent = data.cotangent(run.operand(2), row);
    if (data.mean) cotangent /= static_cast<double>(data.rows);
    data.store_gradient(run, row, soft_shares(data, run, row), cotangent);
  }
}

void eval_nll(OpRun& run) {
  Labels labels(run, 2);
  double sum = 0;
  for (int64_t row = 0; row < labels.data.rows; ++row) {
    double loss = 0;
    if (labels.used(row)) {
      int64_t label = labels.label(row);
      double x = labels.data.logits.floats[static_cast<size_t>(row * labels.data.classes + label)];
      loss = mul0(labels.data.weight(label), -x);
    }
    if (labels.data.each) run.store(row, loss);
    sum += loss;
  }
  if (!labels.data.each) run.store(0, labels.averaged(sum));
}

// -(t ln p + (1 - t) ln(1 - p)) with logarithms of at least -100, which a probability of 0 costs.
void eval_bce(OpRun& run) {
  for (int64_t i = 0; i < run.result().elements(); ++i) {
    double p = run.operand(0).number(i), t = run.operand(1).number(i);
    double yes = host_maximum(std::log(p), -100.0), no = host_maximum(std::log1p(-p), -100.0);
    run.store(i, -(t * yes + (1 - t) * no));
  }
}

// w t softplus(-x) + (1 - t) softplus(x).
void eval_bce_with_logits(OpRun& run) {
  const Shape& shape = run.result().type.shape;
  Strides weights{};
  if (run.num_operands() > 2) weights = broadcast_strides(run.operand(2).type.shape, shape);
  for (IndexWalk walk(shape); !walk.done(); walk.advance()) {
    double x = run.operand(0).number(walk.linear()), t = run.operand(1).number(walk.linear());
    double w = run.num_operands() > 2 ? run.operand(2).number(walk.offset(weights)) : 1;
    run.store(walk.linear(), mul0(mul0(t, w), host_softplus(-x)) + mul0(1 - t, host_softplus(x)));
  }
}

// t (ln t - x), where t is given as its logarithm with log_target.
void eval_kl_div(OpRun& run) {
  bool log_target = run.op.bool_attr("log_target");
  for (int64_t i = 0; i < run.result().elements(); ++i) {
    double x = run.operand(0).number(i), t = run.operand(1).number(i);
    run.store(i, log_target ? mul0(std::exp(t), t - x) : mul0(t, std::log(t) - x));
  }
}

}  // namespace mezzo::ir
