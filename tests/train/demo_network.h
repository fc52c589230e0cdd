// SPDX-License-Identifier: Apache-2.0
// The network of the demo and a batch for it, for tests of the whole training step.
#pragma once

#include <mezzo/mezzo.h>

#include <cmath>

namespace mezzo::test {

inline constexpr int64_t kDemoBatch = 128;

struct DemoNetwork : nn::Module {
  nn::Dense hidden1{784, 256, {.name = "hidden1", .initializer = initializers::he_normal()}};
  nn::Dense hidden2{256, 128, {.name = "hidden2", .initializer = initializers::he_normal()}};
  nn::Dense hidden3{128, 100, {.name = "hidden3", .initializer = initializers::he_normal()}};
  nn::Dense out{100, 10, {.name = "out"}};

  Tensor operator()(Tensor x) { return out(relu(hidden3(relu(hidden2(relu(hidden1(x))))))); }
};

/// Pixels in [0, 1] and labels of 10 classes, the same at each call.
inline Dataset demo_batch() {
  Dataset batch{Array(ir::Type(f32, {kDemoBatch, 784})), Array(ir::Type(i32, {kDemoBatch}))};
  for (int64_t i = 0; i < batch.inputs.type.elements(); ++i)
    batch.inputs.set(i, std::abs(std::sin(static_cast<double>(37 * i))));
  for (int64_t i = 0; i < kDemoBatch; ++i) batch.targets.set(i, static_cast<double>((7 * i) % 10));
  return batch;
}

}  // namespace mezzo::test
