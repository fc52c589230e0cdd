// SPDX-License-Identifier: Apache-2.0
// Bounds of recurrent sequences for `judge`.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/interpreter_tensor.h>

#include <optional>
#include <vector>

namespace mezzo::test {

/// How far each element of a result may be from what the interpreter makes of f64 copies of the
/// operands, the last rounding apart: some times what operands that are off by the roundings of the
/// products make of it. Nothing for other ops.
std::optional<std::vector<double>> recurrent_bounds(
    const ir::Op& op, const std::vector<ir::InterpreterTensor>& operands, int result);

}  // namespace mezzo::test
