// SPDX-License-Identifier: Apache-2.0
// Gradients where the derivative does not exist or is infinite: each convention by a sentence.
#include <mezzo/ir/error.h>

#include <cmath>
#include <limits>
#include <ops/gradient_support.h>

namespace mezzo::test {
namespace {

using ir::Attr;
using ir::Builder;
using ir::DType;
using ir::make_tensor;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

constexpr double kInf = std::numeric_limits<double>::infinity();

Type vector_of(int64_t length) { return {DType::F64, Shape{length}}; }

std::vector<double> unary(OpKind kind, std::initializer_list<double> points) {
  auto x = make_tensor(vector_of(static_cast<int64_t>(points.size())), points);
  return numbers(gradients_at({x}, [&](Builder& b, std::span<const Value> v) {
                   return b.make(kind, {v[0]});
                 }).by_input[0]);
}

std::vector<std::vector<double>> binary(OpKind kind, std::initializer_list<double> left,
                                        std::initializer_list<double> right) {
  auto x = make_tensor(vector_of(static_cast<int64_t>(left.size())), left);
  auto y = make_tensor(vector_of(static_cast<int64_t>(right.size())), right);
  Gradients g = gradients_at(
      {x, y}, [&](Builder& b, std::span<const Value> v) { return b.make(kind, {v[0], v[1]}); });
  return {numbers(g.by_input[0]), numbers(g.by_input[1])};
}

std::vector<std::vector<double>> ternary(OpKind kind, std::initializer_list<double> first,
                                         std::initializer_list<double> second,
                                         std::initializer_list<double> third) {
  std::vector<ir::InterpreterTensor> points;
  for (const auto& list : {first, second, third})
    points.push_back(make_tensor(vector_of(static_cast<int64_t>(list.size())), list));
  Gradients g = gradients_at(points, [&](Builder& b, std::span<const Value> v) {
    return b.make(kind, {v[0], v[1], v[2]});
  });
  return {numbers(g.by_input[0]), numbers(g.by_input[1]), numbers(g.by_input[2])};
}

using Numbers = std::vector<double>;

TEST_CASE("relu and abs have gradient 0 at 0") {
  CHECK(unary(OpKind::Relu, {-1, 0, -0.0, 2}) == Numbers{0, 0, 0, 1});
  CHECK(unary(OpKind::Abs, {-1, 0, -0.0, 2}) == Numbers{-1, 0, 0, 1});
}

TEST_CASE("maximum and minimum give half to each of equal operands") {
  for (OpKind kind : {OpKind::Maximum, OpKind::Minimum}) {
    auto g = binary(kind, {1, 2, 3, 0}, {1, 3, 2, -0.0});
    double more = kind == OpKind::Maximum ? 0 : 1;
    CHECK(g[0] == Numbers{0.5, more, 1 - more, 0.5});
    CHECK(g[1] == Numbers{0.5, 1 - more, more, 0.5});
  }
}

TEST_CASE("max and min reductions give all to the first extremum") {
  auto x = make_tensor({DType::F64, {2, 3}}, {5, 5, 1, 1, 0, 0});
  auto reduce = [&](OpKind kind, std::vector<int64_t> axes) {
    return numbers(gradients_at({x}, [&](Builder& b, std::span<const Value> v) {
                     return b.make(kind, {v[0]}, {{"axes", Attr(axes)}});
                   }).by_input[0]);
  };
  CHECK(reduce(OpKind::Max, {1}) == Numbers{1, 0, 0, 1, 0, 0});
  CHECK(reduce(OpKind::Min, {1}) == Numbers{0, 0, 1, 0, 1, 0});
  CHECK(reduce(OpKind::Max, {0, 1}) == Numbers{1, 0, 0, 0, 0, 0});
  CHECK(reduce(OpKind::Min, {0, 1}) == Numbers{0, 0, 0, 0, 1, 0});
  CHECK(reduce(OpKind::Max, {0}) == Numbers{1, 1, 1, 0, 0, 0});
}

TEST_CASE("sqrt has the subgradient 0 at 0, and so has a norm") {
  CHECK(unary(OpKind::Sqrt, {0, 4}) == Numbers{0, 0.25});
  auto zeros = make_tensor(vector_of(2), {0, 0});
  auto norm = [](Builder& b, std::span<const Value> v) {
    return b.make(OpKind::Sqrt, {b.sum(b.make(OpKind::Square, {v[0]}), {0})});
  };
  CHECK(numbers(gradients_at({zeros}, norm).by_input[0]) == Numbers{0, 0});
}

TEST_CASE("pow has gradient 0 by the base at exponent 0 and 1 at exponent 1, at base 0 too") {
  auto g = binary(OpKind::Pow, {0, 0, 0, 2, 0}, {0, 1, 2, 0, 0.5});
  CHECK(g[0] == Numbers{0, 1, 0, 0, kInf});
}

TEST_CASE("pow has gradient 0 by the exponent at base 0") {
  auto g = binary(OpKind::Pow, {0, 0, 1}, {0, 2, 5});
  CHECK(g[1] == Numbers{0, 0, 0});
}

TEST_CASE("cbrt has an infinite gradient at 0, arc sine and arc cosine at -1 and 1") {
  CHECK(unary(OpKind::Cbrt, {0, -0.0, 8}) == Numbers{kInf, kInf, 1.0 / 12});
  CHECK(unary(OpKind::Asin, {-1, 1, 0}) == Numbers{kInf, kInf, 1});
  CHECK(unary(OpKind::Acos, {-1, 1, 0}) == Numbers{-kInf, -kInf, -1});
  CHECK(unary(OpKind::Atanh, {-1, 1, 0}) == Numbers{kInf, kInf, 1});
  CHECK(unary(OpKind::Acosh, {1}) == Numbers{kInf});
}

TEST_CASE("hypot has the subgradient 0 at the origin; the angle of the origin has no gradient") {
  auto g = binary(OpKind::Hypot, {0, 3, -0.0}, {0, -4, 5});
  CHECK(g[0] == Numbers{0, 0.6, 0});
  CHECK(g[1] == Numbers{0, -0.8, 1});
  auto angle = binary(OpKind::Atan2, {0, 0}, {0, 2});
  CHECK(std::isnan(angle[0][0]));
  CHECK(std::isnan(angle[1][0]));
  CHECK(angle[0][1] == 0.5);
  CHECK(angle[1][1] == 0);
}

TEST_CASE("logaddexp of minus infinities has gradient 0, of equal operands half each") {
  auto g = binary(OpKind::LogAddExp, {-kInf, 2, -kInf, 1000}, {-kInf, 2, 1, -kInf});
  CHECK(g[0] == Numbers{0, 0.5, 0, 1});
  CHECK(g[1] == Numbers{0, 0.5, 1, 0});
}

TEST_CASE("gradients of asinh, acosh and atan2 are finite where a square is not") {
  CHECK(unary(OpKind::Asinh, {1e200})[0] == doctest::Approx(1e-200).epsilon(1e-15).scale(0));
  CHECK(unary(OpKind::Acosh, {1e200})[0] == doctest::Approx(1e-200).epsilon(1e-15).scale(0));
  auto g = binary(OpKind::Atan2, {1e200}, {1e200});
  CHECK(g[0][0] == doctest::Approx(5e-201).epsilon(1e-15).scale(0));
  CHECK(g[1][0] == doctest::Approx(-5e-201).epsilon(1e-15).scale(0));
}

TEST_CASE(
    "relu6, hard_tanh, hard_sigmoid and hard_swish have the gradient of their plateau on a bound") {
  CHECK(unary(OpKind::Relu6, {-1, 0, -0.0, 3, 6, 7}) == Numbers{0, 0, 0, 1, 0, 0});
  CHECK(unary(OpKind::HardTanh, {-2, -1, 0, 1, 2}) == Numbers{0, 0, 1, 0, 0});
  CHECK(unary(OpKind::HardSigmoid, {-4, -3, 0, 3, 4}) == Numbers{0, 0, 1.0 / 6, 0, 0});
  CHECK(unary(OpKind::HardSwish, {-4, -3, 0, 3, 4}) == Numbers{0, 0, 0.5, 1, 1});
}

TEST_CASE("clamp has gradient 1 inside and on the bound; what is outside goes to its bound") {
  auto g = ternary(OpKind::Clamp, {-2, -1, 0, 1, 2, 0, -2, 3}, {-1, -1, -1, -1, -1, 2, 1, 2},
                   {1, 1, 1, 1, 1, 1, 1, 2});
  CHECK(g[0] == Numbers{0, 1, 1, 1, 0, 0, 0, 0});
  CHECK(g[1] == Numbers{1, 0, 0, 0, 0, 0, 1, 0});
  // Of bounds that have changed places the upper one is the value.
  CHECK(g[2] == Numbers{0, 0, 0, 0, 1, 1, 0, 1});
}

TEST_CASE("leaky_relu and elu have the gradient of their lower side at 0, celu has 1") {
  auto leaky = binary(OpKind::LeakyRelu, {-2, 0, -0.0, 3}, {0.25, 0.25, 0.5, 0.25});
  CHECK(leaky[0] == Numbers{0.25, 0.25, 0.5, 1});
  CHECK(leaky[1] == Numbers{-2, 0, 0, 0});
  auto elu = binary(OpKind::Elu, {0, 2, 800, -kInf}, {0.5, 0.5, 0.5, 0.5});
  CHECK(elu[0] == Numbers{0.5, 1, 1, 0});
  CHECK(elu[1] == Numbers{0, 0, 0, -1});
  auto celu = binary(OpKind::Celu, {0, 2, -kInf}, {0.5, 0.5, 0.5});
  CHECK(celu[0] == Numbers{1, 1, 0});
  CHECK(celu[1] == Numbers{0, 0, -1});
  CHECK(unary(OpKind::Selu, {0, 1})[0] == doctest::Approx(1.7580993408473766));
  CHECK(unary(OpKind::Selu, {0, 1})[1] == 1.0507009873554805);
}

TEST_CASE("xlogy and xlog1py have gradient 0 where their factor is 0 and the logarithm is not") {
  auto g = binary(OpKind::Xlogy, {0, 0, 0, 2, -0.0}, {0, -1, 2, 4, 0});
  CHECK(g[0] == Numbers{0, 0, std::log(2.0), std::log(4.0), 0});
  CHECK(g[1] == Numbers{0, 0, 0, 0.5, 0});
  auto shifted = binary(OpKind::Xlog1py, {0, 0, 0, 2}, {-1, -3, 1, 3});
  CHECK(shifted[0] == Numbers{0, 0, std::log1p(1.0), std::log1p(3.0)});
  CHECK(shifted[1] == Numbers{0, 0, 0, 0.5});
}

TEST_CASE("remainder has gradient 1 by the dividend and minus the whole quotient by the divisor") {
  auto g = binary(OpKind::Remainder, {7, -7, 7, 6}, {2, 2, -2, 2});
  CHECK(g[0] == Numbers{1, 1, 1, 1});
  CHECK(g[1] == Numbers{-3, 4, 4, -3});
  auto floored = binary(OpKind::FloorDiv, {7}, {2});
  CHECK(floored[0] == Numbers{0});
  CHECK(floored[1] == Numbers{0});
}

TEST_CASE("smooth activations have the gradient of their limits far out") {
  for (OpKind kind : {OpKind::Silu, OpKind::Mish, OpKind::GeluTanh}) {
    INFO(std::string(to_string(kind)));
    CHECK(unary(kind, {-kInf, -1e30, 1e30, kInf}) == Numbers{0, 0, 1, 1});
  }
  CHECK(unary(OpKind::Softsign, {-kInf, 0, -0.0, kInf}) == Numbers{0, 1, 1, 0});
}

TEST_CASE("a third derivative of lgamma is refused") {
  CHECK(unary(OpKind::Digamma, {2})[0] == doctest::Approx(0.6449340668482264));
  CHECK_THROWS_WITH_AS(unary(OpKind::Trigamma, {2}),
                       doctest::Contains("gradient: trigamma has no derivative here; lgamma can be "
                                         "differentiated twice and digamma once"),
                       UserError);
}

TEST_CASE("a branch that where does not take gives exactly 0, infinite derivatives too") {
  auto x = make_tensor(vector_of(3), {0, 4, 1});
  auto masked = [](Builder& b, std::span<const Value> v) {
    Value zero = b.constant({DType::F64, {}}, 0);
    Value taken = b.make(OpKind::Gt, {v[0], zero});
    return b.make(OpKind::Where, {taken, b.make(OpKind::Log, {v[0]}), zero});
  };
  CHECK(numbers(gradients_at({x}, masked).by_input[0]) == Numbers{0, 0.25, 1});
}

TEST_CASE("stop_gradient lets no gradient through") {
  auto x = make_tensor(vector_of(2), {3, 4});
  auto stopped = [](Builder& b, std::span<const Value> v) {
    return b.make(OpKind::Mul, {v[0], b.make(OpKind::StopGradient, {v[0]})});
  };
  CHECK(numbers(gradients_at({x}, stopped).by_input[0]) == Numbers{3, 4});
}

TEST_CASE("what the loss does not read has gradient 0") {
  auto x = make_tensor(vector_of(2), {3, 4});
  Gradients g = gradients_at({x, x}, [](Builder& b, std::span<const Value> v) {
    return b.make(OpKind::Floor, {b.make(OpKind::Mul, {v[0], v[0]})});
  });
  CHECK(numbers(g.by_input[0]) == Numbers{0, 0});
  CHECK(numbers(g.by_input[1]) == Numbers{0, 0});
}

TEST_CASE("a softmax row of minus infinity has gradient 0") {
  auto x = make_tensor({DType::F64, {1, 3}}, {-kInf, -kInf, -kInf});
  for (OpKind kind : {OpKind::Softmax, OpKind::LogSoftmax}) {
    INFO(std::string(to_string(kind)));
    auto build = [&](Builder& b, std::span<const Value> v) {
      return b.make(kind, {v[0]}, {{"axis", 1}});
    };
    CHECK(numbers(gradients_at({x}, build).by_input[0]) == Numbers{0, 0, 0});
  }
}

TEST_CASE("cross entropy with all targets ignored has loss 0 and gradient 0") {
  auto x = make_tensor({DType::F64, {2, 2}}, {1, 2, 3, 4});
  auto labels = make_tensor({DType::I32, {2}}, {-100, -100});
  Gradients g = gradients_at({x, labels}, [](Builder& b, std::span<const Value> v) {
    return b.make(OpKind::CrossEntropy, {v[0], v[1]});
  });
  CHECK(g.loss == 0);
  CHECK(numbers(g.by_input[0]) == Numbers{0, 0, 0, 0});
}

TEST_CASE("the gradient of a cast is cast back") {
  auto x = make_tensor({DType::F32, {2}}, {3, 1e-3});
  Gradients g = gradients_at({x}, [](Builder& b, std::span<const Value> v) {
    return b.make(OpKind::Square, {b.cast(v[0], DType::F16)});
  });
  CHECK(g.by_input[0].type.dtype == DType::F32);
  CHECK(numbers(g.by_input[0]) == Numbers{6, 2 * ir::round_to(DType::F16, 1e-3)});
}

TEST_CASE("the gradient of a 16-bit mean over more elements than the type can count is not zero") {
  auto x = ir::full_tensor({DType::F16, {100000}}, 1);
  Gradients g = gradients_at({x}, [](Builder& b, std::span<const Value> v) {
    return b.make(OpKind::Mean, {v[0]}, {{"axes", Attr(std::vector<int64_t>{0})}});
  });
  CHECK(g.by_input[0].type.dtype == DType::F32);
  CHECK(g.by_input[0].number(7) == ir::round_to(DType::F16, 1e-5));
}

}  // namespace
}  // namespace mezzo::test
