// SPDX-License-Identifier: Apache-2.0
// Conventions as numbers: one function run by the interpreter and by kernels, fused and unfused.
#pragma once

#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter_tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace mezzo::test {

/// Builds the results of a function from its parameters.
using BuildResults =
    std::function<std::vector<ir::Value>(ir::Builder&, std::span<const ir::Value>)>;

/// Checks that every run gives the numbers `wanted`, result by result: NaN, infinities and 0 as
/// they are, others within `tolerance` of themselves (and 2^-24 of 1).
void check_runs(const std::vector<ir::InterpreterTensor>& inputs, const BuildResults& build,
                const std::vector<std::vector<double>>& wanted, double tolerance,
                const std::string& rounding = "excess");

/// Builds one value from the parameters.
using BuildValue = std::function<ir::Value(ir::Builder&, std::span<const ir::Value>)>;

/// The same of that value and then of the gradients of the sum of its elements by each float input.
void check_gradient_runs(const std::vector<ir::InterpreterTensor>& inputs, const BuildValue& build,
                         const std::vector<std::vector<double>>& wanted, double tolerance);

/// A relative tolerance for results of that type after a few roundings, and for numbers that are
/// given with nine digits.
double tolerance_of(ir::DType dtype);

}  // namespace mezzo::test
