// SPDX-License-Identifier: Apache-2.0
// Does precision cost accuracy? Trains the demo's network on Fashion-MNIST under each policy from
// the same seeds: equal seeds mean equal initial weights and equal order of samples, so that runs
// are compared in pairs. Prints every run, a table of means and, as the last line, all of it as
// JSON.
// kUsage says how it is called.
#include <mezzo/mezzo.h>
#include <mezzo/runtime/thread_pool.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <train/demo_network.h>
#include <vector>

using namespace mezzo;

namespace {

constexpr const char* kUsage =
    R"(usage: mezzo-accuracy [--seeds=N] [--epochs=N] [--policies=P,Q] [--initial-scale=S]
                      [--images=N] [--threads=N]
Trains the network of the demo under each policy from the same seeds and compares test accuracies.
  --seeds=N           seeds 1 to N (5)
  --epochs=N          passes over the training images (10)
  --policies=P,Q      policies, the first of them to compare with
                      (float32,mixed_float16,mixed_bfloat16)
  --initial-scale=S   first loss scale (32768)
  --images=N          the first N training images (60000)
  --threads=N         threads of the kernels, 1 to 1024 (all)
)";

struct Options {
  int64_t seeds = 5, epochs = 10, images = 60000, threads = 0;
  double initial_scale = LossScale{}.initial;
  std::vector<Policy> policies{Policy::float32(), Policy::mixed_float16(),
                               Policy::mixed_bfloat16()};
};

template <typename Number>
Number number_in(std::string_view name, std::string_view text, Number least,
                 Number most = std::numeric_limits<Number>::max()) {
  Number value{};
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && rest == text.data() + text.size() && value >= least && value <= most)
    return value;
  const bool bounded = most != std::numeric_limits<Number>::max();
  const std::string to = bounded ? fmt::format("to {}", most) : "on";
  throw UserError({},
                  fmt::format("{} must be a number from {} {}, not '{}'", name, least, to, text));
}

std::vector<Policy> policies_in(std::string_view text) {
  std::vector<Policy> policies;
  while (!text.empty()) {
    size_t comma = text.find(',');
    policies.push_back(Policy::by_name(std::string(text.substr(0, comma))));
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  if (policies.empty()) throw UserError({}, "--policies needs at least one policy");
  return policies;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    size_t equals = argument.find('=');
    std::string_view name = argument.substr(0, equals);
    std::string_view value = equals == std::string_view::npos ? "" : argument.substr(equals + 1);
    if (name == "--seeds")
      options.seeds = number_in<int64_t>(name, value, 1);
    else if (name == "--epochs")
      options.epochs = number_in<int64_t>(name, value, 1);
    else if (name == "--images")
      options.images = number_in<int64_t>(name, value, 1);
    else if (name == "--threads")
      options.threads = number_in<int64_t>(name, value, 1, runtime::ThreadPool::kMaxThreads);
    else if (name == "--initial-scale")
      options.initial_scale = number_in<double>(name, value, 0x1p-14);
    else if (name == "--policies")
      options.policies = policies_in(value);
    else
      throw UserError({}, fmt::format("unknown option '{}'", argument),
                      "`mezzo-accuracy --help` lists what it takes");
  }
  return options;
}

struct Run {
  double accuracy = 0, loss = 0, scale = 1, seconds = 0;
  int64_t skipped = 0;
};

Run train(const data::Split& data, const Options& options, const Policy& policy, uint64_t seed) {
  auto start = std::chrono::steady_clock::now();
  int64_t steps = options.epochs * ((data.train.size() + test::kDemoBatch - 1) / test::kDemoBatch);
  TrainerOptions trainer_options{.policy = policy,
                                 .batch = test::kDemoBatch,
                                 .seed = seed,
                                 .threads = static_cast<int>(options.threads)};
  trainer_options.loss_scale.initial = options.initial_scale;
  Trainer trainer(test::DemoNetwork(), losses::cross_entropy,
                  optim::Adam{.learning_rate = schedules::cosine_decay(1e-3, 1e-5, steps)},
                  trainer_options);
  trainer.fit(data.train, {.epochs = options.epochs, .progress = false});
  Evaluation test = trainer.evaluate(data.test);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return {test.accuracy, test.loss, trainer.scale(), seconds.count(), trainer.skipped_steps()};
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Of a sample; 0 for a single value.
double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  double mean = mean_of(values), sum = 0;
  for (double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

}  // namespace

int main(int argc, char** argv) try {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--help" || std::string_view(argv[i]) == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
  Options options = parse(argc, argv);
  data::Split data = data::fashion_mnist();
  data.train = data.train.first(options.images);
  fmt::print("{}; {} training and {} test images, {}\n", describe_machine(), data.train.size(),
             data.test.size(), ir::counted(options.epochs, "epoch"));
  fmt::print("{:>4}  {:16}{:>10}{:>10}{:>10}{:>12}{:>9}\n", "seed", "policy", "accuracy", "loss",
             "skipped", "scale", "seconds");
  std::vector<std::vector<double>> accuracies(options.policies.size());
  nlohmann::ordered_json report;
  report["epochs"] = options.epochs;
  report["initial_scale"] = options.initial_scale;
  for (int64_t seed = 1; seed <= options.seeds; ++seed)
    for (size_t i = 0; i < options.policies.size(); ++i) {
      const Policy& policy = options.policies[i];
      Run run = train(data, options, policy, static_cast<uint64_t>(seed));
      fmt::print("{:>4}  {:16}{:>10.4f}{:>10.4f}{:>10}{:>12}{:>9.2f}\n", seed, policy.name(),
                 run.accuracy, run.loss, run.skipped, run.scale, run.seconds);
      std::fflush(stdout);
      accuracies[i].push_back(run.accuracy);
      report["runs"].push_back({{"seed", seed},
                                {"policy", policy.name()},
                                {"accuracy", run.accuracy},
                                {"loss", run.loss},
                                {"skipped_steps", run.skipped},
                                {"loss_scale", run.scale},
                                {"seconds", run.seconds}});
    }
  const char* first = options.policies[0].name();
  fmt::print("\n{:16}{:>10}{:>12}{:>24}{:>24}\n", "policy", "mean", "deviation",
             fmt::format("mean - {}", first), "deviation of pairs");
  for (size_t i = 0; i < options.policies.size(); ++i) {
    std::vector<double> pairs;
    for (size_t seed = 0; seed < accuracies[i].size(); ++seed)
      pairs.push_back(accuracies[i][seed] - accuracies[0][seed]);
    double mean = mean_of(accuracies[i]), deviation = deviation_of(accuracies[i]);
    fmt::print("{:16}{:>10.4f}{:>12.4f}{:>24.4f}{:>24.4f}\n", options.policies[i].name(), mean,
               deviation, mean_of(pairs), deviation_of(pairs));
    report["policies"].push_back({{"policy", options.policies[i].name()},
                                  {"mean", mean},
                                  {"deviation", deviation},
                                  {"difference", mean_of(pairs)},
                                  {"deviation_of_pairs", deviation_of(pairs)}});
  }
  fmt::print("{}\n", report.dump());
  return 0;
} catch (const std::bad_alloc&) {
  std::fprintf(stderr, "error: out of memory\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
