// SPDX-License-Identifier: Apache-2.0
// The accuracy of a training is over the labels that its loss reads, whatever computed them. What
// is right comes from the outputs of the model and a count by hand.
#include <mezzo/mezzo.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>

using namespace mezzo;
using mezzo::test::error_of;

namespace {

constexpr int64_t kBatch = 8, kClasses = 3;

/// Class scores that are the inputs: the largest of row i stands at i % 3.
struct Passing : nn::Module {
  nn::Parameter scale{{kClasses}, initializers::ones(), "scale"};
  Tensor operator()(Tensor x) { return x * Operand(scale); }
};

Dataset rows(int64_t count, const std::function<int64_t(int64_t)>& target, DType dtype = i32,
             bool column = false) {
  Dataset data{Array(ir::Type(f32, {count, kClasses})),
               Array(ir::Type(dtype, column ? Shape{count, 1} : Shape{count}))};
  for (int64_t i = 0; i < count; ++i) {
    data.inputs.set(kClasses * i + i % kClasses, 1);
    data.targets.set(i, static_cast<double>(target(i)));
  }
  return data;
}

/// Every fourth label is another one.
int64_t mostly_right(int64_t i) { return i % 4 == 3 ? (i + 1) % kClasses : i % kClasses; }

/// The accuracy that an evaluation, an epoch and a step give, which must agree; the data set ends
/// in a smaller batch.
template <typename Loss, typename Model = Passing>
double accuracy(Loss loss, const Dataset& data, Model model = {}) {
  double evaluated = 0;
  for (Device device : {Device::interpreter(), Device::cpu()}) {
    CAPTURE(device.name());
    Trainer trainer(model, loss, optim::SGD{.learning_rate = 0},
                    {.batch = kBatch, .device = device});
    evaluated = trainer.evaluate(data).accuracy;
    EpochReport epoch = trainer.fit(data, {.shuffle = false, .progress = false})[0];
    Dataset head = data.first(kBatch);
    double of_head = trainer.evaluate(head).accuracy;
    double of_step = trainer.step(head.inputs, head.targets).metric;
    if (std::isnan(evaluated)) {
      CHECK(std::isnan(epoch.accuracy));
      CHECK(std::isnan(of_step));
    } else {
      CHECK(epoch.accuracy == evaluated);
      CHECK(of_step == of_head);
    }
  }
  return evaluated;
}

}  // namespace

TEST_CASE("labels that the loss computes are those of the accuracy") {
  // 20 rows: the labels of rows 3, 7, 11, 15 and 19 are missed.
  const auto shifted = [](int64_t i) { return mostly_right(i) + 1; };
  CHECK(accuracy([](Tensor output, Tensor y) { return losses::cross_entropy(output, y - 1); },
                 rows(20, shifted)) == 0.75);
  CHECK(
      accuracy([](Tensor output, Tensor y) { return losses::cross_entropy(output, cast(y, i32)); },
               rows(20, mostly_right, f32)) == 0.75);
  CHECK(accuracy(
            [](Tensor output, Tensor y) {
              return losses::cross_entropy(output, cast(reshape(y, {-1}) - 1.0, i32));
            },
            rows(20, shifted, f32, true)) == 0.75);
  CHECK(accuracy(
            [](Tensor output, Tensor y) { return losses::cross_entropy(output, reshape(y, {-1})); },
            rows(20, mostly_right, i32, true)) == 0.75);
  // A cast that wraps makes other labels: 256 is 0.
  CHECK(accuracy([](Tensor output,
                    Tensor y) { return losses::cross_entropy(output, cast(cast(y, u8), i32)); },
                 rows(20, [](int64_t i) { return mostly_right(i) + 256; })) == 0.75);
  CHECK(accuracy(losses::cross_entropy, rows(20, mostly_right)) == 0.75);
}

TEST_CASE("ignored labels are left out where they are computed too") {
  // Row 3 and its like miss, even rows are ignored: 5 misses in 10.
  const auto target = [](int64_t i) { return i % 2 ? mostly_right(i) + 1 : 0; };
  for (int64_t ignored : {int64_t{-1}, int64_t{5}}) {
    CAPTURE(ignored);
    const auto loss = [ignored](Tensor output, Tensor y) {
      Tensor labels = where(y == 0, static_cast<int>(ignored), y - 1);
      return cross_entropy(output, labels, {.ignore_index = ignored});
    };
    Dataset data = rows(20, target);
    CHECK(accuracy(loss, data) == 0.5);
    // The batch has no part in the loss: each weighs by its labels.
    for (int64_t i = 1; i < 8; ++i) data.targets.set(i, 0);
    Trainer parts(Passing{}, loss, optim::SGD{}, {.batch = 8}),
        whole(Passing{}, loss, optim::SGD{}, {.batch = 20});
    CHECK(parts.evaluate(data).loss == doctest::Approx(whole.evaluate(data).loss).epsilon(1e-6));
    CHECK(parts.evaluate(data).accuracy == whole.evaluate(data).accuracy);
    for (int64_t i = 0; i < 20; ++i) data.targets.set(i, 0);
    CHECK(std::isnan(accuracy(loss, data)));
  }
}

TEST_CASE("the logits of the loss decide, and of several the ones of the targets") {
  Dataset data = rows(20, mostly_right);
  // Turned round, the largest logit is the smallest output; the labels follow.
  CHECK(accuracy([](Tensor output, Tensor y) { return losses::cross_entropy(-output, y); },
                 rows(20, [](int64_t i) { return i % kClasses == 0 ? 1 : 0; })) == 1);
  // What the output says of itself is no accuracy, and neither is a second head's.
  CHECK(accuracy(
            [](Tensor output, Tensor y) {
              return losses::cross_entropy(output, argmax(output)) +
                     losses::cross_entropy(output, y);
            },
            data) == 0.75);
  CHECK(accuracy(
            [](Tensor output, Tensor y) {
              return losses::cross_entropy(-output, y) + losses::cross_entropy(output, y);
            },
            data) == 0.75);
  // One that the loss does not read is none of it.
  CHECK(accuracy(
            [](Tensor output, Tensor y) {
              losses::cross_entropy(-output, y);
              return losses::cross_entropy(output, y);
            },
            data) == 0.75);
}

TEST_CASE("without a cross_entropy integer targets of the output's rows are the labels") {
  const auto by_hand = [](Tensor output, Tensor) { return -mean(log_softmax(output)); };
  CHECK(accuracy(by_hand, rows(20, mostly_right)) == 0.75);
  CHECK(accuracy(by_hand, rows(20, mostly_right, i64, true)) == 0.75);
  CHECK(accuracy(by_hand, rows(20, mostly_right, u8)) == 0.75);
  CHECK(std::isnan(accuracy(by_hand, rows(20, mostly_right, f32))));
  // Numbers to be met, not classes: one output a sample.
  const auto squares = [](Tensor output, Tensor y) {
    return losses::mse(output, cast(reshape(y, {-1, 1}), f32));
  };
  const auto one = [sum_of = Passing{}](Tensor x) mutable { return sum(sum_of(x), 1, true); };
  CHECK(std::isnan(accuracy(squares, rows(20, mostly_right), one)));
  CHECK(std::isnan(accuracy(squares, rows(20, mostly_right, i32, true), one)));
}

TEST_CASE("a computed label out of range is told with the classes and the line of the loss") {
  int line = __LINE__ + 1;
  auto loss = [](Tensor output, Tensor y) { return cross_entropy(output, y - 1); };
  for (Device device : {Device::interpreter(), Device::cpu()}) {
    Trainer trainer(Passing{}, loss, optim::SGD{}, {.batch = kBatch, .device = device});
    const std::string text =
        error_of([&] { trainer.fit(rows(20, mostly_right), {.progress = false}); });
    CHECK(text.find("accuracy_test.cpp:" + std::to_string(line) +
                    ": error: cross_entropy: label -1 is out of range for 3 classes\n") !=
          std::string::npos);
  }
}
