// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/windows.h>

#include <mezzo/dsl/ops.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/sizes.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo {

using detail::Trace;
using ir::Attr;
using ir::Attrs;
using ir::OpKind;
using ir::Value;

namespace {

/// The op of that name being made of `x`, for errors.
struct Call {
  const char* name;
  const Operand& x;

  [[noreturn]] void fail(const std::string& message, const std::string& hint) const {
    throw UserError(x.location(), fmt::format("{}: {} (x {})", name, message, to_string(x.type())),
                    hint);
  }
  /// Throws where x is no tensor of `rank` axes, or of 3 or more for rank 0.
  int places(int rank) const {
    if (!x.is_tensor())
      throw UserError(x.location(), fmt::format("{}: takes a tensor, not a number", name),
                      "axes are [batch, places ..., channels]");
    if (rank != 0 ? x.rank() != rank : x.rank() < 3)
      fail(fmt::format("x has {}, not {}", ir::counted(x.rank(), "axis", "axes"),
                       rank != 0 ? std::to_string(rank) : "3 or more"),
           rank == 3   ? "axes are [batch, length, channels]; reshape adds one"
           : rank == 4 ? "axes are [batch, height, width, channels]; reshape adds one"
                       : "axes are [batch, places ..., channels]; reshape adds one");
    return x.rank() - 2;
  }
  /// One number for each axis.
  Dims each(const char* what, const Dims& given, int count, const Dims& otherwise) const {
    const Dims& used = given.empty() ? otherwise : given;
    if (used.size() == 1) return std::vector<int64_t>(static_cast<size_t>(count), used[0]);
    if (used.size() != static_cast<size_t>(count))
      fail(fmt::format("{} has {} for {}", what, ir::counted(used.size(), "number"),
                       ir::counted(count, "axis of places", "axes of places")),
           "give one number for each axis of places, or one for all");
    return used;
  }
};

Tensor to_channels_last(const Operand& x, Layout layout) {
  if (layout == Layout::channels_last || x.rank() < 3) return x.tensor();
  Axes perm{0};
  for (int i = 2; i < x.rank(); ++i) perm.push_back(i);
  perm.push_back(1);
  return transpose(x, perm);
}

Tensor to_layout(const Tensor& y, Layout layout, ir::Location location) {
  if (layout == Layout::channels_last) return y;
  Axes perm{0, y.rank() - 1};
  for (int i = 1; i + 1 < y.rank(); ++i) perm.push_back(i);
  return transpose(Operand(y, location), perm);
}

/// Attributes strides, low, high and dilations of windows along the places of x, channels last.
Attrs window_attrs(const Call& call, const Dims& window, const Dims& strides, const Dims& dilations,
                   const Padding& padding) {
  const int count = static_cast<int>(window.size());
  Dims low = call.each("padding", padding.low(), count, {0}),
       high = call.each("padding", padding.high(), count, {0});
  for (int i = 0; i < count && padding.is_same(); ++i) {
    const auto axis = static_cast<size_t>(i);
    constexpr int64_t kLongest = int64_t{1} << 30;
    if (strides[axis] < 1 || strides[axis] > kLongest)
      call.fail(fmt::format("stride {} of axis {}", strides[axis], i + 1),
                "strides are 1 or more, 2^30 at most");
    const int64_t length = call.x.shape()[i + 1], places = ir::ceil_div(length, strides[axis]);
    const int64_t reach_less_one =
        ir::saturated_product(dilations[axis], ir::saturated_difference(window[axis], 1));
    const int64_t missing = std::max<int64_t>(
        0, ir::saturated_sum((places - 1) * strides[axis] + 1 - length, reach_less_one));
    low[axis] = missing / 2;
    high[axis] = missing - missing / 2;
  }
  return {{"strides", Attr(strides)},
          {"low", Attr(low)},
          {"high", Attr(high)},
          {"dilations", Attr(dilations)}};
}

Tensor conv(const char* name, int rank, const Operand& given, const Operand& given_weight,
            const ConvOptions& options) {
  const ir::Location location = given.location();
  Trace& trace = Trace::require(name, location);
  const Call outer{name, given};
  const int count = outer.places(rank);
  const Operand x(to_channels_last(given, options.layout), location);
  const Operand weight(to_channels_last(given_weight, options.layout), location);
  const Call call{name, x};
  if (weight.rank() != rank)
    call.fail(fmt::format("weight {} has {}, not {}", to_string(weight.type()),
                          ir::counted(weight.rank(), "axis", "axes"), rank),
              "axes of weights are [out, window ..., in / groups]");
  Dims window;
  for (int i = 1; i <= count; ++i) window.push_back(weight.shape()[i]);
  Attrs attrs = window_attrs(call, window, call.each("stride", options.stride, count, {1}),
                             call.each("dilation", options.dilation, count, {1}), options.padding);
  attrs.set("groups", options.groups);
  std::vector<Value> values = detail::promote(trace, OpKind::Conv, std::vector<Operand>{x, weight});
  Tensor y = trace.tensor(trace.create(OpKind::Conv, values, std::move(attrs), location)->result());
  return to_layout(y, options.layout, location);
}

Tensor pool(OpKind kind, const Operand& given, const PoolOptions& options) {
  const ir::Location location = given.location();
  const char* name = ir::to_string(kind);
  Trace& trace = Trace::require(name, location);
  const int count = Call{name, given}.places(0);
  const Operand x(to_channels_last(given, options.layout), location);
  const Call call{name, x};
  const Dims window = call.each("window", options.window, count, {2});
  const bool average = kind == OpKind::AvgPool;
  const Dims dilations = call.each("dilation", average ? Dims{} : options.dilation, count, {1});
  if (average && !options.dilation.empty()) call.fail("takes no dilation", "max_pool does");
  Attrs attrs = window_attrs(call, window, call.each("stride", options.stride, count, window),
                             dilations, options.padding);
  attrs.set("window", Attr(window));
  if (average) {
    attrs.erase("dilations");
    attrs.set("count_include_pad", options.count_include_pad);
  }
  Value value = detail::single(trace, kind, x);
  return to_layout(trace.tensor(trace.make(kind, {value}, std::move(attrs), location)),
                   options.layout, location);
}

Tensor upsample(OpKind kind, const char* name, int rank, const Operand& given, const Dims& size,
                const UpsampleOptions& options) {
  const ir::Location location = given.location();
  Trace& trace = Trace::require(name, location);
  const int count = Call{name, given}.places(rank);
  const Operand x(to_channels_last(given, options.layout), location);
  const Call call{name, x};
  if (size.size() != static_cast<size_t>(count))
    call.fail(fmt::format("size has {} for {}", ir::counted(size.size(), "number"),
                          ir::counted(count, "axis of places", "axes of places")),
              "give the new length of each axis of places");
  Attrs attrs{{"size", Attr(size)}};
  if (kind == OpKind::UpsampleLinear) attrs.set("align_corners", options.align_corners);
  Value value = detail::single(trace, kind, x);
  return to_layout(trace.tensor(trace.make(kind, {value}, std::move(attrs), location)),
                   options.layout, location);
}

/// The axes of places.
Axes all_places(const char* name, const Operand& x, Layout layout) {
  const int count = Call{name, x}.places(0);
  Axes axes;
  for (int i = 0; i < count; ++i) axes.push_back(i + (layout == Layout::channels_last ? 1 : 2));
  return axes;
}

}  // namespace

Tensor conv1d(Operand x, Operand weight, ConvOptions options) {
  return conv("conv1d", 3, x, weight, options);
}
Tensor conv2d(Operand x, Operand weight, ConvOptions options) {
  return conv("conv2d", 4, x, weight, options);
}

Tensor max_pool(Operand x, PoolOptions options) { return pool(OpKind::MaxPool, x, options); }
Tensor avg_pool(Operand x, PoolOptions options) { return pool(OpKind::AvgPool, x, options); }
Tensor global_max_pool(Operand x, Layout layout) {
  return max(x, all_places("global_max_pool", x, layout));
}
Tensor global_avg_pool(Operand x, Layout layout) {
  return mean(x, all_places("global_avg_pool", x, layout));
}

Tensor upsample_nearest(Operand x, Dims size, UpsampleOptions options) {
  return upsample(OpKind::UpsampleNearest, "upsample_nearest", 0, x, size, options);
}
Tensor upsample_linear(Operand x, Dims size, UpsampleOptions options) {
  return upsample(OpKind::UpsampleLinear, "upsample_linear", 3, x, size, options);
}
Tensor upsample_bilinear(Operand x, Dims size, UpsampleOptions options) {
  return upsample(OpKind::UpsampleLinear, "upsample_bilinear", 4, x, size, options);
}

}  // namespace mezzo
