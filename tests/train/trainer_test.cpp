// SPDX-License-Identifier: Apache-2.0
// Small trainings by the interpreter: they learn, skip, recover, stop, and give the same bits
// twice.
#include <mezzo/mezzo.h>
#include <mezzo/runtime/log.h>
#include <support/error_of.h>
#include <support/temp_dir.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <unistd.h>

using namespace mezzo;
using mezzo::test::error_of;

namespace {

struct Mlp : nn::Module {
  nn::Dense hidden{2, 8, {.name = "hidden"}}, out{8, 2, {.name = "out"}};
  Tensor operator()(Tensor x) { return out(relu(hidden(x))); }
};

/// Two classes: above and below a line.
Dataset points(int64_t count) {
  Dataset data{Array(ir::Type(f32, {count, 2})), Array(ir::Type(i32, {count}))};
  for (int64_t i = 0; i < count; ++i) {
    double x = std::sin(static_cast<double>(3 * i)), y = std::cos(static_cast<double>(7 * i));
    data.inputs.set(2 * i, x);
    data.inputs.set(2 * i + 1, y);
    data.targets.set(i, x + y > 0 ? 1 : 0);
  }
  return data;
}

TrainerOptions options(Policy policy = Policy::float32()) {
  return {.policy = policy, .batch = 16, .device = Device::interpreter()};
}

std::map<std::string, std::vector<std::byte>> bits(const Mlp& model, const Trainer& trainer) {
  std::map<std::string, std::vector<std::byte>> all;
  for (const nn::Dense* layer : {&model.hidden, &model.out}) {
    all[layer->weight().name()] = layer->weight().value().bytes();
    all[layer->bias().name()] = layer->bias().value().bytes();
  }
  for (const std::string& name : trainer.state_names()) all[name] = trainer.state(name).bytes();
  return all;
}

}  // namespace

TEST_CASE("a small network learns under every policy") {
  for (Policy policy : {Policy::float32(), Policy::mixed_float16(), Policy::mixed_bfloat16()}) {
    CAPTURE(policy.name());
    Mlp model;
    Trainer trainer(model, losses::cross_entropy, optim::Adam{.learning_rate = 0.05},
                    options(policy));
    Dataset data = points(72);  // four batches and a tail
    auto reports = trainer.fit(data, {.epochs = 12, .progress = false});
    CHECK(reports.size() == 12);
    CHECK(reports[0].steps == 5);
    CHECK(reports.back().loss < reports[0].loss / 2);
    CHECK(trainer.evaluate(data).accuracy > 0.9);
    CHECK(trainer.taken_steps() + trainer.skipped_steps() == 60);
  }
}

TEST_CASE("the same seed gives the same bits twice, another one does not") {
  auto train = [](uint64_t seed) {
    Mlp model;
    TrainerOptions with_seed = options(Policy::mixed_float16());
    with_seed.seed = seed;
    Trainer trainer(model, losses::cross_entropy, optim::SGD{.learning_rate = 0.1, .momentum = 0.9},
                    with_seed);
    trainer.fit(points(48), {.epochs = 2, .progress = false});
    return bits(model, trainer);
  };
  auto first = train(3);
  CHECK(first == train(3));
  CHECK(first != train(4));
}

TEST_CASE("initial weights are the same under every policy") {
  auto initial = [](Policy policy) {
    Mlp model;
    Trainer trainer(model, losses::cross_entropy, optim::SGD{.learning_rate = 0}, options(policy));
    trainer.fit(points(16), {.progress = false});
    return model.hidden.weight().value().bytes();
  };
  CHECK(initial(Policy::float32()) == initial(Policy::mixed_float16()));
  CHECK(initial(Policy::float32()) == initial(Policy::mixed_bfloat16()));
}

TEST_CASE("a skipped step keeps every bit but the scale, and the scale recovers") {
  Mlp model;
  TrainerOptions scaled = options(Policy::mixed_float16());
  scaled.loss_scale = LossScale::dynamic(0x1p24, 3);
  scaled.loss_scale.ceiling = 0x1p24;
  Trainer trainer(model, losses::cross_entropy, optim::Adam{.learning_rate = 0.01}, scaled);
  Dataset data = points(16);
  Array inputs = data.inputs;
  for (int64_t i = 0; i < inputs.type.elements(); ++i) inputs.set(i, 100 * inputs.as_double(i));

  StepResult result = trainer.step(inputs, data.targets);
  REQUIRE_FALSE(result.taken);
  CHECK(result.verdict == "scale_overflow");
  CHECK(result.scale == 0x1p23);
  int skips = 1;
  for (; !result.taken && skips < 24; ++skips) {
    auto before = bits(model, trainer);
    result = trainer.step(inputs, data.targets);
    if (result.taken) break;
    auto after = bits(model, trainer);
    for (auto& [name, value] : before)
      if (name != "scale" && name != "clean") CHECK_MESSAGE(after[name] == value, name);
  }
  CHECK(result.taken);
  CHECK(trainer.skipped_steps() == skips);
  double low = result.scale;
  CHECK(trainer.state("t").as_integer(0) == 1);
  for (int i = 0; i < 3; ++i) trainer.step(data.inputs, data.targets);
  CHECK(trainer.scale() == 2 * low);
}

TEST_CASE("a step has a loss scale where the policy computes in f16 or the program asks for one") {
  auto scaled = [](Policy policy, LossScale scale) {
    TrainerOptions with = options(policy);
    with.loss_scale = scale;
    Trainer trainer(Mlp(), losses::cross_entropy, optim::SGD{}, with);
    Dataset data = points(16);
    trainer.step(data.inputs, data.targets);
    std::vector<std::string> names = trainer.state_names();
    bool state = std::count(names.begin(), names.end(), "scale") == 1;
    CHECK(state == (std::count(names.begin(), names.end(), "clean") == 1));
    CHECK(trainer.scale() == (state ? scale.initial : 1));
    return state;
  };
  for (Policy policy : {Policy::float32(), Policy::mixed_float16(), Policy::mixed_bfloat16(),
                        Policy::float16(), Policy::bfloat16()}) {
    CAPTURE(policy.name());
    CHECK(scaled(policy, LossScale::by_policy()) == (policy.compute() == f16));
    CHECK(scaled(policy, LossScale::dynamic(64)));
    CHECK(scaled(policy, LossScale::static_scale(8)));
    CHECK_FALSE(scaled(policy, LossScale::none()));
  }
}

TEST_CASE("log of a negative number stops after 25 skips, names its line and keeps the scale") {
  nn::Dense layer{2, 1, {.name = "layer"}};
  int line = 0;
  auto model = [&](Tensor x) {
    Tensor y = layer(x);
    line = __LINE__ + 1;
    return log(y * 0.0f - 1.0f);
  };
  Trainer trainer(model, losses::mse, optim::SGD{.learning_rate = 0.1},
                  options(Policy::mixed_float16()));
  Array x({2, 2}, {1, 2, 3, 4}), target({2, 1}, {0, 0});
  for (int i = 0; i < 24; ++i) {
    StepResult result = trainer.step(x, target);
    REQUIRE_FALSE(result.taken);
    CHECK(result.verdict == "domain_error");
    CHECK(result.producer.starts_with("log ("));
  }
  std::string text = error_of([&] { trainer.step(x, target); });
  CHECK(text.find("trainer_test.cpp:" + std::to_string(line) +
                  ": error: training stopped: 25 "
                  "steps in a row were skipped") != std::string::npos);
  CHECK(text.find("log gave NaN or infinity first (domain_error)") != std::string::npos);
  CHECK(trainer.scale() == 32768);
}

TEST_CASE("a label out of range is an error at once and updates nothing") {
  Mlp model;
  Trainer trainer(model, losses::cross_entropy, optim::SGD{.learning_rate = 0.1}, options());
  Dataset data = points(16);
  trainer.step(data.inputs, data.targets);
  auto before = bits(model, trainer);
  data.targets.set(5, 2);
  std::string text = error_of([&] { trainer.step(data.inputs, data.targets); });
  CHECK(
      text.find("cross_entropy: label 2 of sample 5 in the batch is out of range for 2 classes") !=
      std::string::npos);
  CHECK(bits(model, trainer) == before);

  // By its place in the data set, wherever the epoch's order has put it.
  Dataset more = points(72);
  more.targets.set(37, -3);
  text = error_of([&] { trainer.fit(more, {.progress = false}); });
  CHECK(text.find(
            "cross_entropy: label -3 of sample 37 in the data set is out of range for 2 classes") !=
        std::string::npos);
  text = error_of([&] { trainer.evaluate(more); });
  CHECK(text.find("label -3 of sample 37 in the data set is") != std::string::npos);
  text = error_of([&] { trainer.step(data.inputs, data.targets); });
  CHECK(text.find("label 2 of sample 5 in the batch is") != std::string::npos);
}

namespace {

/// What `f` writes to standard error.
std::string standard_error_of(const std::function<void()>& f) {
  const mezzo::test::TempDir folder;
  const std::string path = (folder / "err").string();
  int before = dup(STDERR_FILENO), file = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(dup2(file, STDERR_FILENO) == STDERR_FILENO);
  f();
  dup2(before, STDERR_FILENO);
  close(before);
  close(file);
  std::ifstream written(path);
  return {std::istreambuf_iterator<char>(written), {}};
}

}  // namespace

TEST_CASE("an epoch writes one line, to standard error or where the log goes") {
  Mlp model;
  Trainer trainer(model, losses::cross_entropy, optim::SGD{}, options());
  Dataset data = points(16 * 40);
  std::string text = standard_error_of([&] { trainer.fit(data, {.epochs = 2}); });
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK(text.find("epoch 1/2 ") != std::string::npos);
  CHECK(text.find(" %  scale 1  skipped 0\n") != std::string::npos);

  std::vector<std::string> lines;
  auto before = runtime::set_log_sink(
      [&](runtime::Level, std::string_view line) { lines.emplace_back(line); });
  trainer.fit(data, {.validation = points(16)});
  nn::Dense layer{2, 1, {.name = "layer"}};
  Trainer regression(layer, losses::mse, optim::SGD{}, options());
  data.targets = Array(ir::Type(f32, {data.size(), 1}));
  regression.fit(data, {.validation = data});
  runtime::set_log_sink(before);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("epoch 3/3 "));
  CHECK(lines[0].find(" %  validation loss ") != std::string::npos);
  CHECK(lines[0].ends_with(" %  scale 1  skipped 0"));
  CHECK(lines[1].starts_with("epoch 1/1 "));
  CHECK(lines[1].find("accuracy") == std::string::npos);
}

TEST_CASE("a parameter that is not finite is an error at once") {
  Mlp model;
  Trainer trainer(model, losses::cross_entropy, optim::SGD{.learning_rate = 0.1}, options());
  Dataset data = points(16);
  trainer.step(data.inputs, data.targets);
  Array weight = model.hidden.weight().value();
  weight.set(3, std::numeric_limits<double>::quiet_NaN());
  nn::Parameter handle = model.hidden.weight();
  handle.set_value(weight);
  std::string text = error_of([&] { trainer.step(data.inputs, data.targets); });
  CHECK(text.find("parameter 'hidden.weight' holds nan at element 3") != std::string::npos);
}

TEST_CASE("u8 inputs are pixels in a step as in an epoch, u8 targets are the numbers they are") {
  Dataset pixels = points(16), data = points(16);
  pixels.inputs = Array(ir::Type(u8, {16, 2}));
  for (int64_t i = 0; i < 32; ++i) {
    pixels.inputs.set_integer(i, (41 * i) % 256);
    data.inputs.set(i, static_cast<double>((41 * i) % 256) / 255);
  }
  pixels.targets = Array(data.targets.converted_to(u8));
  enum class How { Floats, Fit, Step };
  auto train = [&](How how) {
    Mlp model;
    Trainer trainer(model, losses::cross_entropy, optim::SGD{.learning_rate = 0.1}, options());
    if (how == How::Step)
      CHECK(trainer.step(pixels.inputs, pixels.targets).loss > 0);
    else
      trainer.fit(how == How::Fit ? pixels : data, {.shuffle = false, .progress = false});
    return model.hidden.weight().value().bytes();
  };
  CHECK(train(How::Fit) == train(How::Floats));
  CHECK(train(How::Step) == train(How::Floats));

  // A regression on u8: 200 is 200.
  nn::Dense layer{2, 1, {.name = "layer"}};
  auto loss = [](Tensor output, Tensor target) { return losses::mse(output, cast(target, f32)); };
  Trainer trainer(layer, loss, optim::SGD{.learning_rate = 0}, options());
  Dataset numbers{Array(ir::Type(f32, {4, 2})), Array({4, 1}, {200, 200, 200, 200}, u8)};
  CHECK(trainer.evaluate(numbers).loss == 40000);
  CHECK(trainer.fit(numbers, {.progress = false})[0].loss == 40000);
}

TEST_CASE("a loss without classes has no accuracy") {
  nn::Dense layer{2, 1, {.name = "layer"}};
  Trainer trainer(layer, losses::mse, optim::SGD{}, options());
  Dataset data = points(20);
  data.targets = Array(ir::Type(f32, {20, 1}));
  EpochReport report = trainer.fit(data, {.validation = data, .progress = false})[0];
  CHECK(report.loss > 0);
  CHECK(std::isnan(report.accuracy));
  CHECK(report.validation_loss > 0);
  CHECK(std::isnan(report.validation_accuracy));
  CHECK(std::isnan(trainer.evaluate(data).accuracy));
  CHECK(std::isnan(trainer.step(data.inputs, data.targets).metric));
}

TEST_CASE("the rate may be set between steps, not under a schedule") {
  Mlp model;
  Trainer trainer(model, losses::cross_entropy, optim::SGD{.learning_rate = 0.1}, options());
  Dataset data = points(16);
  trainer.step(data.inputs, data.targets);
  trainer.set_learning_rate(0);
  auto before = model.hidden.weight().value().bytes();
  trainer.step(data.inputs, data.targets);
  CHECK(model.hidden.weight().value().bytes() == before);

  Trainer scheduled(Mlp(), losses::cross_entropy,
                    optim::SGD{.learning_rate = schedules::cosine_decay(0.1, 0, 10)}, options());
  scheduled.step(data.inputs, data.targets);
  CHECK(error_of([&] { scheduled.set_learning_rate(1); }).find("the rate follows a schedule") !=
        std::string::npos);
}

TEST_CASE("layers without names that were traced apart are trained together") {
  std::vector<std::string> warnings;
  auto before = runtime::set_log_sink(
      [&](runtime::Level, std::string_view text) { warnings.emplace_back(text); });
  // Run apart: with numbers; or only traced: the Trainer makes them.
  for (bool run : {true, false}) {
    CAPTURE(run);
    warnings.clear();
    nn::Dense first{2, 2}, second{2, 2}, third{2, 2};
    const JitOptions interpreter{.device = Device::interpreter()};
    Array x({1, 2}, {1, 2});
    for (const nn::Dense& layer : {first, second}) {
      auto f = jit([&](Tensor input) { return layer(input); }, interpreter);
      CHECK(f.ir(x).find("%dense.weight: ") != std::string::npos);
      if (run) f(x);
    }
    auto model = [&](Tensor input) { return third(relu(second(relu(first(input))))); };
    int line = __LINE__ + 1;
    Trainer trainer(model, losses::cross_entropy, optim::Adam{.learning_rate = 0}, options());
    Dataset data = points(20);  // a batch and a tail
    trainer.fit(data, {.progress = false});
    trainer.evaluate(data);
    for (const char* name : {"dense.weight.m", "dense_1.weight.m", "dense_2.weight.m"})
      CHECK(trainer.state(name).as_double(0) != 0);
    CHECK(trainer.state_names().size() == 3 * 4 + 2);
    auto bytes = [](const nn::Dense& layer) { return layer.weight().value().bytes(); };
    CHECK((bytes(first) == bytes(second)) == run);
    CHECK(bytes(first) != bytes(third));
    if (run) {
      REQUIRE(warnings.size() == 1);
      CHECK(warnings[0].find("trainer_test.cpp:" + std::to_string(line)) != std::string::npos);
      CHECK(warnings[0].find(
                "parameters 'dense.weight' and 'dense_1.weight' start from the same numbers: two "
                "programs with the seed 0 made them, both from its stream 0") != std::string::npos);
      CHECK(warnings[0].find("give one of the programs another seed, or let this one be the first "
                             "to run") != std::string::npos);
    } else {
      CHECK(warnings.empty());
    }
    // The two programs of the first jit functions keep their names.
    auto again = jit([&](Tensor input) { return second(input); }, interpreter);
    CHECK(again.ir(x).find("%dense.weight: ") != std::string::npos);
  }
  runtime::set_log_sink(before);
}

TEST_CASE("layers of one program start apart where one of them has run before") {
  std::vector<std::string> warnings;
  auto before = runtime::set_log_sink(
      [&](runtime::Level, std::string_view text) { warnings.emplace_back(text); });
  enum class First { Jit, Compile };
  auto train = [](First what, uint64_t seed) {
    nn::Dense a{2, 2}, b{2, 2}, c{2, 2};
    auto f = jit([&](Tensor x) { return b(x); }, {.device = Device::interpreter(), .seed = seed});
    TrainerOptions with = options();
    with.seed = seed;
    Dataset data = points(20);  // a batch and a tail
    Trainer trainer([&](Tensor x) { return c(relu(b(relu(a(x))))); }, losses::cross_entropy,
                    optim::SGD{.learning_rate = 0}, with);
    // A program draws its numbers when it runs, not when it is made.
    if (what == First::Compile) trainer.compile(data);
    f(Array({1, 2}, {1, 2}));
    trainer.evaluate(data);
    trainer.fit(data, {.progress = false});
    std::vector<std::vector<double>> weights;
    for (const nn::Dense& layer : {a, b, c}) weights.push_back(layer.weight().value().to_doubles());
    CHECK(weights[0] != weights[1]);
    CHECK(weights[0] != weights[2]);
    CHECK(weights[1] != weights[2]);
    return weights;
  };
  auto weights = train(First::Jit, 0);
  CHECK(train(First::Jit, 0) == weights);
  CHECK(train(First::Compile, 0) == weights);
  CHECK(train(First::Jit, 1) != weights);
  CHECK(warnings.empty());
  runtime::set_log_sink(before);
}

TEST_CASE("programs with other storage types never round trained parameters") {
  Mlp model;
  Dataset data = points(16);
  auto weight = [&] { return model.hidden.weight().value(); };
  auto half = jit([&](Tensor x) { return model(x); },
                  {.device = Device::interpreter(), .policy = Policy::float16()});
  half(data.inputs);  // a first use that only reads
  Trainer trainer(model, losses::cross_entropy, optim::Adam{.learning_rate = 0.01}, options());
  trainer.fit(data, {.progress = false});
  Array master = weight();
  REQUIRE(master.dtype() == f32);
  Array out = half(data.inputs);
  CHECK(out.as_double(0) != 0);
  CHECK(weight().dtype() == f32);
  CHECK(weight().bytes() == master.bytes());

  int line = __LINE__ + 1;
  Trainer narrow(model, losses::cross_entropy, optim::SGD{}, options(Policy::float16()));
  CHECK(std::isfinite(narrow.evaluate(data).loss));
  std::string text = error_of([&] { narrow.fit(data, {.progress = false}); });
  CHECK(text.find("trainer_test.cpp:" + std::to_string(line) +
                  ": error: trainer: parameter 'hidden.weight' was trained in f32; the policy "
                  "stores parameters in f16, which would round it\nnote: use a policy that keeps "
                  "the wider type (mixed_float16, mixed_bfloat16), or another model that takes its "
                  "numbers by set_value") != std::string::npos);
  CHECK(weight().bytes() == master.bytes());
}

TEST_CASE(
    "parameters trained in f16 are widened, and initial values do not depend on a first use") {
  Mlp model, fresh;
  auto half = jit([&](Tensor x) { return model(x); },
                  {.device = Device::interpreter(), .policy = Policy::float16()});
  half(points(16).inputs);
  for (const Mlp& each : {model, fresh})
    Trainer(each, losses::cross_entropy, optim::SGD{.learning_rate = 0}, options())
        .fit(points(16), {.progress = false});
  CHECK(model.hidden.weight().value().bytes() == fresh.hidden.weight().value().bytes());

  Mlp narrow;
  Trainer(narrow, losses::cross_entropy, optim::SGD{.learning_rate = 0.1},
          options(Policy::float16()))
      .fit(points(16), {.progress = false});
  Array before = narrow.hidden.weight().value();
  REQUIRE(before.dtype() == f16);
  Trainer(narrow, losses::cross_entropy, optim::SGD{.learning_rate = 0}, options())
      .fit(points(16), {.progress = false});
  CHECK(narrow.hidden.weight().value().dtype() == f32);
  CHECK(narrow.hidden.weight().value().to_doubles() == before.to_doubles());
}
