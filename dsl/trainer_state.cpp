// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/trainer_state.h>

#include <mezzo/dsl/located.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/policy.h>
#include <mezzo/runtime/log.h>
#include <mezzo/runtime/progress.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace mezzo::detail {

namespace {

/// Skips in a row that did not lower the scale, before training stops.
constexpr int kMostStuckSteps = 25;

std::string key_of(const ir::Type& inputs, const ir::Type& targets) {
  return to_string(inputs) + to_string(targets);
}

int64_t samples_of(const ir::Type& type) { return type.rank() ? type.shape[0] : 1; }

/// How much a batch counts in means over batches.
struct Weight {
  double loss = 0;                 // of its mean loss
  double labels = 0, counted = 0;  // all, and those that are not ignored
};

/// The weight of the first `samples` samples of the batch that stands in `built`.
Weight weigh(const TrainerState::Built& built, int64_t samples) {
  const ir::Type& type = built.targets.type;
  const LabelCounts& counts = built.traced.counts;
  auto share_of = [&](int64_t all) {
    return static_cast<double>(all) * static_cast<double>(samples) /
           static_cast<double>(std::max<int64_t>(1, samples_of(type)));
  };
  auto without = [&](int64_t ignored) {
    int64_t targets = std::llround(share_of(type.elements())), counted = 0;
    for (int64_t i = 0; i < targets; ++i) counted += built.targets.as_integer(i) != ignored;
    return static_cast<double>(counted);
  };
  Weight weight;
  weight.loss = static_cast<double>(samples);
  weight.labels = weight.counted = share_of(counts.labels);
  if (counts.without) weight.counted = without(*counts.without);
  if (counts.traced) weight.counted = std::round(built.results[2].item() * weight.labels);
  if (counts.loss_follows) weight.loss = weight.counted;
  if (counts.mean_without) weight.loss = without(*counts.mean_without);
  return weight;
}

/// Means over batches.
class Means {
 public:
  /// `share`: of all labels of the batch, those that were hit.
  void add(const Weight& weight, double loss, double share) {
    any_ = true;
    weight_ += weight.loss;
    if (weight.loss > 0) loss_ += weight.loss * loss;
    counted_ += weight.counted;
    hits_ += hits(weight, share);
  }
  /// NaN without a batch, 0 when all labels are ignored.
  double loss() const { return !any_ ? std::nan("") : weight_ > 0 ? loss_ / weight_ : 0; }
  /// NaN when nothing counts.
  double accuracy() const { return counted_ > 0 ? hits_ / counted_ : std::nan(""); }

  static double accuracy(const Weight& weight, double share) {
    return weight.counted > 0 ? hits(weight, share) / weight.counted : std::nan("");
  }

 private:
  static double hits(const Weight& weight, double share) {
    return std::round(share * weight.labels);
  }

  bool any_ = false;
  double weight_ = 0, loss_ = 0, counted_ = 0, hits_ = 0;
};

/// The mean of hits that a program gave; NaN when the targets are no labels.
double share_of_hits(const TrainerState::Built& built) {
  return built.traced.counts.labels > 0 ? built.results[1].item() : std::nan("");
}

}  // namespace

TrainerState::TrainerState(TrainingDescription described) : description(std::move(described)) {
  if (description.options.batch < 1)
    throw UserError(
        description.location,
        fmt::format("trainer: batch must be at least 1, not {}", description.options.batch),
        "128 is the default");
  description.options.loss_scale.options(description.options.policy, description.location);
  passes::check_rounding(description.options.rounding, description.location);
}

TrainerState::Built& TrainerState::step_program(const ir::Type& inputs, const ir::Type& targets) {
  std::string key = key_of(inputs, targets);
  if (auto known = steps_.find(key); known != steps_.end()) return *known->second;
  auto pending = pending_steps_.extract(key);
  std::unique_ptr<Built> built =
      finish(pending ? std::move(pending.mapped()) : start_step(inputs, targets, false));
  if (!main) main = built.get();
  return *steps_.emplace(key, std::move(built)).first->second;
}

void TrainerState::prepare_step(const ir::Type& inputs, const ir::Type& targets) {
  std::string key = key_of(inputs, targets);
  if (!steps_.count(key) && !pending_steps_.count(key))
    pending_steps_.emplace(key, start_step(inputs, targets, true));
}

TrainerState::Pending TrainerState::start_step(const ir::Type& inputs, const ir::Type& targets,
                                               bool background) {
  return start(
      trace(trace_training, inputs, targets), "step",
      description.options.loss_scale.options(description.options.policy, description.location),
      background);
}

TrainerState::Built& TrainerState::loss_program(const ir::Type& inputs, const ir::Type& targets) {
  std::unique_ptr<Built>& built = evaluations_[key_of(inputs, targets)];  // null until it is built
  if (!built) built = finish(start(trace(trace_loss, inputs, targets), "loss", "off", false));
  return *built;
}

TrainerState::Built& TrainerState::evaluation_program(const Dataset& data, int64_t count) {
  int64_t batch = std::min(description.options.batch, data.size());
  Built& full = loss_program(input_type(data.inputs, batch), batch_type(data.targets, batch));
  if (count == batch || !full.traced.count_name.empty()) return full;
  return loss_program(input_type(data.inputs, count), batch_type(data.targets, count));
}

TrainingModule TrainerState::trace(TrainingModule (*function)(const TrainingDescription&,
                                                              const ir::Type&, const ir::Type&),
                                   const ir::Type& inputs, const ir::Type& targets) {
  const FlagScope tracing(tracing_);
  return function(description, inputs, targets);
}

TrainerState::Pending TrainerState::start(TrainingModule traced, const std::string& function,
                                          const std::string& loss_scale, bool background) {
  Pending pending;
  pending.text = ir::print(*traced.module);
  ProgramOptions options;
  options.device = description.options.device;
  options.policy = description.options.policy.name();
  options.loss_scale = loss_scale;
  options.rounding = description.options.rounding;
  options.threads = description.options.threads;
  options.debug = description.options.debug;
  options.background = background;
  pending.program = std::async(background ? std::launch::async : std::launch::deferred,
                               [module = std::move(traced.module), function, options]() mutable {
                                 return build_program(std::move(module), function, options);
                               });
  pending.traced = std::move(traced);
  return pending;
}

std::unique_ptr<TrainerState::Built> TrainerState::finish(Pending pending) {
  auto built = std::make_unique<Built>();
  TrainingModule& traced = pending.traced;
  check_same_parameters(traced);
  built->text = std::move(pending.text);
  for (const auto& [name, type] : traced.states) {
    if (states.count(name)) continue;
    Array& state = states.emplace(name, Array(type)).first->second;
    if (name == traced.rate_name) state.set(0, description.optimizer.rate.constant());
    if (name == traced.rng_name)
      state.set_integer(0, static_cast<int64_t>(description.options.seed));
  }
  built->program = located(description.location, "", [&] { return pending.program.get(); });
  built->traced = std::move(traced);
  report_findings(built->traced.findings);
  report_findings(built->program->report.findings);

  std::map<std::string, const ProgramParameter*, std::less<>> parameters;
  for (const ProgramParameter& parameter : built->traced.parameters)
    parameters[parameter.name] = &parameter;
  const ir::Function& compiled = built->program->function();
  built->inputs = Array(compiled.parameter(0).type());
  built->targets = Array(compiled.parameter(1).type());
  for (int i = 0; i < compiled.num_parameters(); ++i) {
    auto found = parameters.find(compiled.parameter(i).name());
    bool is_weight = found != parameters.end();
    built->parameters.push_back(is_weight ? found->second : nullptr);
    built->states.push_back(is_weight ? nullptr : state_of(compiled, i, *built));
  }
  built->updated.resize(built->states.size());
  std::vector<ir::Value> results = compiled.results();
  for (int i = 0; i < compiled.num_results(); ++i) {
    if (ir::Value parameter = compiled.updated_parameter(i))
      built->updated[static_cast<size_t>(parameter.index())] = true;
    else
      built->results.emplace_back(results[static_cast<size_t>(i)].type());
  }
  return built;
}

void TrainerState::check_same_parameters(const TrainingModule& traced) {
  const bool first = known_parameters_.empty();
  for (const ProgramParameter& parameter : traced.parameters) {
    if (first) known_parameters_.push_back(parameter.state);
    if (std::find(known_parameters_.begin(), known_parameters_.end(), parameter.state) ==
        known_parameters_.end())
      throw UserError(description.location,
                      "training: a further program of this trainer has the parameter '" +
                          parameter.name + "', which its first one does not have",
                      "the model or the loss makes it anew in every call: make layers once, as "
                      "members of the model");
  }
}

Array* TrainerState::state_of(const ir::Function& function, int index, Built& built) {
  if (index == 0) return &built.inputs;
  if (index == 1) return &built.targets;
  ir::Value parameter = function.parameter(index);
  std::string name(parameter.name());
  if (name == built.traced.count_name) return &built.count;
  auto found = states.find(name);
  if (found != states.end()) return &found->second;
  // Behind the traced parameters stands what the pass loss-scale added: the scale and the number of
  // clean steps.
  MEZZO_CHECK(index >= built.traced.traced_parameters && parameter.type().rank() == 0,
              "the program has a parameter '" + name + "' that nothing binds");
  Array& state = states.emplace(name, Array(parameter.type())).first->second;
  if (parameter.dtype() == f32) {
    scale_name_ = name;
    state.set(0, description.options.loss_scale.initial);
  }
  return &state;
}

void TrainerState::report_findings(const std::vector<passes::Finding>& findings) {
  for (const passes::Finding& finding : findings) {
    std::string text = passes::log_text(finding);
    if (reported_.insert(text).second) runtime::log_warning(text);
  }
}

std::pair<ir::Type, ir::Type> TrainerState::batch_types(const Dataset& data,
                                                        ir::Location location) const {
  data.check(location);
  if (data.size() == 0)
    throw UserError(location,
                    fmt::format("the data set is empty: inputs {}, targets {}",
                                to_string(data.inputs.type), to_string(data.targets.type)),
                    "at least one sample is needed");
  int64_t count = std::min(description.options.batch, data.size());
  return {input_type(data.inputs, count), batch_type(data.targets, count)};
}

double TrainerState::accuracy_of(const Built& built) const {
  return Means::accuracy(weigh(built, samples_of(built.targets.type)), share_of_hits(built));
}

double TrainerState::scale() const {
  auto found = states.find(scale_name_);
  return scale_name_.empty() || found == states.end() ? 1 : found->second.item();
}

void TrainerState::run(Built& built) {
  if (!built.has_run) {
    choose_streams(built.traced.parameters, description.options.seed);
    report_findings(find_twins(built.traced.parameters, description.location));
  }
  const ir::Function& function = built.program->function();
  std::vector<Array> copies(built.states.size());
  std::vector<runtime::Binding> parameters;
  std::vector<runtime::HostArray*> results;
  auto bound = [&](size_t i) -> Array& {
    if (built.states[i]) return *built.states[i];
    DType dtype = function.parameter(static_cast<int>(i)).dtype();
    const ProgramParameter& parameter = *built.parameters[i];
    const uint64_t seed = description.options.seed;
    return built.updated[i]
               ? parameter.state->bind(dtype, seed, parameter.stream, description.location)
               : parameter.state->read(dtype, seed, parameter.stream, copies[i]);
  };
  for (size_t i = 0; i < built.states.size(); ++i) parameters.emplace_back(bound(i));
  built.has_run = true;
  size_t next = 0;
  for (int i = 0; i < function.num_results(); ++i)
    results.push_back(function.updated_parameter(i) ? nullptr : &built.results[next++]);
  bool out_of_range = built.program->run(parameters, results);
  // Inside a step the verdict says so.
  if (out_of_range && built.results.size() <= static_cast<size_t>(built.traced.own_results))
    throw stop_error(description, built, ir::VerdictCode::BadIndex, nullptr, 0, scale());
}

StepResult TrainerState::run_step(Built& built) {
  double scale_before = scale();
  const std::string& counter = built.traced.step_name;
  const int64_t step = counter.empty() ? 0 : states.at(counter).as_integer(0);
  run(built);
  MEZZO_CHECK(built.results.size() == static_cast<size_t>(built.traced.own_results) + 1,
              "the step has no verdict behind its loss and metrics");
  int32_t verdict = static_cast<int32_t>(built.results.back().as_integer(0));
  StepResult result;
  result.loss = built.results[0].item();
  result.taken = ir::is_taken(verdict);
  result.scale = scale();
  result.verdict = ir::to_string(ir::verdict_code(verdict));
  result.producer =
      describe_producer(find_word(built.program->function(), ir::verdict_word(verdict)));
  if (built.traced.rate_result >= 0) check_rate(built, step);
  judge(built, verdict, scale_before, result);
  return result;
}

void TrainerState::check_rate(const Built& built, int64_t step) const {
  const double rate = built.results[static_cast<size_t>(built.traced.rate_result)].item();
  if (rate >= 0 && std::isfinite(rate)) return;
  const ir::Location& place = built.traced.rate_location;
  throw UserError(
      place.known() ? place : description.location,
      fmt::format("learning rate: the schedule gives {} at step {} (t = {})", rate, step + 1, step),
      "a rate must be a finite number from 0 on; this step changed no parameter and no moment");
}

void TrainerState::tell_of_loss(const StepResult& result, int64_t step, ir::Location location) {
  if (told_of_loss_) return;
  told_of_loss_ = true;
  runtime::log_warning(fmt::format(
      "{}the loss is {} at step {} of epoch {}{}; the gradients are finite, so the step was taken",
      location.known() ? to_string(location) + ": " : "",
      std::isnan(result.loss) ? std::string("nan") : fmt::format("{}", result.loss), step, epoch,
      result.producer.empty() ? "" : ": " + result.producer + " made NaN or infinity first"));
}

void TrainerState::judge(const Built& built, int32_t verdict, double scale_before,
                         const StepResult& result) {
  ir::VerdictCode code = ir::verdict_code(verdict);
  if (result.taken) {
    ++taken;
    stuck_ = 0;
    return;
  }
  ++skipped;
  if (result.scale >= scale_before) ++stuck_;
  bool at_once = code == ir::VerdictCode::BadIndex || code == ir::VerdictCode::NonfiniteParameter;
  if (!at_once && stuck_ < kMostStuckSteps) return;
  int steps = stuck_;
  stuck_ = 0;  // a program that catches the error may go on
  throw stop_error(description, built, code,
                   find_word(built.program->function(), ir::verdict_word(verdict)), steps,
                   result.scale);
}

namespace {

/// `loss 0.4100  accuracy 85.00 %  validation loss 0.4300  accuracy 84.00 %  scale 1  skipped 0`.
std::string describe(const EpochReport& report, bool validated) {
  auto means = [](double loss, double accuracy) {
    return fmt::format("loss {:.4f}  ", loss) +
           (std::isnan(accuracy) ? "" : fmt::format("accuracy {:.2f} %  ", 100 * accuracy));
  };
  return means(report.loss, report.accuracy) +
         (validated ? "validation " + means(report.validation_loss, report.validation_accuracy)
                    : "") +
         fmt::format("scale {}  skipped {}", report.scale, report.skipped);
}

}  // namespace

EpochReport TrainerState::run_epoch(const Dataset& data, const FitOptions& options, int64_t epochs,
                                    ir::Location location) {
  auto [inputs, targets] = batch_types(data, location);
  int64_t batch = inputs.shape[0], size = data.size();
  int64_t steps = description.options.drop_last ? size / batch : (size + batch - 1) / batch;
  std::vector<int64_t> order(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) order[static_cast<size_t>(i)] = i;
  if (options.shuffle)
    order = shuffled(size, description.options.seed, static_cast<uint64_t>(epoch));
  step_program(inputs, targets);  // compile times are no part of the epoch
  if (steps * batch > size)
    prepare_step(input_type(data.inputs, size % batch), batch_type(data.targets, size % batch));

  EpochReport report;
  report.epoch = ++epoch;
  report.steps = steps;
  auto start = std::chrono::steady_clock::now();
  const std::string title = fmt::format("epoch {}/{}", report.epoch, epochs);
  std::optional<runtime::Progress> progress;  // while the epoch lasts, where lines can be rewritten
  if (options.progress && runtime::console().style().rewrites) progress.emplace(title, steps);
  Means means;
  for (int64_t step = 0; step < steps; ++step) {
    int64_t first = step * batch, count = std::min(batch, size - first);
    Built& built = step_program(input_type(data.inputs, count), batch_type(data.targets, count));
    built.rows.assign(order.begin() + first, order.begin() + first + count);
    gather_rows(data.inputs, built.rows, built.inputs);
    gather_rows(data.targets, built.rows, built.targets);
    StepResult result = run_step(built);
    if (!result.taken) {
      ++report.skipped;
    } else if (!std::isfinite(result.loss)) {
      ++report.nonfinite_losses;
      tell_of_loss(result, step + 1, location);
    } else {
      means.add(weigh(built, count), result.loss, share_of_hits(built));
    }
    if (progress)
      progress->update(step + 1,
                       std::isnan(means.loss()) ? "" : fmt::format("loss {:.4f}", means.loss()));
  }
  report.loss = means.loss();
  report.accuracy = means.accuracy();
  report.scale = scale();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.validation) {
    Evaluation evaluation = evaluate(*options.validation, location);
    report.validation_loss = evaluation.loss;
    report.validation_accuracy = evaluation.accuracy;
  }
  progress.reset();
  if (options.progress)
    runtime::log_info(fmt::format("{} {:.1f} s  {}", title, report.seconds,
                                  describe(report, options.validation.has_value())));
  return report;
}

Evaluation TrainerState::evaluate(const Dataset& data, ir::Location location) {
  batch_types(data, location);  // checks
  int64_t size = data.size(), batch = std::min(description.options.batch, size);
  Means means;
  for (int64_t first = 0; first < size; first += batch) {
    int64_t count = std::min(batch, size - first);
    Built& built = evaluation_program(data, count);
    built.count.set_integer(0, count);
    // Padding repeats the last sample: numbers that the model can take.
    built.rows.resize(static_cast<size_t>(built.inputs.shape()[0]));
    for (size_t i = 0; i < built.rows.size(); ++i)
      built.rows[i] = std::min(first + static_cast<int64_t>(i), first + count - 1);
    gather_rows(data.inputs, built.rows, built.inputs);
    gather_rows(data.targets, built.rows, built.targets);
    run(built);
    means.add(weigh(built, count), built.results[0].item(), share_of_hits(built));
  }
  return {means.loss(), means.accuracy()};
}

}  // namespace mezzo::detail
