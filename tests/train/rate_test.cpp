// SPDX-License-Identifier: Apache-2.0
// Schedules that give no rate: told in the step that would use it, with its line.
#include <mezzo/mezzo.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

using namespace mezzo;
using mezzo::test::error_of;

namespace {

const double kInfinity = std::numeric_limits<double>::infinity();

Dataset batch() { return {Array({2, 2}, {1, 2, 3, 4}), Array({2}, {0, 1}, i32)}; }

/// Trains under a schedule that goes wrong after two steps; `rate` names what it gives then.
template <typename Optimizer>
void fails(const Optimizer& optimizer, int line, const std::string& rate) {
  const Dataset data = batch();
  for (Device device : {Device::interpreter(), Device::cpu()})
    for (Policy policy : {Policy::float32(), Policy::mixed_float16(), Policy::bfloat16()}) {
      CAPTURE(device.name());
      CAPTURE(policy.name());
      nn::Dense layer{2, 2, {.initializer = initializers::he_normal()}};
      Trainer trainer(layer, losses::cross_entropy, optimizer,
                      {.policy = policy, .batch = 2, .device = device});
      const auto first = [&] {
        trainer.step(data.inputs, data.targets);
        return layer.weight().value().bytes();
      };
      const auto start = first();
      const auto before = first();
      CHECK(before != start);
      std::map<std::string, std::vector<std::byte>> states;
      for (const std::string& name : trainer.state_names())
        states[name] = trainer.state(name).bytes();
      CHECK(error_of([&] { trainer.step(data.inputs, data.targets); })
                .ends_with("rate_test.cpp:" + std::to_string(line) +
                           ": error: learning rate: the schedule gives " + rate +
                           " at step 3 (t = 2)\nnote: a rate must be a finite number from 0 on; "
                           "this step changed no parameter and no moment"));
      CHECK(layer.weight().value().bytes() == before);
      for (const auto& [name, bytes] : states)
        if (name != "clean") CHECK_MESSAGE(trainer.state(name).bytes() == bytes, name);
      CHECK(error_of([&] { trainer.fit(data, {.progress = false}); }).find("schedule gives") !=
            std::string::npos);
      CHECK(layer.weight().value().bytes() == before);
    }
}

}  // namespace

TEST_CASE("a schedule that gives no finite rate from 0 on is an error in that step") {
  int line = __LINE__ + 2;
  auto becomes = [](double last) {
    return [last](Tensor t) { return where(t < 2, 0.5f, full({}, last)); };
  };
  const double nan = std::nan("");
  fails(optim::SGD{.learning_rate = becomes(nan)}, line, "nan");
  fails(optim::SGD{.learning_rate = becomes(kInfinity), .momentum = 0.9, .weight_decay = 0.1}, line,
        "inf");
  fails(optim::Adam{.learning_rate = becomes(-0.25), .weight_decay = 0.1}, line, "-0.25");
}

TEST_CASE("a step refused for its rate is not counted") {
  const Dataset data = batch();
  nn::Dense layer{2, 2};
  Trainer trainer(layer, losses::cross_entropy,
                  optim::Adam{.learning_rate = [](Tensor t) { return 0.25f / cast(t - 1, f32); }},
                  {.batch = 2, .device = Device::interpreter()});
  CHECK(error_of([&] { trainer.step(data.inputs, data.targets); }).find("gives -0.25 at step 1") !=
        std::string::npos);
  CHECK(trainer.taken_steps() == 0);
  CHECK(trainer.state("t").as_integer(0) == 0);
}

TEST_CASE("a schedule that draws random numbers is refused") {
  nn::Dense layer{2, 2};
  Trainer trainer(layer, losses::cross_entropy,
                  optim::SGD{.learning_rate = [](Tensor) { return random_uniform({}) * 0.01f; }},
                  {.batch = 2, .device = Device::interpreter()});
  CHECK(error_of([&] { trainer.fit(batch(), {.progress = false}); })
            .ends_with("error: learning rate: the schedule draws random numbers\nnote: a schedule "
                       "is a function of the step counter alone"));
}

TEST_CASE("a rate of 0 and a falling one are rates") {
  const Dataset data = batch();
  nn::Dense layer{2, 2};
  Trainer trainer(layer, losses::cross_entropy,
                  optim::SGD{.learning_rate = schedules::linear_decay(0.5, 0, 2)},
                  {.batch = 2, .device = Device::interpreter()});
  std::vector<std::vector<std::byte>> weights;
  for (int step = 0; step < 4; ++step) {
    trainer.step(data.inputs, data.targets);
    weights.push_back(layer.weight().value().bytes());
  }
  CHECK(weights[0] != weights[1]);
  CHECK(weights[1] == weights[2]);
  CHECK(weights[2] == weights[3]);
}
