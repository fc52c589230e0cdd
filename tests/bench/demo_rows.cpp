// SPDX-License-Identifier: Apache-2.0
// The training step of the demo (784-256-128-100-10, batch 128, Adam) through the Trainer, on
// random images, and how long it takes to compile.
#include <mezzo/mezzo.h>
#include <mezzo/runtime/thread_pool.h>

#include <fmt/format.h>

#include <algorithm>
#include <bench/empty_cache.h>
#include <bench/harness.h>
#include <chrono>
#include <random>
#include <string>

namespace mezzo::bench {

namespace {

constexpr int64_t kBatch = 128;
constexpr const char* kPolicies[] = {"float32", "mixed_bfloat16", "mixed_float16"};

struct Mlp : nn::Module {
  nn::Dense hidden1{784, 256, {.name = "hidden1", .initializer = initializers::he_normal()}};
  nn::Dense hidden2{256, 128, {.name = "hidden2", .initializer = initializers::he_normal()}};
  nn::Dense hidden3{128, 100, {.name = "hidden3", .initializer = initializers::he_normal()}};
  nn::Dense out{100, 10, {.name = "out"}};

  Tensor operator()(Tensor x) { return out(relu(hidden3(relu(hidden2(relu(hidden1(x))))))); }
};

Dataset random_batch() {
  std::mt19937 engine(1);
  Dataset batch{Array(ir::Type(f32, {kBatch, 784})), Array(ir::Type(i32, {kBatch}))};
  std::uniform_real_distribution<float> pixel(0.0f, 1.0f);
  for (float& value : batch.inputs.view<float>()) value = pixel(engine);
  for (int32_t& label : batch.targets.view<int32_t>()) label = static_cast<int32_t>(engine() % 10);
  return batch;
}

Trainer make_trainer(const Options& options, const char* policy) {
  return Trainer(Mlp(), losses::cross_entropy, optim::Adam{.learning_rate = 1e-3},
                 {.policy = Policy::by_name(policy), .batch = kBatch, .threads = options.threads});
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

void demo_rows(const Options& options) {
  int threads = options.threads > 0 ? options.threads : runtime::default_threads();
  Dataset batch = random_batch();
  std::vector<Row> rows;
  for (const char* policy : kPolicies) {
    auto trainer = std::make_shared<Trainer>(make_trainer(options, policy));
    trainer->compile(batch);
    rows.push_back({policy, [trainer, &batch] { trainer->step(batch.inputs, batch.targets); }});
  }
  measure(rows, options, threads);
  fmt::print("\ntraining step 784-256-128-100-10, batch {}, Adam, on {} thread{}\n", kBatch,
             threads, threads == 1 ? "" : "s");
  fmt::print("{:34}{:>13}{:>13}{:>19}\n", "", "median", "best", "processor time");
  for (const Row& row : rows)
    fmt::print("{:34}{:10.3f} ms{:10.3f} ms{:16.3f} ms\n", row.name, 1e3 * row.median(),
               1e3 * row.minimum(), 1e3 * row.processor_median());
}

void compile_rows(const Options& options) {
  using Clock = std::chrono::steady_clock;
  Dataset batch = random_batch();
  constexpr int kRounds = 3;
  fmt::print("\ntracing and compiling that step, medians of {}\n", kRounds);
  fmt::print("{:34}{:>13}{:>13}{:>13}{:>10}\n", "", "new", "from disk", "from memory", "kernels");
  for (const char* policy : kPolicies) {
    std::vector<double> cold, disk, memory;
    int kernels = 0;
    auto timed = [&](Trainer& trainer, std::vector<double>& times) {
      auto start = Clock::now();
      trainer.compile(batch);
      times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      kernels = trainer.compile_report().kernels;
    };
    for (int round = 0; round < kRounds; ++round) {
      EmptyCache cache;
      {
        Trainer trainer = make_trainer(options, policy);
        timed(trainer, cold);
      }
      // Its kernels are gone from memory with it.
      Trainer second = make_trainer(options, policy), third = make_trainer(options, policy);
      timed(second, disk);
      timed(third, memory);
    }
    fmt::print("{:34}{:10.1f} ms{:10.1f} ms{:10.1f} ms{:10}\n", policy, median_of(cold),
               median_of(disk), median_of(memory), kernels);
  }
  compile_graph_rows(options);
}

}  // namespace mezzo::bench
