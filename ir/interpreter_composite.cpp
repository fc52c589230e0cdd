// SPDX-License-Identifier: Apache-2.0
// The interpreter: softmax, log_softmax and their gradients, each evaluated whole in double and
// rounded once, whatever their decomposition rounds in between.
#include <mezzo/ir/interpreter_rows.h>

namespace mezzo::ir {

namespace {

std::vector<double> gather(const InterpreterTensor& tensor, const std::vector<int64_t>& places) {
  std::vector<double> row;
  for (int64_t place : places) row.push_back(tensor.floats[static_cast<size_t>(place)]);
  return row;
}

}  // namespace

void eval_softmax(OpRun& run) {
  for_each_line(run, [&](const std::vector<int64_t>& places) {
    std::vector<double> x = gather(run.operand(0), places);
    RowSum sum(x);
    for (size_t k = 0; k < x.size(); ++k) run.store(places[k], sum.softmax(x[k]));
  });
}

void eval_log_softmax(OpRun& run) {
  for_each_line(run, [&](const std::vector<int64_t>& places) {
    std::vector<double> x = gather(run.operand(0), places);
    RowSum sum(x);
    for (size_t k = 0; k < x.size(); ++k) run.store(places[k], sum.log_softmax(x[k]));
  });
}

// dx = (dy - Σ dy·y)·y
void eval_softmax_grad(OpRun& run) {
  for_each_line(run, [&](const std::vector<int64_t>& places) {
    std::vector<double> y = gather(run.operand(0), places), dy = gather(run.operand(1), places);
    double inner = 0;
    for (size_t k = 0; k < y.size(); ++k) inner += mul0(dy[k], y[k]);
    for (size_t k = 0; k < y.size(); ++k) run.store(places[k], mul0(dy[k] - inner, y[k]));
  });
}

// dx = dy - e^y·Σ dy, and 0 in a row of -inf, which no finite logits give.
void eval_log_softmax_grad(OpRun& run) {
  for_each_line(run, [&](const std::vector<int64_t>& places) {
    std::vector<double> y = gather(run.operand(0), places), dy = gather(run.operand(1), places);
    double sum = 0, largest = -HUGE_VAL;
    for (size_t k = 0; k < y.size(); ++k) {
      sum += dy[k];
      largest = host_maximum(largest, y[k]);
    }
    for (size_t k = 0; k < y.size(); ++k)
      run.store(places[k], largest == -HUGE_VAL ? 0.0 : dy[k] - mul0(sum, std::exp(y[k])));
  });
}

}  // namespace mezzo::ir
