// SPDX-License-Identifier: Apache-2.0
// Shape rules of reads through an affine index, convolution, pooling and upsampling.
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>
#include <mezzo/ir/windows.h>

namespace mezzo::ir {

namespace {

constexpr int64_t kLongest = int64_t{1}
                             << 30;  // of a window or an axis, so that no index overflows

/// All operands are of one float type.
void expect_one_float(const InferContext& context) {
  for (size_t i = 0; i < context.operands.size(); ++i) {
    expect_float(context, static_cast<int>(i));
    expect_same_dtype(context, i);
  }
}

/// `of`: behind "axis" or "axes".
void expect_entries(const InferContext& context, const char* name, size_t wanted,
                    const std::string& of) {
  const size_t size = context.ints(name).size();
  if (size != wanted)
    context.fail(std::string(name) + " has " + counted(size, "entry", "entries") + " for " +
                     counted(wanted, "axis" + of, "axes" + of),
                 "give one number for each axis" + of);
}

void expect_operand(const InferContext& context, size_t operand, const Shape& wanted,
                    const std::string& hint) {
  expect_type(context, operand, context.operands[operand].with(wanted), hint);
}

/// [batch, places ..., channels].
void check_places(const InferContext& context, const char* name, const Shape& shape,
                  int most_places) {
  const bool bounded = most_places < kMaxRank - 2;
  if (shape.rank() >= 3 && shape.rank() <= most_places + 2) return;
  context.fail(std::string(name) + " has " + counted(shape.rank(), "axis", "axes") +
                   (bounded ? ", not 3 or " + std::to_string(most_places + 2) : ", not 3 or more"),
               "axes are [batch, places ..., channels]; reshape adds one");
}

/// Windows of those sizes along the axes of places of `x`; each must fit once at least.
std::vector<WindowAxis> check_windows(const InferContext& context, const Shape& x,
                                      std::span<const int64_t> windows) {
  const std::span<const int64_t> lengths = places_of(x);
  for (const char* name : {"strides", "low", "high"})
    expect_entries(context, name, lengths.size(), " of places");
  if (op_info(context.kind).attribute("dilations"))
    expect_entries(context, "dilations", lengths.size(), " of places");
  for (size_t i = 0; i < lengths.size(); ++i)
    if (windows[i] < 1 || windows[i] > kLongest || lengths[i] > kLongest)
      context.fail("a window of " + counted(windows[i], "element") + " along an axis of length " +
                       std::to_string(lengths[i]) + " is out of range",
                   "windows have 1 to 2^30 elements, axes as many at most");
  std::vector<WindowAxis> axes = window_axes(context.attrs, lengths, windows);
  for (size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& axis = axes[i];
    if (axis.places() > 0) continue;
    context.fail("a window of reach " + std::to_string(axis.reach()) + " does not fit axis " +
                     std::to_string(i + 1) + " of length " + std::to_string(axis.length) +
                     " with padding " + std::to_string(axis.low) + " and " +
                     std::to_string(axis.high),
                 "pad that axis more, or take a smaller window or dilation");
  }
  return axes;
}

Type product_type(const InferContext& context, const Shape& shape) {
  const DType own = context.operands[0].dtype, wide = own == DType::F64 ? DType::F64 : DType::F32;
  const DType given = context.declared.empty() ? own : context.declared[0].dtype;
  if (given != own && given != wide)
    context.fail(std::string("gives ") + to_string(own) + " or " + to_string(wide) + ", not " +
                     to_string(given),
                 "cast the result");
  return Type(given, shape);
}

Shape shape_attribute(const InferContext& context) {
  const std::vector<int64_t> dims = context.ints("shape");
  return Shape(std::span<const int64_t>(dims));
}

/// The shape of the convolution of these operands.
Shape check_conv(const InferContext& context, const Shape& x, const Shape& weight) {
  expect_one_float(context);
  check_places(context, "x", x, 2);
  if (weight.rank() != x.rank())
    context.fail("weight has " + counted(weight.rank(), "axis", "axes") + ", x has " +
                     std::to_string(x.rank()),
                 "axes of weights are [out, window ..., in / groups]");
  const int64_t groups = attr_or_default(context.kind, context.attrs, "groups").as<int64_t>();
  const int64_t in = x[x.rank() - 1], out = weight[0], read = weight[weight.rank() - 1];
  if (in % groups != 0 || out % groups != 0)
    context.fail(std::to_string(in) + " channels of x and " + std::to_string(out) +
                     " of the result do not divide into " + counted(groups, "group"),
                 "the number of groups must divide both");
  if (in / groups != read)
    context.fail("x has " + counted(in, "channel") + ", " + std::to_string(in / groups) +
                     " a group, weight reads " + std::to_string(read),
                 "the last axis of x is that of channels, the last of weights [out, window ..., in "
                 "/ groups]");
  return windowed_shape(x[0], check_windows(context, x, places_of(weight)), out);
}

void check_strides_of_remap(const InferContext& context, int result_rank) {
  const int rank = context.operands[0].rank();
  for (const char* name : {"axes", "multiples", "offsets", "divisors"})
    expect_entries(context, name, static_cast<size_t>(rank), " of x");
  for (const char* name : {"minor_axes", "minor_multiples"})
    if (context.attrs.has("minor_axes") || context.attrs.has("minor_multiples"))
      expect_entries(context, name, static_cast<size_t>(rank), " of x");
  std::vector<bool> read(static_cast<size_t>(result_rank), false);
  auto use = [&](int64_t axis) {
    if (axis == -1) return;
    if (axis < -1 || axis >= result_rank)
      context.fail("axis " + std::to_string(axis) + " is out of range for a result of rank " +
                       std::to_string(result_rank),
                   "-1 stands for no axis");
    if (read[static_cast<size_t>(axis)])
      context.fail("axis " + std::to_string(axis) + " of the result is read twice",
                   "each axis of the result moves along one axis of x");
    read[static_cast<size_t>(axis)] = true;
  };
  for (int64_t axis : context.ints("axes")) use(axis);
  for (int64_t axis : context.ints("minor_axes")) use(axis);
  const std::vector<int64_t> axes = context.ints("axes"), multiples = context.ints("multiples"),
                             minor = context.ints("minor_axes");
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] >= 0 && multiples[i] == 0)
      context.fail("multiple 0 of axis " + std::to_string(axes[i]) + " of the result",
                   "an axis of x that stays at its offset has axis -1");
  if (!context.attrs.get_bool("clamp")) return;
  for (int64_t axis : minor)
    if (axis >= 0)
      context.fail("clamps an index of two axes of the result",
                   "without clamp an index outside of x reads the filling");
}

}  // namespace

std::vector<Type> infer_remap(const InferContext& context) {
  const Type& x = context.operands[0];
  const Shape shape = shape_attribute(context);
  check_strides_of_remap(context, shape.rank());
  for (const Shape& each : {x.shape, shape})
    for (int64_t length : each)
      if (length > kLongest)
        context.fail("an axis of length " + std::to_string(length) + " is longer than 2^30",
                     "cut the axis into parts");
  if (context.attrs.get_bool("clamp") && x.elements() == 0 && shape.elements() > 0)
    context.fail("clamps to a tensor of no elements",
                 "without clamp an index outside of x reads the filling");
  if (context.attrs.get_bool("lowest") && !is_float(x.dtype))
    context.fail(std::string("fills with -inf, which ") + to_string(x.dtype) + " has not",
                 "lowest is for float types");
  return {x.with(shape)};
}

std::vector<Type> infer_conv(const InferContext& context) {
  return {product_type(context,
                       check_conv(context, context.operands[0].shape, context.operands[1].shape))};
}

std::vector<Type> infer_conv_grad_input(const InferContext& context) {
  const Shape x = shape_attribute(context);
  expect_operand(
      context, 0, check_conv(context, x, context.operands[1].shape),
      "dy has the shape of the convolution of x, whose shape is the attribute, by weight");
  return {product_type(context, x)};
}

std::vector<Type> infer_conv_grad_weight(const InferContext& context) {
  const Shape weight = shape_attribute(context);
  expect_operand(
      context, 1, check_conv(context, context.operands[0].shape, weight),
      "dy has the shape of the convolution of x by weight, whose shape is the attribute");
  return {product_type(context, weight)};
}

namespace {

Shape check_pool(const InferContext& context, const Shape& x) {
  expect_one_float(context);
  check_places(context, "x", x, kMaxRank - 2);
  expect_entries(context, "window", places_of(x).size(), " of places");
  const std::vector<int64_t> windows = context.ints("window");
  const std::vector<WindowAxis> axes = check_windows(context, x, windows);
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].low >= axes[i].reach() || axes[i].high >= axes[i].reach())
      context.fail("padding " + std::to_string(axes[i].low) + " and " +
                       std::to_string(axes[i].high) + " of axis " + std::to_string(i + 1) +
                       " is not less than the reach " + std::to_string(axes[i].reach()) +
                       " of its window",
                   "a window must not lie in the padding alone");
  return windowed_shape(x[0], axes, x[x.rank() - 1]);
}

}  // namespace

std::vector<Type> infer_pool(const InferContext& context) {
  return {context.operands[0].with(check_pool(context, context.operands[0].shape))};
}

std::vector<Type> infer_max_pool_grad(const InferContext& context) {
  const Shape pooled = check_pool(context, context.operands[0].shape);
  for (size_t i : {1, 2}) expect_operand(context, i, pooled, "y and dy have the pooled shape of x");
  return {context.operands[0]};
}

std::vector<Type> infer_avg_pool_grad(const InferContext& context) {
  const Shape x = shape_attribute(context);
  expect_operand(context, 0, check_pool(context, x),
                 "dy has the pooled shape of x, whose shape is the attribute");
  return {context.operands[0].with(x)};
}

namespace {

/// x or dx with the lengths of the attribute along the axes of places.
std::vector<Type> resized(const InferContext& context) {
  const Type& type = context.operands[0];
  expect_one_float(context);
  check_places(context, op_info(context.kind).operands[0].c_str(), type.shape, kMaxRank - 2);
  expect_entries(context, "size", places_of(type.shape).size(), " of places");
  const std::vector<int64_t> size = context.ints("size");
  Shape shape = type.shape;
  for (size_t i = 0; i < size.size(); ++i) {
    const int axis = static_cast<int>(i) + 1;
    if (shape[axis] == 0 || shape[axis] > kLongest)
      context.fail("axis " + std::to_string(axis) + " of length " + std::to_string(shape[axis]) +
                       " cannot become " + std::to_string(size[i]),
                   "axes of places have 1 to 2^30 elements");
    shape = shape.with(axis, size[i]);
  }
  return {type.with(shape)};
}

}  // namespace

std::vector<Type> infer_upsample(const InferContext& context) { return resized(context); }
std::vector<Type> infer_upsample_grad(const InferContext& context) { return resized(context); }

}  // namespace mezzo::ir
