// SPDX-License-Identifier: Apache-2.0
// The Trainer as programs see it: checks of arguments, and questions to its state.
#include <mezzo/dsl/trainer.h>

#include <mezzo/dsl/located.h>
#include <mezzo/dsl/trainer_state.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

namespace mezzo {

Trainer::Trainer(detail::TrainingDescription description)
    : state_(std::make_shared<detail::TrainerState>(std::move(description))) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;

std::shared_ptr<detail::TrainerState> Trainer::live(ir::Location location) const {
  if (!state_)
    throw UserError(location, "the trainer was moved from", "use the Trainer that it was moved to");
  return state_;
}

std::shared_ptr<detail::TrainerState> Trainer::idle(ir::Location location) const {
  std::shared_ptr<detail::TrainerState> state = live(location);
  if (state->tracing())
    throw UserError(location, "the model or the loss calls the trainer that is tracing it",
                    "a traced function works on tensors; train or evaluate outside of it");
  return state;
}

std::vector<EpochReport> Trainer::fit(const Dataset& data, FitOptions options,
                                      ir::Location location) {
  const std::shared_ptr<detail::TrainerState> state = idle(location);
  if (options.epochs < 0)
    throw UserError(location, fmt::format("fit: epochs must be at least 0, not {}", options.epochs),
                    "1 trains on each sample once");
  std::vector<EpochReport> reports;
  int64_t last = state->epoch + options.epochs;
  for (int64_t i = 0; i < options.epochs; ++i) {
    reports.push_back(state->run_epoch(data, options, last, location));
    if (options.on_epoch) options.on_epoch(reports.back());
  }
  return reports;
}

StepResult Trainer::step(const Array& inputs, const Array& targets, ir::Location location) {
  const std::shared_ptr<detail::TrainerState> state = idle(location);
  detail::located(location, "step: inputs", [&] { inputs.check_size(); });
  detail::located(location, "step: targets", [&] { targets.check_size(); });
  auto empty = [](const ir::Type& type) { return type.rank() > 0 && type.shape[0] == 0; };
  if (empty(inputs.type) || empty(targets.type))
    throw UserError(location,
                    fmt::format("step: the batch is empty: inputs {}, targets {}",
                                to_string(inputs.type), to_string(targets.type)),
                    "at least one sample is needed");
  bool pixels = inputs.dtype() == u8;
  detail::TrainerState::Built& built =
      state->step_program(pixels ? inputs.type.with(f32) : inputs.type, targets.type);
  detail::TrainerState::Batch& batch = built.next_batch();
  MEZZO_CHECK(
      batch.inputs.type.elements() == inputs.type.elements() && batch.targets.type == targets.type,
      "the compiled step takes other types than the traced one");
  if (pixels)
    detail::scale_pixels(inputs.view<uint8_t>(), batch.inputs.view<float>());
  else
    batch.inputs.bytes() = inputs.bytes();
  batch.targets.bytes() = targets.bytes();
  batch.rows.clear();
  batch.samples = targets.type.rank() ? targets.type.shape[0] : 1;
  return state->run_step(built, batch);
}

Evaluation Trainer::evaluate(const Dataset& data, ir::Location location) {
  return idle(location)->evaluate(data, location);
}

void Trainer::compile(const Dataset& data, ir::Location location) {
  const std::shared_ptr<detail::TrainerState> state = idle(location);
  auto [inputs, targets] = state->batch_types(data, location);
  state->step_program(inputs, targets);
}

namespace {

const detail::TrainerState::Built& compiled(const detail::TrainerState& state,
                                            ir::Location location) {
  if (!state.main)
    throw UserError(location, "the trainer has not compiled anything yet",
                    "call fit, step or compile first");
  return *state.main;
}

}  // namespace

std::string Trainer::summary(ir::Location location) const {
  const std::shared_ptr<detail::TrainerState> state = live(location);
  return detail::layer_table(compiled(*state, location).traced, state->description.options.policy);
}
std::string Trainer::ir(ir::Location location) const {
  return compiled(*live(location), location).text;
}
const runtime::CompileReport& Trainer::compile_report(ir::Location location) const {
  return compiled(*live(location), location).program->report;
}

double Trainer::scale(ir::Location location) const { return live(location)->scale(); }

void Trainer::set_learning_rate(double rate, ir::Location location) {
  const std::shared_ptr<detail::TrainerState> state = live(location);
  detail::check_rate("set_learning_rate", rate, location);
  auto found = state->states.find(compiled(*state, location).traced.rate_name);
  if (found == state->states.end())
    throw UserError(location, "set_learning_rate: the rate follows a schedule",
                    "give the optimizer a number to change it by hand");
  found->second.set(0, rate);
}

int64_t Trainer::taken_steps(ir::Location location) const { return live(location)->taken; }
int64_t Trainer::skipped_steps(ir::Location location) const { return live(location)->skipped; }

std::vector<std::string> Trainer::state_names(ir::Location location) const {
  std::vector<std::string> names;
  const std::shared_ptr<detail::TrainerState> state = live(location);
  for (const auto& [name, array] : state->states) names.push_back(name);
  return names;
}

const Array& Trainer::state(const std::string& name, ir::Location location) const {
  const std::shared_ptr<detail::TrainerState> state = live(location);
  auto found = state->states.find(name);
  if (found == state->states.end())
    throw UserError(location,
                    "there is no state '" + name + "'" + ir::did_you_mean(name, state_names()));
  return found->second;
}

int64_t Trainer::parameter_count(ir::Location location) const {
  int64_t count = 0;
  const std::shared_ptr<detail::TrainerState> state = live(location);
  for (const auto& parameter : compiled(*state, location).traced.parameters)
    count += parameter.state->shape.elements();
  return count;
}

}  // namespace mezzo
