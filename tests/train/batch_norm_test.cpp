// SPDX-License-Identifier: Apache-2.0
// Batch normalisation in a training: running statistics are state of the step, by the interpreter
// and by kernels; evaluation reads them; a skipped step keeps their bits.
#include <mezzo/mezzo.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace mezzo;
using mezzo::test::error_of;

namespace {

struct Network : nn::Module {
  nn::BatchNorm norm{2, {.name = "norm"}};
  nn::Dense out{2, 1, {.name = "out"}};
  Tensor operator()(Tensor x) { return out(norm(x)); }
};

/// Means 2.5 and 25, variances (of the sample) 5 / 3 and 500 / 3.
Dataset batch() {
  return {Array({4, 2}, {1, 10, 2, 20, 3, 30, 4, 40}), Array({4, 1}, {1, 0, 2, 1})};
}

/// One step that is taken, when the loss scale has come down.
void step(Trainer& trainer) {
  int most = 20;
  while (!trainer.step(batch().inputs, batch().targets).taken) REQUIRE(--most > 0);
}

template <class Model>
Trainer trainer_of(Model& model, Device device, Policy policy = Policy::float32()) {
  return Trainer(model, losses::mse, optim::SGD{.learning_rate = 1e-3},
                 {.policy = policy, .batch = 4, .device = device});
}

}  // namespace

TEST_CASE("a step moves the running statistics towards those of its batch") {
  for (Device device : {Device::interpreter(), Device::cpu()})
    for (Policy policy : {Policy::float32(), Policy::mixed_float16(), Policy::float16()}) {
      Network network;
      Trainer trainer = trainer_of(network, device, policy);
      step(trainer);
      const Array &mean = network.norm.running_mean().value(),
                  &variance = network.norm.running_variance().value();
      CHECK(mean.dtype() == f32);
      CHECK(mean.as_double(0) == doctest::Approx(0.25));
      CHECK(mean.as_double(1) == doctest::Approx(2.5));
      CHECK(variance.as_double(0) == doctest::Approx(0.9 + 0.1 * 5 / 3));
      CHECK(variance.as_double(1) == doctest::Approx(0.9 + 0.1 * 500 / 3));
      step(trainer);
      CHECK(mean.as_double(0) == doctest::Approx(0.25 + 0.1 * (2.5 - 0.25)));
    }
}

TEST_CASE("an evaluation and a jitted function read the running statistics and leave them") {
  Network network;
  Trainer trainer = trainer_of(network, Device::cpu());
  trainer.step(batch().inputs, batch().targets);
  network.norm.running_mean().value();
  nn::Parameter mean = network.norm.running_mean(), variance = network.norm.running_variance();
  mean.set_value(Array({2}, {1, 10}));
  variance.set_value(Array({2}, {4, 100}));
  const Array y = jit([&](Tensor x) { return network.norm(x); })(Array({1, 2}, {3, -10}));
  CHECK(y.as_double(0) == doctest::Approx(1).epsilon(1e-2));
  CHECK(y.as_double(1) == doctest::Approx(-2).epsilon(1e-2));
  const double loss = trainer.evaluate(batch()).loss;
  CHECK(std::isfinite(loss));
  CHECK(mean.value().as_double(0) == 1);
  // The same by hand.
  double sum = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const double a = (batch().inputs.as_double(2 * i) - 1) / std::sqrt(4 + 1e-5),
                 b = (batch().inputs.as_double(2 * i + 1) - 10) / std::sqrt(100 + 1e-5);
    const Array &w = network.out.weight().value(), &gain = network.norm.weight().value(),
                &shift = network.norm.bias().value();
    const double got = (a * gain.as_double(0) + shift.as_double(0)) * w.as_double(0) +
                       (b * gain.as_double(1) + shift.as_double(1)) * w.as_double(1) +
                       network.out.bias().value().as_double(0);
    sum += std::pow(got - batch().targets.as_double(i), 2);
  }
  CHECK(loss == doctest::Approx(sum / 4).epsilon(1e-4));
  // A last batch of another size is padded: samples do not meet in an evaluation.
  Dataset five{Array({5, 2}, {1, 10, 2, 20, 3, 30, 4, 40, 1, 10}), Array({5, 1}, {1, 0, 2, 1, 1})};
  CHECK(std::isfinite(trainer.evaluate(five).loss));
}

TEST_CASE("a skipped step keeps the bits of running statistics") {
  for (Device device : {Device::interpreter(), Device::cpu()}) {
    Network network;
    Trainer trainer = trainer_of(network, device);
    trainer.step(batch().inputs, batch().targets);
    const auto mean = network.norm.running_mean().value().bytes(),
               variance = network.norm.running_variance().value().bytes();
    Dataset bad = batch();
    bad.inputs.set(3, std::numeric_limits<double>::infinity());
    CHECK_FALSE(trainer.step(bad.inputs, bad.targets).taken);
    CHECK(network.norm.running_mean().value().bytes() == mean);
    CHECK(network.norm.running_variance().value().bytes() == variance);
  }
}

TEST_CASE("NM-09 a single value a channel leaves the running variance as it is") {
  Network network;
  Trainer trainer = trainer_of(network, Device::cpu());
  trainer.step(Array({1, 2}, {3, 3}), Array({1, 1}, {1.0}));
  CHECK(network.norm.running_variance().value().as_double(0) == 1);
  CHECK(network.norm.running_mean().value().as_double(0) == doctest::Approx(0.3));
}

TEST_CASE("a layer that is called twice in a step updates twice, one that must not does not") {
  struct Twice : nn::Module {
    nn::BatchNorm norm{2}, fixed{2, {.update = false}};
    nn::Dense out{2, 1};
    Tensor operator()(Tensor x) { return out(fixed(norm(norm(x)))); }
  } network;
  Trainer trainer = trainer_of(network, Device::cpu());
  trainer.step(batch().inputs, batch().targets);
  // The second batch has mean 0.
  CHECK(network.norm.running_mean().value().as_double(0) == doctest::Approx(0.225));
  CHECK(network.fixed.running_mean().value().as_double(0) == 0);
}

TEST_CASE("a small network of convolutions learns, in f32 and in mixed precision") {
  struct Convolutional : nn::Module {
    nn::Conv2d first{1, 8, 3, {.padding = Padding::same(), .bias = false}};
    nn::BatchNorm norm{8};
    nn::Conv2d second{8, 8, 3, {.stride = {2}, .padding = 1}};
    nn::GroupNorm groups{2, 8};
    nn::Dense out{8, 2};
    Tensor operator()(Tensor x) {
      Tensor h = max_pool(relu(norm(first(x))));
      return out(global_avg_pool(relu(groups(second(h)))));
    }
  };
  // Stripes along one axis or the other.
  Dataset stripes{Array(ir::Type(f32, {64, 12, 12, 1})), Array(ir::Type(i32, {64}))};
  for (int64_t i = 0; i < 64; ++i) {
    stripes.targets.set(i, static_cast<double>(i % 2));
    for (int64_t p = 0; p < 144; ++p) {
      const int64_t along = (i % 2 ? p / 12 : p % 12) + i / 2;
      stripes.inputs.set(144 * i + p, along % 4 < 2 ? 1 : -1);
    }
  }
  for (Policy policy : {Policy::float32(), Policy::mixed_float16(), Policy::mixed_bfloat16()}) {
    Convolutional network;
    Trainer trainer(network, losses::cross_entropy, optim::Adam{.learning_rate = 1e-2},
                    {.policy = policy, .batch = 32});
    trainer.fit(stripes, {.epochs = 10, .progress = false});
    CHECK(trainer.evaluate(stripes).accuracy > 0.95);
  }
}
