// SPDX-License-Identifier: Apache-2.0
// The training step on a GPU, executed from the PTX of its kernels: against the CPU, in every order
// of blocks, and without a host that waits inside a step. A small network, on one architecture
// under all policies and orders; MEZZO_CUDA_TRAINING=all takes the network of the demo and
// everything on every architecture.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/mezzo.h>
#include <support/skip.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ptx/driver_support.h>
#include <string>
#include <train/demo_network.h>
#include <vector>

namespace mezzo::test {
namespace {

constexpr int kSteps = 20;

bool everything() {
  const char* text = std::getenv("MEZZO_CUDA_TRAINING");
  return text && std::string(text) == "all";
}

/// Sizes that no tile divides, and a batch that fills some.
struct SmallNetwork : nn::Module {
  nn::Dense hidden1{50, 48, {.name = "hidden1", .initializer = initializers::he_normal()}};
  nn::Dense hidden2{48, 37, {.name = "hidden2", .initializer = initializers::he_normal()}};
  nn::Dense out{37, 10, {.name = "out"}};

  Tensor operator()(Tensor x) { return out(relu(hidden2(relu(hidden1(x))))); }
};

/// Samples that can be told apart, so that rounding does not decide where training goes: those of a
/// class have a brighter tenth of the features.
Dataset samples(int64_t count, int64_t features) {
  Dataset data{Array(ir::Type(f32, {count, features})), Array(ir::Type(i32, {count}))};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = 7 * i % 10;
    data.targets.set(i, static_cast<double>(label));
    for (int64_t j = 0; j < features; ++j) {
      const double noise = std::abs(std::sin(static_cast<double>(37 * (i * features + j) + i)));
      data.inputs.set(i * features + j, 0.5 * noise + (10 * j / features == label ? 0.5 : 0));
    }
  }
  return data;
}

struct Trained {
  std::vector<double> losses;
  std::vector<std::byte> bits;  // of the losses, and of all state after the last step
  uint64_t launches = 0;        // of graphs, by all steps after the first
};

uint64_t count(const char* what) { return fake().count(what); }

template <class Network>
Trained train(Policy policy, Device device, int64_t batch, int64_t features) {
  Network network;
  Trainer trainer(network, losses::cross_entropy, optim::Adam{.learning_rate = 1e-3},
                  {.policy = policy, .batch = batch, .seed = 1, .device = device});
  const Dataset data = samples(batch * kSteps, features);
  Trained out;
  const auto add_bits = [&](const Array& array) {
    out.bits.insert(out.bits.end(), array.bytes().begin(), array.bytes().end());
  };
  for (int step = 0; step < kSteps; ++step) {
    Array inputs(ir::Type(f32, {batch, features})), targets(ir::Type(i32, {batch}));
    for (int64_t i = 0; i < batch * features; ++i)
      inputs.set(i, data.inputs.as_double(step * batch * features + i));
    for (int64_t i = 0; i < batch; ++i) targets.set(i, data.targets.as_double(step * batch + i));
    const uint64_t launches = device.is_cuda() ? count("graph launches") : 0;
    const StepResult result = trainer.step(inputs, targets);
    REQUIRE(result.taken);
    out.losses.push_back(result.loss);
    if (device.is_cuda() && step > 0) out.launches += count("graph launches") - launches;
    const double loss = result.loss;
    const auto* first = reinterpret_cast<const std::byte*>(&loss);
    out.bits.insert(out.bits.end(), first, first + sizeof loss);
  }
  for (const std::string& name : trainer.state_names()) add_bits(trainer.state(name));
  return out;
}

/// The largest relative difference of the losses.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return worst;
}

void order(const char* name) {
  setenv("MEZZO_FAKE_ORDER", name, 1);
  fake().reread_options();
}

/// An epoch in which the host never waits for the step that it has just launched.
template <class Network>
void run_ahead(int64_t batch, int64_t features) {
  Network network;
  Trainer trainer(network, losses::cross_entropy, optim::Adam{},
                  {.policy = Policy::mixed_float16(), .batch = batch, .device = Device::cuda()});
  const Dataset data = samples(batch * kSteps, features);
  trainer.compile(data);
  trainer.fit(data, {.progress = false});
  fake().reset_counts();
  const std::vector<EpochReport> reports = trainer.fit(data, {.progress = false});
  CHECK(reports[0].skipped == 0);
  CHECK(count("graph launches") == kSteps);
  CHECK(count("graphs run") == kSteps);
  CHECK(count("cuLaunchKernel") == 0);
  // The first step of the epoch alone finds the device without work.
  CHECK(count("graph launches after a pause") == 1);
  fmt::print(
      "measured: sm_{}: {} steps of {} kernels, {} waits of the host, {} after the last step\n",
      std::getenv("MEZZO_FAKE_CC"), kSteps, count("kernel runs") / kSteps,
      count("synchronising calls"), count("synchronising calls since graph launch"));
}

/// `all`: policies and orders of blocks; else mixed_float16 in one order.
template <class Network>
void compare(int64_t batch, int64_t features, bool all) {
  struct Case {
    Policy policy;
    double bound;
  };
  for (const Case& each : {Case{Policy::float32(), 1e-4}, Case{Policy::mixed_float16(), 5e-3},
                           Case{Policy::mixed_bfloat16(), 2e-2}}) {
    CAPTURE(each.policy.name());
    if (!all && each.policy.name() != Policy::mixed_float16().name()) continue;
    const Trained cpu = train<Network>(each.policy, Device::cpu(), batch, features);
    order("forward");
    const Trained gpu = train<Network>(each.policy, Device::cuda(), batch, features);
    const double worst = difference(gpu.losses, cpu.losses);
    fmt::print(
        "measured: sm_{}, {}: losses {:.4f} to {:.4f}, at most {:.1e} from the CPU's, relative\n",
        std::getenv("MEZZO_FAKE_CC"), each.policy.name(), gpu.losses.front(), gpu.losses.back(),
        worst);
    CHECK(worst <= each.bound);
    CHECK(gpu.losses.back() < gpu.losses.front());
    CHECK(gpu.launches == kSteps - 1);
    for (const char* blocks : {"forward", "reversed", "random"}) {
      if (!all) break;
      CAPTURE(blocks);
      order(blocks);
      CHECK(train<Network>(each.policy, Device::cuda(), batch, features).bits == gpu.bits);
    }
  }
}

bool missing() {
  std::string reason;
  if (codegen::nvrtc_available(&reason)) return false;
  skip_case(reason);
  return true;
}

void check_architecture(bool thorough) {
  if (missing()) return;
  if (everything()) {
    compare<DemoNetwork>(kDemoBatch, 784, true);
    run_ahead<DemoNetwork>(kDemoBatch, 784);
  } else {
    compare<SmallNetwork>(64, 50, thorough);
    run_ahead<SmallNetwork>(64, 50);
  }
}

}  // namespace

PROCESS_CASE("training on compute capability 7.5 is that of the CPU", "MEZZO_FAKE_CC=75") {
  check_architecture(false);
}
PROCESS_CASE("training on compute capability 8.0 is that of the CPU", "MEZZO_FAKE_CC=80") {
  check_architecture(true);
}
PROCESS_CASE("training on compute capability 8.6 is that of the CPU", "MEZZO_FAKE_CC=86") {
  check_architecture(false);
}
PROCESS_CASE("training on compute capability 8.9 is that of the CPU", "MEZZO_FAKE_CC=89") {
  check_architecture(false);
}
PROCESS_CASE("training on compute capability 9.0 is that of the CPU", "MEZZO_FAKE_CC=90") {
  check_architecture(false);
}
PROCESS_CASE("training on compute capability 10.0 is that of the CPU", "MEZZO_FAKE_CC=100") {
  check_architecture(false);
}
PROCESS_CASE("training on compute capability 12.0 is that of the CPU", "MEZZO_FAKE_CC=120") {
  check_architecture(false);
}

PROCESS_CASE("an error ends an epoch after the step that was under way", "MEZZO_FAKE_CC=80") {
  if (missing()) return;
  constexpr int64_t kBatch = 64, kBad = 5 * kBatch + 3;
  SmallNetwork network;
  Trainer trainer(network, losses::cross_entropy, optim::Adam{},
                  {.policy = Policy::mixed_float16(), .batch = kBatch, .device = Device::cuda()});
  Dataset data = samples(10 * kBatch, 50);
  const double label = data.targets.as_double(kBad);
  data.targets.set(kBad, 12);
  std::string error;
  try {
    trainer.fit(data, {.shuffle = false, .progress = false});
  } catch (const UserError& refused) {
    error = refused.what();
  }
  CHECK_MESSAGE(
      error.find("label 12 of sample 323 in the data set is out of range for 10 classes") !=
          std::string::npos,
      error);
  // Five steps before it, and the one that had been started when it was read.
  CHECK(trainer.taken_steps() == 6);
  CHECK(trainer.skipped_steps() == 1);
  data.targets.set(kBad, label);
  const EpochReport report = trainer.fit(data, {.shuffle = false, .progress = false})[0];
  CHECK(report.skipped == 0);
  CHECK(trainer.taken_steps() == 16);
}

}  // namespace mezzo::test
