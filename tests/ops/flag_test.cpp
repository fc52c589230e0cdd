// SPDX-License-Identifier: Apache-2.0
// Flag words: which op sets which bit, one case each way.
#include <mezzo/ir/flags.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

constexpr uint32_t kN = static_cast<uint32_t>(FlagBit::NonFinite);
constexpr uint32_t kO = static_cast<uint32_t>(FlagBit::Overflow);
constexpr uint32_t kP = static_cast<uint32_t>(FlagBit::Pole);
constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint32_t flags(OpKind kind, DType type, std::initializer_list<double> operands) {
  std::vector<InterpreterTensor> inputs;
  for (double operand : operands) inputs.push_back(full_tensor(Type(type, {3}), operand));
  return run_op(kind, inputs).words.at(0);
}

uint32_t cast_flags(DType from, double value, DType to) {
  InterpreterTensor input = full_tensor(Type(from, {1}), value);
  return run_op(OpKind::Cast, {input}, {}, {input.type.with(to)}).words.at(0);
}

}  // namespace

TEST_CASE("a finite result sets no flag") {
  CHECK(flags(OpKind::Add, DType::F16, {1, 2}) == 0);
  CHECK(flags(OpKind::Div, DType::F32, {0, 2}) == 0);
  CHECK(flags(OpKind::Log, DType::F32, {1e-30}) == 0);
}

TEST_CASE("overflow is a finite f32 that a 16-bit store made infinite") {
  CHECK(flags(OpKind::Mul, DType::F16, {300, 300}) == (kN | kO));
  CHECK(flags(OpKind::Exp, DType::F16, {12}) == (kN | kO));
  // Already infinite in f32, or not a 16-bit store.
  CHECK(flags(OpKind::Exp, DType::F16, {200}) == kN);
  CHECK(flags(OpKind::Mul, DType::BF16, {3e38, 2}) == kN);
  CHECK(flags(OpKind::Mul, DType::F32, {3e38, 2}) == kN);
  CHECK(flags(OpKind::Add, DType::F16, {kInfinity, 1}) == kN);
  CHECK(flags(OpKind::Add, DType::F16, {kInfinity, -kInfinity}) == kN);
}

TEST_CASE("a cast overflows when its source was finite") {
  CHECK(cast_flags(DType::F32, 7e4, DType::F16) == (kN | kO));
  CHECK(cast_flags(DType::F64, 1e300, DType::BF16) == (kN | kO));
  CHECK(cast_flags(DType::F64, 1e300, DType::F32) == kN);
  CHECK(cast_flags(DType::F32, kInfinity, DType::F16) == kN);
  CHECK(cast_flags(DType::I32, 70000, DType::F16) == (kN | kO));
  CHECK(cast_flags(DType::F32, 6e4, DType::F16) == 0);
}

TEST_CASE("poles are flagged where the function is evaluated at them") {
  CHECK(flags(OpKind::Div, DType::F32, {1, 0}) == (kN | kP));
  CHECK(flags(OpKind::Div, DType::F32, {0, 0}) == (kN | kP));
  CHECK(flags(OpKind::Reciprocal, DType::F32, {-0.0}) == (kN | kP));
  CHECK(flags(OpKind::Rsqrt, DType::F32, {0}) == (kN | kP));
  CHECK(flags(OpKind::Log, DType::F32, {0}) == (kN | kP));
  CHECK(flags(OpKind::Log1p, DType::F32, {-1}) == (kN | kP));
  CHECK(flags(OpKind::Log2, DType::F32, {0}) == (kN | kP));
  CHECK(flags(OpKind::Log10, DType::F32, {-0.0}) == (kN | kP));
  CHECK(flags(OpKind::Atanh, DType::F32, {1}) == (kN | kP));
  CHECK(flags(OpKind::Atanh, DType::F32, {-1}) == (kN | kP));
  CHECK(flags(OpKind::Lgamma, DType::F32, {0}) == (kN | kP));
  CHECK(flags(OpKind::Digamma, DType::F32, {-0.0}) == (kN | kP));
  CHECK(flags(OpKind::Trigamma, DType::F32, {0}) == (kN | kP));
  CHECK(flags(OpKind::Pow, DType::F32, {0, -0.5}) == (kN | kP));
  CHECK(flags(OpKind::Pow, DType::F32, {0, 0.5}) == 0);
  CHECK(flags(OpKind::FloorDiv, DType::F32, {1, 0}) == (kN | kP));
  CHECK(flags(OpKind::Xlogy, DType::F32, {2, 0}) == (kN | kP));
  CHECK(flags(OpKind::Xlogy, DType::F32, {-0.5, -0.0}) == (kN | kP));
  CHECK(flags(OpKind::Xlog1py, DType::F32, {2, -1}) == (kN | kP));
  // A factor of 0 is no pole.
  CHECK(flags(OpKind::Xlogy, DType::F32, {0, 0}) == 0);
  CHECK(flags(OpKind::Xlog1py, DType::F32, {-0.0, -1}) == 0);
  // Outside the domain is not a pole.
  CHECK(flags(OpKind::Log, DType::F32, {-1}) == kN);
  CHECK(flags(OpKind::Sqrt, DType::F32, {-1}) == kN);
  CHECK(flags(OpKind::Asin, DType::F32, {2}) == kN);
  CHECK(flags(OpKind::Atanh, DType::F32, {1.5}) == kN);
  CHECK(flags(OpKind::Remainder, DType::F32, {1, 0}) == kN);
  CHECK(flags(OpKind::Xlogy, DType::F32, {1, -1}) == kN);
}

TEST_CASE("sums and products note the overflow of their 16-bit store") {
  InterpreterTensor x = full_tensor(Type(DType::F16, {4}), 60000);
  CHECK(run_op(OpKind::Sum, {x}, {{"axes", Attr(std::vector<int64_t>{0})}}).words[0] == (kN | kO));
  InterpreterTensor row = full_tensor(Type(DType::F16, {1, 4}), 200);
  InterpreterTensor column = full_tensor(Type(DType::F16, {4, 1}), 200);
  CHECK(run_op(OpKind::Matmul, {row, column}).words[0] == (kN | kO));
  RunResult wide = run_op(OpKind::Matmul, {row, column}, {}, {Type(DType::F32, {1, 1})});
  CHECK(wide.words[0] == 0);
  CHECK(wide.results[0].floats[0] == 160000);
}

TEST_CASE("words are as many as the largest number says, inside kernels too") {
  Module module;
  Function* function = module.add_function("f");
  Value x = function->add_parameter(Type(DType::F32, {}), "x");
  Value operands[] = {x};
  Type types[] = {x.type()};
  Op* kernel = module.make_op(OpKind::Kernel, operands, types, {}, {});
  Region* body = module.make_body(kernel);
  Value inside = body->add_parameter(x.type(), "a");
  Builder builder(*body);
  Value log = builder.make(OpKind::Log, {inside}, {{"word", 5}});
  builder.create(OpKind::Yield, {builder.make(OpKind::Neg, {log})});
  Module::append(function->body(), kernel);
  Value results[] = {kernel->result()};
  function->set_results(results, {Attrs()});

  InterpreterTensor zero = full_tensor(x.type(), 0);
  RunResult result = run(module, *function, std::span(&zero, 1));
  CHECK(result.results[0].floats[0] == kInfinity);
  CHECK(result.words == std::vector<uint32_t>{0, 0, 0, 0, 0, kN | kP});
}
