// SPDX-License-Identifier: Apache-2.0
// Mistakes in a program: the text, both types, the hint, and the line of the call.
#include <mezzo/dsl/trace.h>
#include <mezzo/mezzo.h>
#include <support/temp_dir.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>

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
  CHECK(error.text == "matmul: inner sizes differ, 3 and 4 (a tensor<4x3xf32>, b tensor<4x3xf32>)");
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
  CHECK(error.text == "sum: axis 2 is out of range for rank 2 (x tensor<4x3xf32>)");
  error = caught(kMatrix, kMatrix, [](Tensor x, Tensor) { softmax(x, -3); });
  CHECK(error.text == "softmax: axis -3 is out of range for rank 2 (x tensor<4x3xf32>)");
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
  CHECK(error.text == "div: takes a float type, not i32 (x tensor<3xi32>, y tensor<3xi32>)");
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
        "dense 'head': takes 5 features, not x tensor<4x3xf32>\nnote: the last axis "
        "is the axis of features");
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
  CHECK(caught([] { Policy::by_name("mixed_float61"); }).text ==
        "error: unknown policy 'mixed_float61'; did you mean 'mixed_float16'?\nnote: the policies "
        "are float32, mixed_float16, mixed_bfloat16, float16, bfloat16");
  CHECK(caught([] { Device::by_name("gpu"); }).text ==
        "error: unknown device 'gpu'; did you mean 'cpu'?\nnote: the devices are cpu and interp");
}

TEST_CASE("options of optimizers out of range") {
  CHECK(caught([] { detail::plan_optimizer(optim::SGD{.momentum = 1.5}); }).text ==
        "error: sgd: momentum must lie in [0, 1), not 1.5");
  CHECK(caught([] { detail::plan_optimizer(optim::Adam{.learning_rate = -1}); }).text ==
        "error: adam: learning_rate must lie in [0, inf), not -1");
}

TEST_CASE("a data set that is not installed says how to install it") {
  std::string text = caught([] { data::fashion_mnist("/nonexistent"); }).text;
  CHECK(text.find("train-images-idx3-ubyte.gz is not there") != std::string::npos);
  CHECK(text.find("apt-get install dataset-fashion-mnist") != std::string::npos);
}

TEST_CASE("files of a data set that are truncated or hold something else are named") {
  const mezzo::test::TempDir folder;
  const auto write = [&](const std::string& content) {
    std::ofstream(folder / "train-images-idx3-ubyte.gz", std::ios::binary) << content;
    return caught([&] { data::fashion_mnist(folder.path().string()); }).text;
  };
  const std::string file = (folder / "train-images-idx3-ubyte.gz").string();
  CHECK(write(std::string("\0\0\x08\x03\0\0\0\2\0\0\0\2\0\0\0\2ab", 18)) ==
        "error: " + file + ": truncated idx file: header says 2x2x2 = 8 bytes, found 2");
  CHECK(write(std::string("\0\0\x08\0a", 5)) ==
        "error: fashion_mnist: " + file + " holds tensor<u8>, expected u8 with 3 axes");
  CHECK(write(std::string("\0\0\x09\x01\0\0\0\1a", 9)) ==
        "error: fashion_mnist: " + file + " holds tensor<1xi32>, expected u8 with 3 axes");
}
