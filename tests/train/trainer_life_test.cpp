// SPDX-License-Identifier: Apache-2.0
// Trainers that are moved, also by their own functions, and steps that fail to be built.
#include <mezzo/mezzo.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

using namespace mezzo;
using mezzo::test::error_of;

namespace {

struct Model : nn::Module {
  nn::Dense out{2, 2, {.name = "out"}};
  Tensor operator()(Tensor x) { return out(x); }
};

Dataset samples(int64_t count) {
  Dataset data{Array(ir::Type(f32, {count, 2})), Array(ir::Type(i32, {count}))};
  for (int64_t i = 0; i < count; ++i) {
    data.inputs.set(2 * i + i % 2, 1);
    data.targets.set(i, static_cast<double>(i % 2));
  }
  return data;
}

TrainerOptions options() { return {.batch = 4, .device = Device::interpreter()}; }

FitOptions quiet(int64_t epochs) { return {.epochs = epochs, .progress = false}; }

std::string at(int line, const std::string& text) {
  return "trainer_life_test.cpp:" + std::to_string(line) + ": error: " + text;
}

}  // namespace

TEST_CASE("a trainer that was moved from says so at the line of the call") {
  Trainer trainer(Model(), losses::cross_entropy, optim::Adam{}, options());
  Dataset data = samples(8);
  trainer.fit(data, quiet(1));
  Trainer moved = std::move(trainer);
  const std::string text = "the trainer was moved from\nnote: use the Trainer that it was moved to";
  auto fails = [&](int line, const std::function<void()>& f) {
    CHECK(error_of(f).ends_with(at(line, text)));
  };
  // clang-format off
  fails(__LINE__, [&] { trainer.fit(data); });
  fails(__LINE__, [&] { trainer.step(data.inputs, data.targets); });
  fails(__LINE__, [&] { trainer.evaluate(data); });
  fails(__LINE__, [&] { trainer.compile(data); });
  fails(__LINE__, [&] { trainer.summary(); });
  fails(__LINE__, [&] { trainer.ir(); });
  fails(__LINE__, [&] { trainer.compile_report(); });
  fails(__LINE__, [&] { trainer.scale(); });
  fails(__LINE__, [&] { trainer.set_learning_rate(1); });
  fails(__LINE__, [&] { trainer.taken_steps(); });
  fails(__LINE__, [&] { trainer.skipped_steps(); });
  fails(__LINE__, [&] { trainer.state_names(); });
  fails(__LINE__, [&] { trainer.state("t"); });
  fails(__LINE__, [&] { trainer.parameter_count(); });
  // clang-format on
  CHECK(moved.taken_steps() == 2);
  moved.fit(data, quiet(1));
  CHECK(moved.state("t").as_integer(0) == 4);
}

TEST_CASE("a fit goes on where the trainer is moved or destroyed between epochs") {
  auto trained = [](const std::function<void(std::unique_ptr<Trainer>&)>& meanwhile) {
    Model model;
    auto trainer =
        std::make_unique<Trainer>(model, losses::cross_entropy, optim::Adam{}, options());
    FitOptions fit = quiet(3);
    fit.on_epoch = [&](const EpochReport&) { meanwhile(trainer); };
    CHECK(trainer->fit(samples(8), fit).size() == 3);
    return model.out.weight().value().bytes();
  };
  const auto wanted = trained([](auto&) {});
  std::unique_ptr<Trainer> other;
  // After the second epoch it moves a trainer that was moved from, over the one that trains.
  CHECK(trained([&](auto& trainer) { other = std::make_unique<Trainer>(std::move(*trainer)); }) ==
        wanted);
  CHECK(trained([&](auto& trainer) {
          if (!other) other = std::make_unique<Trainer>(std::move(*trainer));
        }) == wanted);
  CHECK(trained([](auto& trainer) { trainer.reset(); }) == wanted);
}

TEST_CASE("a model or a loss that calls the trainer that traces it is an error") {
  std::unique_ptr<Trainer> trainer;
  Dataset data = samples(8);
  std::function<void()> inside;
  auto loss = [&](Tensor output, Tensor target) {
    inside();
    return losses::cross_entropy(output, target);
  };
  trainer = std::make_unique<Trainer>(Model(), loss, optim::Adam{}, options());
  const std::string text =
      "the model or the loss calls the trainer that is tracing it\nnote: a "
      "traced function works on tensors; train or evaluate outside of it";
  auto fails = [&](int line, std::function<void()> f) {
    inside = std::move(f);
    CHECK(error_of([&] { trainer->fit(data, quiet(1)); }).ends_with(at(line, text)));
    CHECK(error_of([&] { trainer->evaluate(data); }).ends_with(at(line, text)));
  };
  // clang-format off
  fails(__LINE__, [&] { trainer->fit(data, quiet(1)); });
  fails(__LINE__, [&] { trainer->step(data.inputs, data.targets); });
  fails(__LINE__, [&] { trainer->evaluate(data); });
  fails(__LINE__, [&] { trainer->compile(data); });
  // clang-format on
  inside = [] {};
  CHECK(trainer->fit(data, quiet(1))[0].steps == 2);
}

TEST_CASE("a model may name its inputs and parameters") {
  for (Device device : {Device::interpreter(), Device::cpu()}) {
    auto train = [&](bool named) {
      Model model;
      auto called = [&](Tensor x) {
        if (!named) return model(x);
        Tensor y = model(x.named("out.bias"));
        Operand(model.out.weight()).tensor().named("kernel");
        return y.named("lr");
      };
      Trainer trainer(called, losses::cross_entropy, optim::Adam{}, {.batch = 4, .device = device});
      trainer.fit(samples(10), quiet(2));
      CHECK(trainer.state_names().size() == 6);
      CHECK(trainer.evaluate(samples(10)).loss > 0);
      return model.out.weight().value().bytes();
    };
    CHECK(train(true) == train(false));
  }
}

TEST_CASE("a model that makes its layers in every call is refused by the second program") {
  auto model = [](Tensor x) {
    nn::Dense made(4, 6, {.name = "made"});
    return made(x);
  };
  TrainerOptions with = options();
  with.batch = 8;
  Trainer trainer(model, losses::cross_entropy, optim::SGD{.learning_rate = 0.5}, with);
  const auto step = [&](int64_t count) {
    trainer.step(Array(ir::Type(f32, {count, 4})), Array(ir::Type(i32, {count})));
  };
  step(8);
  CHECK(error_of([&] { step(3); })
            .ends_with(
                "error: training: a further program of this trainer has the parameter "
                "'made.weight', which its first one does not have\nnote: the model or the "
                "loss makes it anew in every call: make layers once, as members of the model"));
  step(8);
}

TEST_CASE("a step that fails to be built is built anew the next time") {
  bool broken = true;
  auto loss = [&](Tensor output, Tensor target) {
    if (broken) return losses::cross_entropy(reshape(output, {7}), target);
    return losses::cross_entropy(output, target);
  };
  Trainer trainer(Model(), loss, optim::Adam{}, options());
  Dataset data = samples(10);  // two batches and a tail
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK(error_of([&] { trainer.fit(data, quiet(1)); }).find("reshape: ") != std::string::npos);
    CHECK(error_of([&] { trainer.compile(data); }).find("reshape: ") != std::string::npos);
    CHECK(error_of([&] { trainer.evaluate(data); }).find("reshape: ") != std::string::npos);
    CHECK(error_of([&] { trainer.summary(); }).find("has not compiled anything") !=
          std::string::npos);
  }
  broken = false;
  CHECK(trainer.fit(data, quiet(1))[0].steps == 3);
  CHECK(trainer.evaluate(data).loss > 0);

  // One that is traced, and fails where it is compiled.
  TrainerOptions with = options();
  with.device = Device::cpu();
  with.threads = -1;
  Trainer refused(Model(), losses::cross_entropy, optim::Adam{}, with);
  for (int attempt = 0; attempt < 2; ++attempt)
    CHECK(error_of([&] { refused.fit(data, quiet(1)); }).find("threads: -1 is not a number") !=
          std::string::npos);
}
