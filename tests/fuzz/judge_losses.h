// SPDX-License-Identifier: Apache-2.0
// Bounds of losses, attention and draws of classes for `judge`.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/interpreter_tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace mezzo::test {

/// For each element of a result the size of the terms that it is made of times how often they are
/// rounded in units of the accumulator, the rounding of the result itself apart; infinite where the
/// kernel may give anything. Nothing for other ops.
std::optional<std::vector<double>> loss_errors(const ir::Op& op,
                                               const std::vector<ir::InterpreterTensor>& operands);
std::optional<std::vector<double>> attention_errors(
    const ir::Op& op, const std::vector<ir::InterpreterTensor>& operands, int result);

/// "" where every class drawn has the largest sum of logit and noise, or one that differs from it
/// by less than the noise may be off.
std::string judge_categorical(const ir::Op& op, const std::vector<ir::InterpreterTensor>& operands,
                              const ir::InterpreterTensor& got);

}  // namespace mezzo::test
