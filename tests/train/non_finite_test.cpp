// SPDX-License-Identifier: Apache-2.0
// What a training says of numbers that are not finite: where they were made, and a remedy that
// helps.
#include <mezzo/mezzo.h>
#include <mezzo/runtime/log.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

using namespace mezzo;
using mezzo::test::error_of;

namespace {

Dataset batch() { return {Array({2, 2}, {1, 2, 3, 4}), Array({2, 1}, {1, 2})}; }

/// The error that stops a training on `loss`.
std::string stop_of(const std::function<Tensor(Tensor, Tensor)>& loss, Policy policy) {
  nn::Dense layer{2, 1};
  Trainer trainer(layer, loss, optim::SGD{.learning_rate = 0.1},
                  {.policy = policy, .batch = 2, .device = Device::interpreter()});
  return error_of([&] { trainer.fit(batch(), {.epochs = 40, .progress = false}); });
}

}  // namespace

TEST_CASE("the remedy of an overflow is one that helps in the type that overflowed") {
  auto huge_exp = [](Tensor o, Tensor y) { return mean(exp(o * 0.0f + 100.0f) + o * y); };
  for (Policy policy : {Policy::float32(), Policy::mixed_float16(), Policy::mixed_bfloat16()}) {
    CAPTURE(policy.name());
    const std::string text = stop_of(huge_exp, policy);
    CHECK(text.find("exp gave NaN or infinity first (forward_overflow)") != std::string::npos);
    CHECK(text.find("left the range of f32, and no policy has a wider one: bound the argument") !=
          std::string::npos);
  }
  auto huge_square = [](Tensor o, Tensor y) {
    Tensor narrow = cast(o * 0.0f + 60000.0f, f16);
    return mean(narrow * narrow * cast(y, f16));
  };
  const std::string text = stop_of(huge_square, Policy::mixed_float16());
  CAPTURE(text);
  CHECK(text.find("left the range of f16: keep the operation in f32 with keep_f32") !=
        std::string::npos);
}

TEST_CASE("the first loss that is not finite is a warning with the operation and its line") {
  std::vector<std::string> lines;
  auto before = runtime::set_log_sink(
      [&](runtime::Level, std::string_view text) { lines.emplace_back(text); });
  nn::Dense layer{2, 1};
  const int line = __LINE__ + 1;
  auto loss = [](Tensor o, Tensor y) { return mean(log(o * 0.0f - 1.0f) * 0.0f + o * y); };
  Trainer trainer(layer, loss, optim::SGD{.learning_rate = 0.1},
                  {.batch = 2, .device = Device::interpreter()});
  const auto reports = trainer.fit(batch(), {.epochs = 3, .progress = false});
  runtime::set_log_sink(before);
  CHECK(reports[0].nonfinite_losses == 1);
  REQUIRE(lines.size() == 1);
  CAPTURE(lines[0]);
  CHECK(lines[0].find("non_finite_test.cpp:" + std::to_string(line + 3) +
                      ": the loss is nan at step 1 of epoch 1: log (") != std::string::npos);
  CHECK(lines[0].ends_with("non_finite_test.cpp:" + std::to_string(line) +
                           ") made NaN or infinity first; the gradients are finite, so the step "
                           "was taken"));
}

TEST_CASE("a loss in 16 bits is judged in its own type, compiled as interpreted") {
  auto loss = [](Tensor o, Tensor y) { return mean(cast(o, f16) * cast(y, f16)); };
  auto verdicts = [&](Device device, Policy policy) {
    nn::Dense layer{2, 1};
    Trainer trainer(layer, loss, optim::SGD{.learning_rate = 0.1},
                    {.policy = policy, .batch = 2, .device = device});
    std::vector<std::string> found;
    for (double size : {1.0, 6e4, 3e38}) {
      const StepResult result =
          trainer.step(Array({2, 2}, {size, size, size, -size}), batch().targets);
      found.push_back(result.verdict + (std::isfinite(result.loss) ? "" : ", loss not finite"));
    }
    return found;
  };
  for (Policy policy : {Policy::float32(), Policy::mixed_float16(), Policy::mixed_bfloat16()}) {
    CAPTURE(policy.name());
    const std::vector<std::string> found = verdicts(Device::interpreter(), policy);
    CHECK(found[0] == "taken");
    CHECK(found[2].ends_with(", loss not finite"));
    CHECK(verdicts(Device::cpu(), policy) == found);
  }
}
