// SPDX-License-Identifier: Apache-2.0
// Optimizers: plain descriptions. Each parameter is updated by one op of the training step; moments
// are f32 state beside the parameter.
#pragma once

#include <mezzo/dsl/schedules.h>

#include <string>
#include <utility>
#include <vector>

namespace mezzo {

namespace optim {

/// w -= rate * g, with g + weight_decay * w in place of g, and momentum.
struct SGD {
  LearningRate learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};

/// w -= rate * m / (sqrt(v) + eps) with bias-corrected moments; the decay is decoupled
/// (rate * weight_decay * w).
struct Adam {
  LearningRate learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;  // above 0
  double weight_decay = 0;
};

}  // namespace optim

namespace detail {

/// What the training step needs to know of an optimizer.
struct OptimizerPlan {
  const char* op = "";
  std::vector<std::string> moments;  // state beside each parameter, by suffix
  bool counts = false;               // the op reads the number of the step
  LearningRate rate = 0;
  std::vector<std::pair<std::string, double>> numbers;  // attributes of the op
  bool nesterov = false;
};

/// Throw UserError for numbers out of range, and for those that would be 0 or infinite in f32.
OptimizerPlan plan_optimizer(const optim::SGD& sgd, ir::Location location = ir::Location::here());
OptimizerPlan plan_optimizer(const optim::Adam& adam, ir::Location location = ir::Location::here());
/// The same for a rate; `what` starts the text.
void check_rate(const std::string& what, double rate, ir::Location location);

}  // namespace detail
}  // namespace mezzo
