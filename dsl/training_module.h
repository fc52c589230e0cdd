// SPDX-License-Identifier: Apache-2.0
// Traces `@loss` and `@step` of a model, an optimizer and a batch shape. Inside the library only.
#pragma once

#include <mezzo/dsl/class_labels.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/dsl/trainer.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mezzo::detail {

struct TrainingModule {
  std::unique_ptr<ir::Module> module;
  std::vector<ProgramParameter> parameters;
  /// State of the step besides what the model holds, in the order of its function's parameters.
  std::vector<std::pair<std::string, ir::Type>> states;
  /// Which of them are the constant learning rate and the random state; empty for none.
  std::string rate_name, rng_name;
  /// Under a schedule: the state that counts steps, the result that is the rate as the schedule
  /// gives it, and where it does. Empty and -1 for a constant rate.
  std::string step_name;
  int rate_result = -1;
  ir::Location rate_location;
  int traced_parameters = 0;  // of @step: what passes add stands behind
  int own_results = 0;        // loss, metric, labels that count, rate; the verdict is behind
  /// Parameter that says how many samples of a batch count; empty when all do.
  std::string count_name;
  std::vector<LabelRange> labels;
  /// Of the metric, the share of all labels that were hit, and of the loss.
  LabelCounts counts;
  std::vector<Trace::LayerCall> layers;       // in the order of their calls
  std::map<std::string, double> layer_flops;  // of the forward pass by scope, of all calls together
  std::vector<passes::Finding> findings;
};

/// `@loss` and `@step`.
TrainingModule trace_training(const TrainingDescription& description, const ir::Type& inputs,
                              const ir::Type& targets);
/// `@loss` alone; it takes fewer samples than a batch where padding can be left out.
TrainingModule trace_loss(const TrainingDescription& description, const ir::Type& inputs,
                          const ir::Type& targets);

/// The table of layers.
std::string layer_table(const TrainingModule& traced, const Policy& policy);

}  // namespace mezzo::detail
