// SPDX-License-Identifier: Apache-2.0
// The first steps of a training with everything that two devices are compared by.
#pragma once

#include <mezzo/mezzo.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

namespace mezzo::test {

inline constexpr int kComparedSteps = 20;

/// How far the losses of those steps may be from the CPU's, relative, by policy.
struct ComparedPolicy {
  Policy policy;
  double bound;
};
inline std::vector<ComparedPolicy> compared_policies() {
  return {
      {Policy::float32(), 1e-4}, {Policy::mixed_float16(), 5e-3}, {Policy::mixed_bfloat16(), 2e-2}};
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
inline Dataset samples(int64_t count, int64_t features) {
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
  int skipped = 0;
};

/// Adam from the same weights on every device. `after_step`, if given, is told the step's number.
template <class Network>
Trained train(Policy policy, Device device, int64_t batch, int64_t features,
              const std::function<void(int)>& after_step = {}) {
  Network network;
  // Adam moves every weight by about the rate, whatever its gradient: outputs of wide layers by
  // that times their inputs. At 1e-3 with 784 of them a difference in the last bit grows a
  // hundredfold in three steps, and says nothing about a device any more.
  const double rate = 1e-3 * 50 / static_cast<double>(features);
  Trainer trainer(network, losses::cross_entropy, optim::Adam{.learning_rate = rate},
                  {.policy = policy, .batch = batch, .seed = 1, .device = device});
  const Dataset data = samples(batch * kComparedSteps, features);
  Trained out;
  const auto add_bits = [&](std::span<const std::byte> bytes) {
    out.bits.insert(out.bits.end(), bytes.begin(), bytes.end());
  };
  for (int step = 0; step < kComparedSteps; ++step) {
    Array inputs(ir::Type(f32, {batch, features})), targets(ir::Type(i32, {batch}));
    for (int64_t i = 0; i < batch * features; ++i)
      inputs.set(i, data.inputs.as_double(step * batch * features + i));
    for (int64_t i = 0; i < batch; ++i) targets.set(i, data.targets.as_double(step * batch + i));
    const StepResult result = trainer.step(inputs, targets);
    const double loss = result.loss;
    out.skipped += !result.taken;
    out.losses.push_back(loss);
    add_bits(std::as_bytes(std::span(&loss, 1)));
    if (after_step) after_step(step);
  }
  for (const std::string& name : trainer.state_names()) add_bits(trainer.state(name).bytes());
  return out;
}

/// The largest relative difference of the losses.
inline double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return worst;
}

}  // namespace mezzo::test
