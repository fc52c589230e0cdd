// SPDX-License-Identifier: Apache-2.0
// Why a training cannot go on, in words: the operation that first produced a non-finite number, its
// line, the numbers, and what to do.
#include <mezzo/dsl/trainer_state.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>

#include <fmt/format.h>

#include <cmath>

namespace mezzo::detail {

using ir::VerdictCode;

namespace {

/// The ops of the function and of its kernels that share a flag word, in order.
std::vector<const ir::Op*> ops_of_word(const ir::Function& function, int64_t word) {
  std::vector<const ir::Op*> ops;
  if (word == 0) return ops;
  auto look = [&](const ir::Op& op) {
    if (op.attrs().get_int("word", 0) == word) ops.push_back(&op);
  };
  for (const ir::Op& op : function.body()) {
    look(op);
    if (!op.body()) continue;
    for (const ir::Op& inner : *op.body()) look(inner);
  }
  return ops;
}

}  // namespace

const ir::Op* find_word(const ir::Function& function, int64_t word) {
  const std::vector<const ir::Op*> ops = ops_of_word(function, word);
  return ops.empty() ? nullptr : ops.front();
}

std::string describe_producer(const ir::Op* op) {
  if (!op) return "";
  const ir::Origin& origin = op->origin();
  const char* name = origin.name ? origin.name : op->info().name;
  ir::Location location = origin.location.known() ? origin.location : op->location();
  return location.known() ? fmt::format("{} ({})", name, to_string(location)) : name;
}

namespace {

/// The first target out of range, in words; empty when there is none.
std::string bad_target(const TrainingModule& traced, const TrainerState::Batch& batch,
                       ir::Location& location) {
  for (const LabelRange& range : traced.labels) {
    for (int64_t i = 0; i < batch.targets.type.elements(); ++i) {
      int64_t label = batch.targets.as_integer(i);
      if (label == range.ignore_index || (label >= 0 && label < range.classes)) continue;
      location = range.location;
      const ir::Type& type = batch.targets.type;
      int64_t sample = type.rank() ? i / (type.elements() / type.shape[0]) : 0;
      bool known = sample < static_cast<int64_t>(batch.rows.size());
      return fmt::format("cross_entropy: label {} of sample {} in the {} is out of range for {}",
                         label, known ? batch.rows[static_cast<size_t>(sample)] : sample,
                         known ? "data set" : "batch",
                         ir::counted(range.classes, "class", "classes"));
    }
  }
  return "";
}

std::string bad_parameter(const TrainerState::Built& built) {
  double largest = 0;
  std::string name;
  for (const auto& parameter : built.traced.parameters) {
    const Array& value = *parameter.state->value;
    for (int64_t i = 0; i < value.type.elements(); ++i) {
      double number = value.as_double(i);
      if (!std::isfinite(number))
        return fmt::format("parameter '{}' holds {} at element {}", parameter.name, number, i);
      if (std::abs(number) > largest) {
        largest = std::abs(number);
        name = parameter.name;
      }
    }
  }
  return fmt::format("a parameter is infinite in the compute type; the largest is {} in '{}'",
                     largest, name);
}

/// The 16-bit type in which the ops of a word store a result; f32 where there is none.
DType narrowest_type(const ir::Function& function, int64_t word) {
  DType narrowest = f32;
  for (const ir::Op* op : ops_of_word(function, word))
    for (ir::Value result : op->results())
      if (ir::is_float(result.dtype()) && ir::is_16bit(result.dtype())) narrowest = result.dtype();
  return narrowest;
}

std::string overflow_remedy(DType dtype) {
  if (dtype == f16)
    return "a value left the range of f16: keep the operation in f32 with keep_f32, or use the "
           "policy mixed_bfloat16, which has the range of f32";
  return fmt::format(
      "a value left the range of {}, and no policy has a wider one: bound the "
      "argument before this line, or subtract the largest as softmax does",
      ir::to_string(dtype));
}

std::string remedy(const ir::Function& function, const ir::Op* producer, VerdictCode code,
                   double scale) {
  switch (code) {
    case VerdictCode::BadInput:
      return "the inputs hold NaN or infinity: clean the data";
    case VerdictCode::ForwardOverflow:
      return overflow_remedy(
          producer ? narrowest_type(function, producer->attrs().get_int("word", 0)) : f32);
    case VerdictCode::DomainError:
    case VerdictCode::BackwardDomainError:
      return "an argument left the domain of the function, or a divisor was 0: bound it before "
             "this line, with maximum(x, eps) for instance; the loss scale has no part in it";
    case VerdictCode::ScaleOverflow:
    case VerdictCode::Unknown:
      return fmt::format(
          "gradients overflow at the loss scale {}, which cannot fall further: start "
          "from a smaller or a dynamic scale, or use mixed_bfloat16",
          scale);
    default:
      return "";
  }
}

}  // namespace

UserError stop_error(const TrainingDescription& description, const TrainerState::Built& built,
                     const TrainerState::Batch& batch, VerdictCode code, const ir::Op* producer,
                     int steps, double scale, bool ahead) {
  ir::Location location = description.location;
  if (code == VerdictCode::BadIndex) {
    const std::string happened = ahead ? "this step updated nothing, the next may have been taken; "
                                       : "nothing was updated; ";
    std::string text = bad_target(built.traced, batch, location);
    const bool divides = ir::divides_integers(built.program->function().body());
    if (text.empty()) {
      const auto given = [&](int parameter) -> const Array* {
        const auto place = static_cast<size_t>(parameter);
        if (built.states[place] || built.parameters[place]) return nullptr;
        return parameter == 0 ? &batch.inputs : parameter == 1 ? &batch.targets : &batch.count;
      };
      if (const auto fault = runtime::find_index_fault(*built.program, given))
        return UserError(fault->location(location), fault->text(), happened + fault->remedy());
      text = std::string("an index is out of range") +
             (divides ? ", or an integer is divided by 0" : "");
    }
    return UserError(location, text,
                     happened + "labels and indices must lie in [0, size)" +
                         (divides ? "; divisors of floor_div and remainder must not be 0" : ""));
  }
  if (code == VerdictCode::NonfiniteParameter)
    return UserError(location, bad_parameter(built),
                     "nothing was updated; start again from finite parameters, with a smaller "
                     "learning rate if they grew");
  std::string what = producer ? producer->info().name : "";
  if (producer) {
    const ir::Origin& origin = producer->origin();
    if (origin.name) what = origin.name;
    if (origin.location.known())
      location = origin.location;
    else if (producer->location().known())
      location = producer->location();
  }
  return UserError(
      location,
      fmt::format("training stopped: {} steps in a row were skipped and a smaller loss scale would "
                  "not help: {} ({})",
                  steps,
                  what.empty() ? "gradients are not finite" : what + " gave NaN or infinity first",
                  ir::to_string(code)),
      remedy(built.program->function(), producer, code, scale));
}

}  // namespace mezzo::detail
