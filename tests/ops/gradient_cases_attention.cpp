// SPDX-License-Identifier: Apache-2.0
// Gradients of attention and dropout, first and second ones, against f64 central differences, and
// of custom gradients against the function that they stand for.
#include <mezzo/ir/interpreter.h>

#include <ops/gradient_cases.h>
#include <ops/gradient_support.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

std::set<OpKind> gradients_with_tests_of_their_own() {
  return {OpKind::Attention, OpKind::AttentionGrad, OpKind::Dropout, OpKind::CustomGradient};
}

namespace {

struct AttentionCase {
  int64_t heads = 2, key_heads = 2, queries = 3, keys = 4;
  bool causal = false;
  std::optional<Type> mask = std::nullopt;
  double rate = 0;
  Type q(int64_t depth) const { return {DType::F64, {1, heads, queries, depth}}; }
  Type k(int64_t depth) const { return {DType::F64, {1, key_heads, keys, depth}}; }
  Type sums() const { return {DType::F64, {1, heads, queries}}; }
};

std::vector<AttentionCase> attention_cases() {
  return {{},
          {.heads = 4, .key_heads = 2},
          {.heads = 3, .key_heads = 1, .causal = true},
          {.queries = 2, .keys = 5, .causal = true},
          {.mask = Type(DType::Bool, {3, 4})},
          {.heads = 4, .key_heads = 2, .mask = Type(DType::F64, {4, 1, 4})},
          {.causal = true, .mask = Type(DType::F64, {4}), .rate = 0.3}};
}

/// What stands behind the operands that are always there.
void add_rest(const AttentionCase& test, Builder& builder, std::span<const Value> given,
              size_t mask, std::vector<Value>& operands) {
  if (test.mask) operands.push_back(given[mask]);
  if (test.rate > 0) operands.push_back(builder.constant(Type(DType::I64, {2}), 5));
}

Attrs attributes(const AttentionCase& test) {
  return {{"scale", 0.7},
          {"causal", test.causal},
          {"masked", test.mask.has_value()},
          {"rate", test.rate},
          {"stream", int64_t{3}}};
}

TEST_CASE("gradients of attention are those of central differences, second ones too") {
  unsigned seed = 2000;
  for (const AttentionCase& test : attention_cases()) {
    CAPTURE(seed);
    std::vector<Input> inputs{{test.q(3), 's'}, {test.k(3), 's'}, {test.k(2), 's'}};
    if (test.mask)
      inputs.push_back({*test.mask, test.mask->dtype == DType::Bool ? 'b' : 's',
                        test.mask->dtype != DType::Bool});
    check_gradients(
        inputs,
        [&](Builder& b, std::span<const Value> x) {
          std::vector<Value> operands{x[0], x[1], x[2]};
          add_rest(test, b, x, 3, operands);
          return b.create(OpKind::Attention, operands, attributes(test))->result();
        },
        true, seed++);
  }
}

TEST_CASE("the saved log-sum-exp of attention has gradients of its own") {
  // Every query reads a key: the logarithm of nothing has no difference.
  for (const AttentionCase& test : {AttentionCase{}, AttentionCase{.heads = 4, .causal = true}}) {
    check_gradients(
        {{test.q(3), 's'}, {test.k(3), 's'}, {test.k(2), 's'}},
        [&](Builder& b, std::span<const Value> x) {
          const ir::Op* op = b.create(OpKind::Attention, {x[0], x[1], x[2]}, attributes(test));
          Value sums = b.reshape(op->result(1), Shape{1, test.heads, test.queries, 1});
          return b.make(OpKind::Mul, {op->result(0), sums});
        },
        true, 77);
  }
}

TEST_CASE("attention_grad is differentiated by its parts") {
  unsigned seed = 3000;
  for (const AttentionCase& test : attention_cases()) {
    CAPTURE(seed);
    std::vector<Input> inputs{{test.q(3), 's'},  {test.k(3), 's'},   {test.k(2), 's'},
                              {test.q(2), 's'},  {test.sums(), 'p'}, {test.q(2), 's'},
                              {test.sums(), 's'}};
    const bool numbers = test.mask && test.mask->dtype == DType::F64;
    if (test.mask) inputs.push_back({*test.mask, numbers ? 's' : 'b', numbers});
    check_gradients(
        inputs,
        [&](Builder& b, std::span<const Value> x) {
          std::vector<Value> operands(x.begin(), x.begin() + 7);
          add_rest(test, b, x, 7, operands);
          Attrs attrs = attributes(test);
          attrs.set("mask_grad", numbers);
          const std::vector<Type> types{test.q(3), test.k(3), test.k(2)};
          const ir::Op* op = b.create(OpKind::AttentionGrad, operands, attrs, types);
          std::vector<Value> sums;
          for (Value result : op->results()) {
            std::vector<int64_t> axes;
            for (int i = 0; i < result.type().rank(); ++i) axes.push_back(i);
            sums.push_back(b.sum(b.make(OpKind::Tanh, {result}), axes));
          }
          return b.create(OpKind::AddN, sums)->result();
        },
        false, seed++);
  }
}

TEST_CASE("gradients of dropout are those of central differences, second ones too") {
  for (double rate : {0.0, 0.4, 1.0})
    check_gradients(
        {{Type(DType::F64, {5, 7})}},
        [&](Builder& b, std::span<const Value> x) {
          Value state = b.constant(Type(DType::I64, {2}), 9);
          return b.make(OpKind::Dropout, {b.make(OpKind::Tanh, {x[0]}), state},
                        {{"rate", rate}, {"stream", int64_t{2}}});
        },
        true, 11);
}

/// y = a tanh(x) with the backward function da = Σ dy tanh(x), dx = dy a (1 - tanh(x)^2), which
/// reads its output for the second part.
Value scaled_tanh(Builder& builder, Value a, Value x) {
  ir::Module& module = *builder.module();
  if (!module.function("backward")) {
    ir::Function* backward = module.add_function("backward");
    Value in_a = backward->add_parameter(a.type(), "a"),
          in_x = backward->add_parameter(x.type(), "x");
    Value y = backward->add_parameter(x.type(), "y"), dy = backward->add_parameter(x.type(), "dy");
    Builder b(backward->body());
    Value da = b.sum(b.make(OpKind::Mul, {dy, b.make(OpKind::Tanh, {in_x})}), {0});
    Value ratio = b.make(OpKind::Div, {y, in_a});
    Value slope = b.make(OpKind::Sub, {b.constant(a.type(), 1), b.make(OpKind::Square, {ratio})});
    Value dx = b.make(OpKind::Mul, {dy, b.make(OpKind::Mul, {in_a, slope})});
    backward->set_results(std::vector<Value>{da, dx}, std::vector<Attrs>(2));
  }
  Value y = builder.make(OpKind::Mul, {a, builder.make(OpKind::Tanh, {x})});
  return builder.make(
      OpKind::CustomGradient, {a, x, y},
      {{"func", ir::Symbol{"backward"}}, {"inputs", int64_t{2}}, {"outputs", int64_t{1}}});
}

TEST_CASE("a custom gradient that is right passes for the one of central differences, twice") {
  check_gradients(
      {{Type(DType::F64, {}), 'n'}, {Type(DType::F64, {5}), 's'}},
      [](Builder& b, std::span<const Value> x) { return scaled_tanh(b, x[0], x[1]); }, true, 5);
}

}  // namespace
}  // namespace mezzo::test
