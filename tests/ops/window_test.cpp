// SPDX-License-Identifier: Apache-2.0
// Convolution, pooling and upsampling: values by hand and the conventions of padding, ties, NaN and
// corners, by the interpreter and by kernels fused and unfused.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter.h>
#include <support/random_array.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <runtime/compiled.h>

namespace mezzo::test {

namespace {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::InterpreterTensor;
using ir::make_tensor;
using ir::OpKind;
using ir::Type;

using Dims = std::vector<int64_t>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The first result of the op everywhere.
Tensors run_first(OpKind kind, const Tensors& inputs, const Attrs& attrs) {
  Tensors out;
  for (Tensors& results : run_everywhere(kind, inputs, attrs)) out.push_back(std::move(results[0]));
  return out;
}

void check(OpKind kind, const Tensors& inputs, const Attrs& attrs,
           const std::vector<double>& wanted) {
  for (const InterpreterTensor& y : run_first(kind, inputs, attrs)) {
    REQUIRE(y.elements() == std::ssize(wanted));
    for (size_t i = 0; i < wanted.size(); ++i) {
      INFO(std::string(ir::to_string(kind)) << ", element " << i);
      if (std::isnan(wanted[i]) || std::isinf(wanted[i]))
        CHECK(ir::same_bits(y.floats[i], wanted[i]));
      else
        CHECK(y.floats[i] == doctest::Approx(wanted[i]).epsilon(1e-6));
    }
  }
}

/// One sample of one channel along one axis.
InterpreterTensor line(const std::vector<double>& values) {
  return make_tensor(Type(DType::F32, {1, static_cast<int64_t>(values.size()), 1}), values);
}

Attrs pool(Dims window, Dims strides, Dims low, Dims high, bool most = true) {
  Attrs attrs{{"window", Attr(window)},
              {"strides", Attr(strides)},
              {"low", Attr(low)},
              {"high", Attr(high)}};
  if (most) attrs.set("dilations", Attr(Dims(window.size(), 1)));
  return attrs;
}

Attrs conv(Dims strides, Dims low, Dims high, int64_t groups = 1) {
  return {{"strides", Attr(strides)},
          {"low", Attr(low)},
          {"high", Attr(high)},
          {"dilations", Attr(Dims(strides.size(), 1))},
          {"groups", groups}};
}

}  // namespace

TEST_CASE("convolution is correlation: the window is not turned round") {
  const InterpreterTensor weight = make_tensor(Type(DType::F32, {1, 3, 1}), {1, 10, 100});
  check(OpKind::Conv, {line({1, 2, 3, 4}), weight}, conv({1}, {0}, {0}), {321, 432});
  check(OpKind::Conv, {line({1, 2, 3, 4}), weight}, conv({1}, {1}, {1}), {210, 321, 432, 43});
  check(OpKind::Conv, {line({1, 2, 3, 4}), weight}, conv({2}, {1}, {0}), {210, 432});
}

TEST_CASE("groups read their own channels, also one each") {
  const InterpreterTensor x = make_tensor(Type(DType::F32, {1, 2, 2}), {1, 10, 2, 20});
  const InterpreterTensor each = make_tensor(Type(DType::F32, {2, 2, 1}), {1, 3, 5, 7});
  check(OpKind::Conv, {x, each}, conv({1}, {0}, {0}, 2), {1 + 6, 50 + 140});
  const InterpreterTensor two = make_tensor(Type(DType::F32, {4, 1, 1}), {1, 2, 3, 4});
  check(OpKind::Conv, {x, two}, conv({1}, {0}, {0}, 2), {1, 2, 30, 40, 2, 4, 60, 80});
}

TEST_CASE("an infinite weight meets padding as IEEE 754 says") {
  const InterpreterTensor weight = make_tensor(Type(DType::F32, {1, 2, 1}), {kInfinity, 1});
  check(OpKind::Conv, {line({1, 2}), weight}, conv({1}, {1}, {0}), {kNan, kInfinity});
}

TEST_CASE("all of a maximum's cotangent goes to the first one of the window, in row-major order") {
  const InterpreterTensor x =
      make_tensor(Type(DType::F32, {1, 3, 3, 1}), {1, 5, 2, 5, 5, 3, 0, 4, 5});
  const Attrs attrs = pool({2, 2}, {1, 1}, {0, 0}, {0, 0});
  check(OpKind::MaxPool, {x}, attrs, {5, 5, 5, 5});
  const InterpreterTensor y = make_tensor(Type(DType::F32, {1, 2, 2, 1}), {5, 5, 5, 5});
  const InterpreterTensor dy = make_tensor(Type(DType::F32, {1, 2, 2, 1}), {1, 10, 100, 1000});
  // Windows: 1 5 / 5 5; 5 2 / 5 3; 5 5 / 0 4; 5 3 / 4 5.
  check(OpKind::MaxPoolGrad, {x, y, dy}, attrs, {0, 11, 0, 100, 1000, 0, 0, 0, 0});
}

TEST_CASE("a maximum of NaN is NaN and its cotangent goes to the first one") {
  const Attrs attrs = pool({3}, {1}, {0}, {0});
  const InterpreterTensor x = line({1, kNan, kNan, 4});
  check(OpKind::MaxPool, {x}, attrs, {kNan, kNan});
  check(OpKind::MaxPoolGrad, {x, line({kNan, kNan}), line({1, 10})}, attrs, {0, 11, 0, 0});
}

TEST_CASE("padding is never the maximum, not even of -inf") {
  const Attrs attrs = pool({2}, {1}, {1}, {1});
  check(OpKind::MaxPool, {line({-3, -kInfinity, -kInfinity})}, attrs,
        {-3, -3, -kInfinity, -kInfinity});
  check(OpKind::MaxPoolGrad,
        {line({-3, -kInfinity, -kInfinity}), line({-3, -3, -kInfinity, -kInfinity}),
         line({1, 10, 100, 1000})},
        attrs, {11, 100, 1000});
  check(OpKind::MaxPoolGrad, {line({-kInfinity, 1}), line({-kInfinity, 1, 1}), line({1, 10, 100})},
        attrs, {1, 110});
}

TEST_CASE("a mean over a window counts padding or leaves it out") {
  Attrs attrs = pool({3}, {1}, {1}, {1}, false);
  check(OpKind::AvgPool, {line({3, 6, 9})}, attrs, {3, 6, 5});
  check(OpKind::AvgPoolGrad, {line({3, 6, 9})},
        [&] {
          Attrs back = attrs;
          back.set("shape", Attr(Dims{1, 3, 1}));
          return back;
        }(),
        {3, 6, 5});
  attrs.set("count_include_pad", false);
  check(OpKind::AvgPool, {line({3, 6, 9})}, attrs, {4.5, 6, 7.5});
}

TEST_CASE("the nearest element is that of the quotient rounded down") {
  check(OpKind::UpsampleNearest, {line({1, 2, 3})}, {{"size", Attr(Dims{6})}}, {1, 1, 2, 2, 3, 3});
  check(OpKind::UpsampleNearest, {line({1, 2, 3})}, {{"size", Attr(Dims{5})}}, {1, 1, 2, 2, 3});
  check(OpKind::UpsampleNearest, {line({1, 2, 3, 4, 5})}, {{"size", Attr(Dims{2})}}, {1, 3});
  check(OpKind::UpsampleNearestGrad, {line({1, 10, 100, 1000, 10000})}, {{"size", Attr(Dims{3})}},
        {11, 1100, 10000});
}

TEST_CASE("linear interpolation between centres, and between corners") {
  check(OpKind::UpsampleLinear, {line({0, 4})}, {{"size", Attr(Dims{4})}}, {0, 1, 3, 4});
  check(OpKind::UpsampleLinear, {line({0, 4})}, {{"size", Attr(Dims{5})}, {"align_corners", true}},
        {0, 1, 2, 3, 4});
  check(OpKind::UpsampleLinear, {line({3, 4})}, {{"size", Attr(Dims{1})}, {"align_corners", true}},
        {3});
  check(OpKind::UpsampleLinear, {line({1, 2, 3, 4})}, {{"size", Attr(Dims{2})}}, {1.5, 3.5});
}

TEST_CASE("an element that has no share is not read: NaN stays with its neighbours") {
  check(OpKind::UpsampleLinear, {line({0, 4, kNan})},
        {{"size", Attr(Dims{5})}, {"align_corners", true}}, {0, 2, 4, kNan, kNan});
}

TEST_CASE("the three convolutions are one bilinear form") {
  // <conv(x, w), g> = <x, grad_input(g, w)> = <w, grad_weight(x, g)>, of whole numbers exactly.
  const Attrs attrs = conv({2, 1}, {1, 0}, {0, 2}, 2);
  auto whole = [](const Type& type, int64_t step) {
    InterpreterTensor out(type);
    for (int64_t i = 0; i < out.elements(); ++i)
      out.floats[static_cast<size_t>(i)] = static_cast<double>(i * step % 7 - 3);
    return out;
  };
  const InterpreterTensor x = whole(Type(DType::F32, {2, 5, 6, 4}), 3),
                          w = whole(Type(DType::F32, {6, 3, 2, 2}), 5);
  auto with_shape = [&](const ir::Shape& shape) {
    Attrs out = attrs;
    out.set("shape", Attr(Dims(shape.begin(), shape.end())));
    return out;
  };
  auto dot = [](const InterpreterTensor& a, const InterpreterTensor& b) {
    return std::inner_product(a.floats.begin(), a.floats.end(), b.floats.begin(), 0.0);
  };
  const std::vector<InterpreterTensor> y = run_first(OpKind::Conv, {x, w}, attrs);
  const InterpreterTensor g = whole(y[0].type, 4);
  const auto dx = run_first(OpKind::ConvGradInput, {g, w}, with_shape(x.type.shape));
  const auto dw = run_first(OpKind::ConvGradWeight, {x, g}, with_shape(w.type.shape));
  for (size_t way = 0; way < y.size(); ++way) {
    CHECK(dot(y[way], g) == dot(y[0], g));
    CHECK(dot(x, dx[way]) == dot(y[0], g));
    CHECK(dot(w, dw[way]) == dot(y[0], g));
  }
}

}  // namespace mezzo::test
