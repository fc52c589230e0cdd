// SPDX-License-Identifier: Apache-2.0
// How the time from a C++ function to machine code grows with the program: chains, doublings and
// networks, forward and with gradients.
#include <mezzo/mezzo.h>
#include <mezzo/runtime/compiler.h>
#include <support/big_graphs.h>

#include <fmt/format.h>

#include <bench/empty_cache.h>
#include <bench/harness.h>
#include <chrono>
#include <functional>
#include <string>

namespace mezzo::bench {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Times {
  double trace = 0, passes = 0, rest = 0;  // milliseconds; the rest: checks, code, loading
  int kernels = 0;
  double sum() const { return trace + passes + rest; }
};

Times times_of(double trace, const runtime::CompileReport& report) {
  Times times{.trace = trace, .kernels = report.kernels};
  for (const auto& [name, milliseconds] : report.timings)
    if (passes::find_pass(name)) times.passes += milliseconds;
  times.rest = report.milliseconds - times.passes;
  return times;
}

/// How a graph is compiled: its gradient too, and under which policy.
struct Kind {
  const char* name;
  bool gradient;
  const char* policy;
};
constexpr Kind kKinds[] = {
    {"forward", false, ""}, {"gradient", true, ""}, {"gradient f16", true, "mixed_float16"}};

template <typename F>
Times compile_graph(const F& f, const Kind& kind) {
  const auto start = Clock::now();
  std::unique_ptr<ir::Module> module = test::traced(f, kind.gradient);
  const double trace = milliseconds_since(start);
  runtime::CompileReport report;
  runtime::compile(std::move(module), "main",
                   {.policy = kind.policy, .loss_scale = "off", .disk_cache = false}, &report);
  return times_of(trace, report);
}

Times compile_network(int layers) {
  EmptyCache cache;
  Trainer trainer(test::DeepMlp(layers), losses::cross_entropy, optim::Adam{},
                  {.policy = Policy::mixed_float16(), .batch = test::DeepMlp::kBatch});
  const Dataset batch = test::DeepMlp::batch();
  const auto start = Clock::now();
  trainer.compile(batch);
  const double all = milliseconds_since(start);
  const runtime::CompileReport& report = trainer.compile_report();
  return times_of(all - report.milliseconds, report);
}

/// Rows for growing sizes, until the next would take more than a hundred times `seconds` if it grew
/// as its size does.
void rows_of(const std::string& name, std::initializer_list<int> sizes, double seconds,
             const std::function<Times(int)>& compile) {
  double rate = 0;  // milliseconds for each op or layer
  for (int size : sizes) {
    if (rate * size > 1e5 * seconds) {
      fmt::print("{:34} left out\n", fmt::format("{} {}", name, size));
      continue;
    }
    const Times times = compile(size);
    rate = times.sum() / size;
    fmt::print("{:34}{:10.1f} ms{:10.1f} ms{:10.1f} ms{:10.1f} ms{:10}\n",
               fmt::format("{} {}", name, size), times.trace, times.passes, times.rest, times.sum(),
               times.kernels);
    std::fflush(stdout);
  }
}

}  // namespace

void compile_graph_rows(const Options& options) {
  fmt::print("\ncompiling graphs that grow, once each\n");
  fmt::print("{:34}{:>13}{:>13}{:>13}{:>13}{:>10}\n", "", "trace", "passes", "rest", "sum",
             "kernels");
  for (const Kind& kind : kKinds)
    rows_of(fmt::format("chain, {},", kind.name), {1000, 10'000, 100'000}, options.seconds,
            [&](int size) { return compile_graph(test::Chain{size}, kind); });
  for (const Kind& kind : kKinds)
    rows_of(fmt::format("doublings, {},", kind.name), {15, 30, 60}, options.seconds,
            [&](int size) { return compile_graph(test::Doublings{size}, kind); });
  rows_of("network, step f16,", {50, 150, 500}, options.seconds, compile_network);
}

}  // namespace mezzo::bench
