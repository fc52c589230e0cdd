// SPDX-License-Identifier: Apache-2.0
// Cases of gradient_test.cpp that stand in files of their own, by family.
#pragma once

#include <mezzo/ir/attr.h>
#include <mezzo/ir/op_info.h>
#include <mezzo/ir/shape.h>

#include <set>
#include <vector>

namespace mezzo::test {

/// An op on inputs of these shapes; domains come from the op table.
struct GradientCase {
  ir::OpKind kind;
  std::vector<ir::Shape> shapes;
  ir::Attrs attrs = {};
  /// Float operands that have no gradient.
  std::vector<int> constants = {};
};

std::vector<GradientCase> indexing_gradient_cases();
std::vector<GradientCase> loss_gradient_cases();
std::vector<GradientCase> norm_gradient_cases();
std::vector<GradientCase> recurrent_gradient_cases();
/// Reductions, scans and orders.
std::vector<GradientCase> reduction_gradient_cases();
std::vector<GradientCase> window_gradient_cases();

/// Rows whose operands one line does not say: gradient_cases_attention.cpp tests them.
std::set<ir::OpKind> gradients_with_tests_of_their_own();

}  // namespace mezzo::test
