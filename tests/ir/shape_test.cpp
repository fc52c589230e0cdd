// SPDX-License-Identifier: Apache-2.0
// Shapes, tensor types, broadcasting and the limits that a shape checks when it is made.
#include <mezzo/ir/shape.h>

#include <mezzo/ir/error.h>

#include <doctest/doctest.h>

#include <vector>

using namespace mezzo::ir;

TEST_CASE("shapes and types print as the text form writes them") {
  CHECK(to_string(Shape{2, 3}) == "2x3");
  CHECK(to_string(Shape{}) == "");
  CHECK(to_string(Type(DType::F16, {2, 3})) == "tensor<2x3xf16>");
  CHECK(to_string(Type(DType::I32, {})) == "tensor<i32>");
  CHECK(Type(DType::F16, {2, 3}).bytes() == 12);
  CHECK(Type(DType::F32, {0, 3}).bytes() == 0);
}

TEST_CASE("a scalar has one element and an empty axis gives none") {
  CHECK(Shape{}.elements() == 1);
  CHECK(Shape{4, 0, 3}.elements() == 0);
  CHECK(Shape{4, 5, 6}.elements() == 120);
}

TEST_CASE("equality looks at rank and lengths") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2} == Shape{2, 1});
  CHECK_FALSE(Shape{} == Shape{1});
  CHECK(Shape{2, 3}.without(0) == Shape{3});
}

TEST_CASE("axes can be replaced, removed and inserted at either end") {
  const Shape shape{2, 3, 4};
  CHECK(shape.with(1, 7) == Shape{2, 7, 4});
  CHECK(shape.without(0) == Shape{3, 4});
  CHECK(shape.without(2) == Shape{2, 3});
  CHECK(shape.inserted(0, 1) == Shape{1, 2, 3, 4});
  CHECK(shape.inserted(3, 5) == Shape{2, 3, 4, 5});
  CHECK_THROWS_AS(shape.with(3, 1), mezzo::InternalError);
  CHECK_THROWS_AS(Shape{}.without(0), mezzo::InternalError);
}

TEST_CASE("strides are row-major") {
  const auto strides = Shape{2, 3, 4}.strides();
  CHECK(strides[0] == 12);
  CHECK(strides[1] == 4);
  CHECK(strides[2] == 1);
  CHECK(strides[3] == 0);
}

TEST_CASE("broadcasting follows NumPy") {
  CHECK(broadcast({2, 3}, {3}) == Shape{2, 3});
  CHECK(broadcast({2, 1}, {1, 3}) == Shape{2, 3});
  CHECK(broadcast({}, {4}) == Shape{4});
  CHECK(broadcast({}, {}) == Shape{});
  CHECK(broadcast({0, 3}, {1, 3}) == Shape{0, 3});
  CHECK(broadcast({5, 1, 4}, {3, 1}) == Shape{5, 3, 4});
  CHECK_FALSE(broadcast({2, 3}, {2}).has_value());
  CHECK_FALSE(broadcast({0}, {2}).has_value());
}

TEST_CASE("a shape beyond the limits is refused with its lengths") {
  const std::vector<int64_t> nine(9, 1);
  CHECK_THROWS_WITH_AS(Shape{std::span<const int64_t>(nine)},
                       "error: shape 1x1x1x1x1x1x1x1x1 has 9 axes, the most is 8\nnote: reshape "
                       "makes one axis of several",
                       mezzo::UserError);
  CHECK_THROWS_WITH_AS(
      Shape({2, -1}),
      "error: shape 2x-1 has the negative length -1\nnote: lengths of axes are 0 or more",
      mezzo::UserError);
  const int64_t big = int64_t{1} << 31, rest = int64_t{1} << 28;
  CHECK(Shape{big, rest}.elements() == int64_t{1} << 59);
  CHECK(Type(DType::F64, {big, rest}).bytes() == int64_t{1} << 62);
  CHECK_THROWS_WITH_AS(Shape({big, rest, 2}),
                       "error: shape 2147483648x268435456x2 has more than 2^59 elements\nnote: "
                       "make an axis shorter, or work on the tensor in parts",
                       mezzo::UserError);
  CHECK_THROWS_AS(Shape({big, 0, rest, 2}), mezzo::UserError);
}
