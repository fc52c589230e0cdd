// SPDX-License-Identifier: Apache-2.0
// Losses: function objects of (output, target) that give a scalar.
#pragma once

#include <mezzo/dsl/ops.h>
#include <mezzo/ir/error.h>

namespace mezzo::losses {

/// Mean negative log-likelihood of i32 or u8 class indices; the outputs are logits, `[batch,
/// classes]`.
struct CrossEntropy {
  double label_smoothing = 0;
  int64_t ignore_index = -100;
  Tensor operator()(Operand logits, Operand labels) const {
    if (labels.is_tensor() && labels.type().dtype == u8)
      labels = Operand(cast(labels, i32), labels.location());
    return mezzo::cross_entropy(logits, labels,
                                {.ignore_index = ignore_index, .label_smoothing = label_smoothing});
  }
};
inline constexpr CrossEntropy cross_entropy{};

/// Mean of squared differences over all elements; both have one shape, else UserError.
struct MeanSquaredError {
  Tensor operator()(Operand output, Operand target) const {
    ir::Location location = output.location();
    const ir::Type &of_output = output.type(), &of_target = target.type();
    if (output.is_tensor() && target.is_tensor() && !(of_output.shape == of_target.shape))
      throw UserError(location,
                      "mse: output " + to_string(of_output) + " and target " +
                          to_string(of_target) + " differ in shape",
                      "reshape one of them: they would be broadcast to each other");
    Tensor difference = sub(output, target);
    return mean(Operand(square(Operand(difference, location)), location));
  }
};
inline constexpr MeanSquaredError mse{};

}  // namespace mezzo::losses
