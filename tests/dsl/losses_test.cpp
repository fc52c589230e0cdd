// SPDX-License-Identifier: Apache-2.0
// Losses as functions and as objects of a Trainer: values by hand, gradients at edge points, what
// is refused and where.
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace mezzo;

namespace {

using Numbers = std::vector<double>;
using Loss = std::function<Tensor(Tensor, Tensor)>;

const JitOptions kInterpreter{.device = Device::interpreter()};
constexpr double kInf = std::numeric_limits<double>::infinity();

/// The value of a loss and its gradient by the output.
struct Outcome {
  Numbers value, slope;
};

Outcome run(const Loss& loss, const Array& output, const Array& target) {
  auto f = jit(
      [&](Tensor y, Tensor t) {
        Tensor value = loss(y, t);
        auto slope = grad([&](Tensor a, Tensor b) { return sum(loss(a, b)); });
        return std::pair(value, slope(y, t));
      },
      kInterpreter);
  std::vector<Array> out = f(output, target);
  return {out[0].to_doubles(), out[1].to_doubles()};
}

Array row(const Numbers& numbers, DType dtype = f64) {
  return Array({static_cast<int64_t>(numbers.size())}, numbers, dtype);
}

void check(const Numbers& got, const Numbers& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (std::isfinite(wanted[i]))
      CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-9));
    else
      CHECK(got[i] == wanted[i]);
  }
}

std::string error_of(const Loss& loss, const Array& output, const Array& target) {
  try {
    run(loss, output, target);
  } catch (const UserError& error) {
    return error.message() + (error.hint().empty() ? "" : " | " + error.hint());
  }
  return "no error";
}

}  // namespace

TEST_CASE("mse, l1, huber and smooth_l1 with their gradients at edge points") {
  const Array y = row({0, 1, -3, 2}), t = row({0, 0.5, 0, 1});
  Outcome got = run(losses::MeanSquaredError{.reduce = "none"}, y, t);
  check(got.value, {0, 0.25, 9, 1});
  check(got.slope, {0, 1, -6, 2});
  got = run(losses::L1{.reduce = "none"}, y, t);
  check(got.value, {0, 0.5, 3, 1});
  check(got.slope, {0, 1, -1, 1});
  got = run(losses::Huber{.delta = 1, .reduce = "none"}, y, t);
  check(got.value, {0, 0.125, 2.5, 0.5});
  check(got.slope, {0, 0.5, -1, 1});
  got = run(losses::SmoothL1{.beta = 0.5, .reduce = "none"}, y, t);
  check(got.value, {0, 0.25, 2.75, 0.75});
  check(got.slope, {0, 1, -1, 1});
  got = run(losses::Huber{.delta = 0.5, .reduce = "none"}, y, t);
  check(got.value, {0, 0.125, 1.375, 0.375});
  check(got.slope, {0, 0.5, -0.5, 0.5});
  // The functions take both numbers, too.
  got = run([](Tensor a, Tensor b) { return huber_loss(a, b, 0.5, {.reduce = "none"}); }, y, t);
  check(got.value, {0, 0.125, 1.375, 0.375});
  got = run([](Tensor a, Tensor b) { return smooth_l1_loss(a, b, 0.5, {.reduce = "none"}); }, y, t);
  check(got.value, {0, 0.25, 2.75, 0.75});
  got = run(losses::SmoothL1{.beta = 0, .reduce = "none"}, y, t);
  check(got.value, {0, 0.5, 3, 1});
  check(run(losses::mse, y, t).value, {10.25 / 4});
  check(run(losses::MeanSquaredError{.reduce = "sum"}, y, t).value, {10.25});
}

TEST_CASE("losses of 16-bit outputs are f32: no square leaves the range") {
  const Array y = row({256, 32768}, f16), t = row({-256, -32768}, f16);
  check(run(losses::mse, y, t).value, {(512.0 * 512 + 65536.0 * 65536) / 2});
  Outcome huber = run(losses::Huber{.reduce = "none"}, y, t);
  check(huber.value, {511.5, 65535.5});
  check(huber.slope, {1, 1});
}

TEST_CASE("weights of elements: the mean is over their sum, 0 where that is 0") {
  auto weighted = [](double first, double second) {
    return [=](Tensor y, Tensor t) {
      return mse_loss(y, t, {.weight = constant({first, second}, {2}, f64)});
    };
  };
  const Array y = row({1, 3}), t = row({0, 0});
  check(run(weighted(1, 3), y, t).value, {(1 + 27) / 4.0});
  check(run(weighted(1, 3), y, t).slope, {2 * 1 / 4.0, 6 * 3 / 4.0});
  check(run(weighted(0, 0), y, t).value, {0});
  check(run(weighted(0, 0), y, t).slope, {0, 0});
}

TEST_CASE("bce: clamped logarithms, a gradient that still pulls, weights and their number") {
  const Array p = row({0.25, 0, 1}), t = row({1, 1, 1});
  Outcome got = run(losses::Bce{.reduce = "none"}, p, t);
  check(got.value, {std::log(4.0), 100, 0});
  check(got.slope, {-4, -1e12, 0});
  auto weighted = [](Tensor a, Tensor b) {
    return bce(a, b, {.weight = constant({2, 0, 0}, {3}, f64)});
  };
  check(run(weighted, p, t).value, {2 * std::log(4.0) / 3});
}

TEST_CASE("TR-13, TR-11: gradients of bce_with_logits in the tails") {
  Outcome got = run(losses::BceWithLogits{.reduce = "none"}, row({-kInf, kInf, kInf, -kInf, -50}),
                    row({0, 1, 0, 1, 1}));
  check(got.value, {0, 0, kInf, kInf, 50});
  check(got.slope, {0, 0, 1, -1, -1});
  // Far in the right tail the gradient is tiny and not 0.
  got = run(losses::BceWithLogits{.reduce = "none"}, row({40}, f32), row({1}, f32));
  CHECK(got.slope[0] == doctest::Approx(-std::exp(-40.0)).epsilon(1e-5));
  got = run(losses::BceWithLogits{.reduce = "none", .pos_weight = {3}}, row({0, 0}), row({1, 0}));
  check(got.value, {3 * std::log(2.0), std::log(2.0)});
  check(got.slope, {-1.5, 0.5});
}

TEST_CASE("GE-13: kl_div of a target with a 0, by the probabilities") {
  auto loss = [](Tensor q, Tensor t) { return kl_div(log(q), t, {.reduce = "sum"}); };
  Outcome got = run(loss, row({0.5, 0.5}), row({0, 1}));
  check(got.value, {std::log(2.0)});
  check(got.slope, {0, -2});
  // By the target: ln t + 1 - x, and 0 where the target is 0.
  auto by_target = [](Tensor t, Tensor q) { return kl_div(log(q), t, {.reduce = "sum"}); };
  check(run(by_target, row({0, 1}), row({0.5, 0.5})).slope, {0, 1 + std::log(2.0)});
  auto batch = [](Tensor x, Tensor t) {
    return kl_div(x, t, {.reduce = "batchmean", .log_target = true});
  };
  const Array x = Array({2, 2}, {-1, -2, -3, -4}, f64), t = Array({2, 2}, {-1, -1, -1, -kInf}, f64);
  check(run(batch, x, t).value, {(std::exp(-1.0) * (0 + 1 + 2)) / 2});
}

TEST_CASE("hinge and cosine losses") {
  Outcome got = run(losses::Hinge{.reduce = "none"}, row({0.5, 2, -0.25, 1}), row({1, 1, -1, 1}));
  check(got.value, {0.5, 0, 0.75, 0});
  check(got.slope, {-1, 0, 1, 0});  // 0 on the margin
  auto cosine = [](Tensor a, Tensor b) { return cosine_similarity(a, b); };
  const Array a = Array({3, 2}, {3, 4, 0, 0, 1, 0}, f64),
              b = Array({3, 2}, {4, 3, 1, 2, -2, 0}, f64);
  got = run(cosine, a, b);
  check(got.value, {0.96, 0, -1});
  CHECK(got.slope[2] ==
        doctest::Approx(1e8 / std::sqrt(5.0)));  // of a vector of zeros: b / (eps |b|)
  check(run(losses::cosine, a, b).value, {(0.04 + 1 + 2) / 3});
  auto embedding = [](Tensor u, Tensor v) {
    return cosine_embedding_loss(u, v, constant({1, -1, -1}, {3}, f64),
                                 {.reduce = "none", .margin = -0.5});
  };
  check(run(embedding, a, b).value, {0.04, 0.5, 0});
}

TEST_CASE("DV-04: cosine similarity of long f16 vectors") {
  const Array ones({1, 512}, Numbers(512, 1.0), f16);
  check(run([](Tensor a, Tensor b) { return cosine_similarity(a, b); }, ones, ones).value, {1});
}

TEST_CASE("cross_entropy takes class indices or probabilities, weights for each class") {
  const Array x = Array({2, 2}, {1, 2, 3, -1}, f64);
  const double first = std::log(1 + std::exp(1.0)), second = std::log(1 + std::exp(4.0));
  check(run(losses::CrossEntropy{.class_weights = {2, 0.5}}, x, Array({2}, {0, 1}, i32)).value,
        {(2 * first + 0.5 * second) / 2.5});
  check(run(losses::cross_entropy, x, Array({2}, {0, 1}, u8)).value, {(first + second) / 2});
  check(run(losses::cross_entropy, x, Array({2, 2}, {1, 0, 0, 1}, f64)).value,
        {(first + second) / 2});
  check(run(losses::CrossEntropy{.reduce = "none"}, x, Array({2}, {0, -100}, i32)).value,
        {first, 0});
  auto of_logarithms = [](Tensor a, Tensor b) { return losses::nll(log_softmax(a), b); };
  check(run(of_logarithms, x, Array({2}, {0, 1}, i32)).value, {(first + second) / 2});
  // Probabilities may be learned too: -ln p of each class.
  auto by_target = [&](Tensor t, Tensor logits) {
    return cross_entropy(logits, t, {.reduce = "sum"});
  };
  Outcome got = run(by_target, Array({1, 2}, {0.5, 0.5}, f64), Array({1, 2}, {1, 2}, f64));
  check(got.slope, {first, first - 1});
}

TEST_CASE("targets that no target can be are an error where they are seen") {
  const Array y = row({0.5, 0.5}, f32);
  auto fixed = [](auto loss, Numbers numbers, DType dtype = f32) {
    return [=](Tensor a, Tensor) {
      return loss(a, constant(numbers, {static_cast<int64_t>(numbers.size())}, dtype));
    };
  };
  const std::string probabilities = " | targets are probabilities, from 0 to 1";
  CHECK(error_of(fixed(losses::bce, {0.5, 1.5}), y, y) ==
        "bce: a target of 1.5 is none" + probabilities);
  CHECK(error_of(fixed(losses::bce_with_logits, {-1, 1}), y, y) ==
        "bce_with_logits: a target of -1 is none" + probabilities);
  CHECK(error_of(fixed(losses::kl_div, {2, 0}), y, y) ==
        "kl_div: a target of 2 is none" + probabilities);
  CHECK(error_of(fixed(losses::hinge, {0, 1}), y, y) ==
        "hinge: a target of 0 is none | targets are -1 and 1");
  const Array x = Array({2, 3}, Numbers(6, 0.0), f32);
  CHECK(
      error_of(fixed(losses::cross_entropy, {0, 3}, i32), x, y) ==
      "cross_entropy: a target of 3 is none | targets are class indices, from 0 and less than the "
      "length of the last axis");
  CHECK(
      error_of(fixed(losses::nll, {0, -1}, i32), x, y).starts_with("nll: a target of -1 is none"));
  CHECK(error_of(fixed(losses::cross_entropy, {0, -100}, i32), x, y) == "no error");
}

TEST_CASE("losses say what they do not take") {
  const Array y = row({1, 2}, f32), t = row({1, 2, 3}, f32);
  CHECK(error_of(losses::l1, y, t) ==
        "l1: output tensor<2xf32> and target tensor<3xf32> differ in shape | reshape one of them: "
        "they would be broadcast to each other");
  CHECK(error_of(losses::L1{.reduce = "max"}, y, y) ==
        "l1: reduce must be \"mean\", \"sum\" or \"none\", not \"max\"");
  CHECK(error_of(losses::KlDiv{.reduce = "max"}, y, y) ==
        "kl_div: reduce must be \"mean\", \"batchmean\", \"sum\" or \"none\", not \"max\"");
  CHECK(error_of(losses::KlDiv{}, Array(1.0), Array(1.0)) ==
        "kl_div: reduce \"batchmean\" needs an axis of samples | \"mean\" of one element is the "
        "element");
  CHECK(error_of(losses::Huber{.delta = 0}, y, y) == "huber: delta must be above 0, not 0");
  CHECK(error_of(losses::SmoothL1{.beta = -1}, y, y) ==
        "smooth_l1: beta must be 0 or more, not -1");
  CHECK(error_of([](Tensor a, Tensor b) { return cosine_similarity(a, b, -1, 0); }, y, y) ==
        "cosine_similarity: eps must be above 0, not 0");
  CHECK(
      error_of([](Tensor a, Tensor b) { return mse_loss(a, b, {.weight = full({3}, 1.0)}); }, y, y)
          .starts_with("mul: shapes do not broadcast"));
  CHECK(error_of([](Tensor a, Tensor b) { return mse_loss(a, b, {.weight = full({3, 1}, 1.0)}); },
                 y, y) ==
        "mse: weight tensor<3x1xf32> does not broadcast to the losses [2] | one number for each "
        "element, or axes of length 1");
  const Array x = Array({1, 2}, {1, 2}, f32);
  CHECK(error_of(losses::CrossEntropy{.ignore_index = 3}, x, Array({1, 2}, {0.5, 0.5}, f32)) ==
        "cross_entropy: ignore_index 3 is for class indices, not for probabilities tensor<1x2xf32> "
        "| rows that are to count for nothing have a target of zeros");
  // Weights of classes have no gradient.
  auto by_weight = [](Tensor w, Tensor logits) {
    return cross_entropy(logits, constant({0}, {1}, i32), {.weight = w});
  };
  CHECK(
      error_of(by_weight, row({1, 1}, f32), x) ==
      "cross_entropy: the weights of the classes have no gradient (weight tensor<2xf32>) | weights "
      "say how much a class counts; stop_gradient(weight) makes them a constant");
}

TEST_CASE("every loss object trains") {
  auto train = [](auto loss, Numbers targets, Shape shape, DType dtype = f32) {
    nn::Dense layer{2, 3};
    Trainer trainer([layer](Tensor x) { return sigmoid(layer(x)); }, loss,
                    optim::SGD{.learning_rate = 0.5},
                    {.batch = 2, .seed = 1, .device = Device::interpreter()});
    const Array x({2, 2}, {1, 0, 0, 1}), t(shape, targets, dtype);
    double first = trainer.step(x, t).loss, last = first;
    for (int i = 0; i < 20; ++i) last = trainer.step(x, t).loss;
    CHECK(last < first);
  };
  const Numbers hot{1, 0, 0, 0, 0, 1}, signs{1, -1, -1, -1, -1, 1},
      shares{0.5, 0.25, 0.25, 0.1, 0.1, 0.8};
  const Shape matrix{2, 3};
  train(losses::cross_entropy, {0, 2}, {2}, i32);
  train(losses::CrossEntropy{.label_smoothing = 0.1, .class_weights = {1, 2, 3}}, {0, 2}, {2}, i32);
  train(losses::cross_entropy, shares, matrix);
  train(losses::nll, {0, 2}, {2}, i32);
  train(losses::bce, hot, matrix);
  train(losses::BceWithLogits{.pos_weight = {2}}, hot, matrix);
  train(losses::kl_div, shares, matrix);
  train(losses::mse, shares, matrix);
  train(losses::l1, shares, matrix);
  train(losses::huber, shares, matrix);
  train(losses::smooth_l1, shares, matrix);
  train(losses::hinge, signs, matrix);
  train(losses::cosine, shares, matrix);
}
