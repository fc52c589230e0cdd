// SPDX-License-Identifier: Apache-2.0
// Reported faults of divisions by what is nothing or next to it, with the numbers of the reports.
#include <doctest/doctest.h>

#include <cases/traced_runs.h>
#include <limits>

namespace mezzo::test {
namespace {

constexpr const char* kPolicies[] = {"", "mixed_float16", "mixed_bfloat16"};

TEST_CASE("DV-01: the min-max normalisation of equal scores is 0") {
  auto normalised = [](Tensor x) { return (x - min(x)) / (max(x) - min(x) + 1e-8); };
  for (const char* policy : kPolicies) {
    CAPTURE(policy);
    const TracedOptions options{.policy = policy};
    for (DType dtype : kFloats) {
      CAPTURE(ir::to_string(dtype));
      check_traced(normalised, {row({3, 3, 3}, dtype)}, {{0, 0, 0}}, 0, options);
      check_traced(normalised, {row({3, 4, 5}, dtype)}, {{0, 0.5, 1}}, 1e-6, options);
    }
    // Scores that a policy makes 16-bit.
    check_traced([&](Tensor x, Tensor w) { return normalised(matmul(x, w)); },
                 {filled({3, 1}, 3, f32), filled({1, 1}, 1, f32)}, {{0, 0, 0}}, 0, options);
  }
}

TEST_CASE("DV-03: the l2 normalisation of zeros is 0") {
  for (const char* policy : kPolicies)
    for (DType dtype : kFloats) {
      CAPTURE(policy);
      CAPTURE(ir::to_string(dtype));
      check_traced(
          [](Tensor x) {
            return std::vector<Tensor>{x / maximum(norm(x), 1e-12), x / (norm(x) + 1e-12),
                                       x * rsqrt(sum(x * x) + 1e-12), x / sqrt(sum(x * x) + 1e-12),
                                       rms_norm(x, {.eps = 1e-12})};
          },
          {row({0, 0}, dtype)}, {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}, 0, {.policy = policy});
      check_traced([](Tensor x) { return x / maximum(norm(x), 1e-12); }, {row({3, 4}, dtype)},
                   {{0.6, 0.8}}, policy[0] ? 2 * step_of(bf16) : step_of(dtype),
                   {.policy = policy});
    }
}

TEST_CASE("DV-06: the direction of a zero row is 0, and so is its gradient where it is left out") {
  for (const char* policy : kPolicies)
    for (DType dtype : kFloats) {
      CAPTURE(policy);
      CAPTURE(ir::to_string(dtype));
      const Array weight({2, 2}, {0, 0, 3, 4}, dtype), length({2, 1}, {1, 10}, dtype);
      const double close = policy[0] ? 2 * step_of(bf16) : step_of(dtype);
      check_traced([](Tensor w, Tensor m) { return m * (w / maximum(norm(w, -1, true), 1e-12)); },
                   {weight, length}, {{0, 0, 6, 8}}, close, {.policy = policy});
      // d(m w/|w|)/dw of the other row: m/|w| (1 - w (w.1)/|w|^2) = 2 (1 - 3*7/25), 2 (1 - 4*7/25).
      check_traced(value_and_grad(
                       [](Tensor w, Tensor m) {
                         Tensor size = norm(w, -1, true);
                         return sum(where(size > 0, m * (w / size), 0.0));
                       },
                       {0, 1}),
                   {weight, length}, {{14}, {0, 0, 0.32, -0.24}, {0, 1.4}},
                   policy[0] || ir::is_16bit(dtype) ? 0.1 : 1e-5, {.policy = policy});
    }
}

TEST_CASE("DV-07: a mean loss with every target ignored is 0, and no gradient is NaN") {
  auto dense = [](Tensor x, Tensor w) { return matmul(x, w); };
  for (const char* policy : kPolicies)
    for (DType dtype : kFloats) {
      CAPTURE(policy);
      CAPTURE(ir::to_string(dtype));
      const Array x({2, 1}, {1, 2}, dtype), w({1, 3}, {1, 2, 3}, dtype);
      const std::vector<Numbers> wanted{{0}, {0, 0, 0}};
      const TracedOptions options{.policy = policy};
      check_traced(
          value_and_grad(
              [&](Tensor a, Tensor b) { return cross_entropy(dense(a, b), full({2}, -100, i32)); },
              {1}),
          {x, w}, wanted, 0, options);
      check_traced(value_and_grad(
                       [&](Tensor a, Tensor b) {
                         return nll(log_softmax(dense(a, b)), full({2}, 7, i32),
                                    {.ignore_index = 7});
                       },
                       {1}),
                   {x, w}, wanted, 0, options);
      check_traced(value_and_grad(
                       [&](Tensor a, Tensor b) {
                         return mse_loss(dense(a, b), full({2, 3}, 1, a.dtype()),
                                         {.weight = full({2, 1}, 0, a.dtype())});
                       },
                       {1}),
                   {x, w}, wanted, 0, options);
    }
}

}  // namespace
}  // namespace mezzo::test
