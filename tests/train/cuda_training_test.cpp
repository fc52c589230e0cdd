// SPDX-License-Identifier: Apache-2.0
// The training step on a GPU, executed from the PTX of its kernels: against the CPU, in every order
// of blocks, and without a host that waits inside a step. A small network, on one architecture
// under all policies and orders; MEZZO_CUDA_TRAINING=all takes the network of the demo and
// everything on every architecture.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/mezzo.h>
#include <support/nvrtc.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ptx/driver_support.h>
#include <string>
#include <train/demo_network.h>
#include <train/training_run.h>
#include <vector>

namespace mezzo::test {
namespace {

constexpr int kSteps = kComparedSteps;

bool everything() {
  const char* text = std::getenv("MEZZO_CUDA_TRAINING");
  return text && std::string(text) == "all";
}

uint64_t count(const char* what) { return fake().count(what); }

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
  for (const ComparedPolicy& each : compared_policies()) {
    CAPTURE(each.policy.name());
    if (!all && each.policy.name() != Policy::mixed_float16().name()) continue;
    const Trained cpu = train<Network>(each.policy, Device::cpu(), batch, features);
    order("forward");
    uint64_t first = 0, launches = 0;  // of graphs, by all steps after the first
    const Trained gpu = train<Network>(each.policy, Device::cuda(), batch, features, [&](int step) {
      (step == 0 ? first : launches) = count("graph launches");
    });
    CHECK(gpu.skipped == 0);
    const double worst = difference(gpu.losses, cpu.losses);
    fmt::print(
        "measured: sm_{}, {}: losses {:.4f} to {:.4f}, at most {:.1e} from the CPU's, relative\n",
        std::getenv("MEZZO_FAKE_CC"), each.policy.name(), gpu.losses.front(), gpu.losses.back(),
        worst);
    CHECK(worst <= each.bound);
    CHECK(gpu.losses.back() < gpu.losses.front());
    CHECK(launches - first == kSteps - 1);
    for (const char* blocks : {"forward", "reversed", "random"}) {
      if (!all) break;
      CAPTURE(blocks);
      order(blocks);
      CHECK(train<Network>(each.policy, Device::cuda(), batch, features).bits == gpu.bits);
    }
  }
}

void check_architecture(bool thorough) {
  if (lacks_nvrtc()) return;
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
  if (lacks_nvrtc()) return;
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
