// SPDX-License-Identifier: Apache-2.0
// The demo's training step as its user meets it, by the clock on the wall, beside what its kernels
// take one by one; and how long the step takes to compile.
#include <mezzo/ir/error.h>
#include <mezzo/runtime/compiler.h>
#include <mezzo/runtime/log.h>

#include <algorithm>
#include <bench/empty_cache.h>
#include <chrono>
#include <cstdlib>
#include <gpu/speed_rows.h>
#include <gpu/timed_function.h>
#include <train/demo_network.h>
#include <train/training_run.h>

namespace mezzo::gpu {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Trainer make_trainer(const SpeedRun& run, const Policy& policy, bool log_launches = false) {
  TrainerOptions options{.policy = policy,
                         .batch = test::kDemoBatch,
                         .seed = 1,
                         .device = Device::cuda(run.options.ordinal)};
  options.debug.launch = log_launches;
  return Trainer(test::DemoNetwork(), losses::cross_entropy, optim::Adam{.learning_rate = 1e-3},
                 options);
}

/// Seconds of the kernels that the log of launches names, and their number.
struct KernelTimes {
  double seconds = 0;
  int kernels = 0;

  /// `launch ..., 12.3 us`
  void add(std::string_view line) {
    if (line.substr(0, 7) != "launch " || line.substr(line.size() - 3) != " us") return;
    const std::string number(line.substr(line.rfind(' ', line.size() - 4) + 1));
    seconds += 1e-6 * std::strtod(number.c_str(), nullptr);
    ++kernels;
  }
};

KernelTimes kernels_of_a_step(const SpeedRun& run, const Policy& policy) {
  Trainer trainer = make_trainer(run, policy, true);
  const Dataset batch = test::demo_batch();
  KernelTimes times;
  const runtime::LogSink before =
      runtime::set_log_sink([&](runtime::Level, std::string_view line) { times.add(line); });
  std::vector<double> seconds;
  for (int step = 0; step < (run.options.quick ? 2 : 20); ++step) {
    times = {};
    trainer.step(batch.inputs, batch.targets);
    seconds.push_back(times.seconds);
  }
  runtime::set_log_sink(before);
  return {median_of(seconds), times.kernels};
}

void step_rows(SpeedRun& run, const Policy& policy) {
  const std::string name = policy.name();
  const KernelTimes kernels = kernels_of_a_step(run, policy);
  const int steps = run.options.quick ? 2 : 500;
  const Dataset data = test::samples(test::kDemoBatch * steps, 784);
  Trainer trainer = make_trainer(run, policy);
  trainer.fit(data, {.progress = false});
  std::vector<double> epochs;
  for (int i = 0; i < (run.options.quick ? 1 : 5); ++i) {
    const auto start = Clock::now();
    trainer.fit(data, {.progress = false});
    epochs.push_back(seconds_since(start) / steps);
  }
  const Dataset batch = test::demo_batch();
  std::vector<double> alone;
  for (int i = 0; i < (run.options.quick ? 2 : 200); ++i) {
    const auto start = Clock::now();
    trainer.step(batch.inputs, batch.targets);
    alone.push_back(seconds_since(start));
  }
  const double epoch = median_of(epochs), step = median_of(alone);
  const double budget = kernels.seconds;
  add_row(run, {fmt::format("step of an epoch, {}", name), epoch, 1 / epoch, "steps/s", 0, "",
                "near the sum of its kernels"});
  add_row(run, {fmt::format("step with its loss read, {}", name), step, 1 / step, "steps/s"});
  add_row(run, {fmt::format("its {} kernels one by one", kernels.kernels), budget,
                100 * budget / epoch, "% of a step"});
}

void compile_rows(SpeedRun& run, const Policy& policy) {
  const Dataset batch = test::demo_batch();
  std::vector<double> cold, warm;
  for (int round = 0; round < (run.options.quick ? 1 : 3); ++round) {
    const bench::EmptyCache cache;
    for (std::vector<double>* times : {&cold, &warm}) {
      // The kernels are gone from memory with the trainer.
      Trainer trainer = make_trainer(run, policy);
      const auto start = Clock::now();
      trainer.compile(batch);
      times->push_back(seconds_since(start));
    }
  }
  add_row(run, {fmt::format("compiling, new, {}", policy.name()), median_of(cold),
                1e3 * median_of(cold), "ms", 0, "", "<= 2 s"});
  add_row(run, {fmt::format("compiling, from disk, {}", policy.name()), median_of(warm),
                1e3 * median_of(warm), "ms", 0, "", "<= 150 ms"});
}

}  // namespace

void measure_training(SpeedRun& run) {
  run.report.line("  training step 784-256-128-100-10, batch {}, Adam", test::kDemoBatch);
  for (const test::ComparedPolicy& each : test::compared_policies()) {
    if (run.options.quick && each.policy.name() != Policy::mixed_float16().name()) continue;
    try {
      step_rows(run, each.policy);
      compile_rows(run, each.policy);
    } catch (const Error& error) {
      run.report.fail(
          fmt::format("speed of training under {}: {}", each.policy.name(), error.what()));
    }
  }
}

}  // namespace mezzo::gpu
