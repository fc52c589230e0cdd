// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/trainer_state.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/printer.h>
#include <mezzo/runtime/log.h>
#include <mezzo/runtime/progress.h>

#include <fmt/format.h>

#include <chrono>
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
    throw UserError(description.location, fmt::format("trainer: batch must be at least 1, not {}",
                                                      description.options.batch));
}

TrainerState::Built& TrainerState::step_program(const ir::Type& inputs, const ir::Type& targets) {
  std::string key = key_of(inputs, targets);
  std::unique_ptr<Built>& built = steps_[key];
  if (built) return *built;
  if (auto pending = pending_steps_.extract(key))
    built = finish(std::move(pending.mapped()));
  else
    built = finish(start_step(inputs, targets, false));
  if (!main) main = built.get();
  return *built;
}

void TrainerState::prepare_step(const ir::Type& inputs, const ir::Type& targets) {
  std::string key = key_of(inputs, targets);
  if (!steps_.count(key) && !pending_steps_.count(key))
    pending_steps_.emplace(key, start_step(inputs, targets, true));
}

TrainerState::Pending TrainerState::start_step(const ir::Type& inputs, const ir::Type& targets,
                                               bool background) {
  return start(trace_training(description, inputs, targets), "step",
               description.options.loss_scale.options(description.options.policy), background);
}

TrainerState::Built& TrainerState::loss_program(const ir::Type& inputs, const ir::Type& targets) {
  std::unique_ptr<Built>& built = evaluations_[key_of(inputs, targets)];
  if (!built) built = finish(start(trace_loss(description, inputs, targets), "loss", "off", false));
  return *built;
}

TrainerState::Built& TrainerState::evaluation_program(const Dataset& data, int64_t count) {
  int64_t batch = std::min(description.options.batch, data.size());
  Built& full = loss_program(batch_type(data.inputs, batch), batch_type(data.targets, batch));
  if (count == batch || !full.traced.count_name.empty()) return full;
  return loss_program(batch_type(data.inputs, count), batch_type(data.targets, count));
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
  built->text = std::move(pending.text);
  std::map<std::string, std::shared_ptr<ParameterState>, std::less<>> parameters;
  for (size_t i = 0; i < traced.parameters.size(); ++i)
    parameters[traced.parameter_names[i]] = traced.parameters[i];
  for (const auto& [name, type] : traced.states) {
    if (states.count(name)) continue;
    Array& state = states.emplace(name, Array(type)).first->second;
    if (name == traced.rate_name) state.set(0, description.optimizer.rate.constant());
    if (name == traced.rng_name)
      state.set_integer(0, static_cast<int64_t>(description.options.seed));
  }
  built->program = pending.program.get();
  built->traced = std::move(traced);
  report_findings(built->traced.findings);
  report_findings(built->program->report.findings);

  const ir::Function& compiled = built->program->function();
  built->inputs = Array(compiled.parameter(0).type());
  built->targets = Array(compiled.parameter(1).type());
  for (int i = 0; i < compiled.num_parameters(); ++i) {
    auto found = parameters.find(compiled.parameter(i).name());
    built->parameters.push_back(found == parameters.end() ? nullptr : found->second);
    built->states.push_back(built->parameters.back() ? nullptr : state_of(compiled, i, *built));
  }
  std::vector<ir::Value> results = compiled.results();
  for (int i = 0; i < compiled.num_results(); ++i)
    if (!compiled.updated_parameter(i))
      built->results.emplace_back(results[static_cast<size_t>(i)].type());
  return built;
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

std::pair<ir::Type, ir::Type> TrainerState::batch_types(const Dataset& data) const {
  data.check();
  data.inputs.check_size();
  data.targets.check_size();
  if (data.size() == 0) throw UserError(description.location, "the data set is empty");
  int64_t count = std::min(description.options.batch, data.size());
  return {batch_type(data.inputs, count), batch_type(data.targets, count)};
}

double TrainerState::scale() const {
  auto found = states.find(scale_name_);
  return scale_name_.empty() || found == states.end() ? 1 : found->second.item();
}

void TrainerState::run(Built& built) {
  const ir::Function& function = built.program->function();
  std::vector<bool> updated(built.states.size());
  for (int i = 0; i < function.num_results(); ++i)
    if (ir::Value parameter = function.updated_parameter(i))
      updated[static_cast<size_t>(parameter.index())] = true;
  std::vector<Array> copies(built.states.size());
  std::vector<void*> parameters, results;
  auto bound = [&](size_t i) -> Array& {
    if (built.states[i]) return *built.states[i];
    DType dtype = function.parameter(static_cast<int>(i)).dtype();
    ParameterState& parameter = *built.parameters[i];
    return updated[i] ? parameter.bind(dtype, description.options.seed, description.location)
                      : parameter.read(dtype, description.options.seed, copies[i]);
  };
  for (size_t i = 0; i < built.states.size(); ++i) parameters.push_back(bound(i).bytes.data());
  size_t next = 0;
  for (int i = 0; i < function.num_results(); ++i)
    results.push_back(function.updated_parameter(i) ? nullptr : built.results[next++].bytes.data());
  bool out_of_range = built.program->run(parameters, results);
  // Inside a step the verdict says so.
  if (out_of_range && built.results.size() <= static_cast<size_t>(built.traced.own_results))
    throw stop_error(description, built, ir::VerdictCode::BadIndex, nullptr, 0, scale());
}

StepResult TrainerState::run_step(Built& built) {
  double scale_before = scale();
  run(built);
  MEZZO_CHECK(built.results.size() == static_cast<size_t>(built.traced.own_results) + 1,
              "the step has no verdict behind its loss and metrics");
  int32_t verdict = static_cast<int32_t>(built.results.back().as_integer(0));
  StepResult result;
  result.loss = built.results[0].item();
  if (built.traced.has_metric) result.metric = built.results[1].item();
  result.taken = ir::is_taken(verdict);
  result.scale = scale();
  result.verdict = ir::to_string(ir::verdict_code(verdict));
  result.producer =
      describe_producer(find_word(built.program->function(), ir::verdict_word(verdict)));
  judge(built, verdict, scale_before, result);
  return result;
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

std::pair<double, double> TrainerState::run_loss(Built& built) {
  run(built);
  return {built.results[0].item(), built.traced.has_metric ? built.results[1].item() : 0};
}

EpochReport TrainerState::run_epoch(const Dataset& data, const FitOptions& options,
                                    int64_t epochs) {
  auto [inputs, targets] = batch_types(data);
  int64_t batch = inputs.shape[0], size = data.size();
  int64_t steps = description.options.drop_last ? size / batch : (size + batch - 1) / batch;
  std::vector<int64_t> order(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) order[static_cast<size_t>(i)] = i;
  if (options.shuffle)
    order = shuffled(size, description.options.seed, static_cast<uint64_t>(epoch));
  step_program(inputs, targets);  // compile times are no part of the epoch
  if (steps * batch > size)
    prepare_step(batch_type(data.inputs, size % batch), batch_type(data.targets, size % batch));

  EpochReport report;
  report.epoch = ++epoch;
  report.steps = steps;
  auto start = std::chrono::steady_clock::now();
  std::optional<runtime::Progress> progress;
  if (options.progress) progress.emplace(fmt::format("epoch {}/{}", report.epoch, epochs), steps);
  double samples = 0, loss = 0, metric = 0;
  for (int64_t step = 0; step < steps; ++step) {
    int64_t first = step * batch, count = std::min(batch, size - first);
    Built& built = step_program(batch_type(data.inputs, count), batch_type(data.targets, count));
    std::span<const int64_t> rows(order.data() + first, static_cast<size_t>(count));
    gather_rows(data.inputs, rows, built.inputs);
    gather_rows(data.targets, rows, built.targets);
    StepResult result = run_step(built);
    if (!result.taken) {
      ++report.skipped;
    } else if (!std::isfinite(result.loss)) {
      ++report.nonfinite_losses;
    } else {
      samples += static_cast<double>(count);
      loss += static_cast<double>(count) * result.loss;
      metric += static_cast<double>(count) * result.metric;
    }
    if (progress && samples > 0)
      progress->update(step + 1, fmt::format("loss {:.4f}", loss / samples));
  }
  report.loss = samples > 0 ? loss / samples : std::nan("");
  report.accuracy = samples > 0 ? metric / samples : 0;
  report.scale = scale();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.validation) {
    Evaluation evaluation = evaluate(*options.validation);
    report.validation_loss = evaluation.loss;
    report.validation_accuracy = evaluation.accuracy;
  }
  if (progress)
    progress->finish(fmt::format(
        "loss {:.4f}  accuracy {:.2f} %{}  scale {}  skipped {}", report.loss,
        100 * report.accuracy,
        options.validation ? fmt::format("  validation {:.2f} %", 100 * report.validation_accuracy)
                           : "",
        report.scale, report.skipped));
  return report;
}

Evaluation TrainerState::evaluate(const Dataset& data) {
  batch_types(data);  // checks
  int64_t size = data.size(), batch = std::min(description.options.batch, size);
  Evaluation total;
  for (int64_t first = 0; first < size; first += batch) {
    int64_t count = std::min(batch, size - first);
    Built& built = evaluation_program(data, count);
    built.count.set_integer(0, count);
    // Padding repeats the last sample: numbers that the model can take.
    std::vector<int64_t> rows(static_cast<size_t>(built.inputs.shape()[0]));
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = std::min(first + static_cast<int64_t>(i), first + count - 1);
    gather_rows(data.inputs, rows, built.inputs);
    gather_rows(data.targets, rows, built.targets);
    auto [loss, metric] = run_loss(built);
    total.loss += loss * static_cast<double>(count);
    total.accuracy += metric * static_cast<double>(count);
  }
  total.loss /= static_cast<double>(size);
  total.accuracy /= static_cast<double>(size);
  return total;
}

}  // namespace mezzo::detail

namespace mezzo {

Trainer::Trainer(detail::TrainingDescription description)
    : state_(std::make_unique<detail::TrainerState>(std::move(description))) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;

std::vector<EpochReport> Trainer::fit(const Dataset& data, FitOptions options) {
  std::vector<EpochReport> reports;
  int64_t last = state_->epoch + options.epochs;
  for (int64_t i = 0; i < options.epochs; ++i) {
    reports.push_back(state_->run_epoch(data, options, last));
    if (options.on_epoch) options.on_epoch(reports.back());
  }
  return reports;
}

StepResult Trainer::step(const Array& inputs, const Array& targets) {
  inputs.check_size();
  targets.check_size();
  detail::TrainerState::Built& built = state_->step_program(inputs.type, targets.type);
  MEZZO_CHECK(built.inputs.type == inputs.type && built.targets.type == targets.type,
              "the compiled step takes other types than the traced one");
  built.inputs.bytes = inputs.bytes;
  built.targets.bytes = targets.bytes;
  return state_->run_step(built);
}

Evaluation Trainer::evaluate(const Dataset& data) { return state_->evaluate(data); }

void Trainer::compile(const Dataset& data) {
  auto [inputs, targets] = state_->batch_types(data);
  state_->step_program(inputs, targets);
}

namespace {

const detail::TrainerState::Built& compiled(const detail::TrainerState& state) {
  if (!state.main)
    throw UserError(state.description.location, "the trainer has not compiled anything yet",
                    "call fit, step or compile first");
  return *state.main;
}

}  // namespace

std::string Trainer::summary() const {
  return detail::layer_table(compiled(*state_).traced, state_->description.options.policy);
}
std::string Trainer::ir() const { return compiled(*state_).text; }
const runtime::CompileReport& Trainer::compile_report() const {
  return compiled(*state_).program->report;
}

double Trainer::scale() const { return state_->scale(); }

void Trainer::set_learning_rate(double rate) {
  auto found = state_->states.find(compiled(*state_).traced.rate_name);
  if (found == state_->states.end())
    throw UserError(state_->description.location, "set_learning_rate: the rate follows a schedule",
                    "give the optimizer a number to change it by hand");
  found->second.set(0, rate);
}

int64_t Trainer::taken_steps() const { return state_->taken; }
int64_t Trainer::skipped_steps() const { return state_->skipped; }

std::vector<std::string> Trainer::state_names() const {
  std::vector<std::string> names;
  for (const auto& [name, array] : state_->states) names.push_back(name);
  return names;
}

const Array& Trainer::state(const std::string& name) const {
  auto found = state_->states.find(name);
  if (found == state_->states.end())
    throw UserError({}, "there is no state '" + name + "'" + ir::did_you_mean(name, state_names()));
  return found->second;
}

int64_t Trainer::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : compiled(*state_).traced.parameters)
    count += parameter->shape.elements();
  return count;
}

}  // namespace mezzo
