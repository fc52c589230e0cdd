// SPDX-License-Identifier: Apache-2.0
// The Trainer: traces the whole training step of a model (forward, backward, unscaling, finite
// check, update, loss scale) as one graph, compiles it once for each batch shape, and runs epochs
// over a data set. Parameters stay in the model; moments and counters in the Trainer.
#pragma once

#include <mezzo/dsl/data.h>
#include <mezzo/dsl/device.h>
#include <mezzo/dsl/optim.h>
#include <mezzo/dsl/precision.h>
#include <mezzo/ir/debug_options.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mezzo {

namespace runtime {
struct CompileReport;
}

struct TrainerOptions {
  Policy policy = Policy::float32();
  int64_t batch = 128;
  LossScale loss_scale = LossScale::by_policy();
  /// Of initial values, the order of samples and random operations.
  uint64_t seed = 0;
  Device device = Device::cpu();
  /// Leave the last, smaller batch of an epoch out.
  bool drop_last = false;
  /// `excess` or `as-written`.
  std::string rounding = "excess";
  /// 0: the default of the machine.
  int threads = 0;
  /// What MEZZO_DEBUG asks for in a shell; the variable counts where this is empty.
  ir::DebugOptions debug = {};
};

/// What one step did.
struct StepResult {
  double loss = 0;
  /// Accuracy over the labels that are not ignored; NaN without classes.
  double metric = 0;
  /// False: skipped; every parameter and state kept its bits.
  bool taken = true;
  /// The loss scale after the step; 1 without loss scaling.
  double scale = 1;
  /// `taken`, `scale_overflow` ...: why.
  std::string verdict;
  /// The operation that first produced a non-finite number: `log (net.cpp:12)`; empty if none did.
  std::string producer;
};

struct EpochReport {
  int64_t epoch = 0;
  /// As in an Evaluation, over the batches of taken steps with a finite loss; the loss is NaN where
  /// there are none.
  double loss = 0, accuracy = 0;
  double scale = 1;
  int64_t steps = 0, skipped = 0, nonfinite_losses = 0;
  double seconds = 0;
  double validation_loss = 0, validation_accuracy = 0;  // 0 without validation data
};

struct FitOptions {
  int64_t epochs = 1;
  /// Evaluated after each epoch.
  std::optional<Dataset> validation = std::nullopt;
  bool shuffle = true;
  /// One line an epoch on standard error, or where the log goes; a bar meanwhile on a terminal.
  bool progress = true;
  std::function<void(const EpochReport&)> on_epoch = {};
};

struct Evaluation {
  /// Mean over the batches. Where the loss is a mean of `cross_entropy`, perhaps times a
  /// constant, a batch weighs as many as its labels that are not ignored, so that its size
  /// does not matter; 0 when all are ignored. Any other loss weighs by samples: a cross_entropy
  /// with a penalty added does depend on the batch where labels are ignored.
  double loss = 0;
  /// NaN where the loss has no class labels, as Trainer says, or every label is ignored.
  double accuracy = 0;
};

namespace detail {

struct TrainingDescription {
  std::function<Tensor(Tensor)> model;
  std::function<Tensor(Tensor, Tensor)> loss;
  OptimizerPlan optimizer;
  TrainerOptions options;
  ir::Location location;
};

/// A function of tensors as it is called from the library: at the line of the Trainer where it
/// takes operands.
template <typename F>
auto at_location(F function, const char* what, ir::Location location) {
  require_function(function, what, location);
  return [function = std::move(function), location](const auto&... tensors) mutable -> Tensor {
    if constexpr (std::is_invocable_v<F&, decltype(Operand(tensors, location))...>)
      return function(Operand(tensors, location)...);
    else
      return function(tensors...);
  };
}

class TrainerState;

}  // namespace detail

class Trainer {
 public:
  /// `model`: tensor -> tensor; `loss`: (output, target) -> scalar. The accuracy is that of the
  /// loss's cross_entropy: of its logits, whether or not they are the model's output, over the
  /// labels that it reads, whatever computed them, and without those that it ignores. Of several
  /// the one counts that reads the targets, then the one of the output, then the first. A loss
  /// without any has an accuracy of the output where the targets are integers, one for each row
  /// of at least two classes.
  template <typename Model, typename Loss, typename Optimizer>
  Trainer(Model model, Loss loss, const Optimizer& optimizer, TrainerOptions options = {},
          ir::Location location = ir::Location::here())
      : Trainer(detail::TrainingDescription{
            detail::at_location(std::move(model), "Trainer: the model", location),
            detail::at_location(std::move(loss), "Trainer: the loss", location),
            detail::plan_optimizer(optimizer, location), std::move(options), location}) {}
  ~Trainer();
  /// Of the Trainer that was moved from, everything but its destructor throws UserError; a `fit`
  /// that runs goes on.
  Trainer(Trainer&&) noexcept;

  /// Trains; throws UserError when the loss is broken in a way that a smaller scale cannot mend,
  /// naming the operation and its line.
  std::vector<EpochReport> fit(const Dataset& data, FitOptions options = {},
                               ir::Location location = ir::Location::here());
  /// One step on one batch; u8 inputs are pixels as in `fit`.
  StepResult step(const Array& inputs, const Array& targets,
                  ir::Location location = ir::Location::here());
  /// Mean loss and accuracy under the policy of the training.
  Evaluation evaluate(const Dataset& data, ir::Location location = ir::Location::here());

  /// Traces and compiles for batches of `data`, which `fit` does when needed.
  void compile(const Dataset& data, ir::Location location = ir::Location::here());
  /// Layers with output, parameters, types, work and the line of their first call; after `compile`.
  std::string summary(ir::Location location = ir::Location::here()) const;
  /// The traced training module as IR text; after `compile`.
  std::string ir(ir::Location location = ir::Location::here()) const;
  const runtime::CompileReport& compile_report(ir::Location location = ir::Location::here()) const;

  /// The loss scale; 1 without loss scaling.
  double scale(ir::Location location = ir::Location::here()) const;
  /// Only for a constant rate; throws UserError under a schedule, and for a rate that is no finite
  /// number from 0 on in f32.
  void set_learning_rate(double rate, ir::Location location = ir::Location::here());
  /// Steps taken and skipped since the Trainer was made.
  int64_t taken_steps(ir::Location location = ir::Location::here()) const;
  int64_t skipped_steps(ir::Location location = ir::Location::here()) const;
  /// State beside the parameters by name (`hidden1.weight.m`, `t`, `scale` ...), for inspection.
  std::vector<std::string> state_names(ir::Location location = ir::Location::here()) const;
  const Array& state(const std::string& name, ir::Location location = ir::Location::here()) const;
  int64_t parameter_count(ir::Location location = ir::Location::here()) const;

 private:
  explicit Trainer(detail::TrainingDescription description);
  /// Its share keeps the state alive while the program's functions run, which may move the Trainer.
  std::shared_ptr<detail::TrainerState> live(ir::Location location) const;
  /// The same; throws UserError where the model or the loss is being traced.
  std::shared_ptr<detail::TrainerState> idle(ir::Location location) const;
  std::shared_ptr<detail::TrainerState> state_;
};

}  // namespace mezzo
