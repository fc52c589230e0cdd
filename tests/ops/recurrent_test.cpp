// SPDX-License-Identifier: Apache-2.0
// Recurrent sequences: reported cases with their right values, directions, every result's gradient,
// and the texts of the shape rules.
#include <mezzo/ir/error.h>
#include <support/error_of.h>
#include <support/random_array.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <ops/gradient_support.h>

namespace mezzo::test {
namespace {

using ir::Builder;
using ir::DType;
using ir::InterpreterTensor;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

InterpreterTensor filled(DType dtype, const Shape& shape, double value) {
  return ir::full_tensor(Type(dtype, shape), value);
}

std::vector<InterpreterTensor> lstm_inputs(DType dtype, int64_t steps) {
  const DType wide = ir::default_acc(dtype);
  return {filled(dtype, {steps, 1, 1}, 1), filled(wide, {1, 1}, 0),    filled(wide, {1, 1}, 0),
          filled(dtype, {1, 4}, 0.5),      filled(dtype, {1, 4}, 0.5), filled(wide, {4}, 0.1)};
}

TEST_CASE("RC-01: a state keeps its type from step to step") {
  for (DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    const DType wide = ir::default_acc(dtype);
    const std::vector<InterpreterTensor> inputs = {
        filled(dtype, {2, 1, 1}, 1), filled(wide, {1, 1}, 0), filled(dtype, {1, 1}, 0.5),
        filled(dtype, {1, 1}, 1), filled(wide, {1}, 0)};
    const InterpreterTensor h = eval_op(OpKind::Rnn, inputs);
    CHECK(h.type.dtype == dtype);
    CHECK(h.floats[0] == ir::round_to(dtype, 0.46211715726000973));
    const double off = 2 * ir::unit_roundoff(dtype);
    CHECK(h.floats[1] == doctest::Approx(0.745219742).epsilon(std::max(off, 1e-8)));
  }
  const std::vector<InterpreterTensor> inputs = {
      filled(DType::F16, {2, 1, 1}, 1), filled(DType::F32, {1, 1}, 0),
      filled(DType::F16, {1, 1}, 0.5), filled(DType::F16, {1, 1}, 1), filled(DType::F32, {1}, 0)};
  const InterpreterTensor h = eval_op(OpKind::Rnn, inputs);
  CHECK(h.floats[0] == 0.462158203125);
  CHECK(h.floats[1] == 0.7451171875);
}

TEST_CASE("RC-02: a cell of an lstm with a bias") {
  for (DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    ir::RunResult result = run_op(OpKind::Lstm, lstm_inputs(dtype, 1));
    const double off = std::max(ir::unit_roundoff(dtype), 1e-8);
    CHECK(result.results[0].floats[0] == doctest::Approx(0.215319686).epsilon(off));
    CHECK(result.results[1].floats[0] == doctest::Approx(0.34674944).epsilon(1e-7));
    CHECK(result.results[2].floats[0] == doctest::Approx(0.6).epsilon(1e-7));
  }
}

TEST_CASE("RC-05: the cell of a long sequence is carried in f32, whatever products read") {
  // Gates that are open to 2^-24 and a fresh part of 2e-4 a step.
  constexpr int64_t kSteps = 10000;
  for (DType dtype : {DType::F16, DType::BF16}) {
    std::vector<InterpreterTensor> inputs = {
        filled(dtype, {kSteps, 1, 1}, 0), filled(DType::F32, {1, 1}, 0),
        filled(DType::F32, {1, 1}, 0),    filled(dtype, {1, 4}, 0),
        filled(dtype, {1, 4}, 0),         filled(DType::F32, {4}, 40)};
    inputs[5].floats[2] = std::atanh(2e-4);
    ir::RunResult result = run_op(OpKind::Lstm, inputs);
    CHECK(result.results[1].floats.back() == doctest::Approx(2.0).epsilon(1e-5));
  }
}

TEST_CASE("RC-07: a gru whose update gate is nearly 1 still moves") {
  constexpr int64_t kSteps = 10000;
  for (DType dtype : {DType::F16, DType::BF16, DType::F32}) {
    std::vector<InterpreterTensor> inputs = {
        filled(dtype, {kSteps, 1, 1}, 0), filled(DType::F32, {1, 1}, 0),
        filled(dtype, {1, 3}, 0),         filled(dtype, {1, 3}, 0),
        filled(DType::F32, {3}, 40),      filled(DType::F32, {3}, 0)};
    inputs[4].floats[1] = 12;
    ir::RunResult result = run_op(OpKind::Gru, inputs);
    CHECK(result.results[1].floats.back() == doctest::Approx(0.0595924509).epsilon(1e-5));
  }
}

TEST_CASE("a sequence read from its end is the turned sequence of the turned one") {
  const Shape x{5, 2, 3};
  struct Cell {
    OpKind kind;
    int64_t gates;
    size_t states;
    bool second_bias;
  };
  for (const Cell& cell : {Cell{OpKind::Rnn, 1, 1, false}, Cell{OpKind::Lstm, 4, 2, false},
                           Cell{OpKind::Gru, 3, 1, true}}) {
    std::vector<InterpreterTensor> inputs{random_array('a', Type(DType::F64, x), 1)};
    for (size_t i = 0; i < cell.states; ++i)
      inputs.push_back(random_array('a', Type(DType::F64, {2, 4}), 2));
    inputs.push_back(random_array('a', Type(DType::F64, {3, 4 * cell.gates}), 3));
    inputs.push_back(random_array('a', Type(DType::F64, {4, 4 * cell.gates}), 4));
    for (int i = 0; i <= (cell.second_bias ? 1 : 0); ++i)
      inputs.push_back(random_array('a', Type(DType::F64, {4 * cell.gates}), 5));
    auto turned = [](InterpreterTensor tensor) {
      const size_t steps = static_cast<size_t>(tensor.type.shape[0]);
      const size_t length = tensor.floats.size() / steps;
      std::vector<double> out;
      for (size_t t = steps; t-- > 0;)
        out.insert(out.end(), tensor.floats.begin() + static_cast<std::ptrdiff_t>(t * length),
                   tensor.floats.begin() + static_cast<std::ptrdiff_t>((t + 1) * length));
      tensor.floats = out;
      return tensor;
    };
    const ir::RunResult back = run_op(cell.kind, inputs, {{"reverse", true}});
    inputs[0] = turned(inputs[0]);
    const ir::RunResult forth = run_op(cell.kind, inputs);
    for (size_t i = 0; i < back.results.size(); ++i)
      CHECK(back.results[i].floats == turned(forth.results[i]).floats);
  }
}

TEST_CASE("all results of a recurrent sequence have gradients") {
  auto all_results = [](OpKind kind) {
    return [kind](Builder& builder, std::span<const Value> values) {
      const ir::Op* op = builder.create(kind, values);
      std::vector<Value> sums;
      for (int i = 0; i < op->num_results(); ++i) {
        Value square = builder.make(OpKind::Square, {op->result(i)});
        sums.push_back(builder.sum(square, {0, 1, 2}));
      }
      return builder.create(OpKind::AddN, sums)->result();
    };
  };
  auto input = [](Shape shape) { return Input{Type(DType::F64, shape), 'u', true}; };
  check_gradients({input({3, 2, 2}), input({2, 2}), input({2, 2}), input({2, 2}), input({2})},
                  all_results(OpKind::Rnn), true, 1);
  check_gradients(
      {input({3, 2, 2}), input({2, 2}), input({2, 2}), input({2, 8}), input({2, 8}), input({8})},
      all_results(OpKind::Lstm), true, 2);
  check_gradients(
      {input({3, 2, 2}), input({2, 2}), input({2, 6}), input({2, 6}), input({6}), input({6})},
      all_results(OpKind::Gru), true, 3);
}

TEST_CASE("what does not fit a recurrent sequence is told with the layout") {
  auto error = [](std::vector<InterpreterTensor> inputs, ir::Attrs attrs = {}) {
    return error_of<UserError>([&] { run_op(OpKind::Rnn, inputs, attrs); });
  };
  auto inputs = [] {
    return std::vector<InterpreterTensor>{
        filled(DType::F32, {2, 1, 3}, 0), filled(DType::F32, {1, 4}, 0),
        filled(DType::F32, {3, 4}, 0), filled(DType::F32, {4, 4}, 0), filled(DType::F32, {4}, 0)};
  };
  CHECK(error(inputs(), {{"activation", "gelu"}}).find("rnn: unknown activation \"gelu\"") !=
        std::string::npos);
  std::vector<InterpreterTensor> wrong = inputs();
  wrong[2] = filled(DType::F32, {3, 5}, 0);
  CHECK(error(wrong).find("rnn: w must be tensor<3x4xf32>, not tensor<3x5xf32>") !=
        std::string::npos);
  wrong = inputs();
  wrong[0] = filled(DType::F32, {2, 3}, 0);
  CHECK(error(wrong).find("rnn: x must have 3 axes, not 2") != std::string::npos);
  CHECK(error(wrong).find("x is [steps, batch, in], states are [batch, units]") !=
        std::string::npos);
  wrong = inputs();
  wrong[1] = filled(DType::F16, {1, 4}, 0);
  CHECK(error(wrong).find("rnn: h0 must be tensor<1x4xf32>, not tensor<1x4xf16>") !=
        std::string::npos);
}

}  // namespace
}  // namespace mezzo::test
