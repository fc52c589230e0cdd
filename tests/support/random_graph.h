// SPDX-License-Identifier: Apache-2.0
// Random typed functions over the whole op table, their inputs, and a shrinker for those that fail.
// The same seed gives the same function and the same inputs on every machine.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/interpreter_tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mezzo::test {

/// Which ops a random function may hold.
enum class GraphOps : uint8_t {
  Exact,        // rows of trait Exact: correctly rounded, or movement
  Elementwise,  // every elementwise row, views and constants
  All,          // also reductions, products, composites and random numbers
};

struct GraphOptions {
  GraphOps ops = GraphOps::All;
  int least_ops = 5, most_ops = 60;
  /// Every value is a result, so that each op can be judged on the operands that it had.
  bool all_results = false;
  /// Shapes of a quarter of a million elements, so that kernels run on several threads.
  bool large = false;
};

/// A module with one function `@f`, stage traced, and at least one result. Consecutive seeds go
/// through the elementwise rows that `options` allows: each holds the next of them.
std::unique_ptr<ir::Module> random_graph(uint64_t seed, const GraphOptions& options = {});

/// An input for each parameter, by `seed` and the parameter's name. Over all seeds one float
/// element in ten is NaN, infinite or subnormal: none in every fourth seed, up to one in four in
/// the others; zeros and extremes come with them.
std::vector<ir::InterpreterTensor> random_inputs(const ir::Function& function, uint64_t seed);

/// The smallest module found for which `fails` still holds: results, ops and what they read are
/// dropped one by one. An op that cannot go becomes a parameter.
std::unique_ptr<ir::Module> shrink(const ir::Module& module,
                                   const std::function<bool(const ir::Module&)>& fails);

}  // namespace mezzo::test
