// SPDX-License-Identifier: Apache-2.0
// The interpreter: softmax, cross entropy and their gradients, each evaluated whole in double and
// rounded once, whatever their decomposition rounds in between.
#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/interpreter_ops.h>

#include <cmath>

namespace mezzo::ir {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// 0 where the cotangent is 0, whatever the derivative.
double mul0(double cotangent, double derivative) {
  return cotangent == 0 ? 0.0 : cotangent * derivative;
}

/// Calls `row(elements, places)` for every row along the attribute `axis`; `places` are the
/// elements' places in row-major order.
void for_each_row(const OpRun& run, auto row) {
  AxisView view(run.operand(0).type.shape, run.op.int_attr("axis"));
  std::vector<int64_t> places(static_cast<size_t>(view.length));
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      for (int64_t k = 0; k < view.length; ++k) places[static_cast<size_t>(k)] = view.at(o, k, i);
      row(places);
    }
}

std::vector<double> gather(const InterpreterTensor& tensor, const std::vector<int64_t>& places) {
  std::vector<double> row;
  for (int64_t place : places) row.push_back(tensor.floats[static_cast<size_t>(place)]);
  return row;
}

/// Largest element and ln Σ e^(x - largest). A row of -inf has largest -inf, one with NaN or +inf
/// has a NaN rest.
struct RowSum {
  double largest = -kInfinity;
  double log_rest = 0;

  explicit RowSum(const std::vector<double>& row) {
    for (double x : row) largest = host_maximum(largest, x);
    double sum = 0;
    for (double x : row) sum += std::exp(x - largest);
    log_rest = std::log(sum);
  }
  bool nothing() const { return largest == -kInfinity; }
  /// ln of the softmax of an element; -inf in a row of -inf.
  double log_softmax(double x) const { return nothing() ? -kInfinity : (x - largest) - log_rest; }
  /// 0 in a row of -inf.
  double softmax(double x) const { return std::exp(log_softmax(x)); }
};

}  // namespace

void eval_softmax(OpRun& run) {
  for_each_row(run, [&](const std::vector<int64_t>& places) {
    std::vector<double> x = gather(run.operand(0), places);
    RowSum sum(x);
    for (size_t k = 0; k < x.size(); ++k) run.store(places[k], sum.softmax(x[k]));
  });
}

void eval_log_softmax(OpRun& run) {
  for_each_row(run, [&](const std::vector<int64_t>& places) {
    std::vector<double> x = gather(run.operand(0), places);
    RowSum sum(x);
    for (size_t k = 0; k < x.size(); ++k) run.store(places[k], sum.log_softmax(x[k]));
  });
}

// dx = (dy - Σ dy·y)·y
void eval_softmax_grad(OpRun& run) {
  for_each_row(run, [&](const std::vector<int64_t>& places) {
    std::vector<double> y = gather(run.operand(0), places), dy = gather(run.operand(1), places);
    double inner = 0;
    for (size_t k = 0; k < y.size(); ++k) inner += mul0(dy[k], y[k]);
    for (size_t k = 0; k < y.size(); ++k) run.store(places[k], mul0(dy[k] - inner, y[k]));
  });
}

// dx = dy - e^y·Σ dy, and 0 in a row of -inf, which no finite logits give.
void eval_log_softmax_grad(OpRun& run) {
  for_each_row(run, [&](const std::vector<int64_t>& places) {
    std::vector<double> y = gather(run.operand(0), places), dy = gather(run.operand(1), places);
    double sum = 0, largest = -kInfinity;
    for (size_t k = 0; k < y.size(); ++k) {
      sum += dy[k];
      largest = host_maximum(largest, y[k]);
    }
    for (size_t k = 0; k < y.size(); ++k)
      run.store(places[k], largest == -kInfinity ? 0.0 : dy[k] - mul0(sum, std::exp(y[k])));
  });
}

namespace {

/// What cross_entropy and its gradient read: logits [rows, classes] and one label a row.
struct Targets {
  const InterpreterTensor& logits;
  const InterpreterTensor& labels;
  int64_t rows, classes, ignored;
  double smoothing;
  bool mean, each;
  /// Rows that are not ignored.
  int64_t counted = 0;

  explicit Targets(OpRun& run)
      : logits(run.operand(0)),
        labels(run.operand(1)),
        rows(labels.elements()),
        classes(logits.type.shape[logits.type.rank() - 1]),
        ignored(run.op.int_attr("ignore_index")),
        smoothing(run.op.float_attr("label_smoothing")),
        mean(run.op.string_attr("reduce") == "mean"),
        each(run.op.string_attr("reduce") == "none") {
    for (int64_t row = 0; row < rows; ++row) {
      if (label(row) == ignored) continue;
      ++counted;
      if (!in_range(row)) run.execution.index_range = true;
    }
  }

  int64_t label(int64_t row) const { return labels.integers[static_cast<size_t>(row)]; }
  bool in_range(int64_t row) const { return label(row) >= 0 && label(row) < classes; }
  /// The row adds to the loss: its label is a class and is not ignored.
  bool used(int64_t row) const { return label(row) != ignored && in_range(row); }
  std::vector<double> row_of(int64_t row) const {
    auto first = logits.floats.begin() + row * classes;
    return {first, first + classes};
  }

  /// (1 - ε)·nll + ε·mean(-ln p). A share of 0 leaves its part out, also an infinite one.
  double loss(int64_t row) const {
    std::vector<double> x = row_of(row);
    RowSum sum(x);
    double nll = -sum.log_softmax(x[static_cast<size_t>(label(row))]), total = 0;
    if (smoothing == 0) return nll;
    for (double value : x) total -= sum.log_softmax(value);
    return mul0(1 - smoothing, nll) + smoothing * (total / static_cast<double>(classes));
  }
};

}  // namespace

void eval_cross_entropy(OpRun& run) {
  Targets targets(run);
  double sum = 0;
  for (int64_t row = 0; row < targets.rows; ++row) {
    double loss = targets.used(row) ? targets.loss(row) : 0.0;
    if (targets.each) run.store(row, loss);
    sum += loss;
  }
  if (targets.each) return;
  if (targets.mean && targets.counted > 0) sum /= static_cast<double>(targets.counted);
  run.store(0, sum);
}

// dlogits = dloss·(softmax - target), where the target is (1 - ε) at the label plus ε / classes; 0
// in a row of -inf, whatever dloss is.
void eval_cross_entropy_grad(OpRun& run) {
  Targets targets(run);
  const InterpreterTensor& dloss = run.operand(2);
  double classes = static_cast<double>(targets.classes);
  for (int64_t row = 0; row < targets.rows; ++row) {
    if (!targets.used(row)) continue;  // results start as zeros
    std::vector<double> x = targets.row_of(row);
    RowSum sum(x);
    if (sum.nothing()) continue;
    double cotangent = dloss.floats[targets.each ? static_cast<size_t>(row) : 0];
    if (targets.mean) cotangent /= static_cast<double>(targets.counted);
    for (int64_t k = 0; k < targets.classes; ++k) {
      double target = targets.smoothing / classes;
      if (k == targets.label(row)) target += 1 - targets.smoothing;
      double derivative = sum.softmax(x[static_cast<size_t>(k)]) - target;
      run.store(row * targets.classes + k, mul0(cotangent, derivative));
    }
  }
}

}  // namespace mezzo::ir
