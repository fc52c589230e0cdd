// SPDX-License-Identifier: Apache-2.0
// The interpreter before and after: passes that promise equal bits give equal bits on random graphs
// and on hostile values; decompositions agree with the composite within the rounding of their
// types.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <passes/pass_cases.h>
#include <random>

namespace mezzo::test {

namespace {

using ir::Attr;
using ir::DType;
using ir::InterpreterTensor;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;
using Random = std::mt19937;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int below(Random& random, size_t n) { return static_cast<int>(random() % n); }

template <class T>
const T& pick(Random& random, const std::vector<T>& from) {
  return from[static_cast<size_t>(below(random, from.size()))];
}

double hostile(Random& random) {
  static const std::vector<double> values = {0.0,  -0.0,  1.0,  -1.0,   0.5,  2.0, 3.25,
                                             kInf, -kInf, kNan, 65504., 1e-7, -7.0};
  return pick(random, values);
}

/// One random op on the values made so far; all are [2, 3] or [3, 2] of one float type.
Value random_op(ir::Builder& builder, Random& random, const std::vector<Value>& made) {
  static const std::vector<OpKind> unary = {
      OpKind::Neg,   OpKind::Abs,  OpKind::Relu,     OpKind::Square,       OpKind::Sign,
      OpKind::Floor, OpKind::Tanh, OpKind::Softplus, OpKind::StopGradient, OpKind::Exp};
  static const std::vector<OpKind> binary = {OpKind::Add,     OpKind::Sub,     OpKind::Mul,
                                             OpKind::Maximum, OpKind::Minimum, OpKind::Div,
                                             OpKind::Mul0,    OpKind::AddN};
  Value x = pick(random, made), y = pick(random, made);
  if (x.shape() != y.shape()) y = builder.transpose(y, {1, 0});
  Type scalar(x.dtype(), Shape());
  switch (below(random, 12)) {
    case 0:
    case 1:
      return builder.make(pick(random, unary), {x});
    case 2:
    case 3:
    case 4:
      return builder.make(pick(random, binary), {x, y});
    case 5:
      return builder.make(pick(random, binary), {x, builder.constant(scalar, hostile(random))});
    case 6:
      return builder.make(pick(random, binary), {builder.constant(x.type(), hostile(random)), x});
    case 7:
      return builder.transpose(x, {1, 0});
    case 8:
      return builder.reshape(builder.reshape(x, {6}), {3, 2});
    case 9: {
      Value condition = builder.make(OpKind::Lt, {x, y});
      if (below(random, 2)) condition = builder.make(OpKind::LogicalNot, {condition});
      return builder.make(OpKind::Where, {condition, x, below(random, 2) ? x : y});
    }
    case 10: {
      Value row = builder.max(x, {0}, true);
      return builder.broadcast_to(builder.broadcast_to(row, {1, x.shape()[1]}), x.shape());
    }
    default:
      return builder.cast(builder.cast(x, below(random, 2) ? DType::F16 : DType::F64), x.dtype());
  }
}

std::unique_ptr<ir::Module> random_module(uint32_t seed, DType dtype) {
  Random random(seed);
  auto module = std::make_unique<ir::Module>("random");
  ir::Function* function = module->add_function("f");
  std::vector<Value> made;
  for (const char* name : {"x", "y"})
    made.push_back(function->add_parameter(Type(dtype, {2, 3}), name));
  ir::Builder builder(function->body());
  for (int i = 0; i < 25; ++i) made.push_back(random_op(builder, random, made));
  std::vector<Value> results(made.end() - 4, made.end());
  function->set_results(results, std::vector<ir::Attrs>(results.size()));
  return module;
}

std::vector<InterpreterTensor> inputs_of(const ir::Function& function, uint32_t seed) {
  Random random(seed);
  std::vector<InterpreterTensor> inputs;
  for (Value parameter : function.parameters()) {
    InterpreterTensor tensor(parameter.type());
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set_number(i, hostile(random));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::vector<InterpreterTensor> run(const ir::Module& module,
                                   const std::vector<InterpreterTensor>& inputs) {
  return ir::run(module, *module.functions()[0], inputs).results;
}

/// Element by element within `ulps` roundoffs of the type around the composite's value.
void check_close(const InterpreterTensor& a, const InterpreterTensor& b, double ulps) {
  REQUIRE(a.type == b.type);
  double unit = ir::is_float(a.type.dtype) ? ir::unit_roundoff(a.type.dtype) : 0;
  for (int64_t i = 0; i < a.elements(); ++i) {
    double x = a.number(i), y = b.number(i);
    INFO("element " << i << ": " << x << " and " << y);
    if (std::isfinite(x))
      CHECK(std::abs(x - y) <= ulps * unit * std::max(1.0, std::abs(x)));
    else
      CHECK(ir::same_bits(x, y));
  }
}

void check_decomposition(const std::string& text, const std::vector<InterpreterTensor>& inputs,
                         double ulps) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  std::vector<InterpreterTensor> wanted = run(*module, inputs);
  run_passes(*module, "decompose");
  std::vector<InterpreterTensor> got = run(*module, inputs);
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(text << "result " << i);
    check_close(wanted[i], got[i], ulps);
  }
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("simplification, folding and merging keep every bit on random graphs") {
  int changed = 0;
  for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    for (uint32_t seed = 0; seed < 150; ++seed) {
      for (const char* pipeline : {"canonicalize", "constant-fold", "cse", "dce",
                                   "decompose, canonicalize, constant-fold, cse, dce"}) {
        std::unique_ptr<ir::Module> module = random_module(seed, dtype);
        std::vector<InterpreterTensor> inputs = inputs_of(*module->functions()[0], seed + 1000);
        std::string before = ir::print(*module);
        std::vector<InterpreterTensor> wanted = run(*module, inputs);
        changed += run_passes(*module, pipeline).steps.back().changed;
        std::vector<InterpreterTensor> got = run(*module, inputs);
        for (size_t i = 0; i < got.size(); ++i) {
          std::string difference = describe_difference(wanted[i], got[i]);
          CHECK_MESSAGE(difference.empty(), pipeline << ", seed " << seed << ", result " << i
                                                     << ": " << difference << "\n"
                                                     << before << "becomes\n"
                                                     << ir::print(*module));
        }
      }
    }
  }
  CHECK(changed > 500);
}

TEST_CASE("decomposed softmax and its kin agree with the whole, rows of -inf and +inf included") {
  const std::string text = R"(module @m {
  func @f(%x: tensor<5x4xf32>, %dy: tensor<5x4xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<4xf32>) {
    %p = softmax %x {axis = 1} : tensor<5x4xf32>
    %q = log_softmax %x {axis = 1} : tensor<5x4xf32>
    %dp = softmax_grad %p, %dy {axis = 1} : tensor<5x4xf32>
    %dq = log_softmax_grad %q, %dy {axis = 1} : tensor<5x4xf32>
    %m = mean %x {axes = [0]} : tensor<5x4xf32> -> tensor<4xf32>
    return %p, %q, %dp, %dq, %m : (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<4xf32>)
  }
}
)";
  for (const char* name : {"f32", "f16", "bf16", "f64"}) {
    DType dtype = *ir::parse_dtype(name);
    std::vector<InterpreterTensor> inputs = {
        ir::make_tensor(Type(dtype, {5, 4}),
                        {1, 2,     3,    4, -kInf, -kInf, -kInf, -kInf, -kInf, 0,
                         1, -kInf, kInf, 1, 2,     3,     100,   -100,  50,    99}),
        ir::make_tensor(Type(dtype, {5, 4}),
                        {1, 0, -1, 2, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 3, 1, -2, 0.5})};
    check_decomposition(replace_all(text, "f32", name), inputs, 16);
  }
}

TEST_CASE("decomposed cross entropy agrees with the whole in every reduction and smoothing") {
  const std::string text = R"(module @m {
  func @f(%x: tensor<4x3xf32>, %y: tensor<4xi32>, %g: LOSS) -> (LOSS, tensor<4x3xf32>) {
    %l = cross_entropy %x, %y {ATTRS} : (tensor<4x3xf32>, tensor<4xi32>) -> LOSS
    %dx = cross_entropy_grad %x, %y, %g {ATTRS} : (tensor<4x3xf32>, tensor<4xi32>, LOSS) -> tensor<4x3xf32>
    return %l, %dx : (LOSS, tensor<4x3xf32>)
  }
}
)";
  for (const char* name : {"f32", "f16", "f64"})
    for (std::string reduce : {"mean", "sum", "none"})
      for (std::string smoothing : {"0.0", "0.25"})
        for (bool all_ignored : {false, true}) {
          DType dtype = *ir::parse_dtype(name);
          std::string attrs = "label_smoothing = " + smoothing + ", reduce = \"" + reduce + "\"";
          std::string filled = replace_all(text, "ATTRS", attrs);
          filled = replace_all(filled, "LOSS", reduce == "none" ? "tensor<4xf32>" : "tensor<f32>");
          filled = replace_all(filled, "f32", name);
          Type loss(dtype, reduce == "none" ? Shape{4} : Shape{});
          std::vector<double> labels = {2, -100, 0, 1};
          if (all_ignored) labels.assign(4, -100);
          check_decomposition(
              filled,
              {ir::make_tensor(Type(dtype, {4, 3}), {1, 2, 3, kNan, 0, 1, -4, 5, 6, 0.5, 0.25, 0}),
               ir::make_tensor(Type(DType::I32, {4}), labels), ir::full_tensor(loss, 2)},
              16);
        }
}

TEST_CASE(
    "special logits and cotangents give one gradient of cross entropy, whole and decomposed") {
  const std::string text = R"(module @m {
  func @f(%x: tensor<5xNxf32>, %y: tensor<5xi32>, %g: LOSS) -> tensor<5xNxf32> {
    %dx = cross_entropy_grad %x, %y, %g {label_smoothing = 0.25, reduce = "REDUCE"} : (tensor<5xNxf32>, tensor<5xi32>, LOSS) -> tensor<5xNxf32>
    return %dx : tensor<5xNxf32>
  }
}
)";
  for (std::string reduce : {"mean", "sum", "none"})
    for (int classes : {1, 2})
      for (double cotangent : {kInf, -kInf, kNan, 0.0, 2.0}) {
        std::string filled = replace_all(text, "REDUCE", reduce);
        filled = replace_all(filled, "LOSS", reduce == "none" ? "tensor<5xf32>" : "tensor<f32>");
        filled = replace_all(filled, "N", std::to_string(classes));
        Type logits(DType::F32, {5, classes}),
            loss(DType::F32, reduce == "none" ? Shape{5} : Shape{});
        std::vector<double> x = {-kInf, -kInf, 1, -kInf, kInf, 0, kNan, 1, 2, 3};
        if (classes == 1) x = {-kInf, 1, kInf, kNan, 2};
        std::vector<InterpreterTensor> inputs = {
            ir::make_tensor(logits, x), ir::make_tensor(Type(DType::I32, {5}), {0, 0, 0, 0, -100}),
            ir::full_tensor(loss, cotangent)};
        check_decomposition(filled, inputs, 16);
        InterpreterTensor dx = run(*ir::parse(filled), inputs)[0];
        for (size_t k = 0; k < static_cast<size_t>(classes); ++k) CHECK(dx.floats[k] == 0);
        CHECK(dx.floats.back() == 0);
      }
}

TEST_CASE("a label out of range raises the index flag after decomposition too") {
  const std::string text = R"(module @m {
  func @f(%x: tensor<2x3xf32>, %y: tensor<2xi32>) -> tensor<f32> {
    %l = cross_entropy %x, %y : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
)";
  std::unique_ptr<ir::Module> module = ir::parse(text);
  run_passes(*module, "decompose, canonicalize, constant-fold, cse, dce");
  auto flag = [&](double label) {
    std::vector<InterpreterTensor> inputs = {ir::full_tensor(Type(DType::F32, {2, 3}), 1),
                                             ir::make_tensor(Type(DType::I32, {2}), {0, label})};
    return ir::run(*module, *module->functions()[0], inputs).index_range;
  };
  CHECK(flag(3));
  CHECK(flag(-1));
  CHECK_FALSE(flag(2));
  CHECK_FALSE(flag(-100));
}

TEST_CASE("decomposed optimizers agree with the whole, and a skipped step keeps every bit") {
  const std::string text = R"(module @m {
  func @f(%w: tensor<4xf32>, %g: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>, %t: tensor<i32>, %lr: tensor<f32>, %ok: tensor<bool>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %a, %am, %av = adam %w, %g, %m, %v, %t, %lr, %ok {weight_decay = 0.01} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<f32>, tensor<bool>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    %s, %sv = sgd %w, %g, %lr, %m, %ok {momentum = 0.9, nesterov = true, weight_decay = 0.1} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<bool>) -> (tensor<4xf32>, tensor<4xf32>)
    %p = sgd %w, %g, %lr, %ok : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<bool>) -> tensor<4xf32>
    return %a, %am, %av, %s, %sv, %p : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  }
}
)";
  Type vector(DType::F32, {4}), scalar(DType::F32, {});
  for (double ok : {1.0, 0.0})
    for (double t : {1.0, 2.0, 1000.0, 1e6}) {
      std::vector<double> g = {0.1, -2, 0, ok != 0 ? 1e3 : kNan};
      check_decomposition(
          text,
          {ir::make_tensor(vector, {1, -0.0, 0.25, 3}), ir::make_tensor(vector, g),
           ir::make_tensor(vector, {0.01, 0, 0, -1}), ir::make_tensor(vector, {0.1, 0, 0, 2}),
           ir::full_tensor(Type(DType::I32, {}), t), ir::full_tensor(scalar, 1e-3),
           ir::full_tensor(Type(DType::Bool, {}), ok)},
          ok != 0 ? 8 : 0);
    }
}

TEST_CASE("the decomposed scale rule follows every verdict as the whole does") {
  const std::string text = R"(module @m {
  func @f(%scale: tensor<f32>, %clean: tensor<i32>, %v: tensor<i32>) -> (tensor<f32>, tensor<i32>) {
    %s, %c = scale_update %scale, %clean, %v {backoff = 0.5, ceiling = 1024.0, floor = 4.0, growth = 2.0, interval = 3} : (tensor<f32>, tensor<i32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
    return %s, %c : (tensor<f32>, tensor<i32>)
  }
}
)";
  for (double scale : {1.0, 4.0, 64.0, 1024.0, 4096.0})
    for (double clean : {0.0, 1.0, 2.0})
      for (int code = 0; code < 10; ++code)
        check_decomposition(text,
                            {ir::full_tensor(Type(DType::F32, {}), scale),
                             ir::full_tensor(Type(DType::I32, {}), clean),
                             ir::full_tensor(Type(DType::I32, {}), code + 256.0 * 5)},
                            0);
}

}  // namespace mezzo::test
