// SPDX-License-Identifier: Apache-2.0
// Reported faults of exponentials, logarithms and what is made of them, with the numbers of the
// reports: tails, infinities, and bounds that a type does not have.
#include <mezzo/dsl/trace.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cases/traced_runs.h>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace mezzo::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

TEST_CASE("TR-01: softplus keeps its right tail") {
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    for (double x : {12.0, 11.0, 20.0, 90.0, 3000.0}) {
      const double wanted = softplus_of(x);
      CHECK((x != 12 || wanted == doctest::Approx(12.00000614).epsilon(1e-9)));
      check_traced([](Tensor v) { return std::pair(softplus(v), log_sigmoid(-v)); },
                   {row({x}, dtype)}, {{wanted}, {-wanted}}, step_of(dtype));
      check_traced(grad([](Tensor v) { return sum(softplus(v)); }), {row({x}, dtype)},
                   {{sigmoid_of(x)}}, step_of(dtype));
    }
  }
  // Written out, it needs the exponential in f32, which a policy gives.
  check_traced([](Tensor v) { return log(1 + exp(v)); }, {row({12}, f16)}, {{12.00000614}},
               step_of(f16), {.policy = "mixed_float16"});
}

TEST_CASE("TR-03: tanh and gelu far out are their limits") {
  for (DType dtype : {f32, f16, bf16}) {
    CAPTURE(ir::to_string(dtype));
    for (double x : {20.0, 300.0, 60000.0}) {
      const double far = ir::round_to(dtype, x);
      check_traced([](Tensor v) { return std::vector<Tensor>{tanh(v), gelu(v), gelu_tanh(v)}; },
                   {row({x, -x}, dtype)}, {{1, -1}, {far, 0}, {far, 0}}, 0);
      check_traced(
          [](Tensor v) {
            auto slope = [&](auto f) { return grad([f](Tensor u) { return sum(f(u)); })(v); };
            return std::vector<Tensor>{slope([](Tensor u) { return tanh(u); }),
                                       slope([](Tensor u) { return gelu(u); }),
                                       slope([](Tensor u) { return gelu_tanh(u); })};
          },
          {row({x, -x}, dtype)}, {{0, 0}, {1, 0}, {1, 0}}, 0);
    }
  }
  check_traced([](Tensor v) { return std::pair(tanh(v), gelu(v)); }, {row({20, -20}, f64)},
               {{1, -1}, {20, -5.50724824e-88}}, 1e-8);
  check_traced(
      [](Tensor v) {
        Tensor e = exp(2 * v);
        return (e - 1) / (e + 1);
      },
      {row({20, -20}, f16)}, {{1, -1}}, 0, {.policy = "mixed_float16"});
}

TEST_CASE("TR-05: erf and lgamma of large numbers") {
  const double lgamma_5000 = 37582.6263, digamma_5000 = 8.51709317;
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    check_traced([](Tensor v) { return std::pair(erf(v), erfc(v)); },
                 {row({300, -300, 60000, -60000, kInf, -kInf}, dtype)},
                 {{1, -1, 1, -1, 1, -1}, {0, 2, 0, 2, 0, 2}}, 0);
    check_traced(grad([](Tensor v) { return sum(erf(v)); }), {row({300, -300}, dtype)}, {{0, 0}},
                 0);
    const double at = ir::round_to(dtype, 5000);  // 4992 in bf16
    const double value = at == 5000 ? lgamma_5000 : std::lgamma(at);
    check_traced([](Tensor v) { return std::pair(lgamma(v), digamma(v)); }, {row({5000}, dtype)},
                 {{value}, {at == 5000 ? digamma_5000 : std::log(at) - 0.5 / at}},
                 std::max(step_of(dtype), 2e-8));
  }
  check_traced([](Tensor v) { return lgamma(v); }, {row({5000}, f16)}, {{37568}}, 0);
}

/// Names of what is found while `f` of an input of that type is traced.
std::vector<std::string> findings(DType dtype, const std::function<Tensor(Tensor)>& f) {
  detail::Trace trace("test");
  trace.begin_function("f");
  f(trace.input(ir::Type(dtype, {1}), "p"));
  std::vector<std::string> names;
  for (const passes::Finding& finding : trace.findings) names.push_back(finding.name);
  return names;
}

const std::vector<std::string> kLeavesType{"literal-leaves-type"};

TEST_CASE("TR-06: a clamp to what 16 bits round to 1 still clamps, and is reported") {
  auto clamped = [](Tensor p) { return clamp(p, 1e-6, 1 - 1e-6); };
  auto loss = [=](Tensor p, Tensor t) {
    Tensor q = clamped(p);
    return -(t * log(q) + (1 - t) * log1p(-q));
  };
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    CHECK(findings(dtype, clamped) ==
          (ir::is_16bit(dtype) ? kLeavesType : std::vector<std::string>()));
    const DType wide = dtype == f64 ? f64 : f32;
    const double bound = ir::round_to(wide, 1 - 1e-6);
    check_traced(loss, {row({1, 1}, dtype), row({1, 0}, dtype)},
                 {{-std::log(bound), -std::log1p(-bound)}}, 2e-6);
    // The losses of the library: 0 where the probability is certain and right.
    check_traced(
        [](Tensor p, Tensor t) {
          return std::pair(bce(p, t, {.reduce = "none"}), -(xlogy(t, p) + xlog1py(1 - t, -p)));
        },
        {row({1, 0}, dtype), row({1, 0}, dtype)}, {{0, 0}, {0, 0}}, 0);
    check_traced(value_and_grad([](Tensor x, Tensor t) { return bce_with_logits(x, t); }, {0}),
                 {row({1000}, dtype), row({1}, dtype)}, {{0}, {0}}, 0);
  }
  // In a program with a policy the probability is f16 only when the bound is met.
  for (const char* policy : {"mixed_float16", "mixed_bfloat16"})
    check_traced([=](Tensor x, Tensor w) { return loss(sigmoid(matmul(x, w)), full({1, 1}, 1)); },
                 {Array({1, 1}, {30}), Array({1, 1}, {1})},
                 {{-std::log(ir::round_to(f32, 1 - 1e-6))}}, 2e-6, {.policy = policy});
}

TEST_CASE("TR-07: powers of negative bases") {
  const Numbers base{-2, -2, -8, -2, -2, -1, -0.5, -1};
  const Numbers exponent{3, 2, 1.0 / 3, -3, 0, kInf, 2, 255};
  const Numbers wanted{-8, 4, kNan, -0.125, 1, 1, 0.25, -1};
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    check_traced([](Tensor x, Tensor y) { return pow(x, y); },
                 {row(base, dtype), row(exponent, dtype)}, {wanted}, 0);
    check_traced(
        [](Tensor x) {
          return std::vector<Tensor>{pow(x, 3), pow(x, 2), pow(x, 1.0 / 3), pow(x, -1),
                                     pow(x, 0.5)};
        },
        {row({-2, -8}, dtype)}, {{-8, -512}, {4, 64}, {kNan, kNan}, {-0.5, -0.125}, {kNan, kNan}},
        0);
    check_traced(grad([](Tensor x, Tensor y) { return sum(pow(x, y)); }),
                 {row({-2, -2, -2, -2}, dtype), row({3, 2, 1, 0}, dtype)}, {{12, -4, 1, 0}}, 0);
    check_traced(grad([](Tensor x) { return sum(pow(x, 3) + pow(x, 2)); }), {row({-2}, dtype)},
                 {{8}}, 0);
  }
}

TEST_CASE("TR-09: uniform numbers stay below 1, so that log(1 - u) is finite") {
  // As many numbers as make each of the 2,048 of f16 sure to be there.
  const int64_t count = 40000;
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    auto draw = [&](std::span<const Tensor>) {
      Tensor u = random_uniform({count}, dtype);
      Tensor ranged = random_uniform({count}, UniformOptions{.low = -1, .high = 1, .dtype = dtype});
      Tensor normal = random_normal({count}, dtype);
      return std::vector<Tensor>{max(u), min(u), min(log(1 - u)), max(ranged), max(abs(normal))};
    };
    for (const TracedRun& run : traced_runs(draw, {})) {
      CAPTURE(run.engine);
      const double largest = run.results[0].item();
      CHECK(largest < 1);
      CHECK(run.results[1].item() >= 0);
      CHECK(std::isfinite(run.results[2].item()));
      CHECK(run.results[3].item() < 1);
      CHECK(run.results[4].item() < 9);
      if (!ir::is_16bit(dtype)) continue;
      CHECK(run.results[1].item() == 0);
      CHECK(largest == (dtype == f16 ? 0.99951171875 : 0.99609375));
      CHECK(run.results[2].item() ==
            ir::round_to(dtype, dtype == f16 ? -7.62461899 : std::log(0x1p-8)));
    }
  }
}

TEST_CASE("TR-14: a clip whose bound is 1 in f16 is a clip, and one that is not stays in f16") {
  auto loss = [](double eps) { return [=](Tensor p) { return -log(1 - clamp(p, eps, 1 - eps)); }; };
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    const double bound = ir::round_to(dtype == f64 ? f64 : f32, 1 - 1e-7);
    check_traced(loss(1e-7), {row({1}, dtype)}, {{-std::log(1 - bound)}}, 1e-6);
    CHECK(findings(dtype, loss(1e-7)).empty() != ir::is_16bit(dtype));
    check_traced(loss(0x1p-11), {row({1}, dtype)}, {{7.62461899}}, step_of(dtype));
    CHECK(findings(dtype, loss(0x1p-11)).empty() == (dtype != bf16));
  }
  CHECK(-std::log(1 - (1 - 1e-7)) == doctest::Approx(16.1180957).epsilon(1e-8));
  for (const char* policy : {"mixed_float16", "mixed_bfloat16"})
    check_traced([&](Tensor x, Tensor w) { return loss(1e-7)(sigmoid(matmul(x, w))); },
                 {Array({1, 1}, {30}), Array({1, 1}, {1})},
                 {{-std::log(1 - ir::round_to(f32, 1 - 1e-7))}}, 1e-6, {.policy = policy});
}

TEST_CASE("TR-15: cross entropy of large logits") {
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    const Numbers logits{-431, 279, 427};
    const double loss = ir::round_to(dtype, 427) - ir::round_to(dtype, -431);
    CHECK((dtype == bf16 || loss == 858));
    const double middle = dtype == f64 ? std::exp(279.0 - 427) : 0;
    const Array x({1, 3}, logits, dtype);
    check_traced(value_and_grad([](Tensor v) { return cross_entropy(v, full({1}, 0, i32)); }), {x},
                 {{loss}, {-1, middle, 1}}, 1e-8);
    check_traced(value_and_grad([](Tensor v) { return nll(log_softmax(v), full({1}, 0, i32)); }),
                 {x}, {{loss}, {-1, middle, 1}}, 1e-8);
    check_traced(value_and_grad([](Tensor v, Tensor t) { return cross_entropy(v, t); }, {0}),
                 {x, Array({1, 3}, {1, 0, 0}, dtype)}, {{loss}, {-1, middle, 1}}, 1e-8);
  }
}

TEST_CASE("TR-16: softmax of large logits") {
  for (DType dtype : kFloats)
    for (double sign : {1.0, -1.0}) {
      CAPTURE(ir::to_string(dtype));
      const Numbers logits = sign > 0 ? Numbers{40000, 50000} : Numbers{-50000, -40000};
      const double low = ir::round_to(dtype, logits[0]), high = ir::round_to(dtype, logits[1]);
      check_traced(
          [](Tensor x) { return std::vector<Tensor>{softmax(x), log_softmax(x), logsumexp(x)}; },
          {row(logits, dtype)}, {{0, 1}, {low - high, 0}, {high}}, step_of(dtype));
      check_traced(grad([](Tensor x, Tensor c) { return sum(softmax(x) * c); }),
                   {row(logits, dtype), row({3, 5}, dtype)}, {{0, 0}}, 0);
      check_traced(grad([](Tensor x) { return logsumexp(x); }), {row(logits, dtype)}, {{0, 1}}, 0);
    }
}

TEST_CASE("TR-18: logaddexp of far and infinite pairs") {
  const Numbers a{100, 90, -100, -kInf, kInf, kInf}, b{0, 89, -100, -kInf, kInf, -kInf};
  const Numbers wanted{100, 90.3132617, -99.3068528, -kInf, kInf, kInf};
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    check_traced(
        [](Tensor x, Tensor y) {
          return std::vector<Tensor>{logaddexp(x, y), logaddexp(y, x), logsumexp(stack({x, y}), 0)};
        },
        {row(a, dtype), row(b, dtype)}, {wanted, wanted, wanted}, step_of(dtype));
    const double more = 0.731058579, less = 0.268941421;
    check_traced(
        [](Tensor x, Tensor y) {
          return value_and_grad([](Tensor u, Tensor v) { return sum(logaddexp(u, v)); })(x, y)
              .grads;
        },
        {row({1000, 90, -100, -kInf}, dtype), row({0, 89, -100, -kInf}, dtype)},
        {{1, more, 0.5, 0}, {0, less, 0.5, 0}}, step_of(dtype));
  }
}

}  // namespace
}  // namespace mezzo::test
