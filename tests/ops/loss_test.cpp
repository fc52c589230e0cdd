// SPDX-License-Identifier: Apache-2.0
// Losses by the interpreter and by kernels: weights, probabilities as targets, what is ignored,
// ends of the range. Test names hold the numbers of collected reports where there are any.
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ops/convention_runs.h>

namespace mezzo::test {
namespace {

using namespace mezzo::ir;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16};

using Numbers = std::vector<double>;

InterpreterTensor tensor(DType dtype, Shape shape, const Numbers& values) {
  return make_tensor(Type(dtype, shape), std::span<const double>(values));
}
/// The op of all inputs, and what is wanted of its one result.
void check_op(OpKind kind, const std::vector<InterpreterTensor>& inputs, const Attrs& attrs,
              const Numbers& wanted, double tolerance) {
  check_runs(
      inputs,
      [&](Builder& b, std::span<const Value> x) {
        return std::vector<Value>{b.create(kind, x, attrs)->result()};
      },
      {wanted}, tolerance);
}

double loss(OpKind kind, const std::vector<InterpreterTensor>& inputs, const Attrs& attrs = {}) {
  return eval_op(kind, inputs, attrs).floats[0];
}

/// ln p of the rows [1, 2] and [3, -1].
const double kFirst[] = {-std::log(1 + std::exp(1.0)), -std::log(1 + std::exp(-1.0))};
const double kSecond[] = {-std::log(1 + std::exp(-4.0)), -std::log(1 + std::exp(4.0))};

TEST_CASE("a weighted mean is over the weights of the labels that are not ignored") {
  for (DType dtype : kTypes) {
    InterpreterTensor x = tensor(dtype, {3, 2}, {1, 2, 0, 0, 3, -1});
    InterpreterTensor labels = vector_of(DType::I32, {0, -100, 1}),
                      weight = vector_of(dtype, {2, 0.5});
    const double sum = -2 * kFirst[0] - 0.5 * kSecond[1];
    check_op(OpKind::CrossEntropy, {x, labels, weight}, {}, {sum / 2.5}, tolerance_of(dtype));
    check_op(OpKind::CrossEntropy, {x, labels, weight}, {{"reduce", "sum"}}, {sum},
             tolerance_of(dtype));
    check_op(OpKind::CrossEntropy, {x, labels, weight}, {{"reduce", "none"}},
             {-2 * kFirst[0], 0, -0.5 * kSecond[1]}, tolerance_of(dtype));
  }
}

TEST_CASE("smoothing spreads over the weighted classes, the mean stays over the labels' weights") {
  InterpreterTensor x = tensor(DType::F64, {1, 2}, {1, 2}), labels = vector_of(DType::I32, {0});
  InterpreterTensor weight = vector_of(DType::F64, {2, 0.5});
  const double wanted = (-0.8 * 2 * kFirst[0] - 0.2 / 2 * (2 * kFirst[0] + 0.5 * kFirst[1])) / 2;
  CHECK(loss(OpKind::CrossEntropy, {x, labels, weight}, {{"label_smoothing", 0.2}}) ==
        doctest::Approx(wanted).epsilon(1e-12));
}

TEST_CASE("where nothing counts, by label or by weight, loss and gradients are 0") {
  for (DType dtype : kTypes)
    for (bool ignored : {false, true}) {
      InterpreterTensor x = tensor(dtype, {2, 2}, {1, 2, 3, 4});
      InterpreterTensor labels =
          ignored ? vector_of(DType::I32, {-100, -100}) : vector_of(DType::I32, {0, 0});
      InterpreterTensor weight = vector_of(dtype, {0, 1}), one = tensor(dtype, {}, {1});
      check_op(OpKind::CrossEntropy, {x, labels, weight}, {}, {0}, 0);
      check_op(OpKind::CrossEntropyGrad, {x, labels, one, weight}, {}, {0, 0, 0, 0}, 0);
      check_op(OpKind::Nll, {x, labels, weight}, {}, {0}, 0);
    }
}

TEST_CASE("an ignored row and a class of weight 0 may hold anything") {
  for (DType dtype : kTypes)
    for (double bad : {kNan, kInf}) {
      InterpreterTensor labels = vector_of(DType::I32, {-100, 1});
      InterpreterTensor x = tensor(dtype, {2, 2}, {bad, 2, 3, -1});
      check_op(OpKind::CrossEntropy, {x, labels}, {}, {-kSecond[1]}, tolerance_of(dtype));
      const double p = std::exp(kSecond[1]);
      check_op(OpKind::CrossEntropyGrad, {x, labels, tensor(dtype, {}, {1})}, {},
               {0, 0, 1 - p, p - 1}, tolerance_of(dtype));
      check_op(OpKind::Nll, {x, labels}, {}, {1}, tolerance_of(dtype));
    }
  // -inf at a label that weighs nothing costs nothing.
  InterpreterTensor x = tensor(DType::F32, {2, 2}, {-kInf, 0, 1, 2}),
                    weight = vector_of(DType::F32, {0, 1});
  check_op(OpKind::CrossEntropy, {x, vector_of(DType::I32, {0, 1}), weight}, {}, {-kFirst[1]},
           1e-6);
}

TEST_CASE("labels out of range set the flag of nll and of a weighted loss") {
  InterpreterTensor x = tensor(DType::F32, {2, 2}, {1, 2, 3, 4}),
                    weight = vector_of(DType::F32, {1, 1});
  for (OpKind kind : {OpKind::Nll, OpKind::CrossEntropy})
    for (double bad : {2.0, -1.0}) {
      CHECK(run_op(kind, {x, vector_of(DType::I32, {bad, 0}), weight}).index_range);
      CHECK_FALSE(run_op(kind, {x, vector_of(DType::I32, {1, -100}), weight}).index_range);
    }
}

TEST_CASE("probabilities that are all at one class are that class") {
  for (DType dtype : kTypes) {
    InterpreterTensor x = tensor(dtype, {2, 2}, {1, 2, 3, -1});
    InterpreterTensor hot = tensor(dtype, {2, 2}, {1, 0, 0, 1});
    check_op(OpKind::SoftCrossEntropy, {x, hot}, {}, {-(kFirst[0] + kSecond[1]) / 2},
             tolerance_of(dtype));
    InterpreterTensor half = tensor(dtype, {2, 2}, {0.5, 0.5, 0, 0});
    check_op(OpKind::SoftCrossEntropy, {x, half}, {{"reduce", "none"}},
             {-(kFirst[0] + kFirst[1]) / 2, 0}, tolerance_of(dtype));
    const double p = std::exp(kFirst[0]);
    check_op(OpKind::SoftCrossEntropyGrad, {x, half, vector_of(dtype, {2, 2})},
             {{"reduce", "none"}}, {2 * (p - 0.5), 2 * (0.5 - p), 0, 0}, tolerance_of(dtype));
  }
}

TEST_CASE("a probability of 0 costs nothing, also where the logit is -inf") {
  InterpreterTensor x = tensor(DType::F32, {1, 2}, {0, -kInf});
  check_op(OpKind::SoftCrossEntropy, {x, tensor(DType::F32, {1, 2}, {1, 0})}, {}, {0}, 0);
  check_op(OpKind::SoftCrossEntropy, {x, tensor(DType::F32, {1, 2}, {0.5, 0.5})}, {}, {kInf}, 0);
}

TEST_CASE("RD-17: label smoothing sums 50,000 log-probabilities in f32") {
  for (DType dtype : kTypes)
    check_op(OpKind::CrossEntropy,
             {full_tensor(Type(dtype, {1, 50000}), 0), vector_of(DType::I32, {7})},
             {{"label_smoothing", 0.1}}, {10.8197783}, std::max(tolerance_of(dtype), 2e-5));
}

TEST_CASE("bce clamps logarithms at -100") {
  for (DType dtype : kTypes) {
    InterpreterTensor p = vector_of(dtype, {0, 1, 0, 1, 0.5}),
                      t = vector_of(dtype, {1, 0, 0, 1, 1});
    check_op(OpKind::Bce, {p, t}, {}, {100, 100, 0, 0, std::log(2.0)}, tolerance_of(dtype));
  }
  CHECK(std::isnan(loss(OpKind::Bce, {vector_of(DType::F32, {-0.5}), vector_of(DType::F32, {0})})));
  CHECK(std::isnan(loss(OpKind::Bce, {vector_of(DType::F32, {1.5}), vector_of(DType::F32, {1})})));
}

TEST_CASE("TR-11: bce_with_logits keeps the tail of a logit of -50") {
  for (DType dtype : kTypes)
    check_op(OpKind::BceWithLogits, {vector_of(dtype, {-50}), vector_of(dtype, {1})}, {}, {50},
             tolerance_of(dtype));
}

TEST_CASE("TR-13: bce_with_logits of infinite logits") {
  for (DType dtype : kTypes)
    check_op(OpKind::BceWithLogits,
             {vector_of(dtype, {-kInf, kInf, kInf, -kInf}), vector_of(dtype, {0, 1, 0, 1})}, {},
             {0, 0, kInf, kInf}, 0);
}

TEST_CASE("pos_weight weighs the positive targets, by the last axis") {
  for (DType dtype : kTypes) {
    InterpreterTensor x = tensor(dtype, {2, 2}, {1, 2, -1, 0}),
                      t = tensor(dtype, {2, 2}, {1, 1, 0, 1});
    auto softplus = [](double v) { return std::log1p(std::exp(v)); };
    check_op(OpKind::BceWithLogits, {x, t, vector_of(dtype, {2, 4})}, {},
             {2 * softplus(-1), 4 * softplus(-2), softplus(-1), 4 * std::log(2.0)},
             tolerance_of(dtype));
  }
}

TEST_CASE("GE-13: a target of 0 has no part in kl_div") {
  for (DType dtype : kTypes) {
    const double log_q = std::log(0.5);
    InterpreterTensor x = vector_of(dtype, {log_q, log_q}), t = vector_of(dtype, {0, 1});
    check_op(OpKind::KlDiv, {x, t}, {}, {0, 0.693147181}, tolerance_of(dtype));
    check_op(OpKind::KlDiv, {x, vector_of(dtype, {-kInf, 0})}, {{"log_target", true}},
             {0, 0.693147181}, tolerance_of(dtype));
  }
}

TEST_CASE("16-bit losses are computed wide and rounded once") {
  for (DType dtype : {DType::F16, DType::BF16}) {
    InterpreterTensor x = tensor(dtype, {2, 3}, {0.3, -1.7, 2.9, 5.1, 0.02, -3.3});
    InterpreterTensor t = tensor(dtype, {2, 3}, {0.1, 0.7, 0.2, 0.3, 0.3, 0.4});
    InterpreterTensor wide_x = x, wide_t = t;
    wide_x.type.dtype = wide_t.type.dtype = DType::F64;
    for (OpKind kind : {OpKind::SoftCrossEntropy, OpKind::BceWithLogits, OpKind::KlDiv}) {
      InterpreterTensor narrow = eval_op(kind, {x, t}), wide = eval_op(kind, {wide_x, wide_t});
      for (size_t i = 0; i < narrow.floats.size(); ++i)
        CHECK(narrow.floats[i] == round_to(dtype, wide.floats[i]));
    }
  }
}

}  // namespace
}  // namespace mezzo::test
