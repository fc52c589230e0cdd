// SPDX-License-Identifier: Apache-2.0
// Ops whose gradients gradient_test.cpp compares with central differences; families of ops that
// stand in files of their own add theirs here.
#pragma once

#include <mezzo/ir/graph.h>

#include <vector>

namespace mezzo::test {

/// An op on inputs of these shapes; domains come from the op table.
struct GradientCase {
  ir::OpKind kind;
  std::vector<ir::Shape> shapes;
  ir::Attrs attrs = {};
};

std::vector<GradientCase> norm_gradient_cases();
std::vector<GradientCase> window_gradient_cases();

}  // namespace mezzo::test
