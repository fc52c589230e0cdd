// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/nn_windows.h>

#include <mezzo/dsl/layer_scope.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <cmath>

namespace mezzo::nn {

namespace detail_conv {

namespace {

/// [out, window ..., in / groups]; throws where that is no shape.
Dims weight_shape(const char* kind, int places, int64_t in, int64_t out, const Dims& window,
                  int64_t groups, ir::Location location) {
  Dims shape{out};
  const bool one = window.size() == 1;
  if (!one && window.size() != static_cast<size_t>(places))
    throw UserError(location,
                    fmt::format("{}: a window of {}", kind, ir::counted(window.size(), "number")),
                    "give one number for each axis of places, or one for all");
  for (int i = 0; i < places; ++i) shape.push_back(window[one ? 0 : static_cast<size_t>(i)]);
  for (int64_t length : shape)
    if (length < 1)
      throw UserError(location,
                      fmt::format("{} {} -> {}: {} is not positive", kind, in, out, length),
                      "channels and windows are 1 or more");
  if (in < 1 || groups < 1 || in % groups != 0 || out % groups != 0)
    throw UserError(location,
                    fmt::format("{} {} -> {}: {} do not divide both", kind, in, out,
                                ir::counted(groups, "group")),
                    "the number of groups must divide the channels of x and of the result");
  shape.push_back(in / groups);
  return shape;
}

/// A weight of a window reads in / groups channels, and out / groups results read a channel.
Initializer of_window(Initializer initializer, const Dims& shape, int64_t groups) {
  if (initializer.fan == Initializer::Fan::None) return initializer;
  double taps = 1;
  for (size_t i = 1; i + 1 < shape.size(); ++i) taps *= static_cast<double>(shape[i]);
  const double in = taps * static_cast<double>(shape.back());
  const double out = taps * static_cast<double>(shape[0] / groups);
  const double fan = initializer.fan == Initializer::Fan::In ? in : (in + out) / 2;
  double deviation = std::sqrt(initializer.scale / fan);
  if (initializer.kind == Initializer::Kind::Uniform) deviation *= std::sqrt(3.0);
  return {initializer.kind, Initializer::Fan::None, deviation};
}

}  // namespace

Layer::Layer(const char* kind, int places, int64_t in, int64_t out, const Dims& window,
             ConvLayerOptions options, ir::Location location)
    : kind_(kind),
      places_(places),
      in_(in),
      out_(out),
      options_(std::move(options)),
      state_(detail::make_layer_state(kind, options_.name)),
      weight_(weight_shape(kind, places, in, out, window, options_.groups, location),
              of_window(options_.initializer,
                        weight_shape(kind, places, in, out, window, options_.groups, location),
                        options_.groups),
              "weight", location),
      bias_({out}, initializers::zeros(), "bias", location) {}

Tensor Layer::call(const Operand& x) const {
  if (!state_)
    throw UserError(x.location(), std::string(kind_) + ": the layer was moved from",
                    "use the layer that it was moved to; a copy shares its parameters");
  detail::Trace& trace = detail::Trace::require(kind_, x.location());
  detail::LayerScope scope(trace, state_, x.location());
  const bool first = options_.layout == Layout::channels_first;
  const bool fits =
      x.is_tensor() && x.rank() == places_ + 2 && x.shape()[first ? 1 : x.rank() - 1] == in_;
  if (!fits)
    throw UserError(x.location(),
                    fmt::format("{} '{}': takes {} axes with {}, {}", kind_, trace.scope(),
                                places_ + 2, ir::counted(in_, "channel"),
                                x.is_tensor() ? "but x is " + to_string(x.type()) : "not a number"),
                    first ? "axes are [batch, channels, places ...]"
                          : "axes are [batch, places ..., channels]");
  auto operand = [&](const Parameter& parameter) {
    return Operand(trace.parameter(detail_state(parameter, x.location())), x.location());
  };
  // The weight's layout is that of channels last: only x and y are transposed.
  Axes to_last{0}, back{0, places_ + 1};
  for (int i = 0; i < places_; ++i) {
    to_last.push_back(i + 2);
    back.push_back(i + 1);
  }
  to_last.push_back(1);
  const Operand last = first ? Operand(transpose(x, to_last), x.location()) : x;
  const ConvOptions options{.stride = options_.stride,
                            .padding = options_.padding,
                            .dilation = options_.dilation,
                            .groups = options_.groups};
  Tensor y = places_ == 1 ? conv1d(last, operand(weight_), options)
                          : conv2d(last, operand(weight_), options);
  if (options_.bias) y = add(Operand(y, x.location()), operand(bias_));
  if (first) y = transpose(Operand(y, x.location()), back);
  trace.layer_calls.push_back({trace.scope(), fmt::format("{} {} -> {}", kind_, in_, out_),
                               x.type(), y.type(),
                               weight_.shape().elements() + (options_.bias ? out_ : 0),
                               x.location(), trace.policies.empty() ? "" : trace.policies.back()});
  return y;
}

}  // namespace detail_conv

Tensor Flatten::operator()(Operand x) const {
  if (!x.is_tensor() || x.rank() < 1)
    throw UserError(x.location(), "flatten: takes a tensor with an axis of samples",
                    "the first axis stays, all others become one");
  const int64_t samples = x.shape()[0];
  const int64_t each = samples == 0 ? 0 : x.type().elements() / samples;
  return reshape(x, {samples, each});
}

}  // namespace mezzo::nn
