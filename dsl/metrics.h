// SPDX-License-Identifier: Apache-2.0
// Metrics of (output, target), and how sure one may be of an accuracy.
#pragma once

#include <mezzo/dsl/ops.h>

#include <utility>

namespace mezzo::metrics {

/// Share of rows whose largest logit stands at the target.
struct Accuracy {
  Tensor operator()(Operand logits, Operand labels) const {
    ir::Location location = logits.location();
    Tensor hit = eq(Operand(argmax(logits), location), labels);
    return mean(Operand(cast(Operand(hit, location), f32), location));
  }
};
inline constexpr Accuracy accuracy{};

/// The 95 % interval (Wilson) of a share that was `share` in `count` independent trials.
std::pair<double, double> wilson_interval(double share, int64_t count);

}  // namespace mezzo::metrics
