// SPDX-License-Identifier: Apache-2.0
// Bounds of reductions and scans: what judge.cpp asks before its own rows.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/interpreter_tensor.h>

#include <optional>
#include <vector>

namespace mezzo::test {

/// For each element of the result how far it may be from `wanted`, the result in f64 of operands
/// that nothing was rounded of, the last rounding apart; infinite where partial results may leave
/// the range of what they are kept in. Nothing for other ops.
std::optional<std::vector<double>> axis_bounds(const ir::Op& op,
                                               const std::vector<ir::InterpreterTensor>& operands,
                                               const ir::InterpreterTensor& wanted);

}  // namespace mezzo::test
