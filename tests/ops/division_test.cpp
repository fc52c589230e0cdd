// SPDX-License-Identifier: Apache-2.0
// Division that floors, bits, bounds and products with logarithms: single values of all types, and
// the range flag of a division by 0.
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
constexpr DType kFloats[] = {DType::F64, DType::F32, DType::F16, DType::BF16};

InterpreterTensor integer(DType type, int64_t value) {
  InterpreterTensor tensor(Type(type, {}));
  tensor.integers[0] = wrap_integer(type, value);
  return tensor;
}

double value(OpKind kind, DType type, std::initializer_list<double> operands) {
  std::vector<InterpreterTensor> inputs;
  for (double operand : operands) inputs.push_back(full_tensor(Type(type, {}), operand));
  return eval_op(kind, inputs).number(0);
}

RunResult integers(OpKind kind, DType type, std::initializer_list<int64_t> operands) {
  std::vector<InterpreterTensor> inputs;
  for (int64_t operand : operands) inputs.push_back(integer(type, operand));
  return run_op(kind, inputs);
}

int64_t whole(OpKind kind, DType type, std::initializer_list<int64_t> operands) {
  return integers(kind, type, operands).results[0].integers[0];
}

}  // namespace

TEST_CASE("integer division floors, the remainder has the sign of the divisor") {
  for (DType type : {DType::I32, DType::I64})
    for (int64_t x = -9; x <= 9; ++x)
      for (int64_t y = -4; y <= 4; ++y) {
        if (y == 0) continue;
        const auto quotient = static_cast<int64_t>(std::floor(double(x) / double(y)));
        CHECK(whole(OpKind::FloorDiv, type, {x, y}) == quotient);
        CHECK(whole(OpKind::Remainder, type, {x, y}) == x - quotient * y);
      }
  CHECK(whole(OpKind::FloorDiv, DType::U8, {200, 7}) == 28);
  CHECK(whole(OpKind::Remainder, DType::U8, {200, 7}) == 4);
  CHECK(whole(OpKind::FloorDiv, DType::U8, {200, 255}) == 0);
}

TEST_CASE("the lowest integer by -1 wraps") {
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  CHECK(whole(OpKind::FloorDiv, DType::I64, {lowest, -1}) == lowest);
  CHECK(whole(OpKind::Remainder, DType::I64, {lowest, -1}) == 0);
  CHECK(whole(OpKind::FloorDiv, DType::I32, {-2147483648LL, -1}) == -2147483648LL);
  CHECK(whole(OpKind::Remainder, DType::I32, {-2147483648LL, -1}) == 0);
}

TEST_CASE("an integer divided by 0 gives 0 and sets the range flag, a float does not") {
  for (DType type : {DType::I32, DType::I64, DType::U8})
    for (OpKind kind : {OpKind::FloorDiv, OpKind::Remainder}) {
      const RunResult run = integers(kind, type, {5, 0});
      CHECK(run.results[0].integers[0] == 0);
      CHECK(run.index_range);
      CHECK_FALSE(integers(kind, type, {0, 5}).index_range);
    }
  const InterpreterTensor one = full_tensor(Type(DType::F32, {}), 1);
  const InterpreterTensor zero = full_tensor(Type(DType::F32, {}), 0);
  CHECK_FALSE(run_op(OpKind::FloorDiv, {one, zero}).index_range);
}

TEST_CASE("float division floors the exact quotient, once rounded") {
  for (DType type : kFloats) {
    CHECK(value(OpKind::FloorDiv, type, {7, 2}) == 3);
    CHECK(value(OpKind::FloorDiv, type, {-7, 2}) == -4);
    CHECK(same_bits(value(OpKind::FloorDiv, type, {-0.0, 2}), -0.0));
    CHECK(value(OpKind::FloorDiv, type, {-1, kInfinity}) == -1);
    CHECK(value(OpKind::FloorDiv, type, {1, 0}) == kInfinity);
    CHECK(std::isnan(value(OpKind::FloorDiv, type, {0, 0})));
    CHECK(std::isnan(value(OpKind::FloorDiv, type, {kNan, 1})));
  }
  // The quotient of the two numbers is a little below 10, and rounds to it.
  CHECK(value(OpKind::FloorDiv, DType::F64, {1, 0.1}) == 9);
  CHECK(value(OpKind::FloorDiv, DType::F32, {1, 0.1}) == 9);
  // 2^24 + 1 is the middle between two f32, and even is below: the fraction must not lift it.
  CHECK(value(OpKind::FloorDiv, DType::F32, {0x1.8p24 + 2, 1.5}) == 0x1p24);
}

TEST_CASE("a float remainder is exact and has the sign of the divisor") {
  for (DType type : kFloats) {
    CHECK(value(OpKind::Remainder, type, {7, 2}) == 1);
    CHECK(value(OpKind::Remainder, type, {-7, 2}) == 1);
    CHECK(value(OpKind::Remainder, type, {7, -2}) == -1);
    CHECK(same_bits(value(OpKind::Remainder, type, {-4, 2}), 0.0));
    CHECK(same_bits(value(OpKind::Remainder, type, {4, -2}), -0.0));
    CHECK(value(OpKind::Remainder, type, {-1, kInfinity}) == kInfinity);
    CHECK(value(OpKind::Remainder, type, {3, -kInfinity}) == -kInfinity);
    CHECK(value(OpKind::Remainder, type, {3, kInfinity}) == 3);
    CHECK(std::isnan(value(OpKind::Remainder, type, {3, 0})));
    CHECK(std::isnan(value(OpKind::Remainder, type, {kInfinity, 2})));
    CHECK(std::isnan(value(OpKind::Remainder, type, {3, kNan})));
  }
  CHECK(value(OpKind::Remainder, DType::F64, {0x1p1000, 3}) == 1);
  CHECK(value(OpKind::Remainder, DType::F32, {1, 0.1}) ==
        std::fmod(1.0, static_cast<double>(0.1f)));
}

TEST_CASE("bits of every width") {
  CHECK(whole(OpKind::BitwiseOr, DType::I32, {12, 10}) == 14);
  CHECK(whole(OpKind::BitwiseXor, DType::I64, {12, 10}) == 6);
  CHECK(whole(OpKind::BitwiseXor, DType::I64, {-1, 0}) == -1);
  CHECK(whole(OpKind::BitwiseNot, DType::I32, {0}) == -1);
  CHECK(whole(OpKind::BitwiseNot, DType::U8, {1}) == 254);
  CHECK(whole(OpKind::LogicalXor, DType::Bool, {1, 1}) == 0);
  CHECK(whole(OpKind::LogicalXor, DType::Bool, {1, 0}) == 1);
}

TEST_CASE("clamp and its kin keep NaN; of bounds that changed places the upper one wins") {
  for (DType type : kFloats) {
    CHECK(value(OpKind::Clamp, type, {5, -1, 2}) == 2);
    CHECK(value(OpKind::Clamp, type, {0, 3, 1}) == 1);
    CHECK(std::isnan(value(OpKind::Clamp, type, {kNan, 0, 1})));
    CHECK(std::isnan(value(OpKind::Clamp, type, {0.5, kNan, 1})));
    for (OpKind kind :
         {OpKind::Relu6, OpKind::HardTanh, OpKind::HardSigmoid, OpKind::HardSwish, OpKind::Silu,
          OpKind::Mish, OpKind::GeluTanh, OpKind::Selu, OpKind::Softsign})
      CHECK(std::isnan(value(kind, type, {kNan})));
    CHECK(same_bits(value(OpKind::Relu6, type, {-0.0}), 0.0));
  }
  CHECK(whole(OpKind::Clamp, DType::I32, {-5, -1, 2}) == -1);
  CHECK(whole(OpKind::Clamp, DType::U8, {200, 1, 100}) == 100);
  CHECK(whole(OpKind::Relu6, DType::I64, {7}) == 6);
  CHECK(whole(OpKind::Relu6, DType::I32, {-7}) == 0);
}

TEST_CASE("lerp gives its ends at the weights 0 and 1, and what cancels exactly") {
  for (DType type : kFloats) {
    CHECK(value(OpKind::Lerp, type, {3, 1000, 0}) == 3);
    CHECK(value(OpKind::Lerp, type, {-1000, 0.25, 1}) == 0.25);
    CHECK(value(OpKind::Lerp, type, {-1, 1, 0.5}) == 0);
    const double most = largest_finite(type);
    CHECK(value(OpKind::Lerp, type, {-most, most, 0.5}) == 0);
    CHECK(std::isnan(value(OpKind::Lerp, type, {kInfinity, 1, 0.5})));
    CHECK(value(OpKind::Lerp, type, {1, kInfinity, 0.5}) == kInfinity);
  }
}

TEST_CASE("a product with a logarithm is 0 where its factor is 0, but NaN stays") {
  for (DType type : kFloats) {
    CHECK(same_bits(value(OpKind::Xlogy, type, {0, 0}), 0.0));
    CHECK(same_bits(value(OpKind::Xlogy, type, {-0.0, -1}), 0.0));
    CHECK(same_bits(value(OpKind::Xlogy, type, {0, kInfinity}), 0.0));
    CHECK(std::isnan(value(OpKind::Xlogy, type, {0, kNan})));
    CHECK(std::isnan(value(OpKind::Xlogy, type, {1, -1})));
    CHECK(value(OpKind::Xlogy, type, {2, 0}) == -kInfinity);
    CHECK(same_bits(value(OpKind::Xlog1py, type, {0, -1}), 0.0));
    CHECK(std::isnan(value(OpKind::Xlog1py, type, {0, kNan})));
    CHECK(value(OpKind::Xlog1py, type, {-2, -1}) == kInfinity);
  }
}

TEST_CASE("activations have their limits at the infinities") {
  for (DType type : kFloats) {
    for (OpKind kind : {OpKind::Silu, OpKind::Mish, OpKind::GeluTanh, OpKind::HardSwish}) {
      CHECK(same_bits(value(kind, type, {-kInfinity}), -0.0));
      CHECK(value(kind, type, {kInfinity}) == kInfinity);
    }
    CHECK(value(OpKind::Softsign, type, {-kInfinity}) == -1);
    CHECK(value(OpKind::Elu, type, {-kInfinity, 0.5}) == -0.5);
    CHECK(value(OpKind::Celu, type, {-kInfinity, 0.5}) == -0.5);
    CHECK(value(OpKind::HardSigmoid, type, {kInfinity}) == 1);
    CHECK(value(OpKind::LeakyRelu, type, {-kInfinity, 0.25}) == -kInfinity);
  }
}
