// SPDX-License-Identifier: Apache-2.0
// Trains a multilayer perceptron on Fashion-MNIST in mixed precision with a dynamic loss scale, and
// beside it the same network in f32 from the same weights and in the same order of samples. The
// last line is one JSON object.
//
// `06_train_mlp --help` says how it is called.
#include <mezzo/mezzo.h>
#include <mezzo/runtime/compiler.h>

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

using namespace mezzo;

namespace {

struct Mlp : nn::Module {
  nn::Dense hidden1{784, 256, {.name = "hidden1", .initializer = initializers::he_normal()}};
  nn::Dense hidden2{256, 128, {.name = "hidden2", .initializer = initializers::he_normal()}};
  nn::Dense hidden3{128, 100, {.name = "hidden3", .initializer = initializers::he_normal()}};
  nn::Dense out{100, 10, {.name = "out"}};

  Tensor operator()(Tensor x) { return out(relu(hidden3(relu(hidden2(relu(hidden1(x))))))); }
};

constexpr const char* kUsage =
    R"(usage: 06_train_mlp [--epochs=N] [--policy=P] [--seed=S] [--initial-scale=S] [--device=D]
                    [--quick]
Trains a network on Fashion-MNIST under a precision policy, and beside it in f32.
  --epochs=N          passes over the training images (10)
  --policy=P          float32, mixed_float16, mixed_bfloat16, float16 or bfloat16 (mixed_float16)
  --seed=S            of the first weights and of the order of images (1)
  --initial-scale=S   first loss scale (32768)
  --device=D          cpu, interp, cuda[:N] or auto (cpu)
  --quick             1280 training and 512 test images, at most 2 epochs
)";

struct Options {
  int64_t epochs = 10;
  Policy policy = Policy::mixed_float16();
  uint64_t seed = 1;
  double initial_scale = LossScale{}.initial;
  Device device = Device::cpu();
  bool quick = false;
};

template <typename Number>
Number number_in(std::string_view name, const std::string& text) {
  Number value{};
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size())
    throw UserError({}, fmt::format("{} needs a number, not '{}'", name, text));
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    size_t equals = argument.find('=');
    std::string_view name = argument.substr(0, equals);
    std::string value(equals == std::string_view::npos ? "" : argument.substr(equals + 1));
    if (name == "--epochs") {
      options.epochs = number_in<int64_t>(name, value);
    } else if (name == "--policy") {
      options.policy = Policy::by_name(value);
    } else if (name == "--seed") {
      options.seed = number_in<uint64_t>(name, value);
    } else if (name == "--initial-scale") {
      options.initial_scale = number_in<double>(name, value);
    } else if (name == "--device") {
      options.device = Device::by_name(value);
    } else if (argument == "--quick") {
      options.quick = true;
    } else {
      throw UserError({}, fmt::format("unknown option '{}'", argument),
                      "`06_train_mlp --help` lists what it takes");
    }
  }
  if (options.epochs < 1) throw UserError({}, "--epochs must be at least 1");
  return options;
}

struct Trained {
  Evaluation test;
  double seconds = 0;
  int64_t skipped = 0;
  double scale = 1;
  runtime::CompileReport report;
};

Trained train(const data::Split& data, const Options& options, Policy policy) {
  constexpr int64_t kBatch = 128;
  int64_t steps = options.epochs * ((data.train.size() + kBatch - 1) / kBatch);
  Mlp model;
  LossScale scale = LossScale::by_policy();
  scale.initial = options.initial_scale;
  Trainer trainer(model, losses::cross_entropy,
                  optim::Adam{.learning_rate = schedules::cosine_decay(1e-3, 1e-5, steps)},
                  {.policy = policy,
                   .batch = kBatch,
                   .loss_scale = scale,
                   .seed = options.seed,
                   .device = options.device});
  trainer.compile(data.train);
  const runtime::CompileReport& report = trainer.compile_report();
  fmt::print(
      "\n{}\n{}{} in {}, {} kept; compiled in {:.0f} ms ({} new, {} from disk, {} from memory)\n",
      policy.name(), trainer.summary(), ir::counted(report.ops, "op"),
      ir::counted(report.kernels, "kernel"), ir::counted(report.casts, "cast"), report.milliseconds,
      report.compiled, report.disk_hits, report.memory_hits);
  auto start = std::chrono::steady_clock::now();
  trainer.fit(
      data.train,
      {.epochs = options.epochs, .progress = false, .on_epoch = [](const EpochReport& epoch) {
         fmt::print(
             "epoch {:2}  loss {:.4f}  accuracy {:6.2f} %  scale {:<8}  skipped {}  "
             "{:.2f} s\n",
             epoch.epoch, epoch.loss, 100 * epoch.accuracy, epoch.scale, epoch.skipped,
             epoch.seconds);
         std::fflush(stdout);
       }});
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return {trainer.evaluate(data.test), time.count(), trainer.skipped_steps(), trainer.scale(),
          report};
}

std::string with_interval(const Trained& trained, int64_t count) {
  auto [low, high] = metrics::wilson_interval(trained.test.accuracy, count);
  return fmt::format("{:.2f} % (95 %: {:.2f} to {:.2f})", 100 * trained.test.accuracy, 100 * low,
                     100 * high);
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
  if (options.quick) {
    data = {data.train.first(1280), data.test.first(512)};
    options.epochs = std::min<int64_t>(options.epochs, 2);
  }
  fmt::print("{}; {} training and {} test images\n", describe_machine(options.device),
             data.train.size(), data.test.size());
  Trained mixed = train(data, options, options.policy);
  Trained twin = train(data, options, Policy::float32());
  fmt::print("\ntest accuracy: {} {}\n", options.policy.name(),
             with_interval(mixed, data.test.size()));
  fmt::print("test accuracy: float32 {}\n", with_interval(twin, data.test.size()));
  fmt::print(
      "{{\"test_accuracy\": {:.4f}, \"test_accuracy_f32\": {:.4f}, \"skipped_steps\": {}, "
      "\"loss_scale\": {}, \"kernels\": {}, \"casts\": {}, \"compile_ms\": {:.1f}, "
      "\"seconds\": {:.2f}}}\n",
      mixed.test.accuracy, twin.test.accuracy, mixed.skipped, mixed.scale, mixed.report.kernels,
      mixed.report.casts, mixed.report.milliseconds, mixed.seconds);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
