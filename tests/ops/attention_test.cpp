// SPDX-License-Identifier: Apache-2.0
// Attention by the interpreter and by kernels: values against softmax by hand, masks, heads that
// share keys, queries without a key, numbers that are none behind a mask. Test names hold the
// numbers of collected reports where there are any.
#include <mezzo/ir/attention.h>

#include <mezzo/ir/philox.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <ops/convention_runs.h>

namespace mezzo::test {
namespace {

using namespace mezzo::ir;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16};

using Numbers = std::vector<double>;

InterpreterTensor tensor(DType dtype, Shape shape, const Numbers& values) {
  return make_tensor(Type(dtype, shape), std::span<const double>(values));
}

struct Case {
  InterpreterTensor q, k, v, dy;
  std::optional<InterpreterTensor> mask = std::nullopt;
  bool causal = false;
  double scale = 1;
};

/// y, then the gradients by q, k and v.
void check_attention(const Case& test, const std::vector<Numbers>& wanted, double tolerance) {
  std::vector<InterpreterTensor> inputs{test.q, test.k, test.v, test.dy};
  if (test.mask) inputs.push_back(*test.mask);
  check_runs(
      inputs,
      [&](Builder& b, std::span<const Value> x) {
        const Attrs attrs{
            {"scale", test.scale}, {"causal", test.causal}, {"masked", test.mask.has_value()}};
        std::vector<Value> operands{x[0], x[1], x[2]};
        if (test.mask) operands.push_back(x[4]);
        const Op* forward = b.create(OpKind::Attention, operands, attrs);
        Value sums = forward->result(1);
        operands = {x[0], x[1], x[2], forward->result(0), sums, x[3], b.constant(sums.type(), 0)};
        if (test.mask) operands.push_back(x[4]);
        const Op* backward = b.create(OpKind::AttentionGrad, operands, attrs);
        return std::vector<Value>{forward->result(0), backward->result(0), backward->result(1),
                                  backward->result(2)};
      },
      wanted, tolerance);
}

/// One head: queries, keys and values of depth 1. Scores are q k.
Case one_head(DType dtype, const Numbers& q, const Numbers& k, const Numbers& v) {
  auto column = [&](const Numbers& values) {
    return tensor(dtype, {1, 1, static_cast<int64_t>(values.size()), 1}, values);
  };
  return {column(q), column(k), column(v), column(Numbers(q.size(), 1))};
}

InterpreterTensor bools(Shape shape, const Numbers& values) {
  return tensor(DType::Bool, shape, values);
}

TEST_CASE("AT-01: a masked score has weight 0 in every type, also beside a fill of -1e9") {
  for (DType dtype : kTypes) {
    CAPTURE(to_string(dtype));
    // Scores 1, 2 and 3, the third masked; the values pick out the first weight.
    Case test = one_head(dtype, {1}, {1, 2, 3}, {1, 0, 0});
    test.mask = bools({3}, {1, 1, 0});
    const double p = 0.268941421, slope = 0.196611933;
    check_attention(test, {{p}, {-slope}, {slope, -slope, 0}, {p, 1 - p, 0}}, tolerance_of(dtype));
    const DType wide = default_acc(dtype);
    test.mask = tensor(wide, {3}, {0, 0, -1e9});
    check_attention(test, {{p}, {-slope}, {slope, -slope, 0}, {p, 1 - p, 0}}, tolerance_of(dtype));
  }
}

TEST_CASE("AT-03: masks of the least finite f16 add up in f32, and weigh what is left alike") {
  for (DType dtype : kTypes) {
    Case test = one_head(dtype, {1}, {1, 2}, {1, 0});
    // Arithmetic on numbers: both scores are lowered by as much, so that the weights stay.
    test.mask = tensor(default_acc(dtype), {2}, {-131008, -131008});
    check_attention(
        test,
        {{0.268941421}, {-0.196611933}, {0.196611933, -0.196611933}, {0.268941421, 0.731058579}},
        dtype == DType::F64 ? 1e-8 : 0.02);
    test.mask = tensor(default_acc(dtype), {2}, {-kInf, -kInf});
    check_attention(test, {{0}, {0}, {0, 0}, {0, 0}}, 0);
  }
}

TEST_CASE("AT-04: a query with no key left gives 0 and has gradients 0") {
  for (DType dtype : kTypes)
    for (bool numbers : {false, true}) {
      CAPTURE(to_string(dtype));
      Case test = one_head(dtype, {1, 1}, {1, 2}, {10, 20});
      test.mask = numbers ? tensor(default_acc(dtype), {2, 2}, {-kInf, -kInf, 0, 0})
                          : bools({2, 2}, {0, 0, 1, 1});
      const double p = 0.268941421, slope = 10 * 0.196611933;
      check_attention(test, {{0, 17.3105858}, {0, slope}, {-slope, slope}, {p, 1 - p}},
                      tolerance_of(dtype));
    }
}

TEST_CASE("what a query without a key holds, and its cotangent, reach no gradient") {
  for (DType dtype : kTypes)
    for (double bad : {kNan, kInf}) {
      Case test = one_head(dtype, {bad, 1}, {1, 2}, {10, 20});
      test.mask = bools({2, 1}, {0, 1});
      test.dy = tensor(dtype, {1, 1, 2, 1}, {bad, 1});
      const double p = 0.268941421, slope = 10 * 0.196611933;
      check_attention(test, {{0, 17.3105858}, {0, slope}, {-slope, slope}, {p, 1 - p}},
                      tolerance_of(dtype));
    }
}

TEST_CASE("AT-06: a key and a value that no query reads may hold anything") {
  for (DType dtype : kTypes)
    for (double bad : {kNan, kInf, -kInf})
      for (bool numbers : {false, true}) {
        Case test = one_head(dtype, {1, 2}, {3, bad}, {5, bad});
        test.mask = numbers ? tensor(default_acc(dtype), {1, 2}, {0, -kInf}) : bools({2}, {1, 0});
        check_attention(test, {{5, 5}, {0, 0}, {0, 0}, {2, 0}}, 0);
      }
}

TEST_CASE("keys behind the last query of a causal attention are read by none") {
  for (DType dtype : kTypes) {
    Case test = one_head(dtype, {1, 1}, {0, 0, kNan}, {4, 8, kNan});
    test.causal = true;
    check_attention(test, {{4, 6}, {0, 0}, {-1, 1, 0}, {1.5, 0.5, 0}}, tolerance_of(dtype));
  }
}

TEST_CASE("AT-08: scores far below the largest and masked blocks in front have weight 0") {
  for (DType dtype : {DType::F64, DType::F32}) {
    Case test = one_head(dtype, {1}, {0, 0, 1, 2}, {0, 0, 1, 0});
    test.mask = bools({4}, {0, 0, 1, 1});
    const double p = 0.268941421, slope = 0.196611933;
    check_attention(test, {{p}, {-slope}, {0, 0, slope, -slope}, {0, 0, p, 1 - p}}, 1e-6);
    test = one_head(dtype, {1}, {-200, -200, 0, 1}, {0, 0, 1, 0});
    const double tiny = dtype == DType::F64 ? 3.72187e-88 : 0,
                 part = dtype == DType::F64 ? -1.00097e-88 : 0;
    check_attention(test, {{p}, {-slope}, {part, part, slope, -slope}, {tiny, tiny, p, 1 - p}},
                    1e-5);
  }
}

TEST_CASE("AT-10: products of queries and keys beyond f16 are scores in f32") {
  for (DType dtype : kTypes) {
    const Numbers row(128, 30);
    Numbers two = row;
    two.insert(two.end(), row.begin(), row.end());
    Case test{tensor(dtype, {1, 1, 1, 128}, row), tensor(dtype, {1, 1, 2, 128}, two),
              tensor(dtype, {1, 1, 2, 1}, {1, 2}), tensor(dtype, {1, 1, 1, 1}, {0})};
    test.scale = 1 / std::sqrt(128.0);
    check_attention(test, {{1.5}, Numbers(128, 0), Numbers(256, 0), {0, 0}}, tolerance_of(dtype));
  }
}

TEST_CASE("query head i reads key head i / (query heads / key heads)") {
  InterpreterTensor q = full_tensor(Type(DType::F32, {1, 4, 1, 1}), 1);
  InterpreterTensor k = full_tensor(Type(DType::F32, {1, 2, 1, 1}), 1);
  InterpreterTensor v = tensor(DType::F32, {1, 2, 1, 1}, {7, 9});
  check_attention({q, k, v, tensor(DType::F32, {1, 4, 1, 1}, {1, 10, 100, 1000})},
                  {{7, 7, 9, 9}, {0, 0, 0, 0}, {0, 0}, {11, 1100}}, 1e-6);
}

TEST_CASE("attention is softmax of scaled and masked scores times values") {
  InterpreterTensor q = tensor(DType::F64, {1, 1, 2, 2}, {1, 0, 0.5, -1});
  InterpreterTensor k = tensor(DType::F64, {1, 1, 2, 2}, {2, 1, -1, 3});
  InterpreterTensor v = tensor(DType::F64, {1, 1, 2, 1}, {1, 5});
  InterpreterTensor mask = tensor(DType::F64, {2, 2}, {0, 0.5, -0.25, 0});
  RunResult got = run_op(OpKind::Attention, {q, k, v, mask}, {{"scale", 0.5}, {"masked", true}});
  for (size_t row = 0; row < 2; ++row) {
    double a = row == 0 ? 1 : -0.25, b = row == 0 ? 0 : -1.75;
    double total = std::exp(a) + std::exp(b);
    CHECK(got.results[0].floats[row] ==
          doctest::Approx((std::exp(a) + 5 * std::exp(b)) / total).epsilon(1e-12));
    CHECK(got.results[1].floats[row] == doctest::Approx(std::log(total)).epsilon(1e-12));
  }
}

TEST_CASE("dropout of attention drops by the number of the score and scales the others") {
  const int64_t queries = 16, keys = 8;
  std::vector<InterpreterTensor> operands{full_tensor(Type(DType::F64, {2, 1, queries, 1}), 0),
                                          full_tensor(Type(DType::F64, {2, 1, keys, 1}), 0)};
  InterpreterTensor v(Type(DType::F64, {2, 1, keys, keys}));
  for (size_t b = 0; b < 2; ++b)
    for (size_t i = 0; i < 8; ++i) v.floats[(b * 8 + i) * 8 + i] = 1;
  operands.push_back(v);
  InterpreterTensor state(Type(DType::I64, {2}));
  state.integers = {7, 3};
  operands.push_back(state);
  const Attrs attrs{{"scale", 1.0}, {"rate", 0.25}, {"stream", int64_t{5}}};
  InterpreterTensor y = run_op(OpKind::Attention, operands, attrs).results[0];
  int64_t dropped = 0;
  for (int64_t i = 0; i < y.elements(); ++i) {
    const auto element = static_cast<uint64_t>(i);
    const bool drops = random_block(7, 3, 5, element / 4)[element % 4] < uint32_t{1} << 30;
    CHECK(y.number(i) == doctest::Approx(drops ? 0 : 1.0 / 8 / 0.75));
    dropped += drops;
  }
  CHECK(dropped > y.elements() / 8);
  // The second sample alone, by its offset, drops what it drops in the batch.
  std::vector<InterpreterTensor> second{full_tensor(Type(DType::F64, {1, 1, queries, 1}), 0),
                                        full_tensor(Type(DType::F64, {1, 1, keys, 1}), 0)};
  InterpreterTensor half(Type(DType::F64, {1, 1, keys, keys}));
  std::copy_n(v.floats.begin(), 64, half.floats.begin());
  InterpreterTensor offset(Type(DType::I64, {}));
  offset.integers[0] = 1;
  second.insert(second.end(), {half, state, offset});
  InterpreterTensor part = run_op(OpKind::Attention, second, attrs).results[0];
  CHECK(part.floats == Numbers(y.floats.begin() + 128, y.floats.end()));
}

}  // namespace
}  // namespace mezzo::test
