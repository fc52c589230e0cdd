// SPDX-License-Identifier: Apache-2.0
// Evaluation in batches: the last one is padded, padding counts for nothing. What is right comes
// from programs without padding, made for exactly the samples that they get.
#include <mezzo/dsl/batch_mask.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <mezzo/ir/verifier.h>
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

using namespace mezzo;

namespace {

constexpr int64_t kBatch = 16;

struct Mlp : nn::Module {
  nn::Dense hidden{3, 8, {.name = "hidden"}}, out{8, 4, {.name = "out"}};
  Tensor operator()(Tensor x) { return out(relu(hidden(x))); }
};

/// Inputs in eighths, so that sums of squares with small whole weights are exact in any order.
Dataset samples(int64_t count) {
  Dataset data{Array(ir::Type(f32, {count, 3})), Array(ir::Type(i32, {count}))};
  for (int64_t i = 0; i < 3 * count; ++i)
    data.inputs.set(i, static_cast<double>((5 * i) % 17 - 8) / 8);
  for (int64_t i = 0; i < count; ++i) data.targets.set(i, static_cast<double>((3 * i) % 4));
  return data;
}

/// Weights that are small whole numbers.
void make_whole(nn::Parameter parameter) {
  Array value(ir::Type(f32, parameter.shape()));
  for (int64_t i = 0; i < value.type.elements(); ++i)
    value.set(i, static_cast<double>((7 * i) % 5 - 2));
  parameter.set_value(value);
}

void make_whole(const Mlp& model) {
  for (const nn::Dense* layer : {&model.hidden, &model.out}) {
    make_whole(layer->weight());
    make_whole(layer->bias());
  }
}

TrainerOptions options(Device device, int64_t batch = kBatch) {
  return {.batch = batch, .device = device};
}

std::optional<std::string> masked(const std::string& body, std::string* text = nullptr) {
  auto module = ir::parse(
      "module @m {\n  func @f(%x: tensor<4x3xf32>, %y: tensor<4xi32>, %w: tensor<3x4xf32> {param}) "
      "-> tensor<f32> {\n" +
      body + "    return %l : tensor<f32>\n  }\n}\n");
  std::string before = ir::print(*module);
  std::unique_ptr<ir::Module> other = module->clone();
  auto name = detail::mask_batch(*module->function("f"), other.get());
  CHECK(ir::verify(*module).empty());
  if (!name) CHECK(ir::print(*module) == before);
  if (text) *text = ir::print(*module);
  return name;
}

}  // namespace

TEST_CASE("a padded evaluation equals one without padding") {
  for (Device device : {Device::interpreter(), Device::cpu()}) {
    CAPTURE(device.name());
    Mlp model;
    make_whole(model);
    auto square_loss = [](Tensor output, Tensor label) {
      return mean(square(output - reshape(cast(label, f32), {-1, 1})));
    };
    Trainer trainer(model, square_loss, optim::SGD{}, options(device));
    Trainer entropy(model, losses::cross_entropy, optim::SGD{}, options(device));
    for (int64_t size : {int64_t{1}, kBatch - 1, kBatch, kBatch + 1, 3 * kBatch + 5}) {
      CAPTURE(size);
      Dataset data = samples(size);
      Trainer whole(model, square_loss, optim::SGD{}, options(device, size));
      Trainer whole_entropy(model, losses::cross_entropy, optim::SGD{}, options(device, size));
      Evaluation padded = trainer.evaluate(data), right = whole.evaluate(data);
      // Every sum is exact; means are divided in f32 batch by batch.
      if (size <= kBatch)
        CHECK(padded.loss == right.loss);
      else
        CHECK(padded.loss == doctest::Approx(right.loss).epsilon(1e-7));
      CHECK(padded.accuracy == doctest::Approx(right.accuracy).epsilon(1e-7));
      CHECK(std::round(padded.accuracy * static_cast<double>(size)) ==
            std::round(right.accuracy * static_cast<double>(size)));
      padded = entropy.evaluate(data);
      right = whole_entropy.evaluate(data);
      CHECK(padded.loss == doctest::Approx(right.loss).epsilon(1e-6));
      CHECK(padded.accuracy == doctest::Approx(right.accuracy).epsilon(1e-7));
    }
  }
}

TEST_CASE("an evaluation counts every sample once") {
  Mlp model;
  make_whole(model);
  Trainer one(model, losses::cross_entropy, optim::SGD{}, options(Device::cpu(), 1));
  Trainer trainer(model, losses::cross_entropy, optim::SGD{}, options(Device::cpu()));
  Dataset data = samples(kBatch + 1);
  double loss = 0, hits = 0;
  for (int64_t i = 0; i <= kBatch; ++i) {
    Array x({1, 3}, {data.inputs.as_double(3 * i), data.inputs.as_double(3 * i + 1),
                     data.inputs.as_double(3 * i + 2)});
    Evaluation sample = one.evaluate({x, Array({1}, {data.targets.as_double(i)}, i32)});
    loss += sample.loss;
    hits += sample.accuracy;
  }
  Evaluation all = trainer.evaluate(data);
  CHECK(all.loss == doctest::Approx(loss / (kBatch + 1)).epsilon(1e-6));
  CHECK(all.accuracy == doctest::Approx(hits / (kBatch + 1)).epsilon(1e-7));
  // A smaller data set needs no larger one's program.
  CHECK(trainer.evaluate(data.first(1)).accuracy == one.evaluate(data.first(1)).accuracy);
}

TEST_CASE("ignored labels have no part in the means of an evaluation and of an epoch") {
  // Outside of the classes, and one of them.
  for (int64_t ignored : {int64_t{-100}, int64_t{1}})
    for (Device device : {Device::interpreter(), Device::cpu()}) {
      CAPTURE(ignored);
      CAPTURE(device.name());
      losses::CrossEntropy entropy{.ignore_index = ignored};
      Mlp model;
      make_whole(model);
      // One label of the first batch counts, most of the second, none of the last.
      Dataset data = samples(2 * kBatch + 5);
      for (int64_t i = 0; i < data.size(); ++i)
        if ((i < kBatch && i != 2) || i == kBatch + 2 || i >= 2 * kBatch)
          data.targets.set(i, static_cast<double>(ignored));
      Trainer one(model, losses::cross_entropy, optim::SGD{}, options(device, 1));
      double loss = 0, hits = 0, counted = 0;
      for (int64_t i = 0; i < data.size(); ++i) {
        if (data.targets.as_integer(i) == ignored) continue;
        Array x({1, 3}, {data.inputs.as_double(3 * i), data.inputs.as_double(3 * i + 1),
                         data.inputs.as_double(3 * i + 2)});
        Evaluation sample = one.evaluate({x, Array({1}, {data.targets.as_double(i)}, i32)});
        loss += sample.loss;
        hits += sample.accuracy;
        ++counted;
      }
      REQUIRE(counted >= 10);
      // Most outputs are largest at class 1: ignored, it must not be a hit.
      REQUIRE((hits > 0) == (ignored == -100));
      Trainer trainer(model, entropy, optim::SGD{.learning_rate = 0}, options(device));
      Evaluation all = trainer.evaluate(data);
      CHECK(all.loss == doctest::Approx(loss / counted).epsilon(1e-6));
      CHECK(all.accuracy == hits / counted);
      EpochReport epoch = trainer.fit(data, {.shuffle = false, .progress = false})[0];
      CHECK(epoch.loss == doctest::Approx(loss / counted).epsilon(1e-6));
      CHECK(epoch.accuracy == hits / counted);
      // A step says what its own labels say.
      Dataset head = data.first(kBatch);
      CHECK(trainer.step(head.inputs, head.targets).metric == trainer.evaluate(head).accuracy);

      for (int64_t i = 0; i < data.size(); ++i) data.targets.set(i, static_cast<double>(ignored));
      all = trainer.evaluate(data);
      CHECK(all.loss == 0);
      CHECK(std::isnan(all.accuracy));
    }
}

TEST_CASE("ignored labels count where the program takes the mean over all of them") {
  Mlp model;
  make_whole(model);
  auto entropy = [](Tensor output, Tensor labels) {
    return mean(cross_entropy(output, labels, {.reduce = "none"}));
  };
  Dataset data = samples(kBatch + 4);
  for (int64_t i = 0; i < kBatch; i += 2) data.targets.set(i, -100);
  Trainer trainer(model, entropy, optim::SGD{}, options(Device::cpu()));
  Trainer whole(model, entropy, optim::SGD{}, options(Device::cpu(), data.size()));
  CHECK(trainer.evaluate(data).loss == doctest::Approx(whole.evaluate(data).loss).epsilon(1e-6));
}

TEST_CASE("a loss weighs by labels where it is a mean over them, else by samples") {
  Mlp model;
  make_whole(model);
  // Most labels of the first batch are ignored, none of the rest.
  Dataset data = samples(kBatch + 4);
  for (int64_t i = 0; i < kBatch - 3; ++i) data.targets.set(i, -100);
  auto of_batches = [&](auto loss, int64_t batch) {
    Trainer trainer(model, loss, optim::SGD{.learning_rate = 0}, options(Device::cpu(), batch));
    double evaluated = trainer.evaluate(data).loss;
    EpochReport epoch = trainer.fit(data, {.shuffle = false, .progress = false})[0];
    CHECK(epoch.loss == doctest::Approx(evaluated).epsilon(1e-6));
    return evaluated;
  };
  auto does_not_depend_on_the_batch = [&](auto loss) {
    CHECK(of_batches(loss, kBatch) == doctest::Approx(of_batches(loss, data.size())).epsilon(1e-6));
  };
  does_not_depend_on_the_batch([](Tensor output, Tensor labels) {
    return -3.0 * losses::cross_entropy(output, labels) / -2.0;
  });
  does_not_depend_on_the_batch([](Tensor output, Tensor labels) {
    return mean(cast(losses::cross_entropy(output, reshape(labels, {-1})), f64));
  });
  does_not_depend_on_the_batch([](Tensor output, Tensor labels) {
    return losses::cross_entropy(output, labels) +
           0.5 * losses::cross_entropy(output * 2.0, labels);
  });
  // Labels that the result does not hang on have no part in its weight.
  does_not_depend_on_the_batch([](Tensor output, Tensor labels) {
    losses::cross_entropy(output, labels);
    return mean(square(output));
  });

  auto penalty = [](Tensor output, Tensor) { return 10.0 * mean(square(output)); };
  auto both = [&](Tensor output, Tensor labels) {
    return losses::cross_entropy(output, labels) + penalty(output, labels);
  };
  Trainer trainer(model, both, optim::SGD{}, options(Device::cpu()));
  Dataset tail{Array(ir::Type(f32, {4, 3})), Array(ir::Type(i32, {4}))};
  for (int64_t i = 0; i < 12; ++i) tail.inputs.set(i, data.inputs.as_double(3 * kBatch + i));
  for (int64_t i = 0; i < 4; ++i) tail.targets.set(i, data.targets.as_double(kBatch + i));
  double by_samples =
      (kBatch * trainer.evaluate(data.first(kBatch)).loss + 4 * trainer.evaluate(tail).loss) /
      (kBatch + 4);
  CHECK(of_batches(both, kBatch) == doctest::Approx(by_samples).epsilon(1e-6));
}

TEST_CASE("labels of a sequence are counted one by one") {
  // Two labels a sample, reshaped and cast before the loss reads them.
  nn::Dense layer{3, 8, {.name = "layer"}};
  auto model = [layer](Tensor x) { return reshape(layer(x), {-1, 2, 4}); };
  auto entropy = [](Tensor output, Tensor labels) {
    return losses::cross_entropy(reshape(output, {-1, 4}), reshape(cast(labels, i32), {-1}));
  };
  Dataset data = samples(kBatch + 4);
  data.targets = Array(ir::Type(i64, {data.size(), 2}));
  for (int64_t i = 0; i < 2 * data.size(); ++i)
    data.targets.set(i, i < kBatch || i % 3 == 0 ? -100 : static_cast<double>(i % 4));
  Trainer trainer(model, entropy, optim::SGD{}, options(Device::cpu()));
  Trainer whole(model, entropy, optim::SGD{}, options(Device::cpu(), data.size()));
  Evaluation parts = trainer.evaluate(data), right = whole.evaluate(data);
  CHECK(parts.loss == doctest::Approx(right.loss).epsilon(1e-6));
  CHECK(parts.accuracy == right.accuracy);
}

TEST_CASE("a label out of range is an error in padded batches too") {
  Mlp model;
  Trainer trainer(model, losses::cross_entropy, optim::SGD{}, options(Device::cpu()));
  Dataset data = samples(3);
  data.targets.set(2, 4);
  CHECK_THROWS_WITH_AS(trainer.evaluate(data),
                       doctest::Contains("label 4 of sample 2 in the data set is out of range"),
                       UserError);
}

TEST_CASE("a loss in which samples meet is evaluated without padding") {
  // The variance over the batch is no sum over samples.
  Mlp model;
  auto spread = [](Tensor output, Tensor) {
    return mean(square(output - mean(output, {0}, true)));
  };
  auto largest = [](Tensor output, Tensor) { return max(output); };
  Trainer trainer(model, largest, optim::SGD{}, options(Device::cpu()));
  Trainer whole(model, largest, optim::SGD{}, options(Device::cpu(), 5));
  Dataset data = samples(5);
  CHECK(trainer.evaluate(data).loss == whole.evaluate(data).loss);
  Trainer trainer2(model, spread, optim::SGD{}, options(Device::cpu()));
  Trainer whole2(model, spread, optim::SGD{}, options(Device::cpu(), 5));
  CHECK(trainer2.evaluate(data).loss == doctest::Approx(whole2.evaluate(data).loss).epsilon(1e-6));
}

TEST_CASE("a loss that holds the number of samples is evaluated without padding") {
  auto mean_by_hand = [](Tensor output, Tensor) {
    return sum(square(output)) / static_cast<double>(output.dim(0));
  };
  auto ones = [](Tensor output, Tensor) {
    return sum(square(output)) / sum(full({output.dim(0)}, 1.0));
  };
  auto check = [](auto loss) {
    Mlp model;
    Dataset data = samples(kBatch + 5);
    Trainer trainer(model, loss, optim::SGD{}, options(Device::cpu()));
    Trainer whole(model, loss, optim::SGD{}, options(Device::cpu(), data.size()));
    CHECK(trainer.evaluate(data).loss == doctest::Approx(whole.evaluate(data).loss).epsilon(1e-6));
  };
  check(mean_by_hand);
  check(ones);
}

TEST_CASE("a model with random numbers can be evaluated before it is trained") {
  nn::Parameter scale({3}, initializers::ones(), "scale");
  auto model = [scale](Tensor x) { return x * Operand(scale) * random_uniform({3}); };
  auto loss = [](Tensor output, Tensor) { return mean(square(output)); };
  Trainer trainer(model, loss, optim::SGD{}, options(Device::cpu()));
  CHECK(trainer.evaluate(samples(5)).loss > 0);
}

TEST_CASE("a batch larger than the data set costs no more than the data set") {
  Mlp model;
  Trainer trainer(model, losses::cross_entropy, optim::SGD{},
                  options(Device::cpu(), std::numeric_limits<int64_t>::max()));
  Trainer whole(model, losses::cross_entropy, optim::SGD{}, options(Device::cpu(), 5));
  CHECK(trainer.evaluate(samples(5)).loss == whole.evaluate(samples(5)).loss);
}

TEST_CASE("a parameter may have any name, those of the step's own values too") {
  auto train = [](const std::string& name) {
    nn::Parameter scale({3}, initializers::ones(), name);
    auto model = [scale](Tensor x) { return x * Operand(scale) * (random_uniform({3}) + 1.0); };
    auto loss = [](Tensor output, Tensor) { return mean(square(output - 1.0)); };
    Trainer trainer(model, loss, optim::SGD{.learning_rate = 0.1}, options(Device::cpu()));
    trainer.fit(samples(kBatch + 3), {.epochs = 2, .shuffle = false, .progress = false});
    trainer.set_learning_rate(0.05);
    trainer.fit(samples(kBatch + 3), {.epochs = 1, .shuffle = false, .progress = false});
    return scale.value().as_double(1);
  };
  const double wanted = train("p");
  CHECK(wanted != 1);
  for (const char* name : {"x", "y", "lr", "rng", "t", "l", "scale", "clean", "count", "verdict"}) {
    CAPTURE(name);
    CHECK(train(name) == wanted);
  }
}

TEST_CASE("the masks of a loss stand where it adds over samples") {
  std::string text;
  std::string head =
      "    %0 = matmul %x, %w : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>\n";
  CHECK(masked(head + "    %l = mean %0 {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>\n",
               &text) == "count");
  CHECK(text.find("iota : tensor<4x1xi32>") != std::string::npos);
  CHECK(text.find("constant {value = 4.0}") !=
        std::string::npos);  // classes: the mean's other axis
  CHECK(masked(head + "    %l = cross_entropy %0, %y : (tensor<4x4xf32>, tensor<4xi32>) -> "
                      "tensor<f32>\n",
               &text) == "count");
  CHECK(text.find("constant {value = -100}") != std::string::npos);
  // The samples are the columns of a transpose.
  CHECK(masked(head + "    %1 = transpose %0 {perm = [1, 0]} : tensor<4x4xf32> -> tensor<4x4xf32>\n"
                      "    %l = sum %1 {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>\n",
               &text) == "count");
  CHECK(text.find("iota {axis = 1} : tensor<1x4xi32>") != std::string::npos);
  // Only the sum over samples is masked.
  CHECK(masked(head + "    %1 = sum %0 {axes = [1]} : tensor<4x4xf32> -> tensor<4xf32>\n"
                      "    %l = sum %1 {axes = [0]} : tensor<4xf32> -> tensor<f32>\n",
               &text) == "count");
  CHECK(text.find("iota : tensor<4xi32>") != std::string::npos);
}

TEST_CASE("samples that meet outside of a sum are not masked") {
  std::string head =
      "    %0 = matmul %x, %w : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>\n";
  std::string sum = "    %l = sum %1 {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>\n";
  CHECK_FALSE(masked(head + "    %l = max %0 {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>\n"));
  CHECK_FALSE(masked(head +
                     "    %1 = matmul %0, %0 {transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>) -> "
                     "tensor<4x4xf32>\n" +
                     sum));
  CHECK_FALSE(
      masked(head + "    %1 = softmax %0 {axis = 0} : tensor<4x4xf32> -> tensor<4x4xf32>\n" + sum));
  CHECK_FALSE(masked(head +
                     "    %2 = transpose %0 {perm = [1, 0]} : tensor<4x4xf32> -> tensor<4x4xf32>\n"
                     "    %1 = add %0, %2 : tensor<4x4xf32>\n" +
                     sum));
  CHECK_FALSE(masked(head +
                     "    %2 = slice %0 {ends = [3, 4], starts = [1, 0], steps = [1, 1]} : "
                     "tensor<4x4xf32> -> tensor<2x4xf32>\n"
                     "    %1 = pad %2 {high = [2, 0], interior = [0, 0], low = [0, 0]} : "
                     "tensor<2x4xf32> -> tensor<4x4xf32>\n" +
                     sum));
}

TEST_CASE("the smaller last batch of an epoch is a step of its own shape") {
  for (bool drop : {false, true}) {
    auto train = [&](int threads) {
      Mlp model;
      TrainerOptions with = options(Device::cpu());
      with.drop_last = drop;
      with.threads = threads;
      Trainer trainer(model, losses::cross_entropy, optim::Adam{.learning_rate = 0.01}, with);
      auto reports = trainer.fit(samples(2 * kBatch + 3), {.epochs = 2, .progress = false});
      CHECK(reports[1].steps == (drop ? 2 : 3));
      CHECK(trainer.taken_steps() == (drop ? 4 : 6));
      return model.hidden.weight().value().bytes();
    };
    CHECK(train(1) == train(2));
  }
}
