// SPDX-License-Identifier: Apache-2.0
// Every op with a gradient, first and second derivatives, against f64 central differences.
#include <mezzo/passes/autodiff.h>

#include <algorithm>
#include <ops/gradient_cases.h>
#include <ops/gradient_support.h>
#include <set>

namespace mezzo::test {
namespace {

using Case = GradientCase;
using ir::Attr;
using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::OpInfo;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

bool has_gradient(const OpInfo& info) {
  passes::GradRule rule = passes::gradient_rule(info.kind);
  return rule != &passes::grad_none && rule != &passes::grad_stop &&
         rule != &passes::grad_refused && info.kind != OpKind::Gradient;
}

using Case = GradientCase;

void check_case(const Case& test, unsigned seed) {
  const OpInfo& info = op_info(test.kind);
  std::vector<Input> inputs;
  std::string shapes;
  for (size_t i = 0; i < test.shapes.size(); ++i) {
    char domain = info.domain_of(static_cast<int>(i));
    DType dtype = domain == 'i' ? DType::I32 : domain == 'b' ? DType::Bool : DType::F64;
    bool constant = std::ranges::count(test.constants, static_cast<int>(i)) > 0;
    inputs.push_back({Type(dtype, test.shapes[i]), domain, dtype == DType::F64 && !constant});
    shapes += " [" + to_string(test.shapes[i]) + "]";
  }
  INFO("op " << std::string(info.name) << shapes);
  check_gradients(
      inputs,
      [&](Builder& builder, std::span<const Value> values) {
        std::vector<Type> declared;
        if (info.has(ir::Trait::ChosenType))
          declared.assign(info.results.size(), Type(DType::F64, {}));
        return builder.create(test.kind, values, test.attrs, declared)->result(0);
      },
      info.kind != OpKind::Digamma, seed);  // its second derivative is refused
}

/// Shapes of elementwise operands: scalar, odd, broadcast both ways, length 1, empty, long.
std::vector<std::vector<Shape>> elementwise_shapes(int operands) {
  if (operands == 1) return {{Shape{}}, {Shape{5}}, {Shape{3, 1}}, {Shape{0, 3}}, {Shape{9, 11}}};
  std::vector<std::vector<Shape>> out = {{Shape{}, Shape{}},      {Shape{5}, Shape{5}},
                                         {Shape{3, 4}, Shape{4}}, {Shape{3, 1}, Shape{1, 4}},
                                         {Shape{}, Shape{2, 3}},  {Shape{1, 1}, Shape{3}},
                                         {Shape{0, 3}, Shape{3}}, {Shape{9, 11}, Shape{11}}};
  for (auto& shapes : out)
    while (static_cast<int>(shapes.size()) < operands) shapes.push_back(shapes[0]);
  return out;
}

Attrs axes(std::vector<int64_t> list, bool keepdims = false) {
  return {{"axes", Attr(list)}, {"keepdims", keepdims}};
}

Attrs ints(std::initializer_list<std::pair<const char*, std::vector<int64_t>>> entries) {
  Attrs attrs;
  for (const auto& [name, list] : entries) attrs.set(name, Attr(list));
  return attrs;
}

Attrs transposes(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }

std::vector<Case> tensor_cases() {
  std::vector<Case> cases = {
      {OpKind::BroadcastTo, {{3}}, ints({{"shape", {2, 3}}})},
      {OpKind::BroadcastTo, {{2, 1, 3}}, ints({{"shape", {4, 2, 5, 3}}})},
      {OpKind::BroadcastTo, {Shape{}}, ints({{"shape", {2, 2}}})},
      {OpKind::Reshape, {{2, 6}}, ints({{"shape", {3, 4}}})},
      {OpKind::Transpose, {{2, 3, 4}}, ints({{"perm", {2, 0, 1}}})},
      {OpKind::Slice, {{5, 7}}, ints({{"starts", {1, 0}}, {"ends", {4, 7}}, {"steps", {1, 3}}})},
      {OpKind::Slice, {{5}}, ints({{"starts", {2}}, {"ends", {2}}, {"steps", {1}}})},
      {OpKind::Slice, {{8}}, ints({{"starts", {1}}, {"ends", {8}}, {"steps", {2}}})},
      {OpKind::Pad, {{3, 2}}, ints({{"low", {1, 0}}, {"high", {0, 2}}, {"interior", {0, 1}}})},
      {OpKind::Pad, {{0}}, ints({{"low", {2}}, {"high", {1}}, {"interior", {1}}})},
  };
  for (OpKind kind : {OpKind::Sum, OpKind::Mean, OpKind::Max, OpKind::Min})
    cases.insert(cases.end(), {{kind, {{5}}, axes({0})},
                               {kind, {{3, 4}}, axes({1})},
                               {kind, {{3, 4}}, axes({0}, true)},
                               {kind, {{2, 3, 4}}, axes({0, 2})},
                               {kind, {{2, 3, 4}}, axes({0, 1, 2}, true)},
                               {kind, {{3, 1}}, axes({1})},
                               {kind, {{2, 2}}, axes({})},
                               {kind, {{9, 11}}, axes({1})}});
  cases.push_back({OpKind::Sum, {{0, 3}}, axes({0})});
  for (bool a : {false, true})
    for (bool b : {false, true}) {
      Shape left = a ? Shape{4, 3} : Shape{3, 4}, right = b ? Shape{2, 4} : Shape{4, 2};
      cases.push_back({OpKind::Matmul, {left, right}, transposes(a, b)});
      cases.push_back({OpKind::Matmul, {left.inserted(0, 5), right}, transposes(a, b)});
      cases.push_back({OpKind::Matmul, {left, right.inserted(0, 5)}, transposes(a, b)});
      cases.push_back({OpKind::Matmul,
                       {left.inserted(0, 1).inserted(0, 2), right.inserted(0, 3)},
                       transposes(a, b)});
    }
  cases.push_back({OpKind::Matmul, {{3, 1}, {1, 2}}});
  cases.push_back({OpKind::Matmul, {{3, 0}, {0, 2}}});
  for (OpKind kind : {OpKind::Softmax, OpKind::LogSoftmax}) {
    cases.push_back({kind, {{3, 4}}, {{"axis", 1}}});
    cases.push_back({kind, {{3, 2, 2}}, {{"axis", 0}}});
    cases.push_back({kind, {{9, 11}}, {{"axis", 1}}});
    cases.push_back({kind, {{3, 1}}, {{"axis", 1}}});
  }
  for (OpKind kind : {OpKind::SoftmaxGrad, OpKind::LogSoftmaxGrad}) {
    cases.push_back({kind, {{3, 4}, {3, 4}}, {{"axis", 1}}});
    cases.push_back({kind, {{3, 2, 2}, {3, 2, 2}}, {{"axis", 0}}});
  }
  for (const std::vector<Case>& more :
       {indexing_gradient_cases(), loss_gradient_cases(), norm_gradient_cases(),
        recurrent_gradient_cases(), reduction_gradient_cases(), window_gradient_cases()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

TEST_CASE("elementwise gradients are those of central differences, second ones too") {
  unsigned seed = 1;
  for (const OpInfo& info : ir::all_ops()) {
    if (!is_elementwise(info.kind) || !has_gradient(info)) continue;
    int operands = info.max_operands < 0 ? 3 : info.max_operands;
    for (const auto& shapes : elementwise_shapes(operands)) check_case({info.kind, shapes}, seed++);
  }
}

TEST_CASE("gradients of tensor ops are those of central differences, second ones too") {
  unsigned seed = 1000;
  for (const Case& test : tensor_cases()) check_case(test, seed++);
}

TEST_CASE("every op with a gradient is in a table of this test") {
  std::set<OpKind> covered = gradients_with_tests_of_their_own();
  for (const Case& test : tensor_cases()) covered.insert(test.kind);
  for (const OpInfo& info : ir::all_ops()) {
    INFO("op " << std::string(info.name));
    if (has_gradient(info)) CHECK((is_elementwise(info.kind) || covered.count(info.kind)));
  }
}

TEST_CASE("a perceptron with cross entropy has the gradients of central differences") {
  std::vector<Input> inputs = {{Type(DType::F64, {5, 4})},
                               {Type(DType::F64, {4, 6})},
                               {Type(DType::F64, {6})},
                               {Type(DType::F64, {6, 3})},
                               {Type(DType::I32, {5}), 'i', false}};
  for (OpKind activation : {OpKind::Relu, OpKind::Gelu, OpKind::Tanh, OpKind::Sigmoid})
    check_gradients(
        inputs,
        [&](Builder& b, std::span<const Value> x) {
          Value hidden = b.make(OpKind::Matmul, {x[0], x[1]});
          hidden = b.make(activation, {b.make(OpKind::Add, {hidden, x[2]})});
          Value logits = b.make(OpKind::Matmul, {hidden, x[3]});
          return b.make(OpKind::CrossEntropy, {logits, x[4]});
        },
        true, 77);
}

TEST_CASE("values that are used many times sum their cotangents") {
  check_gradients(
      {{Type(DType::F64, {4})}, {Type(DType::F64, {4})}},
      [](Builder& b, std::span<const Value> x) {
        Value shared = b.make(OpKind::Mul, {x[0], x[1]});
        Value left = b.make(OpKind::Tanh, {shared});
        Value right = b.make(OpKind::Exp, {b.make(OpKind::Sub, {left, shared})});
        Value joined = b.make(OpKind::Mul, {left, right});
        return b.make(OpKind::AddN, {joined, shared, x[0], shared});
      },
      true, 5);
}

}  // namespace
}  // namespace mezzo::test
