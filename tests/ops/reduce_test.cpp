// SPDX-License-Identifier: Apache-2.0
// Reductions and matrix products: accumulation, empty and NaN elements, all axes, all transposes.
#include <mezzo/ir/error.h>
#include <support/random_array.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

using Ints = std::vector<int64_t>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Attrs over(Ints axes, bool keepdims = false) {
  return {{"axes", Attr(axes)}, {"keepdims", keepdims}};
}

}  // namespace

TEST_CASE("the mean of 100,000 f16 ones is 1") {
  InterpreterTensor ones = full_tensor(Type(DType::F16, {100000}), 1);
  RunResult mean = run_op(OpKind::Mean, {ones}, over({0}));
  CHECK(mean.results[0].floats[0] == 1);
  CHECK(mean.words[0] == 0);
}

TEST_CASE("a sum is accumulated wide and rounded once") {
  InterpreterTensor x = full_tensor(Type(DType::F16, {4096}), 1);
  CHECK(eval_op(OpKind::Sum, {x}, over({0})).floats[0] == 4096);
  CHECK(
      eval_op(OpKind::Sum, {vector_of(DType::F16, {60000, 60000, -60000})}, over({0})).floats[0] ==
      60000);
  CHECK(eval_op(OpKind::Sum, {vector_of(DType::F32, {1, 0x1p-24, 0x1p-24})}, over({0})).floats[0] ==
        1 + 0x1p-23);
}

TEST_CASE("a sum of bools is i64 and integer sums wrap in their type") {
  InterpreterTensor bools = full_tensor(Type(DType::Bool, {300}), 1);
  InterpreterTensor sum = eval_op(OpKind::Sum, {bools}, over({0}));
  CHECK(sum.type == Type(DType::I64, {}));
  CHECK(sum.integers[0] == 300);
  InterpreterTensor bytes = full_tensor(Type(DType::U8, {300}), 1);
  CHECK(eval_op(OpKind::Sum, {bytes}, over({0})).integers[0] == 44);
}

TEST_CASE("reductions reach every axis, kept or not") {
  InterpreterTensor x(Type(DType::I32, {2, 3, 2}));
  for (size_t i = 0; i < 12; ++i) x.integers[i] = static_cast<int64_t>(i);
  CHECK(eval_op(OpKind::Sum, {x}, over({0})).integers == Ints{6, 8, 10, 12, 14, 16});
  CHECK(eval_op(OpKind::Sum, {x}, over({1})).integers == Ints{6, 9, 24, 27});
  CHECK(eval_op(OpKind::Sum, {x}, over({0, 2})).integers == Ints{14, 22, 30});
  CHECK(eval_op(OpKind::Max, {x}, over({0, 1, 2}, true)).integers == Ints{11});
  CHECK(eval_op(OpKind::Min, {x}, over({1, 2})).integers == Ints{0, 6});
  CHECK(eval_op(OpKind::Sum, {x}, over({1}, true)).type.shape == Shape{2, 1, 2});
  CHECK(eval_op(OpKind::Sum, {x}, over({})).integers == x.integers);
}

TEST_CASE("empty reductions: sum 0, mean NaN, max an error") {
  InterpreterTensor none(Type(DType::F32, {2, 0}));
  CHECK(eval_op(OpKind::Sum, {none}, over({1})).floats == std::vector<double>{0, 0});
  CHECK(std::isnan(eval_op(OpKind::Mean, {none}, over({1})).floats[1]));
  CHECK_THROWS_AS(eval_op(OpKind::Max, {none}, over({1})), mezzo::UserError);
  CHECK_THROWS_AS(eval_op(OpKind::Argmax, {none}, {{"axis", 1}}), mezzo::UserError);
  CHECK(eval_op(OpKind::Max, {none}, over({0})).elements() == 0);
}

TEST_CASE("max and min propagate NaN, argmax takes the first maximum or the first NaN") {
  for (DType type : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    InterpreterTensor x = vector_of(type, {1, kNan, 3, kNan});
    CHECK(std::isnan(eval_op(OpKind::Max, {x}, over({0})).floats[0]));
    CHECK(std::isnan(eval_op(OpKind::Min, {x}, over({0})).floats[0]));
    CHECK(eval_op(OpKind::Argmax, {x}, {{"axis", 0}}).integers[0] == 1);
    CHECK(eval_op(OpKind::Argmax, {vector_of(type, {2, 5, 1, 5})}, {{"axis", 0}}).integers[0] == 1);
    CHECK(
        same_bits(eval_op(OpKind::Max, {vector_of(type, {-0.0, 0.0})}, over({0})).floats[0], 0.0));
  }
  InterpreterTensor x = make_tensor(Type(DType::F32, {2, 3}), {1, 9, 3, 4, 5, 6});
  CHECK(eval_op(OpKind::Argmax, {x}, {{"axis", 0}}).integers == Ints{1, 0, 1});
  CHECK(eval_op(OpKind::Argmax, {x}, {{"axis", 1}, {"keepdims", true}}).type ==
        Type(DType::I32, {2, 1}));
}

TEST_CASE("matmul of every transposition and batch equals the sum written out") {
  int64_t m = 3, n = 4, k = 5;
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (DType type : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
        Shape a_shape = ta ? Shape{2, 1, k, m} : Shape{2, 1, m, k};
        Shape b_shape = tb ? Shape{3, n, k} : Shape{3, k, n};
        InterpreterTensor a = random_array('s', Type(type, a_shape), 1);
        InterpreterTensor b = random_array('s', Type(type, b_shape), 2);
        InterpreterTensor y =
            eval_op(OpKind::Matmul, {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}});
        REQUIRE(y.type == Type(type, {2, 3, m, n}));
        for (int64_t at = 0; at < y.elements(); ++at) {
          int64_t column = at % n, row = at / n % m, inner = at / (n * m) % 3,
                  outer = at / (n * m * 3);
          double sum = 0;
          for (int64_t i = 0; i < k; ++i) {
            int64_t from_a = outer * m * k + (ta ? i * m + row : row * k + i);
            int64_t from_b = inner * n * k + (tb ? column * k + i : i * n + column);
            sum += a.floats[static_cast<size_t>(from_a)] * b.floats[static_cast<size_t>(from_b)];
          }
          CHECK(y.floats[static_cast<size_t>(at)] == round_to(type, sum));
        }
      }
}

TEST_CASE(
    "matmul follows IEEE, gives zeros for no inner size and keeps the accumulator on demand") {
  double inf = std::numeric_limits<double>::infinity();
  InterpreterTensor a = make_tensor(Type(DType::F32, {1, 2}), {0, 1});
  InterpreterTensor b = make_tensor(Type(DType::F32, {2, 1}), {inf, 1});
  CHECK(std::isnan(eval_op(OpKind::Matmul, {a, b}).floats[0]));
  InterpreterTensor empty_a(Type(DType::F16, {2, 0})), empty_b(Type(DType::F16, {0, 2}));
  CHECK(eval_op(OpKind::Matmul, {empty_a, empty_b}).floats == std::vector<double>(4, 0));
  InterpreterTensor x = full_tensor(Type(DType::F16, {1, 2}), 1 + 0x1p-10);
  InterpreterTensor y = full_tensor(Type(DType::F16, {2, 1}), 1 + 0x1p-10);
  double exact = 2 * (1 + 0x1p-10) * (1 + 0x1p-10);
  CHECK(eval_op(OpKind::Matmul, {x, y}, {}, {Type(DType::F32, {1, 1})}).floats[0] == exact);
  CHECK(eval_op(OpKind::Matmul, {x, y}).floats[0] == round_to(DType::F16, exact));
}
