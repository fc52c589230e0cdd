// SPDX-License-Identifier: Apache-2.0
// The Trainer as programs see it: checks of arguments, and questions to its state.
#include <mezzo/dsl/trainer.h>

#include <mezzo/dsl/trainer_state.h>
#include <mezzo/ir/error.h>

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
  bool pixels = inputs.dtype() == u8;
  detail::TrainerState::Built& built =
      state_->step_program(pixels ? inputs.type.with(f32) : inputs.type, targets.type);
  MEZZO_CHECK(
      built.inputs.type.elements() == inputs.type.elements() && built.targets.type == targets.type,
      "the compiled step takes other types than the traced one");
  if (pixels)
    detail::scale_pixels(inputs.view<uint8_t>(), built.inputs.view<float>());
  else
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
