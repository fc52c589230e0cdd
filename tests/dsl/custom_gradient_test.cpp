// SPDX-License-Identifier: Apache-2.0
// Differentiation from the program: custom gradients, checkpoint regions, gradients by some inputs,
// and gradients of gradients.
#include <mezzo/mezzo.h>
#include <support/log_lines.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

using namespace mezzo;

namespace {

using Numbers = std::vector<double>;

const JitOptions kInterpreter{.device = Device::interpreter()};

/// The text of a UserError, without its place.
std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.message();
  }
  return "no error";
}

/// x where the gradient passes only within [-1, 1].
auto clipped() {
  return custom_gradient([](Tensor x) { return x; },
                         [](Tensor, Tensor, Tensor dy) { return minimum(maximum(dy, -1.0), 1.0); });
}

}  // namespace

TEST_CASE("a custom gradient replaces the one of the forward function") {
  for (const JitOptions& options : {kInterpreter, JitOptions{}}) {
    auto f =
        jit([](Tensor x) { return grad([](Tensor a) { return sum(5.0 * clipped()(a) * a); })(x); },
            options);
    // d/da of 5 c(a) a: the cotangent 5 a of c is clipped, the rest is 5 a.
    CHECK(f(Array({3}, {0.1, -2, 3})).to_doubles() == Numbers{0.5 + 0.5, -1 - 10, 1 + 15});
    auto forward = jit([](Tensor x) { return clipped()(x) * 2.0; }, options);
    CHECK(forward(Array({2}, {7, -8})).to_doubles() == Numbers{14, -16});
  }
}

TEST_CASE("custom gradients of several inputs and outputs, integers among the inputs") {
  auto pair = custom_gradient(
      [](Tensor x, Tensor y, Tensor n) { return std::pair(x * y, x + cast(n, f32)); },
      [](Tensor x, Tensor y, Tensor, Tensor, Tensor, Tensor dp, Tensor ds) {
        return std::pair(10.0 * dp * y + ds, 100.0 * dp * x);
      });
  auto f = jit(
      [&](Tensor x, Tensor y, Tensor n) {
        auto both = value_and_grad(
            [&](Tensor a, Tensor b, Tensor c) {
              auto [product, total] = pair(a, b, c);
              return sum(product) + sum(3.0 * total);
            },
            {0, 1})(x, y, n);
        return std::tuple(both.value, both.grads[0], both.grads[1]);
      },
      kInterpreter);
  std::vector<Array> out = f(Array({2}, {1, 2}), Array({2}, {3, 4}), Array({2}, {5, 6}, i32));
  CHECK(out[0].item() == 11 + 3 * 14);
  CHECK(out[1].to_doubles() == Numbers{33, 43});
  CHECK(out[2].to_doubles() == Numbers{100, 200});
}

TEST_CASE(
    "a second derivative differentiates the backward function and takes the rule for outputs") {
  // y = x^3, written with a backward function of its output: dx = 3 dy y / x.
  auto cube = custom_gradient([](Tensor x) { return x * x * x; },
                              [](Tensor x, Tensor y, Tensor dy) { return 3.0 * dy * y / x; });
  auto second = jit(
      [&](Tensor x) {
        return grad([&](Tensor a) { return sum(grad([&](Tensor b) { return sum(cube(b)); })(a)); })(
            x);
      },
      kInterpreter);
  for (double x : {2.0, -3.0})
    CHECK(second(Array({1}, {x})).to_doubles()[0] == doctest::Approx(6 * x).epsilon(1e-6));
  // One that is wrong on purpose shows in both: dx = 7 dy x, so that the second derivative is 7.
  auto wrong = custom_gradient([](Tensor x) { return x * x * x; },
                               [](Tensor x, Tensor, Tensor dy) { return 7.0 * dy * x; });
  auto seven = jit(
      [&](Tensor x) {
        return grad(
            [&](Tensor a) { return sum(grad([&](Tensor b) { return sum(wrong(b)); })(a)); })(x);
      },
      kInterpreter);
  CHECK(seven(Array({2}, {2, 5})).to_doubles() == Numbers{7, 7});
}

TEST_CASE("a custom gradient may take gradients itself, and stands in a precision region") {
  auto outer = custom_gradient([](Tensor x) { return sin(x); },
                               [](Tensor x, Tensor, Tensor dy) {
                                 return dy * grad([](Tensor a) { return sum(a * a); })(x);
                               });
  for (std::optional<Policy> policy :
       {std::optional<Policy>(), std::optional<Policy>(Policy::mixed_float16())}) {
    auto f = jit([&](Tensor x) { return grad([&](Tensor a) { return sum(outer(a)); })(x); },
                 {.device = Device::interpreter(), .policy = policy});
    CHECK(f(Array({2}, {2, 3})).to_doubles() == Numbers{4, 6});
  }
}

TEST_CASE("what a custom gradient captures is a constant for it") {
  auto f = jit(
      [](Tensor x, Tensor w) {
        auto both = value_and_grad([](Tensor a, Tensor b) {
          auto scaled = custom_gradient([&](Tensor t) { return t * b; },
                                        [&](Tensor, Tensor, Tensor dy) { return dy * b; });
          return sum(scaled(a));
        })(x, w);
        return std::pair(both.grads[0], both.grads[1]);
      },
      kInterpreter);
  std::vector<Array> out = f(Array({2}, {1, 2}), Array({2}, {3, 4}));
  CHECK(out[0].to_doubles() == Numbers{3, 4});
  CHECK(out[1].to_doubles() == Numbers{0, 0});
}

TEST_CASE("a Trainer trains through a custom gradient") {
  nn::Dense layer{2, 1, {.bias = false, .initializer = initializers::zeros()}};
  // A straight-through estimator: the sign forwards, the identity backwards.
  auto model = [layer](Tensor x) {
    auto binary = custom_gradient([](Tensor h) { return sign(h + 1.0); },
                                  [](Tensor, Tensor, Tensor dy) { return dy; });
    return binary(layer(x));
  };
  Trainer trainer(model, losses::mse, optim::SGD{.learning_rate = 0.5},
                  {.batch = 2, .device = Device::interpreter()});
  StepResult step = trainer.step(Array({2, 2}, {1, 0, 0, 1}), Array({2, 1}, {2, 3}));
  CHECK(step.loss == 2.5);  // (1 - 2)^2, (1 - 3)^2
  CHECK(layer.weight().value().to_doubles() == Numbers{0.5, 1});
}

TEST_CASE("a custom gradient of the wrong shapes is an error at its line") {
  auto traced = [](auto&& build) {
    return error_of([&] { jit(build, kInterpreter)(Array({2, 3}, Numbers(6, 1.0))); });
  };
  CHECK(traced([](Tensor x) {
          return custom_gradient([](Tensor a) { return a; },
                                 [](Tensor, Tensor, Tensor dy) { return sum(dy); })(x);
        }) ==
        "custom_gradient: the backward function gives tensor<f32> for float input 0, which is "
        "tensor<2x3xf32>");
  CHECK(traced([](Tensor x) {
          return custom_gradient([](Tensor a) { return a; },
                                 [](Tensor, Tensor, Tensor dy) { return std::pair(dy, dy); })(x);
        }) == "custom_gradient: the backward function gives 2 cotangents for 1 float input");
  CHECK(traced([](Tensor x) {
          return custom_gradient([](Tensor a) { return argmax(a); },
                                 [](Tensor a, Tensor, Tensor) { return a; })(x);
        }) == "custom_gradient: the forward function gives tensor<2xi32>, which has no gradient");
}

namespace {

/// A loss of `layers` blocks of two products and tanh, each in a checkpoint region where `again`.
Tensor deep_loss(Tensor x, Tensor w, int layers, bool again) {
  for (int i = 0; i < layers; ++i) {
    auto block = [&] {
      Tensor h = tanh(matmul(x, w));
      h = h * sigmoid(h);
      return dropout(tanh(matmul(h, w)), 0.25) + x;
    };
    x = again ? checkpoint(block) : block();
  }
  return mean(square(x));
}

}  // namespace

TEST_CASE("a checkpoint region changes no bit of value and gradients, on any device and policy") {
  for (Device device : {Device::interpreter(), Device::cpu()})
    for (const char* rounding : {"excess", "as-written"})
      for (bool narrow : {false, true}) {
        // With `excess` what is stored decides what is rounded to 16 bits.
        const bool excess = std::string(rounding) == "excess";
        if (narrow == excess || (excess && device.is_interpreter())) continue;
        std::vector<std::vector<Array>> outcomes;
        for (bool again : {false, true}) {
          JitOptions options{.device = device, .rounding = rounding, .seed = 3};
          if (narrow) options.policy = Policy::mixed_float16();
          auto f = jit(
              [again](Tensor x, Tensor w) {
                auto both = value_and_grad(
                    [again](Tensor a, Tensor b) { return deep_loss(a, b, 2, again); })(x, w);
                return std::tuple(both.value, both.grads[0], both.grads[1]);
              },
              options);
          Numbers x, w;
          for (int i = 0; i < 8 * 16; ++i) x.push_back(std::sin(i));
          for (int i = 0; i < 16 * 16; ++i) w.push_back(0.2 * std::cos(3 * i));
          outcomes.push_back(f(Array({8, 16}, x), Array({16, 16}, w)));
        }
        for (size_t i = 0; i < 3; ++i)
          CHECK(outcomes[0][i].to_doubles() == outcomes[1][i].to_doubles());
      }
}

TEST_CASE(
    "unused inputs have zeros for gradients, which a finding says, and any subset may be asked "
    "for") {
  test::LogLines log;
  const std::vector<std::string>& lines = log.lines;
  auto f = jit(
      [](Tensor x, Tensor y, Tensor z) {
        auto both = value_and_grad([](Tensor a, Tensor, Tensor c) { return sum(a * a * c); },
                                   {2, 1})(x, y, z);
        return std::pair(both.grads[0], both.grads[1]);
      },
      kInterpreter);
  std::vector<Array> out = f(Array({2}, {1, 2}), Array({3}, {1, 1, 1}), Array({2}, {3, 4}));
  CHECK(out[0].to_doubles() == Numbers{1, 4});
  CHECK(out[1].to_doubles() == Numbers{0, 0, 0});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("'x1' has no path to the loss: its gradient is 0") != std::string::npos);
}

TEST_CASE("a gradient penalty through a small net has the gradients of f64 differences") {
  // Σ |d f / dx|^2 of a two-layer net, by its weights.
  auto penalty = [](Tensor x, Tensor w, Tensor v) {
    Tensor slope = grad([&](Tensor a) { return sum(matmul(tanh(matmul(a, w)), v)); })(x);
    return sum(slope * slope);
  };
  auto value = jit(penalty, kInterpreter);
  auto slopes = jit(
      [&](Tensor x, Tensor w, Tensor v) {
        auto both = value_and_grad([&](Tensor b, Tensor c) { return penalty(x, b, c); })(w, v);
        return std::pair(both.grads[0], both.grads[1]);
      },
      kInterpreter);
  Numbers x, w, v;
  for (int i = 0; i < 6; ++i) x.push_back(std::sin(1.0 + i));
  for (int i = 0; i < 12; ++i) w.push_back(std::cos(2.0 * i));
  for (int i = 0; i < 4; ++i) v.push_back(0.5 + i);
  auto array = [](const Shape& shape, const Numbers& numbers) {
    return Array(shape, numbers, f64);
  };
  std::vector<Array> got = slopes(array({2, 3}, x), array({3, 4}, w), array({4, 1}, v));
  const double step = 1e-5;
  for (bool first : {true, false}) {
    Numbers& by = first ? w : v;
    for (size_t i = 0; i < by.size(); ++i) {
      const double kept = by[i];
      auto at = [&](double number) {
        by[i] = number;
        return value(array({2, 3}, x), array({3, 4}, w), array({4, 1}, v)).item();
      };
      const double difference = (at(kept + step) - at(kept - step)) / (2 * step);
      by[i] = kept;
      CHECK(got[first ? 0 : 1].to_doubles()[i] == doctest::Approx(difference).epsilon(1e-7));
    }
  }
}
