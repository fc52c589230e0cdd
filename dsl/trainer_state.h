// SPDX-License-Identifier: Apache-2.0
// What a Trainer holds: programs by batch shape, the state that they share, and the counters of the
// rule that stops a training which cannot recover. Inside the library only.
#pragma once

#include <mezzo/dsl/engine.h>
#include <mezzo/dsl/training_module.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/verdict.h>

#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace mezzo::detail {

class TrainerState {
 public:
  /// A function compiled for one batch shape, with what stands for its parameters and results.
  struct Built {
    TrainingModule traced;  // without its module, which the program has taken over
    std::string text;       // as traced
    std::unique_ptr<Program> program;
    /// By parameter of the compiled function, inputs and targets first; null for model parameters.
    std::vector<Array*> states;
    /// By parameter, in `traced`; null for the rest.
    std::vector<const ProgramParameter*> parameters;
    std::vector<bool> updated;  // by parameter
    bool has_run = false;
    /// Loss, metric and verdict, by place in the results; the rest are updates.
    std::vector<Array> results;
    Array inputs, targets;
    std::vector<int64_t> rows;  // of the data set that the batch is from; empty for a batch alone
    Array count{ir::Type(i32, {})};  // of samples that are no padding
  };

  explicit TrainerState(TrainingDescription description);

  Built& step_program(const ir::Type& inputs, const ir::Type& targets);
  /// Begins to compile a step in the background, for a later step_program.
  void prepare_step(const ir::Type& inputs, const ir::Type& targets);
  /// For batches of `data` with `count` samples: one program for all of them where padding can be
  /// left out of the loss, else one a count.
  Built& evaluation_program(const Dataset& data, int64_t count);
  /// Types of a full batch of `data`, or of all of it when there is less.
  std::pair<ir::Type, ir::Type> batch_types(const Dataset& data, ir::Location location) const;

  /// Runs a step on the batch that stands in `built`; throws UserError as Trainer::fit does. Leaves
  /// the metric out.
  StepResult run_step(Built& built);
  /// Of the batch that was run last, without ignored labels; NaN without labels.
  double accuracy_of(const Built& built) const;

  EpochReport run_epoch(const Dataset& data, const FitOptions& options, int64_t epochs,
                        ir::Location location);
  Evaluation evaluate(const Dataset& data, ir::Location location);
  double scale() const;
  /// Whether the model and the loss are being called.
  bool tracing() const { return tracing_; }

  TrainingDescription description;
  /// Moments, counters, rate, scale and RNG by name.
  std::map<std::string, Array, std::less<>> states;
  Built* main = nullptr;  // the program of full batches
  int64_t taken = 0, skipped = 0, epoch = 0;

 private:
  /// A program that is being compiled.
  struct Pending {
    TrainingModule traced;
    std::string text;
    std::future<std::unique_ptr<Program>> program;
  };
  Pending start(TrainingModule traced, const std::string& function, const std::string& loss_scale,
                bool background);
  std::unique_ptr<Built> finish(Pending pending);
  Pending start_step(const ir::Type& inputs, const ir::Type& targets, bool background);
  Built& loss_program(const ir::Type& inputs, const ir::Type& targets);
  Array* state_of(const ir::Function& function, int index, Built& built);
  /// `function`: trace_training or trace_loss.
  TrainingModule trace(TrainingModule (*function)(const TrainingDescription&, const ir::Type&,
                                                  const ir::Type&),
                       const ir::Type& inputs, const ir::Type& targets);
  void run(Built& built);
  /// Counts the step and throws when training cannot go on.
  void judge(const Built& built, int32_t verdict, double scale_before, const StepResult& result);
  /// Throws UserError where a program has parameters that the first one does not have.
  void check_same_parameters(const TrainingModule& traced);
  /// Warns of the first loss that is not finite.
  void tell_of_loss(const StepResult& result, int64_t step, ir::Location location);
  /// Throws UserError for a rate that is no finite number from 0 on, for which the step was
  /// skipped; `step` were taken before.
  void check_rate(const Built& built, int64_t step) const;
  void report_findings(const std::vector<passes::Finding>& findings);

  std::map<std::string, std::unique_ptr<Built>> steps_, evaluations_;
  std::map<std::string, Pending> pending_steps_;
  std::string scale_name_;  // of the state that is the loss scale
  bool tracing_ = false;
  bool told_of_loss_ = false;
  /// Those of the first program; all others train and read the same.
  std::vector<std::shared_ptr<ParameterState>> known_parameters_;
  int stuck_ = 0;  // skips in a row that did not lower the scale
  std::set<std::string> reported_;
};

/// The op that owns flag word `word`, in kernels too; null when there is none.
const ir::Op* find_word(const ir::Function& function, int64_t word);
/// `log (net.cpp:12)`; empty for null.
std::string describe_producer(const ir::Op* op);

/// The error of a training that cannot go on for this verdict.
UserError stop_error(const TrainingDescription& description, const TrainerState::Built& built,
                     ir::VerdictCode code, const ir::Op* producer, int steps, double scale);

}  // namespace mezzo::detail
