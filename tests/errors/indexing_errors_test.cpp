// SPDX-License-Identifier: Apache-2.0
// What the shape rules of movement and indexing say about operands that do not fit.
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

using Ints = std::vector<int64_t>;

/// The text of the error that the rule of an op throws.
std::string refused(OpKind kind, const std::vector<Type>& operands, const Attrs& attrs) {
  return error_of<mezzo::UserError>([&] { infer_types({kind, operands, attrs, {}, nullptr, {}}); });
}

Attrs axis(int64_t number) { return {{"axis", Attr(number)}}; }
Type f32(std::initializer_list<int64_t> dims) { return {DType::F32, Shape(dims)}; }
Type i32(std::initializer_list<int64_t> dims) { return {DType::I32, Shape(dims)}; }

}  // namespace

TEST_CASE("concat names the operands and lengths that differ") {
  CHECK(refused(OpKind::Concat, {}, axis(0)) == "error: concat: takes at least 1 operand, not 0");
  CHECK(refused(OpKind::Concat, {f32({2})}, axis(1)) ==
        "error: concat: axis 1 is out of range for rank 1 (x tensor<2xf32>)\nnote: there is axis 0 "
        "alone");
  CHECK(refused(OpKind::Concat, {f32({2}), i32({2})}, axis(0)) ==
        "error: concat: element types differ, f32 and i32 (x tensor<2xf32>, x tensor<2xi32>)\n"
        "note: only `cast` changes an element type");
  CHECK(refused(OpKind::Concat, {f32({2}), f32({2, 1})}, axis(0)) ==
        "error: concat: operand 0 has rank 1, operand 1 has rank 2 (x tensor<2xf32>, x "
        "tensor<2x1xf32>)\nnote: reshape adds an axis of length 1");
  CHECK(refused(OpKind::Concat, {f32({2, 3}), f32({4, 3}), f32({2, 4})}, axis(0)) ==
        "error: concat: operand 0 has length 3 along axis 1, operand 2 has 4 (x tensor<2x3xf32>, x "
        "tensor<4x3xf32>, x tensor<2x4xf32>)\n"
        "note: they may differ along axis 0 alone");
}

TEST_CASE("flip and pad name what does not fit") {
  CHECK(refused(OpKind::Flip, {f32({2})}, {{"axes", Attr(Ints{1})}}) ==
        "error: flip: axis 1 is out of range for rank 1 (x tensor<2xf32>)\nnote: there is axis 0 "
        "alone");
  CHECK(refused(OpKind::Flip, {f32({2, 2})}, {{"axes", Attr(Ints{1, 0})}}) ==
        "error: flip: axes must ascend without repetition, not [1, 0] (x tensor<2x2xf32>)");
  CHECK(refused(OpKind::Pad, {f32({2}), i32({})},
                {{"low", Attr(Ints{1})}, {"high", Attr(Ints{1})}, {"interior", Attr(Ints{0})}}) ==
        "error: pad: value must be tensor<f32>, not tensor<i32> (x tensor<2xf32>, value "
        "tensor<i32>)");
}

TEST_CASE("reading by index names the axis, the indices and what they must be") {
  for (OpKind kind : {OpKind::Gather, OpKind::TakeAlongAxis}) {
    const std::string op = op_info(kind).name;
    CHECK(refused(kind, {f32({2}), i32({2})}, axis(1)) ==
          "error: " + op +
              ": axis 1 is out of range for rank 1 (x tensor<2xf32>, indices tensor<2xi32>)\nnote: "
              "there is axis 0 alone");
    CHECK(refused(kind, {f32({2}), f32({2})}, axis(0)) ==
          "error: " + op +
              ": indices must be of an integer type, not f32 (x tensor<2xf32>, indices "
              "tensor<2xf32>)\nnote: cast them to i32");
  }
  CHECK(refused(OpKind::Gather, {f32({1, 1, 1, 1, 1}), i32({1, 1, 1, 1, 1})}, axis(0)) ==
        "error: gather: the result would have rank 9, the largest is 8 (x tensor<1x1x1x1x1xf32>, "
        "indices tensor<1x1x1x1x1xi32>)\nnote: reshape the indices to one axis");
  CHECK(refused(OpKind::TakeAlongAxis, {f32({2, 3}), i32({2})}, axis(1)) ==
        "error: take_along_axis: indices have rank 1, x has rank 2 (x tensor<2x3xf32>, indices "
        "tensor<2xi32>)\nnote: reshape gives them axes of length 1; gather takes indices of any "
        "rank");
  CHECK(refused(OpKind::TakeAlongAxis, {f32({2, 3}), i32({4, 1})}, axis(1)) ==
        "error: take_along_axis: indices have length 4 along axis 0, x has 2 (x tensor<2x3xf32>, "
        "indices tensor<4x1xi32>)\nnote: they may differ along axis 1 alone");
}

TEST_CASE("adding by index names the updates that it needs") {
  CHECK(refused(OpKind::ScatterAdd, {f32({4, 3}), i32({2}), f32({3, 2})}, axis(0)) ==
        "error: scatter_add: updates must be tensor<2x3xf32>, not tensor<3x2xf32> (x "
        "tensor<4x3xf32>, indices tensor<2xi32>, updates tensor<3x2xf32>)");
  CHECK(refused(OpKind::AddAlongAxis, {f32({4, 3}), i32({2, 3}), f32({4, 3})}, axis(0)) ==
        "error: add_along_axis: updates must be tensor<2x3xf32>, not tensor<4x3xf32> (x "
        "tensor<4x3xf32>, indices tensor<2x3xi32>, updates tensor<4x3xf32>)");
  CHECK(refused(OpKind::ScatterAdd, {Type(DType::F16, {4}), i32({2}), f32({2})}, axis(0)) ==
        "error: scatter_add: element types differ, f16 and f32 (x tensor<4xf16>, indices "
        "tensor<2xi32>, updates tensor<2xf32>)\n"
        "note: updates have the type of x, or 16 bits where x is f32; only `cast` changes an "
        "element type");
  CHECK(refused(OpKind::ScatterAdd, {Type(DType::Bool, {4}), i32({2}), Type(DType::Bool, {2})},
                axis(0)) ==
        "error: scatter_add: takes a float or integer type, not bool (x tensor<4xbool>, indices "
        "tensor<2xi32>, updates tensor<2xbool>)\nnote: cast it to i32 first");
  CHECK(refused(OpKind::ScatterAdd, {f32({3000000000}), i32({1}), f32({1})}, axis(0)) ==
        "error: scatter_add: not supported yet: 3000000000 rows, at most 2147483646 can be added "
        "to (x tensor<3000000000xf32>, indices tensor<1xi32>, updates tensor<1xf32>)\n"
        "note: add to parts of x one after another");
}
