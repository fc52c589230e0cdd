// SPDX-License-Identifier: Apache-2.0
// Programs of any length: what is done for each op must not grow with the number of ops.
#pragma once

#include <mezzo/dsl/trace.h>
#include <mezzo/mezzo.h>

#include <memory>
#include <string>
#include <vector>

namespace mezzo::test {

/// Of a tensor of 4 numbers: `ops` ops in a row, each of which reads the one before it.
struct Chain {
  int ops = 0;
  Tensor operator()(Tensor x) const {
    Tensor y = x;
    for (int i = 0; i < ops; ++i) y = i % 3 == 0 ? relu(y) : i % 3 == 1 ? y * x : y + x;
    return y;
  }
};

/// `x + x`, `times` times over: as an expression it has 2^times leaves.
struct Doublings {
  int times = 0;
  Tensor operator()(Tensor x) const {
    for (int i = 0; i < times; ++i) x = x + x;
    return x;
  }
};

/// The function `main` of a tensor of 4 numbers, or of it the sum and the gradient of that.
template <typename F>
std::unique_ptr<ir::Module> traced(const F& f, bool gradient) {
  detail::Trace trace("big");
  trace.begin_function("main");
  const Tensor x = trace.input(ir::Type(f32, {4}), "x");
  std::vector<ir::Value> results;
  auto give = [&](const Tensor& tensor) {
    results.push_back(trace.value(tensor, "main", ir::Location::here()));
  };
  if (gradient) {
    const ValueAndGrad both = value_and_grad([&](Tensor t) { return sum(f(t)); })(x);
    give(both.value);
    give(both.grads[0]);
  } else {
    give(f(x));
  }
  trace.end_function(results, {});
  return trace.take_module();
}

/// `layers` dense layers of `kWidth` features with relu between them.
struct DeepMlp : nn::Module {
  static constexpr int64_t kWidth = 16, kClasses = 10, kBatch = 8;
  std::vector<nn::Dense> hidden;
  nn::Dense out{kWidth, kClasses, {.name = "out"}};

  explicit DeepMlp(int layers) {
    for (int i = 0; i + 1 < layers; ++i)
      hidden.emplace_back(kWidth, kWidth,
                          nn::DenseOptions{.name = "hidden" + std::to_string(i),
                                           .initializer = initializers::he_normal()});
  }
  Tensor operator()(Tensor x) {
    for (nn::Dense& layer : hidden) x = relu(layer(x));
    return out(x);
  }
  static Dataset batch() {
    Dataset batch{Array(ir::Type(f32, {kBatch, kWidth})), Array(ir::Type(i32, {kBatch}))};
    for (float& value : batch.inputs.view<float>()) value = 1;
    return batch;
  }
};

}  // namespace mezzo::test
