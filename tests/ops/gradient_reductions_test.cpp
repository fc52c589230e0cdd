// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions, scans and orders where they are a matter of convention: zeros, ties,
// NaN, nothing but -inf, nothing at all; in f64 and in 16 bits.
#include <mezzo/ir/dtype.h>

#include <cmath>
#include <limits>
#include <ops/gradient_support.h>

namespace mezzo::test {
namespace {

using ir::Attr;
using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::InterpreterTensor;
using ir::OpKind;
using ir::Value;
using Numbers = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Attrs over(std::vector<int64_t> axes) { return {{"axes", Attr(axes)}}; }

Attrs with(Attrs attrs, const char* name, Attr value) {
  attrs.set(name, std::move(value));
  return attrs;
}

/// The gradient of the sum of what `kind` makes of a vector.
Numbers slope(OpKind kind, Numbers x, Attrs attrs, DType dtype = DType::F64) {
  const ir::Type type(dtype, {static_cast<int64_t>(x.size())});
  return numbers(gradients_at({ir::make_tensor(type, x)}, [&](Builder& b, auto v) {
                   std::vector<Value> operands{v[0]};
                   return b.create(kind, operands, attrs)->result();
                 }).by_input[0]);
}

/// The same, each element of the result weighed.
Numbers slope_by(Numbers weights, OpKind kind, Numbers x, Attrs attrs) {
  const ir::Type type(DType::F64, {static_cast<int64_t>(x.size())});
  const ir::Type weight_type(DType::F64, {static_cast<int64_t>(weights.size())});
  return numbers(gradients_at({ir::make_tensor(type, x), ir::make_tensor(weight_type, weights)},
                              [&](Builder& b, auto v) {
                                std::vector<Value> operands{v[0]};
                                Value y = b.create(kind, operands, attrs)->result();
                                return b.make(OpKind::Mul, {y, v[1]});
                              })
                     .by_input[0]);
}

TEST_CASE("the gradient of a product is that of the others, with no, one and several zeros") {
  CHECK(slope(OpKind::Prod, {2, 3, 4}, over({0})) == Numbers{12, 8, 6});
  CHECK(slope(OpKind::Prod, {2, 0, 4}, over({0})) == Numbers{0, 8, 0});
  CHECK(slope(OpKind::Prod, {0, 3, 0}, over({0})) == Numbers{0, 0, 0});
  CHECK(slope(OpKind::Prod, {1e200, 1e200}, over({0})) == Numbers{1e200, 1e200});
  CHECK(slope(OpKind::Prod, {30, 0.5, 30}, over({0}), DType::F16) == Numbers{15, 900, 15});
}

TEST_CASE("the gradient of a running product is right with zeros") {
  CHECK(slope_by({1, 10, 100}, OpKind::Cumprod, {2, 3, 4}, {{"axis", 0}}) ==
        Numbers{1 + 30 + 1200, 20 + 800, 600});
  CHECK(slope_by({1, 10, 100}, OpKind::Cumprod, {2, 0, 4}, {{"axis", 0}}) ==
        Numbers{1, 20 + 800, 0});
  CHECK(slope_by({1, 10, 100}, OpKind::Cumprod, {0, 0, 4}, {{"axis", 0}}) == Numbers{1, 0, 0});
  CHECK(slope_by({1, 10, 100}, OpKind::Cumprod, {2, 0, 4}, {{"axis", 0}, {"exclusive", true}}) ==
        Numbers{10 + 0, 200, 0});
}

TEST_CASE("a running extremum gives all to the first place that had it, a NaN to the first NaN") {
  CHECK(slope_by({1, 10, 100, 1000}, OpKind::Cummax, {1, 3, 3, 2}, {{"axis", 0}}) ==
        Numbers{1, 1110, 0, 0});
  CHECK(slope_by({1, 10, 100, 1000}, OpKind::Cummin, {2, 2, 1, 1}, {{"axis", 0}}) ==
        Numbers{11, 0, 1100, 0});
  CHECK(slope_by({1, 10, 100, 1000}, OpKind::Cummax, {1, 3, 3, 2},
                 {{"axis", 0}, {"reverse", true}}) == Numbers{0, 0, 111, 1000});
  CHECK(slope_by({1, 10, 100, 1000}, OpKind::Cummax, {1, kNan, 5, kNan}, {{"axis", 0}}) ==
        Numbers{1, 1110, 0, 0});
  CHECK(slope_by({1, 10}, OpKind::Cummax, {-0.0, 0.0}, {{"axis", 0}}) == Numbers{11, 0});
}

TEST_CASE("stddev and norms have the subgradient 0 at 0") {
  CHECK(slope(OpKind::Stddev, {3, 3, 3}, over({0})) == Numbers{0, 0, 0});
  CHECK(slope(OpKind::Var, {3, 3, 3}, over({0})) == Numbers{0, 0, 0});
  for (double p : {1.0, 2.0, 3.0, 0.5}) {
    CHECK(slope(OpKind::Norm, {0, 0}, with(over({0}), "ord", p)) == Numbers{0, 0});
    CHECK(slope(OpKind::Norm, {0, 2}, with(over({0}), "ord", p)) == Numbers{0, 1});
  }
}

TEST_CASE("the gradient of a norm is finite where its squares are not") {
  const Numbers large = slope(OpKind::Norm, {3e200, 4e200}, over({0}));
  CHECK(large[0] == doctest::Approx(0.6));
  CHECK(large[1] == doctest::Approx(0.8));
  // The norm itself leaves f16.
  const Numbers narrow = slope(OpKind::Norm, {60000, 60000}, over({0}), DType::F16);
  CHECK(narrow[0] == doctest::Approx(std::sqrt(0.5)).epsilon(1e-3));
}

TEST_CASE("log-sum-exp of nothing but -inf has gradient 0, of f16 that of exact probabilities") {
  CHECK(slope(OpKind::LogSumExp, {-kInf, -kInf}, over({0})) == Numbers{0, 0});
  CHECK(slope(OpKind::LogSumExp, {-kInf, 2}, over({0})) == Numbers{0, 1});
  CHECK(slope(OpKind::LogSumExp, {1000, 1000}, over({0}), DType::F16) == Numbers{0.5, 0.5});
}

TEST_CASE("a masked element of a statistic gets exactly 0") {
  // 0 / 0 and 1 / 0 stand behind a cotangent of 0.
  auto masked = [](OpKind kind) {
    return numbers(gradients_at({ir::make_tensor({DType::F64, {1}}, {3})}, [&](Builder& b, auto v) {
                     Value y = b.make(kind, {v[0]}, over({0}));
                     Value zero = b.constant({DType::F64, {}}, 0);
                     return b.make(OpKind::Where, {b.make(OpKind::IsNan, {y}), zero, y});
                   }).by_input[0]);
  };
  CHECK(masked(OpKind::Var) == Numbers{0});
  CHECK(masked(OpKind::Stddev) == Numbers{0});
}

TEST_CASE("sort and topk send cotangents back where the values came from") {
  CHECK(slope_by({1, 10, 100}, OpKind::Sort, {5, kNan, -1}, {{"axis", 0}}) == Numbers{10, 100, 1});
  CHECK(slope_by({1, 10, 100}, OpKind::Sort, {2, 2, 1}, {{"axis", 0}}) == Numbers{10, 100, 1});
  CHECK(slope_by({1, 10}, OpKind::Topk, {5, 7, -1, 7}, {{"axis", 0}, {"k", 2}}) ==
        Numbers{0, 1, 0, 10});
  CHECK(slope_by({1, 10}, OpKind::Topk, {5, 7, -1, 7},
                 {{"axis", 0}, {"k", 2}, {"largest", false}}) == Numbers{10, 0, 1, 0});
}

TEST_CASE("a cotangent without elements stays so") {
  for (OpKind kind : {OpKind::Cumsum, OpKind::Cumprod, OpKind::Cummax, OpKind::Sort})
    CHECK(slope(kind, {}, {{"axis", 0}}).empty());
  for (OpKind kind : {OpKind::Prod, OpKind::Var, OpKind::Stddev, OpKind::LogSumExp, OpKind::Norm})
    CHECK(slope(kind, {}, over({0})).empty());
}

}  // namespace
}  // namespace mezzo::test
