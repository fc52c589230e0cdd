// SPDX-License-Identifier: Apache-2.0
// Bounds of normalisations for `judge`.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/interpreter_tensor.h>

#include <optional>
#include <vector>

namespace mezzo::test {

/// For each element of a result how far a kernel's may be off in units of the accumulator, the
/// rounding of the result itself apart; infinite where sums leave its range. Nothing for other ops.
std::optional<std::vector<double>> norm_errors(const ir::Op& op,
                                               const std::vector<ir::InterpreterTensor>& operands,
                                               int result);

}  // namespace mezzo::test
