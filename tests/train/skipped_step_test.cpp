// SPDX-License-Identifier: Apache-2.0
// Steps that are skipped, by the interpreter and by kernels on one and two threads: which bits
// stay, when the scale falls, and when a training stops.
#include <mezzo/mezzo.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

using namespace mezzo;
using mezzo::test::error_of;

namespace {

struct Machine {
  const char* name;
  Device device;
  int threads;
};
const Machine kMachines[] = {{"interpreter", Device::interpreter(), 0},
                             {"one thread", Device::cpu(), 1},
                             {"two threads", Device::cpu(), 2}};

/// Noise, so that the step has a random state.
struct Network : nn::Module {
  nn::Dense hidden{64, 128, {.name = "hidden"}}, out{128, 8, {.name = "out"}};
  Tensor operator()(Tensor x) {
    Tensor h = relu(hidden(x));
    return out(h + 0.01 * random_normal({32, 128}));
  }
};

Dataset batch() {
  Dataset data{Array(ir::Type(f32, {32, 64})), Array(ir::Type(i32, {32}))};
  for (int64_t i = 0; i < data.inputs.type.elements(); ++i)
    data.inputs.set(i, std::sin(static_cast<double>(31 * i)));
  for (int64_t i = 0; i < 32; ++i) data.targets.set(i, static_cast<double>((3 * i) % 8));
  return data;
}

Array times(const Array& array, double factor) {
  Array out = array;
  for (int64_t i = 0; i < out.type.elements(); ++i) out.set(i, factor * out.as_double(i));
  return out;
}

using Bits = std::map<std::string, std::vector<std::byte>>;

Bits bits(const Network& network, const Trainer& trainer) {
  Bits all;
  for (const nn::Dense* layer : {&network.hidden, &network.out})
    for (const nn::Parameter* parameter : {&layer->weight(), &layer->bias()})
      all[parameter->name()] = parameter->value().bytes();
  for (const std::string& name : trainer.state_names()) all[name] = trainer.state(name).bytes();
  return all;
}

std::set<std::string> changed(const Bits& before, const Bits& after) {
  std::set<std::string> names;
  for (const auto& [name, value] : after)
    if (before.at(name) != value) names.insert(name);
  return names;
}

using Names = std::set<std::string>;

/// What a taken step changes under Adam; `lr` is the user's.
const Names kTrained = {"hidden.bias",
                        "hidden.bias.m",
                        "hidden.bias.v",
                        "hidden.weight",
                        "hidden.weight.m",
                        "hidden.weight.v",
                        "out.bias",
                        "out.bias.m",
                        "out.bias.v",
                        "out.weight",
                        "out.weight.m",
                        "out.weight.v",
                        "rng",
                        "t"};

Names with(Names names, const std::string& more) {
  names.insert(more);
  return names;
}

}  // namespace

TEST_CASE("a step with inf gradients keeps every bit but scale, clean steps and random state") {
  for (const Machine& machine : kMachines) {
    CAPTURE(machine.name);
    Network network;
    TrainerOptions options{.policy = Policy::mixed_float16(),
                           .batch = 32,
                           .loss_scale = LossScale::dynamic(1024, 3),
                           .seed = 5,
                           .device = machine.device,
                           .threads = machine.threads};
    Trainer trainer(network, losses::cross_entropy, optim::Adam{.learning_rate = 0.01}, options);
    Dataset data = batch();
    // Two steps, so that moments and counters are not zero and a clean step is counted.
    trainer.step(data.inputs, data.targets);
    Bits before = bits(network, trainer);
    REQUIRE(trainer.step(data.inputs, data.targets).taken);
    Bits after = bits(network, trainer);
    CHECK(changed(before, after) == with(kTrained, "clean"));
    CHECK(trainer.state("clean").as_integer(0) == 2);

    // An input that overflows forward: no fault of the scale.
    int64_t attempts = trainer.state("rng").as_integer(1);
    StepResult forward = trainer.step(times(data.inputs, 1e5), data.targets);
    CHECK_FALSE(forward.taken);
    CHECK(forward.verdict == "forward_overflow");
    CHECK(forward.scale == 1024);
    Bits skipped = bits(network, trainer);
    CHECK(changed(after, skipped) == Names{"clean", "rng"});
    CHECK(trainer.state("clean").as_integer(0) == 0);
    CHECK(trainer.state("rng").as_integer(1) == attempts + 1);
    CHECK(trainer.state("t").as_integer(0) == 2);

    // inf in the data: nothing but the attempt is counted.
    Array broken = data.inputs;
    broken.set(100, std::numeric_limits<double>::infinity());
    CHECK(trainer.step(broken, data.targets).verdict == "bad_input");
    CHECK(changed(skipped, bits(network, trainer)) == Names{"rng"});
    CHECK(trainer.skipped_steps() == 2);
    CHECK(trainer.taken_steps() == 2);
  }
}

TEST_CASE("gradients that the scale made inf change the scale alone") {
  for (const Machine& machine : kMachines) {
    CAPTURE(machine.name);
    Network network;
    TrainerOptions options{.policy = Policy::mixed_float16(),
                           .batch = 32,
                           .loss_scale = LossScale::dynamic(0x1p24),
                           .seed = 5,
                           .device = machine.device,
                           .threads = machine.threads};
    Trainer trainer(network, losses::cross_entropy, optim::Adam{.learning_rate = 0.01}, options);
    Dataset data = batch();
    Array inputs = times(data.inputs, 30);
    StepResult result = trainer.step(inputs, data.targets);
    int skips = 0;
    double scale = 0x1p24;
    while (!result.taken) {
      REQUIRE(++skips < 24);
      CHECK(result.verdict == "scale_overflow");
      CHECK(result.producer != "");
      scale /= 2;
      CHECK(result.scale == scale);
      Bits before = bits(network, trainer);
      result = trainer.step(inputs, data.targets);
      if (!result.taken) CHECK(changed(before, bits(network, trainer)) == Names{"rng", "scale"});
    }
    CHECK(skips >= 2);
    CHECK(result.scale == scale);
    CHECK(trainer.state("t").as_integer(0) == 1);
    CHECK(trainer.skipped_steps() == skips);
  }
}

TEST_CASE("all machines skip the same steps and leave the same scale") {
  std::vector<std::string> histories;
  for (const Machine& machine : kMachines) {
    Network network;
    TrainerOptions options{.policy = Policy::mixed_float16(),
                           .batch = 32,
                           .loss_scale = LossScale::dynamic(0x1p20, 2),
                           .device = machine.device,
                           .threads = machine.threads};
    Trainer trainer(network, losses::cross_entropy, optim::SGD{.learning_rate = 0.01}, options);
    Dataset data = batch();
    std::string history;
    for (int i = 0; i < 16; ++i) {
      StepResult result = trainer.step(times(data.inputs, i % 4 == 3 ? 1e5 : 8), data.targets);
      history += result.verdict + " " + std::to_string(result.scale) + "\n";
    }
    histories.push_back(history);
  }
  CHECK(histories[0].find("scale_overflow") != std::string::npos);
  CHECK(histories[0].find("taken") != std::string::npos);
  CHECK(histories[1] == histories[0]);
  CHECK(histories[2] == histories[0]);
}

TEST_CASE("log of -1 keeps the scale and stops after 25 skips, its line named") {
  for (const Machine& machine : kMachines)
    for (const Policy& policy : {Policy::mixed_float16(), Policy::mixed_bfloat16()}) {
      CAPTURE(machine.name);
      CAPTURE(policy.name());
      nn::Dense layer{64, 8, {.name = "layer"}};
      int line = 0;
      auto model = [&](Tensor x) {
        Tensor y = layer(x);
        line = __LINE__ + 1;
        return log(y * 0.0f - 1.0f);
      };
      Trainer trainer(
          model, losses::mse, optim::Adam{.learning_rate = 0.1},
          {.policy = policy, .batch = 32, .device = machine.device, .threads = machine.threads});
      Array x = batch().inputs, target(ir::Type(f32, {32, 8}));
      std::vector<std::byte> weight;
      for (int i = 0; i < 24; ++i) {
        StepResult result = trainer.step(x, target);
        REQUIRE_FALSE(result.taken);
        CHECK(result.verdict == "domain_error");
        CHECK(result.producer.starts_with("log ("));
        CHECK(result.producer.ends_with("skipped_step_test.cpp:" + std::to_string(line) + ")"));
        if (i == 0) weight = layer.weight().value().bytes();
      }
      std::string text = error_of([&] { trainer.step(x, target); });
      CHECK(text.find("skipped_step_test.cpp:" + std::to_string(line) +
                      ": error: training stopped: 25 steps in a row were skipped") !=
            std::string::npos);
      CHECK(text.find("log gave NaN or infinity first (domain_error)") != std::string::npos);
      CHECK(trainer.scale() == (policy.needs_loss_scale() ? 32768 : 1));
      CHECK(layer.weight().value().bytes() == weight);
      CHECK(trainer.state("t").as_integer(0) == 0);
      CHECK(trainer.skipped_steps() == 25);
    }
}
