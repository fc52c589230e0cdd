// SPDX-License-Identifier: Apache-2.0
// Reductions, scans and orders of a random function: what random_graph.cpp calls. Internal to
// tests/support.
#pragma once

#include <mezzo/ir/builder.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace mezzo::test {

/// What the ops are drawn from.
struct AxisDraw {
  ir::Builder& builder;
  std::function<int64_t(int64_t)> below;
  bool exact_only;
};

/// A reduction of `x` over `axes`, or over one of its axes, with the attributes that it has; an
/// empty value where `x` does not enter the one that was drawn.
ir::Value random_reduction(const AxisDraw& draw, ir::Value x, const std::vector<int64_t>& axes);

/// A scan or an order of `x` along one of its axes, `other` a value of its type; the results, none
/// where `x` does not enter the op that was drawn.
std::vector<ir::Value> random_along_axis(const AxisDraw& draw, ir::Value x, ir::Value other);

}  // namespace mezzo::test
