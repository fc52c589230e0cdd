// SPDX-License-Identifier: Apache-2.0
// What the passes around a gradient need to know of a training step: which gradients its updates
// read, which ops lead where, and which names are free.
#pragma once

#include <mezzo/ir/graph.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace mezzo::passes {

using OpSet = std::unordered_set<const ir::Op*>;

/// The ops of `body` that the values depend on, themselves included.
OpSet producers_of(const ir::Region& body, const std::vector<ir::Value>& values);

/// A function that updates parameters by gradients. Only the outermost functions count: one that is
/// itself differentiated is part of a loss.
struct TrainingStep {
  ir::Function* function = nullptr;
  /// `gradient` ops in order.
  std::vector<ir::Op*> gradients;
  /// The gradients that some result marked `updates` depends on, in order.
  std::vector<ir::Value> read;
};

/// The training steps of a module that still has its gradient ops.
std::vector<TrainingStep> find_training_steps(ir::Module& module);

/// The place of the first result marked `updates`; all results when there is none.
int first_update(const ir::Function& function);

/// How many results of a `gradient` op are results of its function.
int num_function_results(const ir::Op& gradient);

/// Names of a function, to choose others from.
class NameScope {
 public:
  explicit NameScope(const ir::Function& function);
  /// `wanted`, or `wanted` with a number where that is taken; empty for an empty name.
  std::string fresh(std::string_view wanted);

 private:
  std::set<std::string, std::less<>> taken_;
};

}  // namespace mezzo::passes
