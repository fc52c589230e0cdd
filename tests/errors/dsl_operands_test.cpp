// SPDX-License-Identifier: Apache-2.0
// Mistakes in numbers and shapes that functions and layers are given: text, hint, and the line of
// the call.
#include <mezzo/dsl/trace.h>
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <functional>
#include <string>

using namespace mezzo;

namespace {

/// The error of `f`, called with a matrix of 4 x 3 in a trace, which must name `line`.
std::string error_at(int line, const std::function<void(Tensor)>& f) {
  detail::Trace trace("test");
  trace.begin_function("f");
  const Tensor x = trace.input(ir::Type(f32, {4, 3}), "x");
  try {
    f(x);
  } catch (const UserError& error) {
    CHECK(std::string(error.location().file).ends_with("dsl_operands_test.cpp"));
    CHECK(error.location().line == line);
    return error.message() + (error.hint().empty() ? "" : " | " + error.hint());
  }
  return "no error";
}

}  // namespace

// A call stands on the line of its check.
// clang-format off
TEST_CASE("embedding takes a table of rows") {
  const std::string hint =
      " | rows of a table [count, width] are read; for other shapes use gather";
  auto at = [](std::initializer_list<double> indices) {
    return constant(indices, {static_cast<int64_t>(indices.size())}, i32);
  };
  CHECK(error_at(__LINE__, [&](Tensor x) { embedding(sum(x, 1), at({0})); }) ==
        "embedding: the table must have rank 2, not tensor<4xf32>" + hint);
  CHECK(error_at(__LINE__, [&](Tensor x) { embedding(unsqueeze(x, 0), at({0})); }) ==
        "embedding: the table must have rank 2, not tensor<1x4x3xf32>" + hint);
  CHECK(error_at(__LINE__, [&](Tensor x) { embedding(x, at({0, 3})); }) == "no error");
}

TEST_CASE("counts are not negative") {
  CHECK(error_at(__LINE__, [](Tensor x) { repeat(x, -1); }) ==
        "repeat: count must not be negative, not -1");
  CHECK(error_at(__LINE__, [](Tensor x) { repeat(x, 0, 1); }) == "no error");
  CHECK(error_at(__LINE__, [](Tensor) { linspace(0, 1, -2); }) ==
        "linspace: count must not be negative, not -2");
  CHECK(error_at(__LINE__, [](Tensor) { linspace(0, 1, 0); }) == "no error");
}

TEST_CASE("a diagonal lies between two axes") {
  CHECK(error_at(__LINE__, [](Tensor x) { diagonal(x, 0, 1, 1); }) ==
        "diagonal: takes two axes of x tensor<4x3xf32>, not twice axis 1");
  CHECK(error_at(__LINE__, [](Tensor x) { diagonal(x, 0, -1, 1); }) ==
        "diagonal: takes two axes of x tensor<4x3xf32>, not twice axis 1");
  CHECK(error_at(__LINE__, [](Tensor x) { diagonal(x, 0, 0, 2); })
            .starts_with("diagonal: axis 2 is out of range for rank 2"));
}

TEST_CASE("layer_norm normalises one axis at least") {
  CHECK(error_at(__LINE__, [](Tensor) { nn::LayerNorm(Dims{}); }) ==
        "layer_norm: there is no axis to normalise | give the lengths of the last axes");
}

TEST_CASE("flatten keeps an axis of samples") {
  const std::string hint = " | the first axis stays, all others become one";
  CHECK(error_at(__LINE__, [](Tensor x) { nn::Flatten{}(sum(x)); }) ==
        "flatten: takes a tensor with an axis of samples" + hint);
  CHECK(error_at(__LINE__, [](Tensor) { nn::Flatten{}(2.0); }) ==
        "flatten: takes a tensor with an axis of samples" + hint);
}

TEST_CASE("an operand of einsum has one '...'") {
  CHECK(error_at(__LINE__, [](Tensor x) { einsum("...i... -> i", {x}); }) ==
        "einsum: '...' stands twice for one operand in \"...i... -> i\"");
  CHECK(error_at(__LINE__, [](Tensor x) { einsum("ij,......k->ik", {x, x}); }) ==
        "einsum: '...' stands twice for one operand in \"ij,......k->ik\"");
}
// clang-format on

TEST_CASE("a model without parameters is not trained") {
  const Array x({2, 1}, {1, 2});
  auto model = [](Tensor input) { return input * 2.0; };
  const TrainerOptions options{.batch = 2, .device = Device::interpreter()};
  const int line = __LINE__ + 1;
  Trainer trainer(model, losses::mse, optim::SGD{}, options);
  CHECK(error_at(line, [&](Tensor) { trainer.step(x, x); }) ==
        "training: the model has no parameters | layers of mezzo::nn and nn::Parameter have some");
}

TEST_CASE("a list without operands is an error at the line of its call") {
  const std::string text = "takes at least 1 operand, not 0";
  CHECK(error_at(__LINE__, [](Tensor) { concat({}); }) == "concat: " + text);
  CHECK(error_at(__LINE__, [](Tensor) { concat(std::vector<Tensor>()); }) == "concat: " + text);
  CHECK(error_at(__LINE__, [](Tensor) { stack(std::vector<Operand>()); }) == "stack: " + text);
}

TEST_CASE("a function that holds none is an error at the line that takes it") {
  const std::string hint =
      " is an empty function | assign a function to it before it is handed over";
  const std::function<Tensor(Tensor)> empty, model = [](Tensor x) { return x; };
  const std::function<Tensor(Tensor, Tensor)> none,
      loss = [](Tensor x, Tensor y) { return losses::mse(x, y); };
  const std::function<Tensor()> nothing;
  Tensor (*const no_target)(Tensor) = nullptr;
  Tensor (*const no_throwing_target)(Tensor) noexcept = nullptr;
  const optim::SGD sgd;
  auto fails = [&](int line, const std::function<void()>& f, const std::string& what) {
    CHECK(error_at(line, [&](Tensor) { f(); }) == what + hint);
  };
  // clang-format off
  fails(__LINE__, [&] { jit(empty); }, "jit: the function");
  fails(__LINE__, [&] { jit(no_target); }, "jit: the function");
  fails(__LINE__, [&] { jit(no_throwing_target); }, "jit: the function");
  fails(__LINE__, [&] { value_and_grad(empty); }, "value_and_grad: the function");
  fails(__LINE__, [&] { grad(empty); }, "grad: the function");
  fails(__LINE__, [&] { keep_f32(nothing); }, "keep_f32: the function");
  fails(__LINE__, [&] { with_policy(Policy::float32(), nothing); }, "with_policy: the function");
  fails(__LINE__, [&] { checkpoint(nothing); }, "checkpoint: the function");
  fails(__LINE__, [&] { custom_gradient(empty, loss); }, "custom_gradient: the forward function");
  fails(__LINE__, [&] { custom_gradient(model, none); }, "custom_gradient: the backward function");
  fails(__LINE__, [&] { Trainer(empty, loss, sgd); }, "Trainer: the model");
  fails(__LINE__, [&] { Trainer(model, none, sgd); }, "Trainer: the loss");
  fails(__LINE__, [&] { optim::SGD{.learning_rate = empty}; }, "optim: learning_rate");
  // clang-format on
}
