// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/trainer_state.h>

#include <mezzo/dsl/located.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/policy.h>
#include <mezzo/runtime/log.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mezzo::detail {

namespace {

/// Skips in a row that did not lower the scale, before training stops.
constexpr int kMostStuckSteps = 25;

std::string key_of(const ir::Type& inputs, const ir::Type& targets) {
  return to_string(inputs) + to_string(targets);
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
  for (int i = 0; i < compiled.num_parameters(); ++i) {
    auto found = parameters.find(compiled.parameter(i).name());
    bool is_weight = found != parameters.end();
    built->parameters.push_back(is_weight ? found->second : nullptr);
    built->states.push_back(is_weight ? nullptr : state_of(compiled, i, *built));
  }
  built->updated.resize(built->states.size());
  Batch batch;
  batch.inputs = Array(compiled.parameter(0).type());
  batch.targets = Array(compiled.parameter(1).type());
  std::vector<ir::Value> results = compiled.results();
  for (int i = 0; i < compiled.num_results(); ++i) {
    if (ir::Value parameter = compiled.updated_parameter(i))
      built->updated[static_cast<size_t>(parameter.index())] = true;
    else
      batch.results.emplace_back(results[static_cast<size_t>(i)].type());
  }
  // What no step changes stays as it is here.
  if (!scale_name_.empty()) batch.scale = states.at(scale_name_);
  if (!built->traced.step_name.empty()) batch.steps = states.at(built->traced.step_name);
  built->batches.assign(runs_ahead() ? 2 : 1, batch);
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
  ir::Value parameter = function.parameter(index);
  std::string name(parameter.name());
  if (index < 2 || name == built.traced.count_name) return nullptr;  // a Batch has it
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

double TrainerState::scale() const {
  auto found = states.find(scale_name_);
  return scale_name_.empty() || found == states.end() ? 1 : found->second.item();
}

void TrainerState::run(Built& built, Batch& batch) {
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
    if (i == 0) return batch.inputs;
    if (i == 1) return batch.targets;
    if (!built.parameters[i]) return batch.count;
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
  for (int i = 0; i < function.num_results(); ++i) {
    const ir::Value updated = function.updated_parameter(i);
    if (!updated)
      results.push_back(&batch.results[next++]);
    else if (updated.name() == scale_name_)
      results.push_back(&batch.scale);
    else if (updated.name() == built.traced.step_name)
      results.push_back(&batch.steps);
    else
      results.push_back(nullptr);
  }
  batch.index_flag = built.program->run(parameters, results);
}

StepResult TrainerState::run_step(Built& built, Batch& batch) {
  const double scale_before = last_scale_ > 0 ? last_scale_ : scale();
  run(built, batch);
  return read_step(built, batch, scale_before);
}

StepResult TrainerState::read_step(const Built& built, const Batch& batch, double scale_before) {
  MEZZO_CHECK(is_step(built), "the step has no verdict behind its loss and metrics");
  const int32_t verdict = verdict_of(batch);
  StepResult result;
  result.loss = batch.results[0].item();
  result.metric = accuracy_of(built, batch);
  result.taken = ir::is_taken(verdict);
  result.scale = scale_name_.empty() ? 1 : batch.scale.item();
  last_scale_ = result.scale;
  result.verdict = ir::to_string(ir::verdict_code(verdict));
  result.producer =
      describe_producer(find_word(built.program->function(), ir::verdict_word(verdict)));
  count(verdict);
  if (built.traced.rate_result >= 0) check_rate(built, batch);
  judge(built, batch, verdict, result, scale_before);
  return result;
}

void TrainerState::count(int32_t verdict) { ++(ir::is_taken(verdict) ? taken : skipped); }

void TrainerState::check_rate(const Built& built, const Batch& batch) const {
  const double rate = batch.results[static_cast<size_t>(built.traced.rate_result)].item();
  if (rate >= 0 && std::isfinite(rate)) return;
  const int64_t step = batch.steps.as_integer(0);  // not counted, since it was skipped
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

void TrainerState::judge(const Built& built, const Batch& batch, int32_t verdict,
                         const StepResult& result, double scale_before) {
  ir::VerdictCode code = ir::verdict_code(verdict);
  if (result.taken) {
    stuck_ = 0;
    return;
  }
  if (result.scale >= scale_before) ++stuck_;
  bool at_once = code == ir::VerdictCode::BadIndex || code == ir::VerdictCode::NonfiniteParameter;
  if (!at_once && stuck_ < kMostStuckSteps) return;
  int steps = stuck_;
  stuck_ = 0;  // a program that catches the error may go on
  throw stop_error(description, built, batch, code,
                   find_word(built.program->function(), ir::verdict_word(verdict)), steps,
                   result.scale, step_ahead_);
}

}  // namespace mezzo::detail
