// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/nn_recurrent.h>

#include <mezzo/dsl/layer_scope.h>
#include <mezzo/dsl/movement.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/sizes.h>

#include <fmt/format.h>

#include <cmath>

namespace mezzo::nn {

namespace {

constexpr const char* kNames[] = {"rnn", "lstm", "gru"};
constexpr int64_t kGates[] = {1, 4, 3};

Tensor step(const Tensor& sequence, int64_t t, ir::Location location) {
  Operand x(sequence, location);
  Dims starts{t, 0, 0}, ends(sequence.shape());
  ends[0] = t + 1;
  return slice(x, starts, ends);
}

}  // namespace

Recurrent::Recurrent(Kind kind, int64_t in, int64_t units, const RecurrentLayerOptions& options,
                     std::string_view activation, ir::Location location)
    : kind_(kind),
      in_(in),
      units_(units),
      options_(options),
      activation_(activation),
      state_(detail::make_layer_state(kNames[static_cast<size_t>(kind)], options.name)) {
  const char* name = kNames[static_cast<size_t>(kind)];
  if (in < 0 || units < 0)
    throw UserError(location,
                    fmt::format("{} {} -> {}: a number of features is negative", name, in, units),
                    "the layer takes the features of its argument, then its units");
  if (options.layers < 1)
    throw UserError(location, fmt::format("{}: {} layers are none", name, options.layers),
                    "a recurrent network has one layer at least");
  const int64_t columns = ir::saturated_product(kGates[static_cast<size_t>(kind)], units);
  const Initializer uniform =
      initializers::uniform(units > 0 ? 1 / std::sqrt(static_cast<double>(units)) : 0);
  const int64_t directions = options.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < options.layers; ++layer)
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t features = layer == 0 ? in : ir::saturated_product(directions, units);
      const std::string scope = fmt::format("l{}{}.", layer, direction == 0 ? "" : "_reverse");
      weights_.push_back({Parameter({features, columns}, uniform, scope + "w", location),
                          Parameter({units, columns}, uniform, scope + "u", location),
                          Parameter({columns}, uniform, scope + "b", location),
                          Parameter({columns}, uniform, scope + "v", location)});
    }
}

Tensor Recurrent::run(const Weights& weights, const Tensor& x, Tensor h, Tensor c, bool reverse,
                      Tensor& cells, ir::Location location) const {
  detail::Trace& trace = detail::Trace::require(state_->kind.c_str(), location);
  auto at = [&](const Tensor& tensor) { return Operand(tensor, location); };
  auto parameter = [&](const Parameter& each) {
    return at(trace.parameter(detail_state(each, location)));
  };
  auto bias = [&](const Parameter& each) {
    return options_.bias ? parameter(each) : at(full(each.shape(location), 0, f32, location));
  };
  Operand w = parameter(weights.w), u = parameter(weights.u), b = bias(weights.b);
  switch (kind_) {
    case Kind::Rnn:
      return rnn(at(x), at(h), w, u, b, {.activation = activation_, .reverse = reverse});
    case Kind::Lstm: {
      LstmResult result = lstm(at(x), at(h), at(c), w, u, b, {.reverse = reverse});
      cells = result.c;
      return result.h;
    }
    case Kind::Gru:
      break;
  }
  return gru(at(x), at(h), w, u, b, bias(weights.v), {.reverse = reverse});
}

RecurrentOutput Recurrent::operator()(Operand x, RecurrentState initial) const {
  const ir::Location location = x.location();
  if (!state_)
    throw UserError(location, "recurrent network: the layer was moved from",
                    "use the layer that it was moved to; a copy shares its parameters");
  const std::string& kind = state_->kind;
  detail::Trace& trace = detail::Trace::require(kind.c_str(), location);
  detail::LayerScope scope(trace, state_, location);
  auto at = [&](const Tensor& tensor) { return Operand(tensor, location); };
  if (!x.is_tensor() || x.rank() != 3 || x.shape()[2] != in_)
    throw UserError(
        location,
        fmt::format("{} '{}': takes [{}, {}], not {}", kind, trace.scope(),
                    options_.batch_first ? "batch, steps" : "steps, batch",
                    ir::counted(in_, "feature"), x.is_tensor() ? to_string(x.type()) : "a number"),
        "batch_first says which axis comes first");
  Tensor sequence = options_.batch_first ? transpose(x, {1, 0, 2}) : x.tensor();
  const int64_t steps = sequence.shape()[0], batch = sequence.shape()[1];
  const int64_t networks = static_cast<int64_t>(weights_.size());
  if (steps == 0)
    throw UserError(location, fmt::format("{} '{}': a sequence of no steps", kind, trace.scope()),
                    "a recurrent network needs one step at least");
  for (const auto& [state, name] : {std::pair(initial.h, "h"), std::pair(initial.c, "c")})
    if (state.has_value() && !(state.shape() == Shape{networks, batch, units_}))
      throw UserError(
          location,
          fmt::format("{} '{}': the initial {} must be [{}, {}, {}], not {}", kind, trace.scope(),
                      name, networks, batch, units_, to_string(state.type())),
          "states are [layers * directions, batch, units]");
  auto initial_of = [&](const Tensor& states, int64_t network) {
    if (!states.has_value()) return full({batch, units_}, 0, f32, location);
    return reshape(at(step(states, network, location)), {batch, units_});
  };
  const int64_t directions = options_.bidirectional ? 2 : 1;
  std::vector<Tensor> last_h, last_c;
  for (int64_t network = 0; network < networks;) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction, ++network) {
      const bool reverse = direction == 1;
      Tensor cells;
      outputs.push_back(run(weights_[static_cast<size_t>(network)], sequence,
                            initial_of(initial.h, network), initial_of(initial.c, network), reverse,
                            cells, location));
      const int64_t last = reverse ? 0 : steps - 1;
      last_h.push_back(step(outputs.back(), last, location));
      if (kind_ == Kind::Lstm) last_c.push_back(step(cells, last, location));
    }
    sequence = directions == 1 ? outputs[0] : concat({at(outputs[0]), at(outputs[1])}, 2);
  }
  RecurrentOutput out;
  out.y = options_.batch_first ? transpose(at(sequence), {1, 0, 2}) : sequence;
  auto joined = [&](const std::vector<Tensor>& states) {
    std::vector<Operand> operands;
    for (const Tensor& state : states) operands.push_back(at(state));
    return operands.size() == 1 ? states[0] : concat(Operands(operands), 0);
  };
  out.h = joined(last_h);
  if (kind_ == Kind::Lstm) out.c = joined(last_c);
  int64_t parameters = 0;
  for (const Weights& each : weights_) {
    parameters += each.w.shape().elements() + each.u.shape().elements();
    if (options_.bias) parameters += each.b.shape().elements() * (kind_ == Kind::Gru ? 2 : 1);
  }
  trace.layer_calls.push_back({trace.scope(), fmt::format("{} {} -> {}", kind, in_, units_),
                               x.type(), out.y.type(), parameters, location,
                               trace.policies.empty() ? "" : trace.policies.back()});
  return out;
}

}  // namespace mezzo::nn
