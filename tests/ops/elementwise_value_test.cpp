// SPDX-License-Identifier: Apache-2.0
// Single values of elementwise ops that are easy to get wrong: one rounding, zeros, integers,
// casts.
#include <mezzo/ir/scalar_eval.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

InterpreterTensor scalar(DType type, double value) { return full_tensor(Type(type, {}), value); }

InterpreterTensor integer(DType type, int64_t value) {
  InterpreterTensor tensor(Type(type, {}));
  tensor.integers[0] = wrap_integer(type, value);
  return tensor;
}

double value(OpKind kind, DType type, std::initializer_list<double> operands) {
  std::vector<InterpreterTensor> inputs;
  for (double operand : operands) inputs.push_back(scalar(type, operand));
  return eval_op(kind, inputs).number(0);
}

int64_t whole(OpKind kind, DType type, std::initializer_list<int64_t> operands) {
  std::vector<InterpreterTensor> inputs;
  for (int64_t operand : operands) inputs.push_back(integer(type, operand));
  return eval_op(kind, inputs).integers[0];
}

InterpreterTensor cast(const InterpreterTensor& input, DType type) {
  return eval_op(OpKind::Cast, {input}, {}, {input.type.with(type)});
}

}  // namespace

TEST_CASE("maximum, minimum and relu order zeros and keep NaN") {
  for (DType type : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    CHECK(same_bits(value(OpKind::Maximum, type, {-0.0, 0.0}), 0.0));
    CHECK(same_bits(value(OpKind::Maximum, type, {0.0, -0.0}), 0.0));
    CHECK(same_bits(value(OpKind::Minimum, type, {0.0, -0.0}), -0.0));
    CHECK(same_bits(value(OpKind::Relu, type, {-0.0}), 0.0));
    CHECK(std::isnan(value(OpKind::Relu, type, {kNan})));
    CHECK(std::isnan(value(OpKind::Maximum, type, {kNan, 1.0})));
    CHECK(std::isnan(value(OpKind::Minimum, type, {1.0, kNan})));
    CHECK(same_bits(value(OpKind::Neg, type, {0.0}), -0.0));
  }
}

TEST_CASE("mul0 is zero where the cotangent is zero, whatever the derivative") {
  CHECK(value(OpKind::Mul0, DType::F32, {0.0, kInfinity}) == 0);
  CHECK(value(OpKind::Mul0, DType::F16, {0.0, kNan}) == 0);
  CHECK(std::isnan(value(OpKind::Mul0, DType::F32, {1.0, kNan})));
  CHECK(std::isnan(value(OpKind::Mul0, DType::F32, {kInfinity, 0.0})));
}

TEST_CASE("pow follows IEEE 754 and the special values are exact") {
  CHECK(value(OpKind::Pow, DType::F32, {kNan, 0.0}) == 1);
  CHECK(value(OpKind::Pow, DType::F32, {1.0, kNan}) == 1);
  CHECK(value(OpKind::Pow, DType::F32, {-8.0, 3.0}) == -512);
  CHECK(std::isnan(value(OpKind::Pow, DType::F32, {-8.0, 0.5})));
  CHECK(value(OpKind::Pow, DType::F32, {0.0, -1.0}) == kInfinity);
  CHECK(value(OpKind::Exp, DType::F16, {-kInfinity}) == 0);
  CHECK(value(OpKind::Log, DType::F16, {0.0}) == -kInfinity);
  CHECK(std::isnan(value(OpKind::Log, DType::F32, {-1.0})));
  CHECK(value(OpKind::Softplus, DType::F32, {-kInfinity}) == 0);
  CHECK(value(OpKind::LogSigmoid, DType::F32, {-1000.0}) == -1000);
  CHECK(value(OpKind::Sigmoid, DType::F32, {-1000.0}) == 0);
}

TEST_CASE("a 16-bit result is rounded once, to the limit and below the smallest") {
  CHECK(value(OpKind::Add, DType::F16, {65504.0, 15.0}) == 65504);
  CHECK(value(OpKind::Add, DType::F16, {65504.0, 16.0}) == kInfinity);
  CHECK(value(OpKind::Mul, DType::F16, {0x1p-12, 0x1p-13}) == 0);          // 2^-25: tie to even
  CHECK(value(OpKind::Mul, DType::F16, {0x1.8p-12, 0x1p-13}) == 0x1p-24);  // above the tie
  CHECK(value(OpKind::Mul, DType::BF16, {0x1p-66, 0x1p-67}) == 0x1p-133);
  CHECK(value(OpKind::Div, DType::F16, {1.0, 3.0}) == round_to(DType::F16, 1.0 / 3));
}

TEST_CASE("add_n rounds its partial sums to f32, in order, and once to its type") {
  CHECK(value(OpKind::AddN, DType::F16, {1.0, 0x1p-11, 0x1p-11}) == 1 + 0x1p-10);
  CHECK(value(OpKind::AddN, DType::F16, {60000.0, 60000.0, -60000.0}) == 60000);
  CHECK(value(OpKind::AddN, DType::F32, {1.0, 0x1p-24, 0x1p-24}) == 1);
  CHECK(value(OpKind::AddN, DType::F32, {0x1p-24, 0x1p-24, 1.0}) == 1 + 0x1p-23);
  CHECK(value(OpKind::AddN, DType::F64, {1.0, 0x1p-24, 0x1p-24}) == 1 + 0x1p-23);
  CHECK(value(OpKind::AddN, DType::BF16, {3.5}) == 3.5);
}

TEST_CASE("integers wrap in their own width") {
  CHECK(whole(OpKind::Add, DType::I32, {int64_t{2147483647}, 1}) == -2147483648LL);
  CHECK(whole(OpKind::Mul, DType::I32, {int64_t{65536}, 65536}) == 0);
  CHECK(whole(OpKind::Sub, DType::U8, {int64_t{3}, 5}) == 254);
  CHECK(whole(OpKind::Neg, DType::U8, {int64_t{1}}) == 255);
  int64_t lowest = std::numeric_limits<int64_t>::min();
  CHECK(whole(OpKind::Abs, DType::I64, {lowest}) == lowest);
  CHECK(whole(OpKind::Add, DType::I64, {std::numeric_limits<int64_t>::max(), 1}) == lowest);
  CHECK(whole(OpKind::Sign, DType::I32, {int64_t{-7}}) == -1);
  CHECK(whole(OpKind::BitwiseAnd, DType::I32, {int64_t{12}, 10}) == 8);
  CHECK(whole(OpKind::Lt, DType::U8, {int64_t{200}, 100}) == 0);
  // 2^53 + 1 and 2^53 are one double: comparisons of integers must not pass through it.
  CHECK(whole(OpKind::Eq, DType::I64, {(int64_t{1} << 53) + 1, int64_t{1} << 53}) == 0);
  CHECK(whole(OpKind::LogicalAnd, DType::Bool, {int64_t{1}, 0}) == 0);
  CHECK(whole(OpKind::LogicalNot, DType::Bool, {int64_t{0}}) == 1);
}

TEST_CASE("casts go from source to target in one step") {
  // In f32 this f64 is exactly half way between two f16 values.
  double above_tie = 1 + 0x1p-11 + 0x1p-40;
  CHECK(cast(scalar(DType::F64, above_tie), DType::F16).floats[0] == 1 + 0x1p-10);
  CHECK(cast(scalar(DType::F32, 65519.99), DType::F16).floats[0] == 65504);
  CHECK(cast(scalar(DType::F32, 65520), DType::F16).floats[0] == kInfinity);
  CHECK(cast(scalar(DType::F32, 1e10), DType::I32).integers[0] == 2147483647);
  CHECK(cast(scalar(DType::F32, kNan), DType::I32).integers[0] == 0);
  CHECK(cast(scalar(DType::F32, -1.9), DType::I32).integers[0] == -1);
  CHECK(cast(scalar(DType::F32, -1), DType::U8).integers[0] == 0);
  CHECK(cast(scalar(DType::F32, 0.5), DType::Bool).integers[0] == 1);
  CHECK(cast(integer(DType::I64, 300), DType::U8).integers[0] == 44);
  CHECK(cast(integer(DType::I32, 65520), DType::F16).floats[0] == kInfinity);
}

TEST_CASE("a 64-bit integer is rounded once to f32 and bf16") {
  // Through f64 it would first become the tie 2^60 + 2^36 and then round down to even.
  int64_t above_tie = (int64_t{1} << 60) + (int64_t{1} << 36) + 1;
  CHECK(integer_to_float(DType::F32, above_tie) == 0x1p60 + 0x1p37);
  CHECK(integer_to_float(DType::F32, -above_tie) == -(0x1p60 + 0x1p37));
  CHECK(integer_to_float(DType::F32, above_tie - 1) == 0x1p60);
  CHECK(integer_to_float(DType::BF16, (int64_t{1} << 60) + (int64_t{1} << 52) + 1) ==
        0x1p60 + 0x1p53);
  int64_t lowest = std::numeric_limits<int64_t>::min();
  CHECK(integer_to_float(DType::F32, lowest) == -0x1p63);
  CHECK(integer_to_float(DType::F64, (int64_t{1} << 53) + 1) == 0x1p53);
  for (int64_t v : {int64_t{1234567890123456789}, int64_t{-987654321987654321}, lowest + 1})
    CHECK(integer_to_float(DType::F32, v) == static_cast<double>(static_cast<float>(v)));
}

TEST_CASE("where takes the chosen side, also beside NaN") {
  InterpreterTensor condition = make_tensor(Type(DType::Bool, {2}), {1, 0});
  InterpreterTensor x = make_tensor(Type(DType::F16, {2}), {1.5, kNan});
  InterpreterTensor y = make_tensor(Type(DType::F16, {2}), {kNan, -0.0});
  InterpreterTensor result = eval_op(OpKind::Where, {condition, x, y});
  CHECK(same_bits(result, make_tensor(Type(DType::F16, {2}), {1.5, -0.0})));
  int64_t large = (int64_t{1} << 62) + 1;
  InterpreterTensor chosen = eval_op(
      OpKind::Where, {integer(DType::Bool, 1), integer(DType::I64, large), integer(DType::I64, 0)});
  CHECK(chosen.integers[0] == large);
}

TEST_CASE("check_index gives its operand and sets the range flag for what lies outside") {
  InterpreterTensor labels = make_tensor(Type(DType::I32, {3}), {0, 3, -100});
  CHECK(run_op(OpKind::CheckIndex, {labels}, {{"size", 4}}).index_range);
  RunResult ignored = run_op(OpKind::CheckIndex, {labels}, {{"size", 4}, {"ignore_index", -100}});
  CHECK_FALSE(ignored.index_range);
  CHECK(same_bits(ignored.results[0], labels));
  CHECK(run_op(OpKind::CheckIndex, {labels}, {{"size", 3}, {"ignore_index", -100}}).index_range);
}
