// SPDX-License-Identifier: Apache-2.0
// Reversal, concatenation, reading and adding by index, as the interpreter defines them.
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

/// 0, 1, 2 ...
InterpreterTensor ramp(const Shape& shape, DType dtype = DType::I32) {
  InterpreterTensor tensor(Type(dtype, shape));
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set_number(i, static_cast<double>(i));
  return tensor;
}

InterpreterTensor indices(const Shape& shape, const Ints& values, DType dtype = DType::I32) {
  InterpreterTensor tensor(Type(dtype, shape));
  tensor.integers = values;
  return tensor;
}

Attrs axis(int64_t number) { return {{"axis", Attr(number)}}; }

}  // namespace

TEST_CASE("flip reverses its axes, concat puts one behind the other") {
  CHECK(eval_op(OpKind::Flip, {ramp({2, 3})}, {{"axes", Attr(Ints{1})}}).integers ==
        Ints{2, 1, 0, 5, 4, 3});
  CHECK(eval_op(OpKind::Flip, {ramp({2, 3})}, {{"axes", Attr(Ints{0, 1})}}).integers ==
        Ints{5, 4, 3, 2, 1, 0});
  CHECK(eval_op(OpKind::Flip, {ramp({2, 0})}, {{"axes", Attr(Ints{0, 1})}}).integers.empty());
  CHECK(eval_op(OpKind::Concat, {ramp({2, 2}), ramp({2, 1}), ramp({2, 0})}, axis(1)).integers ==
        Ints{0, 1, 0, 2, 3, 1});
  CHECK(eval_op(OpKind::Concat, {ramp({1, 2}), ramp({2, 2})}, axis(0)).integers ==
        Ints{0, 1, 0, 1, 2, 3});
}

TEST_CASE("padding takes a value, of which -0 and NaN keep their bits") {
  const Attrs attrs{{"low", Attr(Ints{1})}, {"high", Attr(Ints{0})}, {"interior", Attr(Ints{1})}};
  const InterpreterTensor x = make_tensor(Type(DType::F16, {2}), {1, 2});
  for (double value : {7.0, -0.0, -std::numeric_limits<double>::infinity()}) {
    const InterpreterTensor padded =
        eval_op(OpKind::Pad, {x, make_tensor(Type(DType::F16, {}), {value})}, attrs);
    CHECK(same_bits(padded, make_tensor(Type(DType::F16, {4}), {value, 1, value, 2})));
  }
  CHECK(eval_op(OpKind::Pad, {ramp({2}), indices({}, {-3})}, attrs).integers == Ints{-3, 0, -3, 1});
}

TEST_CASE("gather is numpy.take along an axis") {
  CHECK(eval_op(OpKind::Gather, {ramp({3, 2}), indices({2}, {2, 0})}, axis(0)).integers ==
        Ints{4, 5, 0, 1});
  CHECK(eval_op(OpKind::Gather, {ramp({2, 3}), indices({2, 2}, {0, 2, 1, 1}, DType::I64)}, axis(1))
            .integers == Ints{0, 2, 1, 1, 3, 5, 4, 4});
  const InterpreterTensor one = eval_op(OpKind::Gather, {ramp({2, 3}), indices({}, {1})}, axis(1));
  CHECK(one.type == Type(DType::I32, {2}));
  CHECK(one.integers == Ints{1, 4});
}

TEST_CASE("take_along_axis reads one element an index") {
  CHECK(eval_op(OpKind::TakeAlongAxis, {ramp({2, 3}), indices({2, 2}, {2, 0, 1, 1}, DType::U8)},
                axis(1))
            .integers == Ints{2, 0, 4, 4});
  CHECK(eval_op(OpKind::TakeAlongAxis, {ramp({2, 3}), indices({1, 3}, {1, 0, 1})}, axis(0))
            .integers == Ints{3, 1, 5});
}

TEST_CASE("scatter_add and add_along_axis add what the adjoint reads") {
  const InterpreterTensor x = ramp({3, 2});
  CHECK(eval_op(OpKind::ScatterAdd,
                {x, indices({3}, {2, 0, 2}), indices({3, 2}, {10, 20, 30, 40, 50, 60})}, axis(0))
            .integers == Ints{30, 41, 2, 3, 64, 85});
  CHECK(eval_op(OpKind::ScatterAdd, {x, indices({}, {1}), indices({3}, {10, 20, 30})}, axis(1))
            .integers == Ints{0, 11, 2, 23, 4, 35});
  CHECK(eval_op(OpKind::AddAlongAxis,
                {x, indices({3, 2}, {0, 0, 1, 1, 0, 1}), indices({3, 2}, {10, 20, 30, 40, 50, 60})},
                axis(1))
            .integers == Ints{30, 1, 2, 73, 54, 65});
}

TEST_CASE("sums of updates are wide and rounded once") {
  // 2048 + 1 is a tie in f16, which one rounding an addition would stay at for ever.
  const InterpreterTensor x = make_tensor(Type(DType::F16, {1}), {2048});
  const InterpreterTensor ones = full_tensor(Type(DType::F16, {100}), 1);
  const InterpreterTensor zeros(Type(DType::I32, {100}));
  CHECK(eval_op(OpKind::ScatterAdd, {x, zeros, ones}, axis(0)).floats == Floats{2148});
  CHECK(eval_op(OpKind::AddAlongAxis, {x, zeros, ones}, axis(0)).floats == Floats{2148});
  // u8 wraps as other sums do.
  CHECK(eval_op(OpKind::ScatterAdd,
                {indices({1}, {200}, DType::U8), indices({2}, {0, 0}),
                 indices({2}, {100, 100}, DType::U8)},
                axis(0))
            .integers == Ints{144});
}

TEST_CASE("what nothing is added to keeps its bits") {
  const InterpreterTensor x = make_tensor(Type(DType::F32, {2}), {-0.0, -0.0});
  const InterpreterTensor y =
      eval_op(OpKind::ScatterAdd, {x, indices({1}, {1}), make_tensor(Type(DType::F32, {1}), {0.0})},
              axis(0));
  CHECK(same_bits(y, make_tensor(Type(DType::F32, {2}), {-0.0, 0.0})));
}

TEST_CASE("an index out of range sets the flag of the run, reads 0 and adds nothing") {
  const InterpreterTensor x = make_tensor(Type(DType::F32, {3}), {1, 2, 3});
  const InterpreterTensor ones = full_tensor(Type(DType::F32, {3}), 1);
  for (int64_t bad : {int64_t{-1}, int64_t{3}, std::numeric_limits<int64_t>::min()}) {
    const InterpreterTensor at = indices({3}, {0, bad, 2}, DType::I64);
    for (OpKind kind : {OpKind::Gather, OpKind::TakeAlongAxis}) {
      const RunResult run = run_op(kind, {x, at}, axis(0));
      CHECK(run.index_range);
      CHECK(run.results[0].floats == Floats{1, 0, 3});
    }
    for (OpKind kind : {OpKind::ScatterAdd, OpKind::AddAlongAxis}) {
      const RunResult run = run_op(kind, {x, at, ones}, axis(0));
      CHECK(run.index_range);
      CHECK(run.results[0].floats == Floats{2, 2, 4});
    }
  }
  CHECK_FALSE(run_op(OpKind::Gather, {x, indices({1}, {2})}, axis(0)).index_range);
  // Any index of an axis of no elements is out of range, no index is in range.
  const InterpreterTensor none(Type(DType::F32, {0}));
  CHECK(run_op(OpKind::Gather, {none, indices({1}, {0})}, axis(0)).index_range);
  CHECK_FALSE(run_op(OpKind::Gather, {none, indices({0}, {})}, axis(0)).index_range);
}
