// SPDX-License-Identifier: Apache-2.0
// Functions of tensors traced, differentiated and run on arrays, by the interpreter.
#include <mezzo/mezzo.h>
#include <support/log_lines.h>

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

using namespace mezzo;

namespace {

const JitOptions kInterpreter{.device = Device::interpreter()};

using Numbers = std::vector<double>;

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("operators and functions compute what they say") {
  auto f =
      jit([](Tensor x, Tensor y) { return relu(x * y - 1.0f) + maximum(x, y) / 2; }, kInterpreter);
  Array out = f(Array({3}, {1, 2, -3}), Array({3}, {4, 0.25, 2}));
  CHECK(out.to_doubles() == Numbers{5, 1, 1});
}

TEST_CASE("a finding is logged once, with one word for what it is") {
  test::LogLines log;
  const std::vector<std::string>& lines = log.lines;
  auto f = jit(
      [](Tensor x, Tensor y) {
        return grad([&](Tensor a) { return sum(x) + 0.0f * sum(stop_gradient(a)); })(y);
      },
      kInterpreter);
  const Array slope = f(Array({2}, {1, 2}), Array({2}, {3, 4}));
  CHECK(slope.to_doubles() == Numbers{0, 0});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("has no path to the loss") != std::string::npos);
  CHECK(lines[0].find("warning") == std::string::npos);  // the log says it
}

TEST_CASE("compound assignment and where") {
  auto f = jit(
      [](Tensor x) {
        Tensor y = x;
        y += 1;
        y *= 2;
        y -= x;  // x + 2
        return where(y > 4, y, -1.0);
      },
      kInterpreter);
  CHECK(f(Array({3}, {0, 2, 5})).to_doubles() == Numbers{-1, -1, 7});
}

TEST_CASE("axes may be negative and reshape fills in one length") {
  auto f = jit(
      [](Tensor x) {
        return std::vector<Tensor>{sum(x, -1),
                                   mean(x, {0}, true),
                                   max(x),
                                   argmax(x, 0),
                                   transpose(reshape(x, {3, -1}), {1, 0}),
                                   slice(x, {0, -2}, {2, 3})};
      },
      kInterpreter);
  std::vector<Array> out = f(Array({2, 3}, {1, 2, 3, 4, 5, 9}));
  CHECK(out[0].to_doubles() == Numbers{6, 18});
  CHECK(out[1].to_doubles() == Numbers{2.5, 3.5, 6});
  CHECK(out[1].shape() == Shape{1, 3});
  CHECK(out[2].to_doubles() == Numbers{9});
  CHECK(out[3].to_doubles() == Numbers{1, 1, 1});
  CHECK(out[4].to_doubles() == Numbers{1, 3, 5, 2, 4, 9});
  CHECK(out[5].to_doubles() == Numbers{2, 3, 5, 9});
}

TEST_CASE("a gradient is a function, and its gradient is the second derivative") {
  auto cube = [](Tensor x) { return sum(x * x * x); };
  auto f = jit(
      [&](Tensor x) {
        auto slope = grad(cube);
        auto curvature = grad([&](Tensor y) { return sum(slope(y)); });
        return std::pair(slope(x), curvature(x));
      },
      kInterpreter);
  std::vector<Array> out = f(Array({2}, {2, -1}));
  CHECK(out[0].to_doubles() == Numbers{12, 3});
  CHECK(out[1].to_doubles() == Numbers{12, -6});
}

TEST_CASE("the derivatives of a function are functions that jit takes") {
  auto cube = [](Tensor x) { return sum(x * x * x); };
  CHECK(jit(grad(cube))(Array({2}, {1, -2})).to_doubles() == std::vector<double>{3, 12});
  CHECK(jit(grad([&](Tensor x) { return sum(grad(cube)(x)); }))(Array(5.0)).to_doubles() ==
        std::vector<double>{30});
  auto product = [](Tensor x, Tensor y) { return sum(x * y); };
  CHECK(jit(grad(product, 1))(Array(3.0), Array(4.0)).item() == 3);
  for (const std::vector<Array>&both :
       {jit(value_and_grad(product))(Array(3.0), Array(4.0)), jit([&](Tensor x, Tensor y) {
          return value_and_grad(product)(x, y);
        })(Array(3.0), Array(4.0))}) {
    REQUIRE(both.size() == 3);
    CHECK(both[0].item() == 12);
    CHECK(both[1].item() == 4);
    CHECK(both[2].item() == 3);
  }
}

TEST_CASE("a gradient captures tensors around it") {
  auto f = jit(
      [](Tensor x, Tensor a) {
        Tensor scaled = a * 2;
        ValueAndGrad both = value_and_grad([&](Tensor y) { return sum(y * scaled); })(x);
        return std::pair(both.value, both.grads[0]);
      },
      kInterpreter);
  std::vector<Array> out = f(Array({2}, {1, 2}), Array({2}, {3, 4}));
  CHECK(out[0].item() == 22);
  CHECK(out[1].to_doubles() == Numbers{6, 8});
}

TEST_CASE("a function that throws inside of a gradient leaves the trace as it was") {
  Tensor kept;
  std::string error;
  auto broken = [&](Tensor x) {
    kept = x * x;
    Tensor inner = grad([](Tensor y) { return sum(y * y); })(x);  // a function of its own
    return sum(reshape(inner, {7}));
  };
  auto f = jit(
      [&](Tensor x) {
        Tensor twice = x * 2;
        try {
          grad(broken)(twice);
          return x;
        } catch (const UserError&) {
        }
        try {
          grad([](Tensor y) { return y * 2; })(twice);  // no scalar
        } catch (const UserError&) {
        }
        try {
          return kept + 1;
        } catch (const UserError& caught) {
          error = caught.message();
        }
        return twice + grad([](Tensor y) { return sum(y * y * y); })(x);
      },
      kInterpreter);
  Array input({2}, {1, 2});
  std::string text = f.ir(input);
  CHECK(count(text, "func @") == 2);
  CHECK(error == "add: the tensor (tensor<2xf32>) belongs to a function that has ended");
  CHECK(f(input).to_doubles() == Numbers{5, 16});
}

TEST_CASE("stop_gradient is a constant for the gradient") {
  auto f = jit([](Tensor x) { return grad([](Tensor y) { return sum(y * stop_gradient(y)); })(x); },
               kInterpreter);
  CHECK(f(Array({2}, {3, 5})).to_doubles() == Numbers{3, 5});
}

TEST_CASE("a parameter with the name of an input is that parameter") {
  nn::Parameter weight({1000}, initializers::ones(), "x0");
  Array input(ir::Type(f32, {1000}));
  for (int64_t i = 0; i < 1000; ++i) input.set(i, static_cast<double>(i));
  for (Device device : {Device::cpu(), Device::interpreter()}) {
    auto f = jit([weight](Tensor x) { return sum(x * Operand(weight)); }, {.device = device});
    CHECK(f(input).item() == 499500);
  }
}

TEST_CASE("threads that call one function get what one thread gets") {
  auto f = jit([](Tensor x) { return sum(softmax(x * 2.0 + 1.0) * x, {1}); });
  std::vector<Array> inputs, wanted;
  for (int n = 0; n < 4; ++n) {
    Array input(ir::Type(f32, {64, 64 + n % 2}));
    for (int64_t i = 0; i < input.type.elements(); ++i)
      input.set(i, static_cast<double>((i * (n + 3)) % 19) / 8);
    wanted.push_back(jit([](Tensor x) { return sum(softmax(x * 2.0 + 1.0) * x, {1}); })(input));
    inputs.push_back(std::move(input));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t n = 0; n < inputs.size(); ++n)
    threads.emplace_back([&, n] {
      for (int call = 0; call < 50; ++call) wrong += f(inputs[n]).bytes() != wanted[n].bytes();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("each combination of types is traced once") {
  int traces = 0;
  auto f = jit(
      [&](Tensor x) {
        ++traces;
        return x + 1;
      },
      kInterpreter);
  f(Array({2}, {1, 2}));
  f(Array({2}, {3, 4}));
  CHECK(traces == 1);
  f(Array({3}, {1, 2, 3}));
  CHECK(traces == 2);
}

TEST_CASE("values keep the user's names, and layers their scope") {
  nn::Dense layer{2, 3, {.name = "hidden"}};
  auto f = jit([&](Tensor x) { return relu(layer(x)).named("h"); }, kInterpreter);
  std::string text = f.ir(Array({1, 2}, {1, 2}));
  CHECK(count(text, "%h = relu") == 1);
  CHECK(count(text, "scope = \"hidden\"") == 2);
  CHECK(count(text, "%hidden.weight: tensor<2x3xf32> {param = true}") == 1);
}

TEST_CASE("a function may name its arguments and parameters") {
  for (Device device : {Device::interpreter(), Device::cpu()}) {
    CAPTURE(device.name());
    const JitOptions with{.device = device};
    auto one = jit([](Tensor x) { return x.named("in") + 1; }, with);
    CHECK(one(Array(1.0)).item() == 2);
    CHECK(count(one.ir(Array(1.0)), "(%in: tensor<f32>)") == 1);
    CHECK(jit([](Tensor x) { return x.named("my input") + 1; }, with)(Array(1.0)).item() == 2);
    CHECK(jit([](Tensor x) { return x.named("") + 1; }, with)(Array(1.0)).item() == 2);
    auto two = jit(
        [](Tensor x, Tensor y) {
          y.named("x0");
          x.named("x1");
          return x - y;
        },
        with);
    CHECK(two(Array(1.0), Array(3.0)).item() == -2);
    // Names that a parameter has, before and behind it, and a name for the parameter itself.
    for (bool behind : {false, true}) {
      nn::Parameter scale({}, initializers::constant(4), "p");
      auto f = jit(
          [&](Tensor x, Tensor y) {
            if (!behind) x.named("p");
            Tensor s = (y * scale).named("s");
            if (behind) x.named("p");
            return x - s + Operand(scale).tensor().named("q");
          },
          with);
      CHECK(f(Array(1.0), Array(2.0)).item() == 1 - 8 + 4);
    }
  }
}

TEST_CASE("layers without names are numbered in the order of their calls") {
  nn::Dense first{2, 2}, second{2, 2};
  nn::Dense copy = second;
  auto f = jit([&](Tensor x) { return first(copy(second(x))); }, kInterpreter);
  f(Array({1, 2}, {1, 2}));
  CHECK(second.weight().name() == "dense.weight");
  CHECK(first.weight().name() == "dense_1.weight");
  CHECK(copy.weight().name() == "dense.weight");
}

TEST_CASE("random numbers differ from call to call and are equal for equal seeds") {
  auto make = [](uint64_t seed) {
    return jit([](Tensor x) { return x + random_uniform({4}); },
               {.device = Device::interpreter(), .seed = seed});
  };
  auto a = make(1), b = make(1), c = make(2);
  Array zero({4}, {0, 0, 0, 0});
  Numbers first = a(zero).to_doubles(), second = a(zero).to_doubles();
  CHECK(first != second);
  CHECK(b(zero).to_doubles() == first);
  CHECK(c(zero).to_doubles() != first);
  for (double number : first) CHECK((number >= 0 && number < 1));
}

TEST_CASE("initial values have the deviation that they promise and do not depend on the policy") {
  Shape shape{200, 300};
  auto deviation = [&](const Initializer& initializer) {
    Array values = initializer(shape, f32, 7, 0);
    double sum = 0;
    for (double value : values.to_doubles()) sum += value * value;
    return std::sqrt(sum / 60000);
  };
  CHECK(deviation(initializers::glorot_uniform()) ==
        doctest::Approx(std::sqrt(2.0 / 500)).epsilon(0.02));
  CHECK(deviation(initializers::glorot_normal()) ==
        doctest::Approx(std::sqrt(2.0 / 500)).epsilon(0.02));
  CHECK(deviation(initializers::he_uniform()) ==
        doctest::Approx(std::sqrt(2.0 / 200)).epsilon(0.02));
  CHECK(deviation(initializers::he_normal()) ==
        doctest::Approx(std::sqrt(2.0 / 200)).epsilon(0.02));
  Array wide = initializers::he_normal()(shape, f32, 7, 3);
  CHECK(initializers::he_normal()(shape, f16, 7, 3).bytes() == wide.converted_to(f16).bytes());
}

TEST_CASE("schedules start at the first rate and end at the last") {
  auto at = [](auto schedule) {
    return jit([schedule](Tensor step) { return schedule(step); }, kInterpreter);
  };
  auto linear = at(schedules::linear_decay(1.0, 0.5, 100));
  auto cosine = at(schedules::cosine_decay(1.0, 0.0, 100));
  auto step = [](double t) { return Array(t, i32); };
  CHECK(linear(step(0)).item() == 1);
  CHECK(linear(step(50)).item() == doctest::Approx(0.75));
  CHECK(linear(step(500)).item() == 0.5);
  CHECK(cosine(step(0)).item() == doctest::Approx(1).epsilon(1e-6));
  CHECK(cosine(step(25)).item() == doctest::Approx(0.5 + std::sqrt(0.125)).epsilon(1e-6));
  CHECK(cosine(step(50)).item() == doctest::Approx(0.5).epsilon(1e-6));
  CHECK(std::abs(cosine(step(100)).item()) < 1e-6);
}

TEST_CASE("the accuracy metric is the share of rows whose largest logit stands at the label") {
  auto accuracy =
      jit([](Tensor logits, Tensor labels) { return metrics::accuracy(logits, labels); });
  Array labels({3}, {1, 1, 1}, i32);
  CHECK(accuracy(Array({3, 2}, {1, 2, 5, 0, 0, 1}), labels).item() == doctest::Approx(2.0 / 3));
}

TEST_CASE("the Wilson interval of 8,800 of 10,000") {
  auto [low, high] = metrics::wilson_interval(0.88, 10000);
  CHECK(low == doctest::Approx(0.87348).epsilon(1e-4));
  CHECK(high == doctest::Approx(0.88623).epsilon(1e-4));
  CHECK(metrics::wilson_interval(1, 10).second == doctest::Approx(1));
  CHECK(metrics::wilson_interval(0.5, 0) == std::pair(0.0, 1.0));
}

TEST_CASE("a layer that is new in a program takes no stream that the others hold") {
  // Of the seed 0: 0 and 1 by the first program, then what is free behind the places of the next.
  nn::Dense a{3, 3}, b{3, 3}, c{3, 3};
  Array x({1, 3}, {1, 2, 3});
  auto first = jit([&](Tensor input) { return a(input); }, kInterpreter);
  auto second = jit([&](Tensor input) { return a(b(input)); }, kInterpreter);
  auto third = jit([&](Tensor input) { return a(b(c(input))); }, kInterpreter);
  for (const auto* program : {&first, &second, &third}) (*program)(x);
  auto stream = [](uint32_t number) {
    return initializers::glorot_uniform()(Shape{3, 3}, f32, 0, number).bytes();
  };
  CHECK(a.weight().value().bytes() == stream(0));
  CHECK(b.weight().value().bytes() == stream(4));
  CHECK(c.weight().value().bytes() == stream(6));
  // Another seed has streams of its own.
  nn::Dense d{3, 3};
  auto other =
      jit([&](Tensor input) { return a(d(input)); }, {.device = Device::interpreter(), .seed = 1});
  other(x);
  CHECK(d.weight().value().bytes() ==
        initializers::glorot_uniform()(Shape{3, 3}, f32, 1, 0).bytes());
}
