// SPDX-License-Identifier: Apache-2.0
// Handles that were moved from, and functions that call themselves: an error at the caller's line.
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>

using namespace mezzo;

namespace {

/// Message and hint of the error that `f` throws on this line of the test.
void fails_at(int line, const std::string& message, const std::string& hint,
              const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& error) {
    CHECK(error.message() == message);
    CHECK(error.hint() == hint);
    CHECK(std::string(error.location().file).ends_with("handles_test.cpp"));
    CHECK(error.location().line == line);
    return;
  }
  FAIL_CHECK("no error");
}

}  // namespace

TEST_CASE("a jitted function that was moved from says so at the line of the call") {
  auto f = jit([](Tensor x) { return x + 1; });
  auto g = std::move(f);
  const std::string message = "jit: the function was moved from";
  const std::string hint = "use the one that it was moved to";
  // clang-format off
  fails_at(__LINE__, message, hint, [&] { f(Array(1.0)); });
  fails_at(__LINE__, message, hint, [&] { f.ir(Array(1.0)); });
  // clang-format on
  CHECK(g(Array(1.0)).item() == 2);
  f = g;
  CHECK(f(2.0).item() == 3);
}

TEST_CASE("a layer that was moved from says so at the line of its call") {
  nn::Dense layer{2, 3}, moved = std::move(layer);
  const Array x({1, 2}, {1, 2});
  int line = __LINE__ + 1;
  auto f = jit([&](Tensor input) { return layer(input); });
  fails_at(line, "dense: the layer was moved from",
           "use the nn::Dense that it was moved to; a copy shares its parameters", [&] { f(x); });
  CHECK(jit([&](Tensor input) { return moved(input); })(x).shape() == Shape{1, 3});
}

TEST_CASE("a parameter that was moved from says so at the line of its use") {
  nn::Parameter parameter({2}, initializers::ones(), "scale"), moved = std::move(parameter);
  const std::string message = "the parameter was moved from";
  const std::string hint = "use the nn::Parameter that it was moved to; a copy shares its numbers";
  const Array x({2}, {1, 2});
  // clang-format off
  fails_at(__LINE__, message, hint, [&] { parameter.name(); });
  fails_at(__LINE__, message, hint, [&] { parameter.shape(); });
  fails_at(__LINE__, message, hint, [&] { parameter.value(); });
  fails_at(__LINE__, message, hint, [&] { parameter.set_value(x); });
  fails_at(__LINE__, message, hint, [&] { jit([&](Tensor y) { return y * parameter; })(x); });
  // clang-format on
  CHECK(jit([&](Tensor y) { return y * moved; })(x).to_doubles() == x.to_doubles());
  nn::Dense layer{2, 3}, other = std::move(layer);
  int line = __LINE__ + 1;
  fails_at(line, message, hint, [&] { layer.weight().value(); });
}

TEST_CASE("a jitted function that calls itself while it is traced is an error") {
  std::function<Array(const Array&)> self;
  int line = 0;
  bool again = true;
  auto f = jit([&](Tensor x) {
    line = __LINE__ + 1;
    if (again) self(Array({2}, {1, 2}));
    return x + 1;
  });
  const std::string message = "jit: the function calls itself while it is traced";
  const std::string hint =
      "a traced function works on tensors: call the C++ function that was given to jit, on tensors "
      "and with an end";
  int call = __LINE__ + 1;
  self = [&](const Array& x) { return f(x); };
  // With the types that are being traced, with others, and by way of another function.
  fails_at(call, message, hint, [&] { f(Array({2}, {1, 2})); });
  fails_at(call, message, hint, [&] { f(Array(1.0)); });
  auto g = jit([&](Tensor x) { return x + self(Array(1.0)).item(); });
  fails_at(call, message, hint, [&] { g(Array(1.0)); });
  CHECK(line > 0);
  // It is a function like any other afterwards.
  again = false;
  CHECK(f(Array(1.0)).item() == 2);
  CHECK(g(Array(1.0)).item() == 3);
}
