// SPDX-License-Identifier: Apache-2.0
// What a Trainer holds: programs by batch shape, the state that they share, and the counters of the
// rule that stops a training which cannot recover. Inside the library only.
#pragma once

#include <mezzo/dsl/engine.h>
#include <mezzo/dsl/training_module.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/verdict.h>

#include <cstddef>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mezzo::detail {

class TrainerState {
 public:
  /// What a program is given, and what comes out of it: on a GPU it may be on its way.
  struct Batch {
    Array inputs, targets;
    std::vector<int64_t> rows;  // of the data set that the batch is from; empty for a batch alone
    int64_t samples = 0;        // that are no padding
    Array count{ir::Type(i32, {})};  // the same, for the program
    /// Loss, metric and verdict, by place in the results; the rest are updates.
    std::vector<Array> results;
    Array scale, steps;  // loss scale and steps taken, after this one, where the program has them
    runtime::IndexFlag index_flag;  // of a run that is no step, whose verdict says so
  };

  /// A function compiled for one batch shape, with what stands for its parameters and results.
  struct Built {
    TrainingModule traced;  // without its module, which the program has taken over
    std::string text;       // as traced
    std::unique_ptr<Program> program;
    /// By parameter of the compiled function; null for model parameters and what is in a Batch.
    std::vector<Array*> states;
    /// By parameter, in `traced`; null for the rest.
    std::vector<const ProgramParameter*> parameters;
    std::vector<bool> updated;  // by parameter
    bool has_run = false;
    /// One, or two that take turns where the host goes on while the device computes.
    std::vector<Batch> batches;
    size_t turn = 0;

    Batch& next_batch() { return batches[turn++ % batches.size()]; }
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

  /// Runs a step on `batch`, one of `built`; throws UserError as Trainer::fit does.
  StepResult run_step(Built& built, Batch& batch);

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
  /// On a GPU the results are then on their way: the host waits when it looks at them.
  void run(Built& built, Batch& batch);
  /// Waits for the step that `batch` was and counts it; throws when training cannot go on.
  StepResult read_step(const Built& built, const Batch& batch, double scale_before);
  void count(int32_t verdict);
  void judge(const Built& built, const Batch& batch, int32_t verdict, const StepResult& result,
             double scale_before);
  /// Of a batch that has been run, without ignored labels; NaN without labels.
  double accuracy_of(const Built& built, const Batch& batch) const;
  /// Runs batches 0, 1 ... `count` - 1, filled in by `fill`, and gives each to `read`: on a GPU
  /// when the next one has been started, so that between steps the device does not wait for the
  /// host.
  void run_batches(int64_t count, const std::function<std::pair<Built*, Batch*>(int64_t)>& fill,
                   const std::function<void(int64_t, const Built&, const Batch&)>& read);
  static bool is_step(const Built& built) {
    return built.batches[0].results.size() > static_cast<size_t>(built.traced.own_results);
  }
  static int32_t verdict_of(const Batch& batch) {
    return static_cast<int32_t>(batch.results.back().as_integer(0));
  }
  bool runs_ahead() const { return description.options.device.is_cuda(); }
  /// Throws UserError where a program has parameters that the first one does not have.
  void check_same_parameters(const TrainingModule& traced);
  /// Warns of the first loss that is not finite.
  void tell_of_loss(const StepResult& result, int64_t step, ir::Location location);
  /// Throws UserError for a rate that is no finite number from 0 on, for which the step was
  /// skipped.
  void check_rate(const Built& built, const Batch& batch) const;
  void report_findings(const std::vector<passes::Finding>& findings);

  std::map<std::string, std::unique_ptr<Built>> steps_, evaluations_;
  std::map<std::string, Pending> pending_steps_;
  std::string scale_name_;  // of the state that is the loss scale
  bool tracing_ = false;
  bool told_of_loss_ = false;
  bool step_ahead_ = false;  // the step behind the one that is read is under way
  /// Those of the first program; all others train and read the same.
  std::vector<std::shared_ptr<ParameterState>> known_parameters_;
  double last_scale_ = 0;  // that a step read; 0 before the first
  int stuck_ = 0;          // skips in a row that did not lower the scale
  std::set<std::string> reported_;
};

/// The op that owns flag word `word`, in kernels too; null when there is none.
const ir::Op* find_word(const ir::Function& function, int64_t word);
/// `log (net.cpp:12)`; empty for null.
std::string describe_producer(const ir::Op* op);

/// The error of a training that cannot go on for this verdict; `ahead`: another step is under way.
UserError stop_error(const TrainingDescription& description, const TrainerState::Built& built,
                     const TrainerState::Batch& batch, ir::VerdictCode code, const ir::Op* producer,
                     int steps, double scale, bool ahead);

}  // namespace mezzo::detail
