// SPDX-License-Identifier: Apache-2.0
// Shape rules of normalisations and their gradients.
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>

#include <fmt/format.h>

#include <cmath>

namespace mezzo::ir {

namespace {

/// x of a float type with at least `rank` axes, and an eps that can stand under a root.
const Type& check_x(const InferContext& context, int rank, const char* axes) {
  const Type& x = context.operands[0];
  expect_float(context, 0);
  if (x.rank() < rank)
    context.fail(
        "x has " + counted(x.rank(), "axis", "axes") + ", not " + std::to_string(rank) + " or more",
        axes);
  const double eps = context.number("eps");
  if (!(eps >= 0 && std::isfinite(eps)))
    context.fail(fmt::format("eps must be a finite number from 0 on, not {:g}", eps));
  return x;
}

/// Operands from number `first` on are of type `wanted`: weight and bias.
void check_parameters(const InferContext& context, size_t first, const Type& wanted,
                      const std::string& hint) {
  for (size_t i = first; i < context.operands.size(); ++i) expect_type(context, i, wanted, hint);
}

/// The operand's cotangent has its type.
void check_cotangent(const InferContext& context) {
  expect_type(context, 1, context.operands[0], "the gradient of a normalisation has the type of x");
}

/// dx alone, or with gradients of `count` parameters of type `parameter` where a weight is given.
std::vector<Type> gradients(const InferContext& context, size_t weight, const Type& parameter,
                            size_t count) {
  std::vector<Type> types{context.operands[0]};
  if (context.operands.size() > weight) types.insert(types.end(), count, parameter);
  return types;
}

/// Of a gradient that computes the statistics anew: x, dy and perhaps a weight.
std::vector<Type> recomputed_gradients(const InferContext& context, const Type& parameter,
                                       const char* hint, size_t count) {
  check_cotangent(context);
  check_parameters(context, 2, parameter, hint);
  return gradients(context, 2, parameter, count);
}

constexpr const char* kChannels = "the last axis is the axis of channels";

Type layer_parameter(const InferContext& context) {
  const Type& x = check_x(context, 1, "the last axes are normalised");
  const int64_t axis = context.attrs.get_int("axis");
  if (axis >= x.rank())
    context.fail(
        "axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(x.rank()),
        "axis is the first of the axes that are normalised, up to the last one");
  return x.with(Shape(x.shape.dims().subspan(static_cast<size_t>(axis))));
}

Type channel_parameter(const InferContext& context) {
  const Type& x = context.operands[0];
  return x.with(Shape{x.shape[x.rank() - 1]});
}

Type group_parameter(const InferContext& context) {
  const Type& x = check_x(context, 2, "samples along the first axis, channels along the last");
  const int64_t channels = x.shape[x.rank() - 1], groups = context.attrs.get_int("groups");
  if (channels % groups != 0)
    context.fail(counted(channels, "channel does", "channels do") + " not divide into " +
                     counted(groups, "group"),
                 "the number of groups must divide the number of channels, the last axis");
  return channel_parameter(context);
}

/// The type of statistics of x: f32 for 16-bit types too.
Type statistic(const InferContext& context) {
  const Type channel = channel_parameter(context);
  return is_16bit(channel.dtype) ? channel.with(DType::F32) : channel;
}

constexpr const char* kLayerHint = "weight and bias have the shape of the axes that are normalised";
constexpr const char* kChannelHint =
    "there is one weight and one bias for each channel, the last axis";
constexpr const char* kStatisticHint =
    "statistics are one for each channel, the last axis, and f32 also for 16-bit types";

}  // namespace

std::vector<Type> infer_layer_norm(const InferContext& context) {
  check_parameters(context, 1, layer_parameter(context), kLayerHint);
  return {context.operands[0]};
}

std::vector<Type> infer_layer_norm_grad(const InferContext& context) {
  return recomputed_gradients(context, layer_parameter(context), kLayerHint, 2);
}

std::vector<Type> infer_rms_norm(const InferContext& context) { return infer_layer_norm(context); }

std::vector<Type> infer_rms_norm_grad(const InferContext& context) {
  return recomputed_gradients(context, layer_parameter(context), kLayerHint, 1);
}

std::vector<Type> infer_group_norm(const InferContext& context) {
  check_parameters(context, 1, group_parameter(context), kChannelHint);
  return {context.operands[0]};
}

std::vector<Type> infer_group_norm_grad(const InferContext& context) {
  return recomputed_gradients(context, group_parameter(context), kChannelHint, 2);
}

std::vector<Type> infer_batch_norm(const InferContext& context) {
  const Type& x = check_x(context, 2, kChannels);
  check_parameters(context, 1, channel_parameter(context), kChannelHint);
  const Type each = statistic(context);
  return {x, each, each, each};
}

std::vector<Type> infer_batch_norm_grad(const InferContext& context) {
  check_x(context, 2, kChannels);
  check_cotangent(context);
  for (size_t i : {2, 3, 4}) expect_type(context, i, statistic(context), kStatisticHint);
  check_parameters(context, 5, channel_parameter(context), kChannelHint);
  return gradients(context, 5, channel_parameter(context), 2);
}

std::vector<Type> infer_batch_norm_inference(const InferContext& context) {
  check_x(context, 1, kChannels);
  for (size_t i : {1, 2}) expect_type(context, i, statistic(context), kStatisticHint);
  check_parameters(context, 3, channel_parameter(context), kChannelHint);
  return {context.operands[0]};
}

}  // namespace mezzo::ir
