// SPDX-License-Identifier: Apache-2.0
// Products, bools and counts, variance, log-sum-exp and norms: values, empty groups, NaN and the
// ends of the range.
#include <mezzo/ir/error.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Attrs over(Ints axes, bool keepdims = false) {
  return {{"axes", Attr(axes)}, {"keepdims", keepdims}};
}

Attrs with(Attrs attrs, const char* name, Attr value) {
  attrs.set(name, std::move(value));
  return attrs;
}

/// Of a vector of f32.
double reduced(OpKind kind, Numbers values, Attrs attrs = over({0})) {
  return eval_op(kind, {vector_of(DType::F32, std::move(values))}, std::move(attrs)).number(0);
}

}  // namespace

TEST_CASE("prod multiplies wide, is 1 of nothing and 0 where a finite factor is") {
  CHECK(reduced(OpKind::Prod, {2, -3, 4}) == -24);
  CHECK(reduced(OpKind::Prod, {}) == 1);
  CHECK(reduced(OpKind::Prod, {1e30, 1e30, 1e-30, 1e-30}) == doctest::Approx(1));
  CHECK(reduced(OpKind::Prod, {0, 1e38, 1e38, 1e38}) == 0);
  CHECK(reduced(OpKind::Prod, {3e38, 2}) == kInf);
  CHECK(std::isnan(reduced(OpKind::Prod, {0, kInf})));
  CHECK(std::isnan(reduced(OpKind::Prod, {kNan, 0})));
  InterpreterTensor bytes = vector_of(DType::U8, {16, 17});
  CHECK(eval_op(OpKind::Prod, {bytes}, over({0})).integers == Ints{16});  // 272 wraps
  InterpreterTensor bools = vector_of(DType::Bool, {1, 0, 1});
  CHECK(eval_op(OpKind::Prod, {bools}, over({0})).type == Type(DType::I64, {}));
  InterpreterTensor huge = vector_of(DType::F64, {1e300, 1e300, 1e-300, 1e-300});
  CHECK(eval_op(OpKind::Prod, {huge}, over({0})).floats[0] == doctest::Approx(1));
}

TEST_CASE("argmin takes the first minimum, the first NaN if there is one") {
  for (DType type : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    CHECK(eval_op(OpKind::Argmin, {vector_of(type, {2, 1, 1, 3})}, {{"axis", 0}}).integers[0] == 1);
    CHECK(
        eval_op(OpKind::Argmin, {vector_of(type, {2, kNan, 1, kNan})}, {{"axis", 0}}).integers[0] ==
        1);
    CHECK(eval_op(OpKind::Argmin, {vector_of(type, {0.0, -0.0})}, {{"axis", 0}}).integers[0] == 0);
  }
  CHECK(eval_op(OpKind::Argmin, {vector_of(DType::U8, {7, 0, 255})}, {{"axis", 0}}).integers[0] ==
        1);
  const double least = std::numeric_limits<int32_t>::min();
  CHECK(eval_op(OpKind::Argmin, {vector_of(DType::I32, {0, least, least})}, {{"axis", 0}})
            .integers[0] == 1);
}

TEST_CASE("any and all see what is not 0, NaN too; of nothing they are false and true") {
  CHECK(reduced(OpKind::AnyOf, {0, -0.0}) == 0);
  CHECK(reduced(OpKind::AnyOf, {0, kNan}) == 1);
  CHECK(reduced(OpKind::AllOf, {1, kNan, -2}) == 1);
  CHECK(reduced(OpKind::AllOf, {1, 0}) == 0);
  CHECK(reduced(OpKind::AnyOf, {}) == 0);
  CHECK(reduced(OpKind::AllOf, {}) == 1);
  CHECK(reduced(OpKind::CountNonzero, {0, 2, kNan, -0.0, -1}) == 3);
  CHECK(reduced(OpKind::CountNonzero, {}) == 0);
  InterpreterTensor x = make_tensor(Type(DType::Bool, {2, 2}), {1, 0, 1, 1});
  CHECK(eval_op(OpKind::AllOf, {x}, over({0})).integers == Ints{1, 0});
  CHECK(eval_op(OpKind::AnyOf, {x}, over({1}, true)).type == Type(DType::Bool, {2, 1}));
  CHECK(eval_op(OpKind::CountNonzero, {x}, over({0, 1})).type == Type(DType::I32, {}));
}

TEST_CASE("variance divides by n - 1 unless told otherwise, and is NaN where that is 0") {
  CHECK(reduced(OpKind::Var, {1, 2, 3, 4}) == doctest::Approx(5.0 / 3));
  CHECK(reduced(OpKind::Var, {1, 2, 3, 4}, with(over({0}), "correction", 0)) == 1.25);
  CHECK(reduced(OpKind::Stddev, {1, 2, 3, 4}, with(over({0}), "correction", 0)) ==
        doctest::Approx(std::sqrt(1.25)));
  CHECK(std::isnan(reduced(OpKind::Var, {5})));
  CHECK(reduced(OpKind::Var, {5}, with(over({0}), "correction", 0)) == 0);
  CHECK(reduced(OpKind::Var, {5, 6}, with(over({0}), "correction", 2)) == kInf);
  CHECK(std::isnan(reduced(OpKind::Var, {})));
  CHECK(std::isnan(reduced(OpKind::Stddev, {}, with(over({0}), "correction", 0))));
  CHECK(std::isnan(reduced(OpKind::Var, {1, kInf})));
}

TEST_CASE("variance keeps its digits far from 0 and is 0 of equal elements") {
  CHECK(reduced(OpKind::Var, {16777216, 16777218, 16777220}) == 4);
  CHECK(reduced(OpKind::Var, Numbers(1000, 0.1)) == 0);
  CHECK(reduced(OpKind::Stddev, Numbers(1000, 1e30)) == 0);
}

TEST_CASE("logsumexp never overflows; of -inf alone and of nothing it is -inf") {
  CHECK(reduced(OpKind::LogSumExp, {1000, 1000}) == doctest::Approx(1000 + std::log(2)));
  CHECK(reduced(OpKind::LogSumExp, {-kInf, -kInf}) == -kInf);
  CHECK(reduced(OpKind::LogSumExp, {}) == -kInf);
  CHECK(reduced(OpKind::LogSumExp, {-kInf, 3}) == 3);
  CHECK(reduced(OpKind::LogSumExp, {kInf, 3}) == kInf);
  CHECK(std::isnan(reduced(OpKind::LogSumExp, {kInf, kNan})));
}

TEST_CASE("norms of any order, whose powers may leave the range of the type") {
  auto order = [](double p) { return with(over({0}), "ord", p); };
  CHECK(reduced(OpKind::Norm, {3, -4}) == 5);
  CHECK(reduced(OpKind::Norm, {3, -4}, order(1)) == 7);
  CHECK(reduced(OpKind::Norm, {1, -2, 2}, order(3)) == doctest::Approx(std::cbrt(17)));
  CHECK(reduced(OpKind::Norm, {1, 4}, order(0.5)) == doctest::Approx(9));
  CHECK(reduced(OpKind::Norm, {3e30, 4e30}) == doctest::Approx(5e30));
  CHECK(reduced(OpKind::Norm, {3e-30, 4e-30}) == doctest::Approx(5e-30).epsilon(1e-6).scale(0));
  CHECK(reduced(OpKind::Norm, {3e38, 3e38}) == kInf);
  for (double p : {1.0, 2.0, 3.0, 0.5}) {
    CHECK(reduced(OpKind::Norm, {}, order(p)) == 0);
    CHECK(reduced(OpKind::Norm, {0, -0.0}, order(p)) == 0);
    CHECK(reduced(OpKind::Norm, {1, -kInf}, order(p)) == kInf);
    CHECK(std::isnan(reduced(OpKind::Norm, {kInf, kNan}, order(p))));
  }
  InterpreterTensor huge = vector_of(DType::F64, {3e200, 4e200});
  CHECK(eval_op(OpKind::Norm, {huge}, over({0})).floats[0] == doctest::Approx(5e200));
}
