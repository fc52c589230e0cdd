// SPDX-License-Identifier: Apache-2.0
// Order along an axis: stable, NaN greater than every number, -0 equal to +0.
#include <support/random_array.h>
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

Attrs along(int64_t axis, bool descending = false) {
  return {{"axis", axis}, {"descending", descending}};
}

}  // namespace

TEST_CASE("sort puts NaN last, and first where it descends") {
  for (DType type : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    InterpreterTensor x = vector_of(type, {1, kNan, -kInf, kInf, -2});
    InterpreterTensor up = eval_op(OpKind::Sort, {x}, along(0));
    CHECK(Numbers(up.floats.begin(), up.floats.end() - 1) == Numbers{-kInf, -2, 1, kInf});
    CHECK(std::isnan(up.floats[4]));
    CHECK(eval_op(OpKind::Argsort, {x}, along(0)).integers == Ints{2, 4, 0, 3, 1});
    CHECK(eval_op(OpKind::Argsort, {x}, along(0, true)).integers == Ints{1, 3, 0, 4, 2});
  }
}

TEST_CASE("equal elements keep their order in both directions, zeros of both signs too") {
  InterpreterTensor x = vector_of(DType::F32, {1, 0.0, -0.0, 1, 0.0});
  CHECK(eval_op(OpKind::Argsort, {x}, along(0)).integers == Ints{1, 2, 4, 0, 3});
  CHECK(eval_op(OpKind::Argsort, {x}, along(0, true)).integers == Ints{0, 3, 1, 2, 4});
  InterpreterTensor sorted = eval_op(OpKind::Sort, {x}, along(0));
  CHECK(same_bits(sorted.floats[0], 0.0));
  CHECK(same_bits(sorted.floats[1], -0.0));
  CHECK(eval_op(OpKind::Argsort, {vector_of(DType::Bool, {1, 0, 1, 0})}, along(0)).integers ==
        Ints{1, 3, 0, 2});
}

TEST_CASE("topk gives the greatest with their indices, or the least, NaN as the greatest") {
  InterpreterTensor x = make_tensor(Type(DType::F32, {2, 4}), {3, 1, 3, 2, 0, kNan, -1, 5});
  RunResult most = run_op(OpKind::Topk, {x}, {{"axis", 1}, {"k", 2}});
  CHECK(most.results[0].floats[0] == 3);
  CHECK(most.results[0].floats[1] == 3);
  CHECK(std::isnan(most.results[0].floats[2]));
  CHECK(most.results[0].floats[3] == 5);
  CHECK(most.results[1].type == Type(DType::I32, {2, 2}));
  CHECK(most.results[1].integers == Ints{0, 2, 1, 3});
  RunResult least = run_op(OpKind::Topk, {x}, {{"axis", 1}, {"k", 3}, {"largest", false}});
  CHECK(least.results[0].floats == Numbers{1, 2, 3, -1, 0, 5});
  CHECK(least.results[1].integers == Ints{1, 3, 0, 2, 0, 3});
  CHECK(run_op(OpKind::Topk, {x}, {{"axis", 0}, {"k", 0}}).results[0].elements() == 0);
}

TEST_CASE("sort_by moves elements as their keys; by its own order a permutation is taken back") {
  InterpreterTensor x = random_array('a', Type(DType::F32, {4, 7, 3}), 3);
  InterpreterTensor order = eval_op(OpKind::Argsort, {x}, along(1, true));
  InterpreterTensor sorted = eval_op(OpKind::Sort, {x}, along(1, true));
  CHECK(describe_difference(eval_op(OpKind::SortBy, {x, x}, along(1, true)), sorted) == "");
  CHECK(describe_difference(eval_op(OpKind::SortBy, {sorted, order}, along(1)), x) == "");
}
