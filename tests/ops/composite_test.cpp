// SPDX-License-Identifier: Apache-2.0
// Softmax and cross entropy with their gradients: values, conventions for masked rows, ignored
// labels and bad indices, and derivatives against differences.
#include <support/random_array.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

InterpreterTensor matrix(int64_t rows, int64_t columns, std::initializer_list<double> values) {
  return make_tensor(Type(DType::F64, {rows, columns}), values);
}

InterpreterTensor labels_of(std::initializer_list<double> values) {
  return make_tensor(Type(DType::I32, {static_cast<int64_t>(values.size())}), values);
}

double loss(const InterpreterTensor& logits, const InterpreterTensor& labels, Attrs attrs) {
  return eval_op(OpKind::CrossEntropy, {logits, labels}, std::move(attrs)).floats[0];
}

/// Central differences of Σ weight × f(x) against `gradient`.
void check_gradient(InterpreterTensor x, const InterpreterTensor& gradient, auto weighted) {
  for (size_t i = 0; i < x.floats.size(); ++i) {
    double kept = x.floats[i], step = 1e-5;
    x.floats[i] = kept + step;
    double above = weighted(x);
    x.floats[i] = kept - step;
    double below = weighted(x);
    x.floats[i] = kept;
    CHECK(gradient.floats[i] == doctest::Approx((above - below) / (2 * step)).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("softmax sums to 1 along its axis and does not overflow") {
  InterpreterTensor x = random_array('a', Type(DType::F64, {3, 5, 2}), 7);
  x.floats[0] = 1000;
  InterpreterTensor y = eval_op(OpKind::Softmax, {x}, {{"axis", 1}});
  InterpreterTensor z = eval_op(OpKind::LogSoftmax, {x}, {{"axis", 1}});
  for (size_t o = 0; o < 3; ++o)
    for (size_t i = 0; i < 2; ++i) {
      double sum = 0;
      for (size_t k = 0; k < 5; ++k) {
        size_t at = (o * 5 + k) * 2 + i;
        sum += y.floats[at];
        CHECK(std::exp(z.floats[at]) == doctest::Approx(y.floats[at]));
      }
      CHECK(sum == doctest::Approx(1));
    }
  CHECK(y.floats[0] == 1);
}

TEST_CASE("a row of -inf has softmax 0 and log_softmax -inf, +inf gives NaN") {
  InterpreterTensor masked = matrix(1, 2, {-kInfinity, -kInfinity});
  InterpreterTensor ones = matrix(1, 2, {1, 1});
  CHECK(eval_op(OpKind::Softmax, {masked}, {{"axis", 1}}).floats == std::vector<double>{0, 0});
  InterpreterTensor log = eval_op(OpKind::LogSoftmax, {masked}, {{"axis", 1}});
  CHECK(log.floats == std::vector<double>{-kInfinity, -kInfinity});
  CHECK(eval_op(OpKind::LogSoftmaxGrad, {log, ones}, {{"axis", 1}}).floats ==
        std::vector<double>{0, 0});
  CHECK(eval_op(OpKind::SoftmaxGrad, {matrix(1, 2, {0, 0}), ones}, {{"axis", 1}}).floats ==
        std::vector<double>{0, 0});
  InterpreterTensor bad = matrix(1, 2, {kInfinity, 0});
  CHECK(std::isnan(eval_op(OpKind::Softmax, {bad}, {{"axis", 1}}).floats[1]));
  CHECK(std::isnan(eval_op(OpKind::LogSoftmax, {bad}, {{"axis", 1}}).floats[0]));
  InterpreterTensor part = matrix(1, 2, {-kInfinity, 3});
  CHECK(eval_op(OpKind::Softmax, {part}, {{"axis", 1}}).floats == std::vector<double>{0, 1});
}

TEST_CASE("softmax gradients agree with differences") {
  InterpreterTensor x = random_array('s', Type(DType::F64, {2, 4}), 3);
  InterpreterTensor dy = random_array('s', x.type, 4);
  for (auto [forward, backward] : {std::pair(OpKind::Softmax, OpKind::SoftmaxGrad),
                                   std::pair(OpKind::LogSoftmax, OpKind::LogSoftmaxGrad)}) {
    InterpreterTensor y = eval_op(forward, {x}, {{"axis", 1}});
    InterpreterTensor dx = eval_op(backward, {y, dy}, {{"axis", 1}});
    check_gradient(x, dx, [&, kind = forward](const InterpreterTensor& at) {
      InterpreterTensor value = eval_op(kind, {at}, {{"axis", 1}});
      return std::inner_product(value.floats.begin(), value.floats.end(), dy.floats.begin(), 0.0);
    });
  }
}

TEST_CASE("cross entropy: mean over targets that are not ignored, sum, and one loss a row") {
  InterpreterTensor x = matrix(3, 2, {1, 2, 0, 0, 3, -1});
  InterpreterTensor labels = labels_of({0, -100, 1});
  double first = std::log(std::exp(1) + std::exp(2)) - 1;
  double third = std::log(std::exp(3) + std::exp(-1)) + 1;
  CHECK(loss(x, labels, {}) == doctest::Approx((first + third) / 2));
  CHECK(loss(x, labels, {{"reduce", "sum"}}) == doctest::Approx(first + third));
  InterpreterTensor each = eval_op(OpKind::CrossEntropy, {x, labels}, {{"reduce", "none"}});
  CHECK(each.type == Type(DType::F64, {3}));
  CHECK(each.floats[1] == 0);
  CHECK(each.floats[2] == doctest::Approx(third));
  CHECK(loss(x, labels_of({0, 7, 1}), {{"ignore_index", 7}}) ==
        doctest::Approx((first + third) / 2));
}

TEST_CASE("cross entropy of nothing but ignored targets is 0 with gradients 0") {
  InterpreterTensor x = matrix(2, 2, {1, kInfinity, 2, 3});
  InterpreterTensor labels = labels_of({-100, -100});
  CHECK(loss(x, labels, {}) == 0);
  InterpreterTensor seed = full_tensor(Type(DType::F64, {}), 1);
  CHECK(eval_op(OpKind::CrossEntropyGrad, {x, labels, seed}).floats == std::vector<double>(4, 0.0));
}

TEST_CASE("a label out of range sets the range flag and adds nothing") {
  InterpreterTensor x = matrix(2, 2, {1, 2, 3, 4});
  InterpreterTensor seed = full_tensor(Type(DType::F64, {}), 1);
  for (double bad : {2.0, -1.0}) {
    RunResult result = run_op(OpKind::CrossEntropy, {x, labels_of({bad, 0})}, {{"reduce", "sum"}});
    CHECK(result.index_range);
    CHECK(result.results[0].floats[0] == doctest::Approx(std::log(1 + std::exp(1))));
    RunResult gradient = run_op(OpKind::CrossEntropyGrad, {x, labels_of({bad, 0}), seed});
    CHECK(gradient.index_range);
    CHECK(gradient.results[0].floats[0] == 0);
  }
  CHECK_FALSE(run_op(OpKind::CrossEntropy, {x, labels_of({1, -100})}).index_range);
}

TEST_CASE("label smoothing mixes in the mean over classes, on counted rows only") {
  InterpreterTensor x = matrix(2, 3, {1, 2, 3, 4, 5, 6});
  InterpreterTensor p = eval_op(OpKind::LogSoftmax, {x}, {{"axis", 1}});
  double nll = -p.floats[2], spread = -(p.floats[0] + p.floats[1] + p.floats[2]) / 3;
  CHECK(loss(x, labels_of({2, -100}), {{"label_smoothing", 0.1}}) ==
        doctest::Approx(0.9 * nll + 0.1 * spread));
  CHECK(loss(x, labels_of({2, -100}), {{"label_smoothing", 1.0}}) == doctest::Approx(spread));
  // Without smoothing an impossible other class costs nothing.
  CHECK(std::isfinite(loss(matrix(1, 2, {0, -kInfinity}), labels_of({0}), {})));
}

TEST_CASE("cross entropy gradients agree with differences") {
  InterpreterTensor x = random_array('s', Type(DType::F64, {4, 3}), 11);
  InterpreterTensor labels = labels_of({0, 2, -100, 1});
  for (const char* reduce : {"mean", "sum", "none"})
    for (double smoothing : {0.0, 0.2}) {
      Attrs attrs{{"reduce", reduce}, {"label_smoothing", smoothing}};
      bool each = std::string(reduce) == "none";
      InterpreterTensor dloss = random_array('n', Type(DType::F64, each ? Shape{4} : Shape{}), 5);
      InterpreterTensor dx = eval_op(OpKind::CrossEntropyGrad, {x, labels, dloss}, attrs);
      check_gradient(x, dx, [&](const InterpreterTensor& at) {
        InterpreterTensor value = eval_op(OpKind::CrossEntropy, {at, labels}, attrs);
        return std::inner_product(value.floats.begin(), value.floats.end(), dloss.floats.begin(),
                                  0.0);
      });
    }
}

TEST_CASE("composites of 16-bit types are computed wide and rounded once") {
  InterpreterTensor wide = random_array('s', Type(DType::F16, {3, 7}), 21);
  InterpreterTensor exact = wide;
  exact.type = Type(DType::F64, {3, 7});
  for (OpKind kind : {OpKind::Softmax, OpKind::LogSoftmax}) {
    InterpreterTensor narrow = eval_op(kind, {wide}, {{"axis", 1}});
    InterpreterTensor reference = eval_op(kind, {exact}, {{"axis", 1}});
    CHECK(narrow.type.dtype == DType::F16);
    for (size_t i = 0; i < narrow.floats.size(); ++i)
      CHECK(narrow.floats[i] == round_to(DType::F16, reference.floats[i]));
  }
}
