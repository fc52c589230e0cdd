// SPDX-License-Identifier: Apache-2.0
// autodiff, finite-check, loss-scale and the gradient function beyond what their texts show: size,
// errors, findings, and the numbers of whole steps.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/interpreter.h>
#include <mezzo/ir/parser.h>
#include <mezzo/passes/grad_function.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>

namespace mezzo::test {
namespace {

using ir::Builder;
using ir::DType;
using ir::Function;
using ir::make_tensor;
using ir::Module;
using ir::Op;
using ir::OpKind;
using ir::Type;
using ir::Value;
using passes::PassContext;

const Type kScalar(DType::F64, {});

/// Value and gradient of @loss at `point`.
std::vector<ir::InterpreterTensor> value_and_gradient(Module& module, double point,
                                                      std::optional<double> scale = {}) {
  PassContext context;
  Function* function = append_gradient_function(module, "loss", {"w"}, scale, context);
  return ir::run(module, *function, std::vector{make_tensor(kScalar, {point})}).results;
}

void make_chain(Module& module, int length, auto step) {
  Function* loss = module.add_function("loss");
  Value value = loss->add_parameter(kScalar, "w");
  Builder builder(loss->body());
  for (int i = 0; i < length; ++i) value = step(builder, value);
  loss->set_results(std::vector<Value>{value}, {ir::Attrs()});
}

TEST_CASE("a chain of 100000 ops is differentiated without deep calls") {
  Module module;
  make_chain(module, 100000, [](Builder& b, Value v) { return b.make(OpKind::Neg, {v}); });
  auto results = value_and_gradient(module, 3);
  CHECK(results[0].number(0) == 3);
  CHECK(results[1].number(0) == 1);
}

TEST_CASE("sixty doublings x + x stay linear in size") {
  Module module;
  make_chain(module, 60, [](Builder& b, Value v) { return b.make(OpKind::Add, {v, v}); });
  auto results = value_and_gradient(module, 1);
  CHECK(results[1].number(0) == std::ldexp(1.0, 60));
  CHECK(module.op_count() < 400);
}

TEST_CASE("a loss scale does not change the gradient") {
  for (double scale : {1.0, 1024.0, 0.125}) {
    Module module;
    make_chain(module, 1, [](Builder& b, Value v) { return b.make(OpKind::Square, {v}); });
    CHECK(value_and_gradient(module, 5, scale)[1].number(0) == doctest::Approx(10).epsilon(1e-15));
  }
}

TEST_CASE("two parameters that stand for the same value have gradients of their own") {
  auto module = ir::parse(R"(module @m {
    func @loss(%a: tensor<f64>, %b: tensor<f64>) -> tensor<f64> {
      %s = square %a : tensor<f64>
      %l = mul %s, %b : tensor<f64>
      return %l : tensor<f64>
    }
    func @g(%w: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
      %l, %da, %db = gradient %w, %w {func = @loss, wrt = [0, 1]} : (tensor<f64>, tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
      return %da, %db : (tensor<f64>, tensor<f64>)
    }
  })");
  PassContext context;
  passes::autodiff(*module, context);
  auto results =
      ir::run(*module, *module->function("g"), std::vector{make_tensor(kScalar, {3})}).results;
  CHECK(results[0].number(0) == 18);
  CHECK(results[1].number(0) == 9);
}

const char* const kStep = R"(module @m {
  func @loss(%x: tensor<f32>, %w: tensor<f32>, %u: tensor<f32>) -> tensor<f32> {
    %p = mul %x, %w : tensor<f32>
    %l = square %p : tensor<f32>
    return %l : tensor<f32>
  }
  func @step(%x: tensor<f32>, %w: tensor<f32> {param}, %u: tensor<f32> {param}, %t: tensor<i32> {state}, %lr: tensor<f32> {state}) -> (tensor<f32>, tensor<f32> {updates = %w}, tensor<f32> {updates = %u}, tensor<i32> {updates = %t}) {
    %one = constant {value = 1} : tensor<i32>
    %t1 = add %t, %one : tensor<i32>
    %l, %dw, %du = gradient %x, %w, %u {func = @loss, wrt = [1, 2]} : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    %w1 = sgd %w, %dw, %lr : tensor<f32>
    %u1 = sgd %u, %du, %lr {weight_decay = 0.5} : tensor<f32>
    return %l, %w1, %u1, %t1 : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<i32>)
  }
})";

std::vector<double> run_step(double x) {
  auto module = ir::parse(kStep);
  PassContext context;
  REQUIRE(passes::finite_check(*module, context));
  REQUIRE(passes::loss_scale(*module, context));
  CHECK_FALSE(passes::finite_check(*module, context));
  CHECK_FALSE(passes::loss_scale(*module, context));
  REQUIRE(passes::autodiff(*module, context));
  REQUIRE(context.findings.size() == 1);
  CHECK(context.findings[0].name == "no-gradient");
  CHECK(context.findings[0].text.find("'u' has no path") != std::string::npos);
  const Type f32(DType::F32, {}), i32(DType::I32, {});
  std::vector inputs{make_tensor(f32, {x}), make_tensor(f32, {2}),   make_tensor(f32, {7}),
                     make_tensor(i32, {4}), make_tensor(f32, {0.5}), make_tensor(f32, {1024}),
                     make_tensor(i32, {10})};
  std::vector<double> out;
  for (const auto& result : ir::run(*module, *module->function("step"), inputs).results)
    out.push_back(result.number(0));
  return out;  // loss, verdict, w, u, t, scale, clean
}

TEST_CASE("a clean step updates what has a path and keeps what has none, decay included") {
  CHECK(run_step(1) == std::vector<double>{4, 0, 2 - 0.5 * 4, 7, 5, 1024, 11});
}

TEST_CASE("a step with a non-finite gradient keeps every state and counts no clean step") {
  std::vector<double> out = run_step(std::numeric_limits<double>::infinity());
  CHECK(out[1] != 0);
  CHECK(out[2] == 2);
  CHECK(out[3] == 7);
  CHECK(out[4] == 4);
  CHECK(out[6] == 0);
}

TEST_CASE("ops of a step know their role") {
  auto module = ir::parse(kStep);
  PassContext context;
  passes::finite_check(*module, context);
  passes::loss_scale(*module, context);
  passes::autodiff(*module, context);
  for (Op& op : module->function("step")->body()) {
    INFO(std::string(op.info().name));
    if (op.kind() == OpKind::Sgd || op.kind() == OpKind::AllFinite ||
        op.kind() == OpKind::Verdict || op.kind() == OpKind::Where || op.kind() == OpKind::Add)
      CHECK(op.role() == "update");
    if (op.kind() == OpKind::ScaleUpdate || op.kind() == OpKind::Reciprocal)
      CHECK(op.role() == "scale");
    if (op.kind() == OpKind::Square) CHECK(op.role() == "forward");
    if (op.kind() == OpKind::Mul0) CHECK(op.role() == "backward");
  }
}

TEST_CASE("loss-scale takes powers of two only and names an unknown option") {
  auto refuse = [](const char* name, ir::Attr value, const std::string& text) {
    auto module = ir::parse(kStep);
    PassContext context;
    context.options.set(name, value);
    try {
      passes::loss_scale(*module, context);
      FAIL("no error for " << name);
    } catch (const UserError& error) {
      CHECK(error.message() == text);
    }
  };
  refuse("growth", 3.0, "loss-scale: growth must be a power of two in [2^-126, 2^127], not 3");
  refuse("backoff", 2.0, "loss-scale: backoff must be at most 1, not 2");
  refuse("growth", 0.5, "loss-scale: growth must be at least 1, not 0.5");
  refuse("interval", 0, "loss-scale: interval must lie in [1, 2147483647], not 0");
  refuse("interval", 99999999999,
         "loss-scale: interval must lie in [1, 2147483647], not 99999999999");
  refuse("interval", 2.5, "loss-scale: interval must be a whole number of steps, not 2.5");
  refuse("ceiling", std::ldexp(1.0, 128),
         "loss-scale: ceiling must be a power of two in [2^-126, 2^127], not "
         "3.402823669209385e+38");
  refuse("floor", std::ldexp(1.0, 30),
         "loss-scale: floor 1073741824 is above the ceiling 16777216");
  refuse("grwth", 2.0, "loss-scale: unknown option 'grwth'; did you mean 'growth'?");
}

TEST_CASE("a function that differentiates itself is an error") {
  Module module;
  Function* functions[2];
  for (int i : {0, 1}) {
    functions[i] = module.add_function(i ? "g" : "f");
    Value w = functions[i]->add_parameter(kScalar, "w");
    functions[i]->set_results(std::vector<Value>{w}, {ir::Attrs()});
  }
  for (int i : {0, 1}) {
    Builder builder(functions[i]->body().terminator());
    Op* gradient = builder.create(
        OpKind::Gradient, {functions[i]->parameter(0)},
        {{"func", ir::Symbol{i ? "f" : "g"}}, {"wrt", ir::Attr(std::vector<int64_t>{0})}});
    functions[i]->set_results(std::vector<Value>{gradient->result(1)}, {ir::Attrs()});
  }
  PassContext context;
  CHECK_THROWS_WITH_AS(passes::autodiff(module, context),
                       doctest::Contains("differentiates itself"), UserError);
}

TEST_CASE("the gradient function names what it cannot find") {
  auto refuse = [](const char* function, const char* parameter, const char* text) {
    auto module = ir::parse(kStep);
    PassContext context;
    CHECK_THROWS_WITH_AS(
        append_gradient_function(*module, function, {parameter}, std::nullopt, context),
        doctest::Contains(text), UserError);
  };
  refuse("lost", "w", "there is no function @lost; did you mean 'loss'?");
  refuse("loss", "v", "@loss has no parameter 'v'");
}

}  // namespace
}  // namespace mezzo::test
