// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/nn.h>

#include <mezzo/dsl/layer_scope.h>
#include <mezzo/dsl/located.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <map>
#include <set>

namespace mezzo {

namespace detail {

void ParameterState::make(DType dtype, uint64_t seed, uint32_t stream) {
  value = initializer(shape, dtype, seed, stream);
  if (initializer.kind != Initializer::Kind::Constant) drawn = {seed, stream};
}

Array& ParameterState::read(DType dtype, uint64_t seed, uint32_t stream, Array& copy) {
  // In f32, so that a Trainer under another policy starts from the same numbers.
  if (!value) make(ir::is_16bit(dtype) ? f32 : dtype, seed, stream);
  if (value->dtype() == dtype) return *value;
  copy = Array(value->converted_to(dtype));
  return copy;
}

Array& ParameterState::bind(DType dtype, uint64_t seed, uint32_t stream, ir::Location location) {
  if (!value) make(dtype, seed, stream);
  if (value->dtype() != dtype) {
    // f16 and bf16 hold different numbers: neither is the wider one.
    if (trained && ir::byte_size(dtype) <= ir::byte_size(value->dtype()))
      throw UserError(location,
                      fmt::format("trainer: parameter '{}' was trained in {}; the policy stores "
                                  "parameters in {}, which would round it",
                                  name, ir::to_string(value->dtype()), ir::to_string(dtype)),
                      "use a policy that keeps the wider type (mixed_float16, mixed_bfloat16), or "
                      "another model that takes its numbers by set_value");
    value = Array(value->converted_to(dtype));
  }
  trained = true;
  return *value;
}

void choose_streams(std::vector<ProgramParameter>& parameters, uint64_t seed) {
  std::set<uint32_t> held;
  for (const ProgramParameter& parameter : parameters)
    if (parameter.state->drawn && parameter.state->drawn->first == seed)
      held.insert(parameter.state->drawn->second);
  auto next = static_cast<uint32_t>(parameters.size());
  for (size_t place = 0; place < parameters.size(); ++place) {
    uint32_t& stream = parameters[place].stream;
    stream = static_cast<uint32_t>(place);
    if (parameters[place].state->value || !held.count(stream)) continue;
    while (held.count(next)) ++next;
    stream = next++;
  }
}

std::vector<passes::Finding> find_twins(const std::vector<ProgramParameter>& parameters,
                                        ir::Location location) {
  std::vector<passes::Finding> findings;
  std::map<std::pair<uint64_t, uint32_t>, const ProgramParameter*> drawn;
  for (const ProgramParameter& parameter : parameters) {
    const ParameterState& state = *parameter.state;
    if (!state.drawn) continue;
    auto [first, added] = drawn.emplace(*state.drawn, &parameter);
    if (added) continue;
    const Array &one = *first->second->state->value, &other = *state.value;
    if (one.bytes() != other.bytes()) continue;
    findings.push_back(
        {"equal-initial-values", location,
         fmt::format("parameters '{}' and '{}' start from the same numbers: two programs with the "
                     "seed {} made them, both from its stream {}",
                     first->second->name, parameter.name, state.drawn->first, state.drawn->second),
         "give one of the programs another seed, or let this one be the first to run"});
  }
  return findings;
}

}  // namespace detail

namespace nn {

const std::shared_ptr<detail::ParameterState>& detail_state(const Parameter& parameter,
                                                            ir::Location location) {
  if (!parameter.state_)
    throw UserError(location, "the parameter was moved from",
                    "use the nn::Parameter that it was moved to; a copy shares its numbers");
  return parameter.state_;
}

Parameter::Parameter(Dims shape, Initializer initializer, std::string name, ir::Location location)
    : state_(std::make_shared<detail::ParameterState>()) {
  state_->shape = detail::located_shape(location, "parameter '" + name + "'", shape);
  auto check = [&](const char* what, auto kind, auto last) {
    if (kind > last)
      throw UserError(location,
                      fmt::format("parameter '{}': the initializer's {} {} is unknown", name, what,
                                  static_cast<int>(kind)),
                      "the functions of mezzo::initializers make initializers");
  };
  check("kind", initializer.kind, Initializer::Kind::Normal);
  check("fan", initializer.fan, Initializer::Fan::Average);
  state_->local_name = std::move(name);
  state_->initializer = initializer;
}

Parameter Parameter::state(Dims shape, Initializer initializer, std::string name,
                           ir::Location location) {
  Parameter parameter(std::move(shape), initializer, std::move(name), location);
  parameter.state_->is_state = true;
  return parameter;
}

const std::string& Parameter::name(ir::Location location) const {
  return detail_state(*this, location)->name;
}
const Shape& Parameter::shape(ir::Location location) const {
  return detail_state(*this, location)->shape;
}

const Array& Parameter::value(ir::Location location) const {
  const detail::ParameterState& state = *detail_state(*this, location);
  if (!state.value)
    throw UserError(location, "parameter '" + state.local_name + "' has no value yet",
                    "parameters are made when the first program that uses them is built");
  return *state.value;
}

void Parameter::set_value(const Array& value, ir::Location location) const {
  detail_state(*this, location);
  detail::located(location, "parameter '" + state_->local_name + "'", [&] { value.check_size(); });
  if (!(value.shape() == state_->shape))
    throw UserError(location,
                    fmt::format("parameter '{}' has shape [{}], not [{}]", state_->local_name,
                                to_string(state_->shape), to_string(value.shape())));
  state_->drawn.reset();
  // Written in place: programs that run hold its address.
  if (state_->value)
    state_->value->set_bytes(value.converted_to(state_->value->dtype()).bytes());
  else
    state_->value = value;
}

namespace {

int64_t checked(int64_t in, int64_t out, ir::Location location) {
  if (in < 0 || out < 0)
    throw UserError(location,
                    fmt::format("dense {} -> {}: a number of features is negative", in, out),
                    "nn::Dense takes the features of its argument, then those of its result");
  return in;
}

}  // namespace

Dense::Dense(int64_t in, int64_t out, DenseOptions options, ir::Location location)
    : in_(checked(in, out, location)),
      out_(out),
      has_bias_(options.bias),
      state_(std::make_shared<detail::LayerState>()),
      weight_({in, out}, options.initializer, "weight", location),
      bias_({out}, initializers::zeros(), "bias", location) {
  state_->kind = "dense";
  state_->name = options.name;
  state_->given = !options.name.empty();
}

Tensor Dense::operator()(Operand x) const {
  if (!state_)
    throw UserError(x.location(), "dense: the layer was moved from",
                    "use the nn::Dense that it was moved to; a copy shares its parameters");
  detail::Trace& trace = detail::Trace::require("dense", x.location());
  detail::LayerScope scope(trace, state_, x.location());
  if (x.is_tensor()) trace.value(x.tensor(), "dense", x.location());  // an empty one has no shape
  auto features = [&] { return x.shape()[x.rank() - 1]; };
  if (!x.is_tensor() || x.rank() < 1 || features() != in_) {
    const std::string given =
        !x.is_tensor() ? "not a number"
        : x.rank() < 1 ? "but x has no axis (" + to_string(x.type()) + ")"
                       : fmt::format("but x has {} ({})", features(), to_string(x.type()));
    throw UserError(
        x.location(),
        fmt::format("dense '{}': takes {}, {}", trace.scope(), ir::counted(in_, "feature"), given),
        "the last axis is the axis of features");
  }
  Operand weight(trace.tensor(trace.value(trace.parameter(detail_state(weight_, x.location())),
                                          "dense", x.location())),
                 x.location());
  // A single row is a matrix product like any other.
  Tensor rows = x.rank() == 1 ? reshape(x, {1, in_}) : x.tensor();
  Tensor y = matmul(Operand(rows, x.location()), weight);
  if (has_bias_)
    y = add(Operand(y, x.location()),
            Operand(trace.parameter(detail_state(bias_, x.location())), x.location()));
  if (x.rank() == 1) y = reshape(Operand(y, x.location()), {out_});
  trace.layer_calls.push_back({trace.scope(), fmt::format("dense {} -> {}", in_, out_), x.type(),
                               y.type(), in_ * out_ + (has_bias_ ? out_ : 0), x.location(),
                               trace.policies.empty() ? "" : trace.policies.back()});
  return y;
}

}  // namespace nn
}  // namespace mezzo
