// SPDX-License-Identifier: Apache-2.0
// Inside the interpreter: what softmax, losses and attention share.
#pragma once

#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/interpreter_ops.h>

#include <cmath>
#include <vector>

namespace mezzo::ir {

/// Largest element and ln Σ e^(x - largest). A row of -inf has largest -inf, one with NaN or +inf
/// has a NaN rest.
struct RowSum {
  double largest = -HUGE_VAL;
  double log_rest = 0;

  explicit RowSum(const std::vector<double>& row) {
    for (double x : row) largest = host_maximum(largest, x);
    double sum = 0;
    for (double x : row) sum += std::exp(x - largest);
    log_rest = std::log(sum);
  }
  bool nothing() const { return largest == -HUGE_VAL; }
  /// ln of the softmax of an element; -inf in a row of -inf.
  double log_softmax(double x) const { return nothing() ? -HUGE_VAL : (x - largest) - log_rest; }
  /// 0 in a row of -inf.
  double softmax(double x) const { return std::exp(log_softmax(x)); }
};

}  // namespace mezzo::ir
