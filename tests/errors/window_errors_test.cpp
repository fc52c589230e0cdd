// SPDX-License-Identifier: Apache-2.0
// The texts of the shape rules of normalisations, convolution, pooling, upsampling and remap.
#include <mezzo/ir/shape_rules.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

namespace mezzo::test {

namespace {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using Dims = std::vector<int64_t>;

/// Message and hint of the error of an op on f32 tensors.
std::string error_with(OpKind kind, const std::vector<Shape>& shapes, const Attrs& attrs) {
  std::vector<Type> types;
  for (const Shape& shape : shapes) types.emplace_back(DType::F32, shape);
  try {
    ir::infer_types({kind, types, attrs, {}, nullptr, {}});
  } catch (const UserError& error) {
    return error.message() + " | " + error.hint();
  }
  return "no error";
}

std::string error_of_types(OpKind kind, const std::vector<Type>& types, const Attrs& attrs) {
  try {
    ir::infer_types({kind, types, attrs, {}, nullptr, {}});
  } catch (const UserError& error) {
    return error.message() + " | " + error.hint();
  }
  return "no error";
}

Attrs windows(Dims strides, Dims low, Dims high) {
  return {{"strides", Attr(strides)}, {"low", Attr(low)}, {"high", Attr(high)}};
}

Attrs conv(int64_t groups = 1, Dims low = {0}) {
  Attrs attrs = windows({1}, low, {0});
  attrs.set("dilations", Attr(Dims{1}));
  attrs.set("groups", groups);
  return attrs;
}

Attrs pool(Dims window, Dims low) {
  Attrs attrs = windows(Dims(window.size(), 1), low, Dims(low.size(), 0));
  attrs.set("window", Attr(window));
  attrs.set("dilations", Attr(Dims(window.size(), 1)));
  return attrs;
}

Attrs remap(Dims shape, Dims axes, Dims multiples) {
  return {{"shape", Attr(shape)},
          {"axes", Attr(axes)},
          {"multiples", Attr(multiples)},
          {"offsets", Attr(Dims(axes.size(), 0))},
          {"divisors", Attr(Dims(axes.size(), 1))}};
}

Attrs with(Attrs attrs, const char* name, Attr value) {
  attrs.set(name, std::move(value));
  return attrs;
}

}  // namespace

TEST_CASE("normalisations say what does not fit") {
  CHECK(error_with(OpKind::LayerNorm, {{2, 3}, {4}}, {{"axis", 1}}) ==
        "layer_norm: weight must be tensor<3xf32>, not tensor<4xf32> (x tensor<2x3xf32>, weight "
        "tensor<4xf32>) | weight and bias have the shape of the axes that are normalised");
  CHECK(error_with(OpKind::LayerNorm, {{2, 3}}, {{"axis", 2}}) ==
        "layer_norm: axis 2 is out of range for rank 2 (x tensor<2x3xf32>) | axis is the first of "
        "the axes that are normalised, up to the last one");
  CHECK(error_with(OpKind::RmsNorm, {Shape{}}, {{"axis", 0}}) ==
        "rms_norm: x has 0 axes, not 1 or more (x tensor<f32>) | the last axes are normalised");
  CHECK(error_with(OpKind::RmsNorm, {{3}}, {{"axis", 0}, {"eps", -1.0}}) ==
        "rms_norm: eps must be a finite number from 0 on, not -1 (x tensor<3xf32>) | ");
  CHECK(error_of_types(OpKind::LayerNorm, {Type(DType::I32, {3})}, {{"axis", 0}}) ==
        "layer_norm: takes a float type, not i32 (x tensor<3xi32>) | cast it to f32 first");
  CHECK(error_with(OpKind::LayerNormGrad, {{2, 3}, {3, 2}}, {{"axis", 1}}) ==
        "layer_norm_grad: dy must be tensor<2x3xf32>, not tensor<3x2xf32> (x tensor<2x3xf32>, dy "
        "tensor<3x2xf32>) | the gradient of a normalisation has the type of x");
  CHECK(error_with(OpKind::GroupNorm, {{2, 6}}, {{"groups", 4}}) ==
        "group_norm: 6 channels do not divide into 4 groups (x tensor<2x6xf32>) | the number of "
        "groups must divide the number of channels, the last axis");
  CHECK(error_with(OpKind::GroupNorm, {{6}}, {{"groups", 2}}) ==
        "group_norm: x has 1 axis, not 2 or more (x tensor<6xf32>) | samples along the first axis, "
        "channels along the last");
  CHECK(error_with(OpKind::BatchNorm, {{2, 3}, {2}}, {}) ==
        "batch_norm: weight must be tensor<3xf32>, not tensor<2xf32> (x tensor<2x3xf32>, weight "
        "tensor<2xf32>) | there is one weight and one bias for each channel, the last axis");
  CHECK(error_of_types(OpKind::BatchNormInference,
                       {Type(DType::F16, {2, 3}), Type(DType::F16, {3}), Type(DType::F16, {3})},
                       {}) ==
        "batch_norm_inference: mean must be tensor<3xf32>, not tensor<3xf16> (x tensor<2x3xf16>, "
        "mean tensor<3xf16>, variance tensor<3xf16>) | statistics are one for each channel, the "
        "last axis, and f32 also for 16-bit types");
}

TEST_CASE("convolutions say what does not fit") {
  CHECK(error_with(OpKind::Conv, {{1, 5, 6}, {2, 3, 4}}, conv()) ==
        "conv: x has 6 channels, 6 a group, weight reads 4 (x tensor<1x5x6xf32>, weight "
        "tensor<2x3x4xf32>) | the last axis of x is that of channels, the last of weights [out, "
        "window ..., in / groups]");
  CHECK(error_with(OpKind::Conv, {{1, 5, 6}, {2, 3, 3}}, conv(4)) ==
        "conv: 6 channels of x and 2 of the result do not divide into 4 groups (x "
        "tensor<1x5x6xf32>, weight tensor<2x3x3xf32>) | the number of groups must divide both");
  CHECK(error_with(OpKind::Conv, {{1, 2, 6}, {2, 5, 6}}, conv(1, {1})) ==
        "conv: a window of reach 5 does not fit axis 1 of length 2 with padding 1 and 0 (x "
        "tensor<1x2x6xf32>, weight tensor<2x5x6xf32>) | pad that axis more, or take a smaller "
        "window or dilation");
  CHECK(error_with(OpKind::Conv, {{5, 6}, {2, 6}}, conv()) ==
        "conv: x has 2 axes, not 3 or 4 (x tensor<5x6xf32>, weight tensor<2x6xf32>) | axes are "
        "[batch, places ..., channels]; reshape adds one");
  CHECK(error_with(OpKind::Conv, {{1, 5, 6}, {2, 3, 3, 6}}, conv()) ==
        "conv: weight has 4 axes, x has 3 (x tensor<1x5x6xf32>, weight tensor<2x3x3x6xf32>) | axes "
        "of weights are [out, window ..., in / groups]");
  CHECK(error_with(OpKind::Conv, {{1, 5, 5, 6}, {2, 3, 3, 6}}, conv()) ==
        "conv: strides has 1 entry for 2 axes of places (x tensor<1x5x5x6xf32>, weight "
        "tensor<2x3x3x6xf32>) | give one number for each axis of places");
  CHECK(error_of_types(OpKind::Conv, {Type(DType::F32, {1, 5, 6}), Type(DType::F16, {2, 3, 6})},
                       conv()) ==
        "conv: element types differ, f32 and f16 (x tensor<1x5x6xf32>, weight tensor<2x3x6xf16>) | "
        "only `cast` changes an element type");
  CHECK(error_with(OpKind::ConvGradInput, {{1, 4, 2}, {2, 3, 6}},
                   with(conv(), "shape", Attr(Dims{1, 5, 6}))) ==
        "conv_grad_input: dy must be tensor<1x3x2xf32>, not tensor<1x4x2xf32> (dy "
        "tensor<1x4x2xf32>, weight tensor<2x3x6xf32>) | dy has the shape of the convolution of x, "
        "whose shape is the attribute, by weight");
  CHECK(error_with(OpKind::ConvGradWeight, {{1, 5, 6}, {1, 4, 2}},
                   with(conv(), "shape", Attr(Dims{2, 3, 6}))) ==
        "conv_grad_weight: dy must be tensor<1x3x2xf32>, not tensor<1x4x2xf32> (x "
        "tensor<1x5x6xf32>, dy tensor<1x4x2xf32>) | dy has the shape of the convolution of x by "
        "weight, whose shape is the attribute");
}

TEST_CASE("pooling and upsampling say what does not fit") {
  CHECK(error_with(OpKind::MaxPool, {{1, 5, 6}}, pool({2}, {2})) ==
        "max_pool: padding 2 and 0 of axis 1 is not less than the reach 2 of its window (x "
        "tensor<1x5x6xf32>) | a window must not lie in the padding alone");
  CHECK(error_with(OpKind::MaxPool, {{1, 5, 6}}, pool({7}, {0})) ==
        "max_pool: a window of reach 7 does not fit axis 1 of length 5 with padding 0 and 0 (x "
        "tensor<1x5x6xf32>) | pad that axis more, or take a smaller window or dilation");
  CHECK(error_with(OpKind::MaxPool, {{5, 6}}, pool({2}, {0})) ==
        "max_pool: x has 2 axes, not 3 or more (x tensor<5x6xf32>) | axes are [batch, places ..., "
        "channels]; reshape adds one");
  CHECK(error_with(OpKind::MaxPoolGrad, {{1, 5, 1}, {1, 5, 1}, {1, 4, 1}}, pool({2}, {0})) ==
        "max_pool_grad: y must be tensor<1x4x1xf32>, not tensor<1x5x1xf32> (x tensor<1x5x1xf32>, y "
        "tensor<1x5x1xf32>, dy tensor<1x4x1xf32>) | y and dy have the pooled shape of x");
  CHECK(error_with(OpKind::UpsampleNearest, {{1, 5, 5, 6}}, {{"size", Attr(Dims{4})}}) ==
        "upsample_nearest: size has 1 entry for 2 axes of places (x tensor<1x5x5x6xf32>) | give "
        "one number for each axis of places");
  CHECK(
      error_with(OpKind::UpsampleLinear, {{1, 0, 6}}, {{"size", Attr(Dims{4})}}) ==
      "upsample_linear: axis 1 of length 0 cannot become 4 (x tensor<1x0x6xf32>) | axes of places "
      "have 1 to 2^30 elements");
}

TEST_CASE("remap says what does not fit") {
  CHECK(error_with(OpKind::Remap, {{4, 5}}, remap({4, 5}, {0}, {1})) ==
        "remap: axes has 1 entry for 2 axes of x (x tensor<4x5xf32>) | give one number for each "
        "axis of x");
  CHECK(error_with(OpKind::Remap, {{4, 5}}, remap({4, 5}, {0, 2}, {1, 1})) ==
        "remap: axis 2 is out of range for a result of rank 2 (x tensor<4x5xf32>) | -1 stands for "
        "no axis");
  CHECK(error_with(OpKind::Remap, {{4, 5}}, remap({4, 5}, {0, 0}, {1, 1})) ==
        "remap: axis 0 of the result is read twice (x tensor<4x5xf32>) | each axis of the result "
        "moves along one axis of x");
  CHECK(error_with(OpKind::Remap, {{4}}, remap({4}, {0}, {0})) ==
        "remap: multiple 0 of axis 0 of the result (x tensor<4xf32>) | an axis of x that stays at "
        "its offset has axis -1");
  Attrs minor = remap({2, 2}, {0}, {1});
  minor.set("minor_axes", Attr(Dims{1}));
  minor.set("minor_multiples", Attr(Dims{1}));
  CHECK(error_with(OpKind::Remap, {{4}}, with(minor, "clamp", true)) ==
        "remap: clamps an index of two axes of the result (x tensor<4xf32>) | without clamp an "
        "index outside of x reads the filling");
  CHECK(error_with(OpKind::Remap, {{0}}, with(remap({4}, {0}, {1}), "clamp", true)) ==
        "remap: clamps to a tensor of no elements (x tensor<0xf32>) | without clamp an index "
        "outside of x reads the filling");
  CHECK(error_of_types(OpKind::Remap, {Type(DType::I32, {4})},
                       with(remap({4}, {0}, {1}), "lowest", true)) ==
        "remap: fills with -inf, which i32 has not (x tensor<4xi32>) | lowest is for float types");
  CHECK(error_with(OpKind::Remap, {{4}}, remap({int64_t{1} << 31}, {0}, {1})) ==
        "remap: an axis of length 2147483648 is longer than 2^30 (x tensor<4xf32>) | cut the axis "
        "into parts");
}

}  // namespace mezzo::test
