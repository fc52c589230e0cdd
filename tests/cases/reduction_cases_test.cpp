// SPDX-License-Identifier: Apache-2.0
// Reported faults of sums, means and products, with the numbers of the reports: what adds up in 16
// bits, where it should in f32.
#include <doctest/doctest.h>

#include <algorithm>
#include <cases/traced_runs.h>
#include <limits>

namespace mezzo::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kNarrow[] = {f16, bf16};

/// Half the numbers are 1 and half -1, but for one more 1.
Numbers almost_cancelling(int64_t half) {
  Numbers numbers(static_cast<size_t>(half + 1), 1);
  numbers.insert(numbers.end(), static_cast<size_t>(half), -1);
  return numbers;
}

TEST_CASE("RD-01: the mean of 100,000 ones is 1 in every type") {
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    check_traced([](Tensor x) { return mean(x); }, {filled({100000}, 1, dtype)}, {{1}}, 0);
    check_traced([](Tensor x) { return std::pair(mean(x, 1), mean(x, 0)); },
                 {filled({2, 70000}, 1, dtype)}, {{1, 1}, Numbers(70000, 1)}, 0);
  }
}

TEST_CASE("RD-03: a sum is rounded to its own type, and to nothing on the way") {
  const struct {
    DType dtype;
    double under, over;
  } cases[] = {{f64, 65519, 65520}, {f32, 65519, 65520}, {f16, 65504, kInf}, {bf16, 65536, 65536}};
  for (auto [dtype, under, over] : cases)
    for (auto [count, narrow] : {std::pair(65519, under), std::pair(65520, over)}) {
      CAPTURE(ir::to_string(dtype));
      CAPTURE(count);
      check_traced([](Tensor x) { return std::pair(sum(x), sum(cast(x, f32))); },
                   {filled({count}, 1, dtype)}, {{narrow}, {static_cast<double>(count)}}, 0);
    }
}

TEST_CASE("RD-04: large terms that cancel leave no range on the way") {
  const Numbers terms{32000, 32000, 32000, 32000, -32000, -32000, -32000, -32000};
  Numbers twice;
  for (double term : terms) twice.insert(twice.end(), {term, -term});
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    check_traced(
        [](Tensor x) {
          return std::vector<Tensor>{sum(x), mean(x), dot(x, full({8}, 1, x.dtype()))};
        },
        {row(terms, dtype)}, {{0}, {0}, {0}}, 0);
    // By columns, and the gradient of a square of the sum.
    check_traced([](Tensor x) { return sum(x, 0); }, {Array({8, 2}, twice, dtype)}, {{0, 0}}, 0);
    check_traced(value_and_grad([](Tensor x) { return square(sum(x)); }), {row(terms, dtype)},
                 {{0}, Numbers(8, 0)}, 0);
  }
}

TEST_CASE("RD-05: a sum of ones goes on growing") {
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    check_traced(
        [](Tensor x) {
          return std::vector<Tensor>{sum(x), dot(x, x), slice(cumsum(x), {-1}, {4096}),
                                     scatter_add(full({1}, 0, x.dtype()), full({4096}, 0, i32), x)};
        },
        {filled({4096}, 1, dtype)}, {{4096}, {4096}, {4096}, {4096}}, 0);
    check_traced([](Tensor x) { return sum(x, 0); }, {filled({4096, 3}, 1, dtype)},
                 {{4096, 4096, 4096}}, 0);
    // The gradient of a factor that all elements share.
    check_traced(grad([](Tensor w, Tensor x) { return sum(w * x); }),
                 {Array(1, dtype), filled({4096}, 1, dtype)}, {{4096}}, 0);
  }
}

TEST_CASE("RD-06: the dice loss of whole masks is 0, with a gradient") {
  auto dice = [](Tensor p, Tensor t) { return 1 - 2 * sum(p * t) / (sum(p) + sum(t)); };
  const Numbers slope(512 * 512, -0x1p-19);
  const struct {
    DType dtype;
    const char* policy;
  } cases[] = {{f64, ""},
               {f32, ""},
               {bf16, ""},
               {f32, "mixed_float16"},
               {f16, "mixed_float16"},
               {bf16, "mixed_bfloat16"}};
  for (auto [dtype, policy] : cases) {
    CAPTURE(ir::to_string(dtype));
    CAPTURE(policy);
    const Array ones = filled({512, 512}, 1, dtype);
    check_traced(value_and_grad(dice, {0}), {ones, ones}, {{0}, slope}, step_of(dtype),
                 {.policy = policy});
  }
  // Without a policy, sums of f16 are f16; a region says what is wanted.
  const Array ones = filled({512, 512}, 1, f16);
  check_traced([&](Tensor p, Tensor t) { return keep_f32([&] { return dice(p, t); }); },
               {ones, ones}, {{0}}, 0);
}

TEST_CASE("RD-08: the softmax of 4096 equal logits sums to 1") {
  for (DType dtype : kFloats)
    for (double logit : {0.0, 3.0, -60000.0}) {
      CAPTURE(ir::to_string(dtype));
      check_traced(
          [](Tensor x) {
            Tensor p = softmax(x);
            return std::pair(p, sum(p, 1));
          },
          {filled({2, 4096}, logit, dtype)}, {Numbers(2 * 4096, 0x1p-12), {1, 1}},
          dtype == f64 ? 1e-12 : std::max(step_of(dtype), 0x1p-20));
    }
}

TEST_CASE("RD-11: the gradient of a bias over 1600 positions is 1600") {
  auto loss = [](Tensor x, Tensor w, Tensor b) { return sum(conv2d(x, w) + b); };
  for (DType dtype : kFloats)
    for (const char* policy : {"", "mixed_bfloat16", "mixed_float16"}) {
      CAPTURE(ir::to_string(dtype));
      CAPTURE(policy);
      check_traced(
          grad(loss, 2),
          {filled({1, 40, 40, 1}, 0.5, dtype), filled({1, 1, 1, 1}, 2, dtype), row({0}, dtype)},
          {{1600}}, 0, {.policy = policy});
    }
}

TEST_CASE("RD-12: 12,500 additions to one row are made in f32") {
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    const Array table({2, 1}, {1, 7}, dtype), parts = filled({12500, 1}, 0.01, dtype);
    check_traced([](Tensor x, Tensor u) { return scatter_add(x, full({12500}, 0, i32), u); },
                 {table, parts}, {{126, 7}}, ir::is_16bit(dtype) ? 0 : 12500 * step_of(dtype) / 4);
    const double total = 12500 * ir::round_to(dtype, 0.01);
    check_traced(
        grad([](Tensor x, Tensor u) { return sum(embedding(x, full({12500}, 0, i32)) * u); }),
        {table, parts}, {{total, 0}}, dtype == f32 ? 1e-4 : step_of(dtype));
  }
}

TEST_CASE("RD-14: small addends after a large one are not lost one by one") {
  auto all = [](std::span<const Tensor> x) {
    return std::vector<Tensor>{add_n({x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}),
                               add_n({x[7], x[6], x[5], x[4], x[3], x[2], x[1], x[0]})};
  };
  for (DType dtype : kNarrow) {
    CAPTURE(ir::to_string(dtype));
    const double small = ir::unit_roundoff(dtype), wanted = 1 + 8 * small;
    std::vector<Array> inputs(8, row({small}, dtype));
    inputs[0] = row({1}, dtype);
    check_traced_list(all, inputs, {{wanted}, {wanted}}, 0);
    // The cotangents of one value: exact in f32, or rounded once.
    check_traced(grad([](Tensor x, Tensor a, Tensor b) {
                   return sum(x * a + x * b + x * b + x * b + x * b + x * b + x * b + x * b);
                 }),
                 {row({1}, dtype), row({1}, dtype), row({small}, dtype)}, {{1 + 7 * small}}, small);
  }
}

TEST_CASE("RD-16: partial sums of a product are not rounded before they meet") {
  const Numbers terms = almost_cancelling(1024);  // 1025 and -1024
  const int64_t depth = static_cast<int64_t>(terms.size());
  for (DType dtype : kFloats)
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>(1, 1), {3, 5}, {64, 32}}) {
      CAPTURE(ir::to_string(dtype));
      CAPTURE(rows);
      Numbers left;
      for (int64_t i = 0; i < rows; ++i) left.insert(left.end(), terms.begin(), terms.end());
      const auto elements = static_cast<size_t>(rows * columns);
      check_traced([](Tensor a, Tensor b) { return matmul(a, b); },
                   {Array({rows, depth}, left, dtype), filled({depth, columns}, 1, dtype)},
                   {Numbers(elements, 1)}, 0);
    }
}

}  // namespace
}  // namespace mezzo::test
