// SPDX-License-Identifier: Apache-2.0
// Running values along an axis: direction, exclusion, NaN, zeros and what does not fit a type.
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Attrs along(int64_t axis, bool reverse = false, bool exclusive = false) {
  Attrs attrs{{"axis", axis}};
  if (reverse) attrs.set("reverse", true);
  if (exclusive) attrs.set("exclusive", true);
  return attrs;
}

Numbers scanned(OpKind kind, Numbers values, Attrs attrs = along(0)) {
  return eval_op(kind, {vector_of(DType::F32, std::move(values))}, std::move(attrs)).floats;
}

}  // namespace

TEST_CASE("scans run forwards or backwards, with or without the element itself") {
  CHECK(scanned(OpKind::Cumsum, {1, 2, 3}) == Numbers{1, 3, 6});
  CHECK(scanned(OpKind::Cumsum, {1, 2, 3}, along(0, true)) == Numbers{6, 5, 3});
  CHECK(scanned(OpKind::Cumsum, {1, 2, 3}, along(0, false, true)) == Numbers{0, 1, 3});
  CHECK(scanned(OpKind::Cumsum, {1, 2, 3}, along(0, true, true)) == Numbers{5, 3, 0});
  CHECK(scanned(OpKind::Cumprod, {2, 3, 4}) == Numbers{2, 6, 24});
  CHECK(scanned(OpKind::Cumprod, {2, 3, 4}, along(0, true, true)) == Numbers{12, 4, 1});
  CHECK(scanned(OpKind::Cummax, {1, 3, 2, 5}) == Numbers{1, 3, 3, 5});
  CHECK(scanned(OpKind::Cummin, {2, 3, 1, 5}, along(0, true)) == Numbers{1, 1, 1, 5});
  InterpreterTensor x = make_tensor(Type(DType::I32, {2, 2, 2}), {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(eval_op(OpKind::Cumsum, {x}, along(0)).integers == Ints{1, 2, 3, 4, 6, 8, 10, 12});
  CHECK(eval_op(OpKind::Cumsum, {x}, along(1)).integers == Ints{1, 2, 4, 6, 5, 6, 12, 14});
  CHECK(eval_op(OpKind::Cumsum, {x}, along(2)).integers == Ints{1, 3, 3, 7, 5, 11, 7, 15});
}

TEST_CASE("a running sum is kept wide, of bools in i64, and each value is rounded once") {
  Numbers ones(3000, 1.0);
  InterpreterTensor sum = eval_op(OpKind::Cumsum, {vector_of(DType::F16, ones)}, along(0));
  CHECK(sum.floats.back() == 3000);
  CHECK(scanned(OpKind::Cumsum, {3e38, 3e38, -3e38})[1] == kInf);
  CHECK(scanned(OpKind::Cumsum, {3e38, 3e38, -3e38})[2] == doctest::Approx(3e38));
  InterpreterTensor bools = eval_op(OpKind::Cumsum, {vector_of(DType::Bool, {1, 1, 0})}, along(0));
  CHECK(bools.type == Type(DType::I64, {3}));
  CHECK(bools.integers == Ints{1, 2, 2});
  CHECK(eval_op(OpKind::Cumsum, {vector_of(DType::U8, {200, 100})}, along(0)).integers ==
        Ints{200, 44});
  CHECK(same_bits(scanned(OpKind::Cumsum, {-0.0})[0], -0.0));
  CHECK(same_bits(scanned(OpKind::Cumsum, {-0.0}, along(0, false, true))[0], 0.0));
}

TEST_CASE("a 0 stays in a running product, whatever follows that is finite") {
  CHECK(scanned(OpKind::Cumprod, {2, 0, 1e38, 1e38, 1e38, 3}) == Numbers{2, 0, 0, 0, 0, 0});
  CHECK(std::isnan(scanned(OpKind::Cumprod, {0, kInf, 1})[2]));
}

TEST_CASE("running extrema take +0 over -0 and keep a NaN") {
  CHECK(same_bits(scanned(OpKind::Cummax, {-0.0, 0.0})[1], 0.0));
  Numbers largest = scanned(OpKind::Cummax, {1, kNan, 3});
  CHECK(largest[0] == 1);
  CHECK(std::isnan(largest[1]));
  CHECK(std::isnan(largest[2]));
  CHECK(eval_op(OpKind::Cummin, {vector_of(DType::U8, {9, 200, 3})}, along(0)).integers ==
        Ints{9, 9, 3});
}

TEST_CASE("a linear scan starts from 0 and forgets a value of 0 whatever multiplies it") {
  InterpreterTensor a = vector_of(DType::F32, {kNan, 0.5, 2, kInf});
  InterpreterTensor b = vector_of(DType::F32, {1, 1, -3, 7});
  CHECK(eval_op(OpKind::LinearScan, {a, b}, along(0)).floats == Numbers{1, 1.5, 0, 7});
  InterpreterTensor c = vector_of(DType::F32, {2, 2, 2, kNan});
  CHECK(eval_op(OpKind::LinearScan, {c, b}, along(0, true)).floats == Numbers{47, 23, 11, 7});
}

TEST_CASE("scans of no elements give none") {
  for (OpKind kind : {OpKind::Cumsum, OpKind::Cumprod, OpKind::Cummax, OpKind::Cummin})
    CHECK(eval_op(kind, {InterpreterTensor(Type(DType::F32, {3, 0}))}, along(1)).elements() == 0);
}
