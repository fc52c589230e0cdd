// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/nn_norms.h>

#include <mezzo/dsl/layer_scope.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

namespace mezzo::nn {

namespace {

/// A call of a layer: open while it lives, noted for the summary by `done`.
class Call {
 public:
  Call(const char* kind, const std::shared_ptr<detail::LayerState>& layer, const Operand& x)
      : kind_(kind),
        x_(x),
        trace_(detail::Trace::require(kind, x.location())),
        scope_(trace_, checked(kind, layer, x), x.location()) {}

  detail::Trace& trace() { return trace_; }
  /// x with channels last; throws UserError unless its last axes then have these lengths.
  Operand input(const Dims& wanted, Layout layout) {
    const int count = static_cast<int>(wanted.size());
    if (!x_.is_tensor()) fail(wanted, "not a number");
    const bool first = layout == Layout::channels_first && x_.rank() > 2;
    bool fits = x_.rank() >= count;
    for (int i = 0; fits && i < count; ++i)
      fits = x_.shape()[first ? 1 : x_.rank() - count + i] == wanted[static_cast<size_t>(i)];
    if (!fits) fail(wanted, "but x is " + to_string(x_.type()));
    if (!first) return x_;
    Axes perm{0};
    for (int i = 2; i < x_.rank(); ++i) perm.push_back(i);
    perm.push_back(1);
    return Operand(transpose(x_, perm), x_.location());
  }
  Operand parameter(const Parameter& parameter) {
    return Operand(trace_.parameter(detail_state(parameter, x_.location())), x_.location());
  }
  /// Back to the layout of x.
  Tensor done(Tensor y, Layout layout, int64_t parameters) {
    if (layout == Layout::channels_first && x_.rank() > 2) {
      Axes perm{0, y.rank() - 1};
      for (int i = 1; i + 1 < y.rank(); ++i) perm.push_back(i);
      y = transpose(Operand(y, x_.location()), perm);
    }
    trace_.layer_calls.push_back({trace_.scope(), kind_, x_.type(), y.type(), parameters,
                                  x_.location(),
                                  trace_.policies.empty() ? "" : trace_.policies.back()});
    return y;
  }

 private:
  static const std::shared_ptr<detail::LayerState>& checked(
      const char* kind, const std::shared_ptr<detail::LayerState>& layer, const Operand& x) {
    if (layer) return layer;
    throw UserError(x.location(), std::string(kind) + ": the layer was moved from",
                    "use the layer that it was moved to; a copy shares its parameters");
  }
  [[noreturn]] void fail(const Dims& wanted, const std::string& given) {
    std::string lengths;
    for (int64_t length : wanted) lengths += (lengths.empty() ? "" : "x") + std::to_string(length);
    throw UserError(x_.location(),
                    fmt::format("{} '{}': takes {} of {}, {}", kind_, trace_.scope(),
                                wanted.size() == 1 ? "an axis" : "last axes", lengths, given),
                    "channels are the last axis, or the second one with Layout::channels_first");
  }

  const char* kind_;
  const Operand& x_;
  detail::Trace& trace_;
  detail::LayerScope scope_;
};

int64_t checked_count(const char* kind, const char* what, int64_t count, ir::Location location) {
  if (count < 1)
    throw UserError(location, fmt::format("{}: {} {}", kind, count, what),
                    fmt::format("nn layers of normalisation take 1 or more {}", what));
  return count;
}

}  // namespace

LayerNorm::LayerNorm(Dims shape, LayerNormLayerOptions options, ir::Location location)
    : options_(std::move(options)),
      shape_(std::move(shape)),
      state_(detail::make_layer_state("layer_norm", options_.name)),
      weight_(shape_, initializers::ones(), "weight", location),
      bias_(shape_, initializers::zeros(), "bias", location) {
  if (shape_.empty())
    throw UserError(location, "layer_norm: there is no axis to normalise",
                    "give the lengths of the last axes");
  if (options_.bias && !options_.weight)
    throw UserError(location, "layer_norm: a bias without a weight",
                    "leave both out, or keep the weight; its gradient is cheap");
}

Tensor LayerNorm::operator()(Operand given) const {
  Call call("layer_norm", state_, given);
  const Operand x = call.input(shape_, Layout::channels_last);
  const LayerNormOptions options{-std::ssize(shape_), options_.eps};
  const int64_t elements = weight_.shape().elements();
  if (!options_.weight) return call.done(layer_norm(x, options), Layout::channels_last, 0);
  const Operand weight = call.parameter(weight_);
  if (!options_.bias)
    return call.done(layer_norm(x, weight, options), Layout::channels_last, elements);
  return call.done(layer_norm(x, weight, call.parameter(bias_), options), Layout::channels_last,
                   2 * elements);
}

RMSNorm::RMSNorm(int64_t features, RMSNormOptions options, ir::Location location)
    : options_(std::move(options)),
      features_(checked_count("rms_norm", "features", features, location)),
      state_(detail::make_layer_state("rms_norm", options_.name)),
      weight_({features}, initializers::ones(), "weight", location) {}

Tensor RMSNorm::operator()(Operand given) const {
  Call call("rms_norm", state_, given);
  const Operand x = call.input({features_}, Layout::channels_last);
  return call.done(rms_norm(x, call.parameter(weight_), {.eps = options_.eps}),
                   Layout::channels_last, features_);
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, GroupNormLayerOptions options,
                     ir::Location location)
    : options_(std::move(options)),
      groups_(checked_count("group_norm", "groups", groups, location)),
      channels_(checked_count("group_norm", "channels", channels, location)),
      state_(detail::make_layer_state("group_norm", options_.name)),
      weight_({channels}, initializers::ones(), "weight", location),
      bias_({channels}, initializers::zeros(), "bias", location) {
  if (channels % groups != 0)
    throw UserError(location, fmt::format("group_norm: {} groups of {} channels", groups, channels),
                    "the number of groups must divide the number of channels");
}

Tensor GroupNorm::operator()(Operand given) const {
  Call call("group_norm", state_, given);
  const Operand x = call.input({channels_}, options_.layout);
  Tensor y =
      group_norm(x, groups_, call.parameter(weight_), call.parameter(bias_), {.eps = options_.eps});
  return call.done(y, options_.layout, 2 * channels_);
}

BatchNorm::BatchNorm(int64_t channels, BatchNormLayerOptions options, ir::Location location)
    : options_(std::move(options)),
      channels_(checked_count("batch_norm", "channels", channels, location)),
      state_(detail::make_layer_state("batch_norm", options_.name)),
      weight_({channels}, initializers::ones(), "weight", location),
      bias_({channels}, initializers::zeros(), "bias", location),
      mean_(Parameter::state({channels}, initializers::zeros(), "running_mean", location)),
      variance_(Parameter::state({channels}, initializers::ones(), "running_variance", location)) {
  if (!(options_.momentum >= 0 && options_.momentum <= 1))
    throw UserError(location, fmt::format("batch_norm: momentum {}", options_.momentum),
                    "it is the share of a batch in the running statistics, 0 to 1");
}

Tensor BatchNorm::operator()(Operand given) const {
  Call call("batch_norm", state_, given);
  const Operand x = call.input({channels_}, options_.layout);
  const bool trains = call.trace().training && options_.update;
  return call.done(trains ? train(x) : infer(x), options_.layout,
                   options_.weight_and_bias ? 2 * channels_ : 0);
}

Tensor BatchNorm::train(const Operand& x) const {
  const ir::Location location = x.location();
  detail::Trace& trace = detail::Trace::require("batch_norm", location);
  auto operand = [&](const Parameter& parameter) {
    return Operand(trace.parameter(detail_state(parameter, location)), location);
  };
  const BatchNormOptions options{options_.eps};
  BatchNormalized out = options_.weight_and_bias
                            ? batch_norm(x, operand(weight_), operand(bias_), options)
                            : batch_norm(x, options);
  auto at = [&](const Tensor& tensor) { return Operand(tensor, location); };
  auto number = [&](double value) { return Operand(value).at(location); };
  auto update = [&](const Parameter& parameter, Tensor batch) {
    const auto& state = detail_state(parameter, location);
    // Running statistics are no path of a gradient.
    batch = stop_gradient(at(batch));
    if (batch.dtype() != f32) batch = cast(at(batch), f32);
    const Tensor running = trace.state(state);
    Tensor step = mul(at(sub(at(batch), at(running))), number(options_.momentum));
    trace.set_state(state, add(at(running), at(step)), "batch_norm", location);
  };
  update(mean_, out.mean);
  trace.state(detail_state(variance_, location));  // there also where it stays as it is
  const int64_t count = x.type().elements() / channels_;
  if (count > 1)
    update(variance_, mul(at(out.variance),
                          number(static_cast<double>(count) / static_cast<double>(count - 1))));
  return out.y;
}

Tensor BatchNorm::infer(const Operand& x) const {
  const ir::Location location = x.location();
  detail::Trace& trace = detail::Trace::require("batch_norm", location);
  auto operand = [&](const Parameter& parameter) {
    return Operand(trace.parameter(detail_state(parameter, location)), location);
  };
  const Operand mean(trace.state(detail_state(mean_, location)), location);
  const Operand variance(trace.state(detail_state(variance_, location)), location);
  const BatchNormOptions options{options_.eps};
  if (!options_.weight_and_bias) return batch_norm_inference(x, mean, variance, options);
  return batch_norm_inference(x, mean, variance, operand(weight_), operand(bias_), options);
}

}  // namespace mezzo::nn
