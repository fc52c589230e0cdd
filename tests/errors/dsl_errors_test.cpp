// SPDX-License-Identifier: Apache-2.0
// Mistakes in a program: the text, both types, the hint, and the line of the call.
#include <mezzo/dsl/trace.h>
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace mezzo;

namespace {

/// The error of `f`, called with two inputs in a trace, and its line.
struct Caught {
  std::string text;
  int line = 0;
};

Caught caught(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& error) {
    std::string text = error.what();
    size_t name = text.find("dsl_errors_test.cpp:");
    if (name != std::string::npos) text = text.substr(text.find(": error: ") + 9);
    return {text, error.location().line};
  }
  return {"no error"};
}

Caught caught(ir::Type a, ir::Type b, const std::function<void(Tensor, Tensor)>& f) {
  detail::Trace trace("test");
  trace.begin_function("f");
  Tensor x = trace.input(a, "x"), y = trace.input(b, "y");
  return caught([&] { f(x, y); });
}

const ir::Type kMatrix(f32, {4, 3});

}  // namespace

TEST_CASE("inner sizes of a product differ") {
  int line = __LINE__ + 1;
  Caught error = caught(kMatrix, kMatrix, [](Tensor x, Tensor y) { matmul(x, y); });
  CHECK(error.line == line);
  CHECK(error.text ==
        "matmul: inner sizes differ, 3 and 4 (a tensor<4x3xf32>, b tensor<4x3xf32>)\nnote: a row "
        "of a times a column of b; transpose_a and transpose_b exchange the two");
}

TEST_CASE("shapes that do not broadcast") {
  int line = __LINE__ + 1;
  Caught error = caught(kMatrix, ir::Type(f32, {4}), [](Tensor x, Tensor y) { x + y; });
  CHECK(error.line == line);
  CHECK(error.text ==
        "add: shapes do not broadcast, tensor<4x3xf32> and tensor<4xf32> (x tensor<4x3xf32>, y "
        "tensor<4xf32>)\nnote: axes are matched from the last one; each pair must be equal or one "
        "of them 1");
}

TEST_CASE("an operation outside of a trace") {
  int line = __LINE__ + 1;
  Caught error = caught([] { (void)full({2}, 1.0); });
  CHECK(error.line == line);
  CHECK(
      error.text.starts_with("constant: called outside of a trace\nnote: tensors have values "
                             "only inside a function given to `jit`"));
}

TEST_CASE("a tensor of another trace") {
  Tensor old;
  {
    detail::Trace trace("first");
    trace.begin_function("f");
    old = trace.input(kMatrix, "x");
  }
  Caught error = caught(kMatrix, kMatrix, [&](Tensor x, Tensor) { x + old; });
  CHECK(error.text.starts_with("add: the tensor (tensor<4x3xf32>) belongs to another trace"));
}

TEST_CASE("an empty tensor") {
  Caught error = caught(kMatrix, kMatrix, [](Tensor, Tensor) { relu(Tensor()); });
  CHECK(error.text.starts_with("relu: the tensor is empty"));
}

TEST_CASE("an axis out of range") {
  Caught error = caught(kMatrix, kMatrix, [](Tensor x, Tensor) { sum(x, 2); });
  CHECK(error.text ==
        "sum: axis 2 is out of range for rank 2 (x tensor<4x3xf32>)\nnote: axes are 0 to 1");
  error = caught(kMatrix, kMatrix, [](Tensor x, Tensor) { softmax(x, -3); });
  CHECK(error.text ==
        "softmax: axis -3 is out of range for rank 2 (x tensor<4x3xf32>)\nnote: axes are 0 to 1");
}

TEST_CASE("reshape that does not fit") {
  Caught error = caught(kMatrix, kMatrix, [](Tensor x, Tensor) { reshape(x, {5, -1}); });
  CHECK(error.text ==
        "reshape: 12 elements do not divide into [5, -1] (x tensor<4x3xf32>)\nnote: the given "
        "lengths must divide the number of elements");
  error = caught(kMatrix, kMatrix, [](Tensor x, Tensor) { reshape(x, {-1, -1}); });
  CHECK(error.text.starts_with("reshape: more than one length of [-1, -1] is -1"));
}

TEST_CASE("division of integers") {
  ir::Type integers(i32, {3});
  Caught error = caught(integers, integers, [](Tensor x, Tensor y) { x / y; });
  CHECK(error.text ==
        "div: takes a float type, not i32 (x tensor<3xi32>, y tensor<3xi32>)\n"
        "note: floor_div divides integers; cast one operand to a float type for a quotient");
}

TEST_CASE("a literal that an integer type cannot hold") {
  Caught error = caught(ir::Type(u8, {3}), kMatrix, [](Tensor x, Tensor) { x + 300; });
  CHECK(error.text ==
        "add: the literal 300 does not fit u8\nnote: cast the tensor to a wider type "
        "first, or round the number to a whole one in range");
}

TEST_CASE("a constant that its integer type cannot hold") {
  auto text = [](const std::function<void()>& f) {
    return caught(kMatrix, kMatrix, [&](Tensor, Tensor) { f(); }).text;
  };
  CHECK(text([] { full({2}, 300, u8); }).starts_with("full: the literal 300 does not fit u8\n"));
  CHECK(text([] { full({1}, 2.7, i32); }).starts_with("full: the literal 2.7 does not fit i32\n"));
  CHECK(text([] {
          full({1}, std::nan(""), i32);
        }).starts_with("full: the literal nan does not fit i32\n"));
  CHECK(text([] {
          full({1}, 0x1p63, i64);
        }).starts_with("full: the literal 9.223372036854776e+18 does not fit i64\n"));
  CHECK(text([] { full({1}, UINT64_MAX, i64); }).find("does not fit i64\n") != std::string::npos);
  CHECK(text([] {
          constant({1, -1}, {2}, u8);
        }).starts_with("constant: the literal -1 does not fit u8\n"));
  CHECK(text([] { full({1}, 255, u8), full({1}, -0x1p63, i64), full({1}, 2.7, boolean); }) ==
        "no error");
}

TEST_CASE("a layer called with the wrong number of features") {
  nn::Dense layer{5, 2, {.name = "head"}};
  int line = __LINE__ + 1;
  Caught error = caught(kMatrix, kMatrix, [&](Tensor x, Tensor) { layer(x); });
  CHECK(error.line == line);
  CHECK(error.text ==
        "dense 'head': takes 5 features, but x has 3 (tensor<4x3xf32>)\nnote: the last axis "
        "is the axis of features");
}

TEST_CASE("one of a thing is told in the singular") {
  nn::Dense layer{1, 5, {.name = "one"}};
  const std::string hint = "\nnote: the last axis is the axis of features";
  const ir::Type scalar(f32, {});
  CHECK(caught(kMatrix, scalar, [&](Tensor x, Tensor) { layer(x); }).text ==
        "dense 'one': takes 1 feature, but x has 3 (tensor<4x3xf32>)" + hint);
  CHECK(caught(kMatrix, scalar, [&](Tensor, Tensor y) { layer(y); }).text ==
        "dense 'one': takes 1 feature, but x has no axis (tensor<f32>)" + hint);
  CHECK(caught(kMatrix, scalar, [&](Tensor, Tensor) { layer(2.0); }).text ==
        "dense 'one': takes 1 feature, not a number" + hint);
  CHECK(caught(kMatrix, scalar, [&](Tensor, Tensor) {
          layer(Tensor());
        }).text.starts_with("dense: the tensor is empty\n"));
  CHECK(caught(kMatrix, scalar, [](Tensor, Tensor y) {
          reshape(y, {2, -1});
        }).text.starts_with("reshape: 1 element does not divide into [2, -1] (x tensor<f32>)"));
  CHECK(caught(kMatrix, scalar, [](Tensor, Tensor y) {
          reshape(y, {2});
        }).text.starts_with("reshape: cannot reshape 1 element to shape [2] of 2"));
  CHECK(caught([] {
          Dataset{Array({1, 2}, {1, 2}), Array({2}, {0, 1})}.check();
        }).text.starts_with("dataset: 1 input (tensor<1x2xf32>) and 2 targets (tensor<2xf32>)"));
  CHECK(caught([] { Array({1}, {1, 2}); }).text ==
        "error: an array tensor<1xf32> has 1 element, not 2");
}

TEST_CASE("two layers with one name") {
  nn::Dense a{3, 3, {.name = "h"}}, b{3, 3, {.name = "h"}};
  Caught error = caught(kMatrix, kMatrix, [&](Tensor x, Tensor) { b(a(x)); });
  CHECK(error.text ==
        "two layers are named 'h'\nnote: give one of them a name of its own: {.name = \"...\"}");
}

TEST_CASE("a gradient of something that is not a scalar") {
  int line = __LINE__ + 2;
  Caught error =
      caught(kMatrix, kMatrix, [](Tensor x, Tensor) { grad([](Tensor y) { return y * 2; })(x); });
  CHECK(error.line == line);
  CHECK(error.text.starts_with(
      "gradient: the first result of @f_1 must be a float scalar, the loss"));
}

TEST_CASE("names of policies and devices") {
  int line = __LINE__ + 1;
  Caught error = caught([] { Policy::by_name("mixed_float61"); });
  CHECK(error.line == line);
  CHECK(error.text ==
        "unknown policy 'mixed_float61'; did you mean 'mixed_float16'?\nnote: the policies "
        "are float32, mixed_float16, mixed_bfloat16, float16, bfloat16");
  line = __LINE__ + 1;
  error = caught([] { Device::by_name("gpu"); });
  CHECK(error.line == line);
  CHECK(error.text ==
        "unknown device 'gpu'; did you mean 'cpu'?\nnote: the devices are cpu, interp, cuda[:N] "
        "and auto");
}

namespace {

/// The error of a Trainer over a layer, and whether it names the line of the Trainer.
template <typename Optimizer>
std::string trainer_error(const Optimizer& optimizer, const TrainerOptions& options = {}) {
  int line = 0;
  nn::Dense layer{3, 2};
  Caught error = caught([&] {
    line = __LINE__ + 1;
    Trainer trainer(layer, losses::cross_entropy, optimizer, options);
    trainer.step(Array(kMatrix), Array(ir::Type(i32, {4})));
  });
  return error.line == line || error.text == "no error" ? error.text : "another line";
}

}  // namespace

TEST_CASE("numbers of optimizers that are out of range or that f32 does not hold") {
  CHECK(trainer_error(optim::SGD{.momentum = 1.5}) ==
        "sgd: momentum must lie in [0, 1), not 1.5\nnote: 0.9 is usual");
  CHECK(trainer_error(optim::SGD{.nesterov = true}) ==
        "sgd: nesterov needs a momentum above 0\nnote: 0.9 is usual");
  CHECK(trainer_error(optim::SGD{.weight_decay = 1e38}) ==
        "sgd: weight_decay must lie in [0, 1000), not 1e+38\nnote: decays from 1e-5 to 1 are "
        "usual");
  CHECK(trainer_error(optim::Adam{.weight_decay = -1}) ==
        "adam: weight_decay must lie in [0, 1000), not -1\nnote: decays from 1e-5 to 1 are usual");
  CHECK(trainer_error(optim::Adam{.learning_rate = -1}) ==
        "adam: learning_rate must lie in [0, inf), not -1\nnote: rates from 1e-4 to 1 are usual");
  CHECK(trainer_error(optim::Adam{.learning_rate = std::nan("")})
            .starts_with("adam: learning_rate must lie in [0, inf), not nan\n"));
  CHECK(trainer_error(optim::Adam{.eps = 0}) ==
        "adam: eps must lie in (0, inf), not 0\nnote: it keeps the update finite where the second "
        "moment is 0; 1e-8 is usual");
  const char* note =
      "\nnote: updates are computed in f32, which holds numbers from 1e-45 to 3.4e38";
  CHECK(trainer_error(optim::Adam{.eps = 1e-60}) ==
        std::string("adam: eps: 1e-60 is 0 in f32") + note);
  CHECK(trainer_error(optim::Adam{.eps = 1e39}) ==
        std::string("adam: eps: 1e+39 is inf in f32") + note);
  CHECK(trainer_error(optim::Adam{.beta2 = 1e-60}) ==
        std::string("adam: beta2: 1e-60 is 0 in f32") + note);
  CHECK(trainer_error(optim::SGD{.learning_rate = 1e39}) ==
        std::string("sgd: learning_rate: 1e+39 is inf in f32") + note);
  CHECK(trainer_error(optim::SGD{.learning_rate = 1e-60}) ==
        std::string("sgd: learning_rate: 1e-60 is 0 in f32") + note);
  CHECK(trainer_error(optim::SGD{.learning_rate = 0}) == "no error");
}

TEST_CASE("schedules whose ends are no rates") {
  int line = 0;
  auto error = [&](double from, double to, int64_t steps = 10) {
    Caught error = caught([&] {
      nn::Dense layer{3, 2};
      line = __LINE__ + 1;
      auto schedule = schedules::linear_decay(from, to, steps);
      Trainer trainer(layer, losses::cross_entropy, optim::SGD{.learning_rate = schedule});
      trainer.step(Array(kMatrix), Array(ir::Type(i32, {4})));
    });
    return error.line == line ? error.text : "another line";
  };
  CHECK(error(std::nan(""), 0)
            .starts_with("schedule: `from`: learning_rate must lie in [0, inf), not nan\n"));
  CHECK(error(1e-3, INFINITY)
            .starts_with("schedule: `to`: learning_rate must lie in [0, inf), not inf\n"));
  CHECK(
      error(1e-3, -1).starts_with("schedule: `to`: learning_rate must lie in [0, inf), not -1\n"));
  CHECK(error(1e39, 0).starts_with("schedule: `from`: learning_rate: 1e+39 is inf in f32\n"));
  CHECK(error(1e-3, 0, 0) == "schedule: steps must be at least 1, not 0");
}

TEST_CASE("loss scales that cannot work") {
  auto error = [](const std::function<void(LossScale&)>& change) {
    TrainerOptions options{.policy = Policy::mixed_float16(), .device = Device::interpreter()};
    change(options.loss_scale);
    return trainer_error(optim::SGD{}, options);
  };
  CHECK(error([](LossScale& s) { s.initial = 0x1p25; }) ==
        "loss scale: the initial scale 33554432 is above the ceiling 16777216\nnote: start lower "
        "or raise the ceiling");
  CHECK(error([](LossScale& s) { s.initial = 0x1p-15; }) ==
        "loss scale: the initial scale 3.0517578125e-05 is below the floor 6.103515625e-05\nnote: "
        "start higher or lower the floor");
  CHECK(error([](LossScale& s) { s.initial = 1000; }) ==
        "loss scale: the initial scale must be a power of two in [2^-126, 2^127], not 1000\n"
        "note: with powers of two, scaling and unscaling are exact; 512 is the next below");
  CHECK(error([](LossScale& s) { s.growth = 0.5; }) ==
        "loss scale: growth must be at least 1, not 0.5\nnote: the scale is multiplied by it after "
        "clean steps; 2 is usual");
  CHECK(error([](LossScale& s) { s.backoff = 2; }) ==
        "loss scale: backoff must be at most 1, not 2\nnote: the scale is multiplied by it after "
        "an overflow; 0.5 is usual");
  CHECK(error([](LossScale& s) { s.interval = 0; }) ==
        "loss scale: interval must lie in [1, 2147483647], not 0\nnote: so many clean steps stand "
        "between two growths; 2000 is usual");
  CHECK(error([](LossScale& s) { s.interval = 99999999999; }) ==
        "loss scale: interval must lie in [1, 2147483647], not 99999999999\nnote: so many clean "
        "steps stand between two growths; 2000 is usual");
  CHECK(error([](LossScale& s) { s.floor = 2 * s.ceiling; }) ==
        "loss scale: floor 33554432 is above the ceiling 16777216\nnote: exchange them");
  CHECK(error([](LossScale& s) { s = LossScale::static_scale(0x1p30); }) == "no error");
}

TEST_CASE("options of a trainer and of jit out of range, on every device") {
  CHECK(trainer_error(optim::SGD{}, {.batch = 0}) ==
        "trainer: batch must be at least 1, not 0\nnote: 128 is the default");
  for (Device device : {Device::cpu(), Device::interpreter()}) {
    CHECK(trainer_error(optim::SGD{}, {.device = device, .rounding = "exces"}) ==
          "unknown rounding 'exces'; did you mean 'excess'?\nnote: the rounding modes are excess "
          "and as-written");
    int line = __LINE__ + 2;
    Caught error =
        caught([&] { jit([](Tensor x) { return x; }, {.device = device, .rounding = "up"}); });
    CHECK(error.line == line);
    CHECK(error.text ==
          "unknown rounding 'up'\nnote: the rounding modes are excess and as-written");
  }
}

TEST_CASE("calls of a trainer that cannot be") {
  nn::Dense layer{3, 2};
  Trainer trainer(layer, losses::cross_entropy, optim::SGD{}, {.device = Device::interpreter()});
  Dataset data{Array(kMatrix), Array(ir::Type(i32, {4}))};
  int line = __LINE__ + 1;
  Caught error = caught([&] { trainer.fit(data, {.epochs = -1}); });
  CHECK(error.line == line);
  CHECK(error.text == "fit: epochs must be at least 0, not -1\nnote: 1 trains on each sample once");
  line = __LINE__ + 1;
  error = caught([&] { trainer.summary(); });
  CHECK(error.line == line);
  CHECK(error.text ==
        "the trainer has not compiled anything yet\nnote: call fit, step or compile first");
  trainer.step(data.inputs, data.targets);
  auto rate_error = [&](double rate) {
    line = __LINE__ + 1;
    Caught error = caught([&] { trainer.set_learning_rate(rate); });
    return error.line == line || error.line == 0 ? error.text : "another line";
  };
  CHECK(rate_error(-1) ==
        "set_learning_rate: learning_rate must lie in [0, inf), not -1\nnote: rates from 1e-4 to 1 "
        "are usual");
  CHECK(rate_error(std::nan(""))
            .starts_with("set_learning_rate: learning_rate must lie in [0, inf), not nan\n"));
  CHECK(rate_error(INFINITY).starts_with(
      "set_learning_rate: learning_rate must lie in [0, inf), not inf\n"));
  CHECK(rate_error(1e39).starts_with("set_learning_rate: learning_rate: 1e+39 is inf in f32\n"));
  CHECK(rate_error(0.5) == "no error");
  line = __LINE__ + 1;
  error = caught([&] { (void)trainer.state("lrr"); });
  CHECK(error.line == line);
  CHECK(error.text == "there is no state 'lrr'; did you mean 'lr'?");
}

TEST_CASE("data sets and arrays that do not fit name the call") {
  Dataset data{Array(kMatrix), Array(ir::Type(i32, {5}))};
  int line = __LINE__ + 1;
  Caught error = caught([&] { data.check(); });
  CHECK(error.line == line);
  CHECK(error.text ==
        "dataset: 4 inputs (tensor<4x3xf32>) and 5 targets (tensor<5xi32>)\nnote: the first axis "
        "of both is the axis of samples");
  nn::Dense layer{3, 2};
  Trainer trainer(layer, losses::cross_entropy, optim::SGD{}, {.device = Device::interpreter()});
  line = __LINE__ + 1;
  error = caught([&] { trainer.evaluate(data); });
  CHECK(error.line == line);
  CHECK(error.text.starts_with("dataset: 4 inputs"));
  data.targets = Array(ir::Type(i32, {4}));
  data.targets.bytes().pop_back();
  line = __LINE__ + 1;
  error = caught([&] { trainer.fit(data); });
  CHECK(error.line == line);
  CHECK(error.text.starts_with("dataset: targets: "));
  line = __LINE__ + 1;
  error = caught([&] { trainer.step(data.inputs, data.targets); });
  CHECK(error.line == line);
  CHECK(error.text.starts_with("step: targets: "));
  Dataset empty{Array(ir::Type(f32, {0, 3})), Array(ir::Type(i32, {0}))};
  line = __LINE__ + 1;
  error = caught([&] { trainer.fit(empty); });
  CHECK(error.line == line);
  CHECK(error.text ==
        "the data set is empty: inputs tensor<0x3xf32>, targets tensor<0xi32>\nnote: at least one "
        "sample is needed");
  line = __LINE__ + 1;
  error = caught([&] { trainer.step(empty.inputs, empty.targets); });
  CHECK(error.line == line);
  CHECK(error.text ==
        "step: the batch is empty: inputs tensor<0x3xf32>, targets tensor<0xi32>\nnote: at least "
        "one sample is needed");
  CHECK(trainer.taken_steps() + trainer.skipped_steps() == 0);
  Dataset three{Array(ir::Type(f32, {3, 3})), Array(ir::Type(i32, {3}))};
  line = __LINE__ + 1;
  error = caught([&] { three.first(-1); });
  CHECK(error.line == line);
  CHECK(error.text ==
        "dataset: first(-1): the count must be at least 0\nnote: 3 samples are there; a larger "
        "count gives all of them");
  CHECK(three.first(0).size() == 0);
  CHECK(three.first(7).size() == 3);

  const int entropy = __LINE__ + 1;
  auto f = jit([](Tensor x, Tensor y) { return cross_entropy(x, y); });
  line = __LINE__ + 1;
  error = caught([&] { f(Array({1, 2}, {1, 2}), data.targets); });
  CHECK(error.line == line);
  CHECK(error.text.starts_with("jit: argument 1: "));
  line = __LINE__ + 1;
  error = caught([&] { f(Array({1, 2}, {1, 2}), Array({1}, {2}, i32)); });
  CHECK(error.line == entropy);
  CHECK(error.text ==
        "cross_entropy: label 2 is out of range for 2 classes\nnote: labels must lie in [0, 2); "
        "nothing wraps around; the call is at tests/errors/dsl_errors_test.cpp:" +
            std::to_string(line));
}

TEST_CASE("shapes that cannot be") {
  auto error = [](int& line, const std::function<void(Tensor)>& f) {
    Caught error = caught(kMatrix, kMatrix, [&](Tensor x, Tensor) { f(x); });
    return error.line == line ? error.text : "another line: " + error.text;
  };
  int line = __LINE__ + 1;
  CHECK(error(line, [](Tensor x) { reshape(x, {-2}); }) ==
        "reshape: the length -2 of [-2] is negative (x tensor<4x3xf32>)\nnote: one length may be "
        "-1: it follows from the others");
  line = __LINE__ + 1;
  CHECK(error(line, [](Tensor x) { broadcast_to(x, {-4, 3}); }) ==
        "broadcast_to: shape -4x3 has the negative length -4 (x tensor<4x3xf32>)\nnote: lengths of "
        "axes are 0 or more");
  line = __LINE__ + 1;
  CHECK(error(line, [](Tensor) { full({2, -1}, 0); }) ==
        "full: shape 2x-1 has the negative length -1\nnote: lengths of axes are 0 or more");
  line = __LINE__ + 1;
  CHECK(error(line, [](Tensor) { random_uniform({-3}); }) ==
        "random_uniform: shape -3 has the negative length -3\nnote: lengths of axes are 0 or more");
  line = __LINE__ + 1;
  CHECK(error(line, [](Tensor) { iota({1 << 30, 1 << 30}); }) ==
        "iota: shape 1073741824x1073741824 has more than 2^59 elements\nnote: make an axis "
        "shorter, or work on the tensor in parts");
  line = __LINE__ + 1;
  CHECK(error(line, [](Tensor) { nn::Dense(-3, 4); }) ==
        "dense -3 -> 4: a number of features is negative\nnote: nn::Dense takes the features of "
        "its argument, then those of its result");
  line = __LINE__ + 1;
  CHECK(error(line, [](Tensor) { nn::Parameter({-1}, initializers::zeros(), "p"); }) ==
        "parameter 'p': shape -1 has the negative length -1\nnote: lengths of axes are 0 or more");
  line = __LINE__ + 1;
  CHECK(error(line, [](Tensor x) { (void)x.dim(2); }) ==
        "dim: axis 2 is out of range for tensor<4x3xf32>\nnote: axes count from 0, or from -1 at "
        "the end");
}

TEST_CASE("a parameter without numbers, and numbers that are not its own") {
  nn::Parameter parameter({2}, initializers::zeros(), "p");
  int line = __LINE__ + 1;
  Caught error = caught([&] { (void)parameter.value(); });
  CHECK(error.line == line);
  CHECK(error.text.starts_with("parameter 'p' has no value yet\n"));
  line = __LINE__ + 1;
  error = caught([&] { parameter.set_value(Array({3}, {1, 2, 3})); });
  CHECK(error.line == line);
  CHECK(error.text == "parameter 'p' has shape [2], not [3]");
}

TEST_CASE("a trainer that was moved from says so") {
  nn::Dense layer{3, 2};
  Trainer first(layer, losses::cross_entropy, optim::SGD{}, {.device = Device::interpreter()});
  Trainer second(std::move(first));
  Dataset data{Array(kMatrix), Array(ir::Type(i32, {4}))};
  int line = __LINE__ + 1;
  Caught error = caught([&] { first.fit(data); });
  CHECK(error.line == line);
  CHECK(error.text == "the trainer was moved from\nnote: use the Trainer that it was moved to");
  for (const std::function<void()>& use : std::vector<std::function<void()>>{
           [&] { first.step(data.inputs, data.targets); }, [&] { first.evaluate(data); },
           [&] { first.compile(data); }, [&] { first.summary(); }, [&] { first.ir(); },
           [&] { first.compile_report(); }, [&] { first.scale(); },
           [&] { first.set_learning_rate(1); }, [&] { first.taken_steps(); },
           [&] { first.skipped_steps(); }, [&] { first.state_names(); }, [&] { first.state("t"); },
           [&] { first.parameter_count(); }})
    CHECK(caught(use).text.starts_with("the trainer was moved from\n"));
  CHECK(second.step(data.inputs, data.targets).taken);
}
