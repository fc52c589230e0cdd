// SPDX-License-Identifier: Apache-2.0
// Reported faults of gradients at edge points, as values and gradients on every back end. Test
// names hold their ids (ids.txt).
#include <cases/edge_cases.h>
#include <cmath>

namespace mezzo::test {
namespace {

using namespace mezzo::ir;

TEST_CASE("GE-01: norm at zero has gradient 0, however it is written") {
  const BuildValue written[] = {
      [](Builder& b, Values v) {
        return b.make(OpKind::Sqrt, {b.sum(b.make(OpKind::Mul, {v[0], v[0]}), {1})});
      },
      [](Builder& b, Values v) {
        return b.make(OpKind::Sqrt, {b.sum(b.make(OpKind::Square, {v[0]}), {1})});
      },
      [](Builder& b, Values v) {
        const Value row = b.reshape(v[0], {v[0].shape()[0], 1, 2});
        const Value product = b.make(OpKind::Matmul, {row, row}, {{"transpose_b", true}});
        return b.make(OpKind::Sqrt, {product});
      },
      [](Builder& b, Values v) {
        return b.make(OpKind::Norm, {v[0]}, {{"axes", Attr(std::vector<int64_t>{1})}});
      },
  };
  for (DType dtype : kFloats)
    for (const BuildValue& norm : written) {
      CAPTURE(to_string(dtype));
      check_gradient_runs({tensor(dtype, {1, 2}, {0, 0})}, norm, {{0}, {0, 0}}, 0);
      // Beside a row that has a gradient.
      check_gradient_runs({tensor(dtype, {2, 2}, {0, 0, 3, -4})}, norm, {{0, 5}, {0, 0, 0.6, -0.8}},
                          tolerance_of(dtype));
    }
}

TEST_CASE("GE-03: deviation of constant data is 0 and has gradient 0") {
  const auto deviation = [](int64_t correction, bool of_variance) {
    return [=](Builder& b, Values v) {
      const Attrs attrs{{"axes", Attr(std::vector<int64_t>{0})}, {"correction", correction}};
      if (!of_variance) return b.make(OpKind::Stddev, {v[0]}, attrs);
      return b.make(OpKind::Sqrt, {b.make(OpKind::Var, {v[0]}, attrs)});
    };
  };
  for (DType dtype : kFloats)
    for (bool of_variance : {false, true})
      for (int64_t correction : {0, 1}) {
        CAPTURE(to_string(dtype));
        // 0.1 is none of the numbers that a type has: its mean must still be itself.
        for (double constant : {2.0, 0.1})
          check_gradient_runs({tensor(dtype, {3}, Numbers(3, constant))},
                              deviation(correction, of_variance), {{0}, {0, 0, 0}}, 0);
        const double sigma = correction ? 1 : std::sqrt(2.0 / 3), slope = correction ? 2 : 3;
        check_gradient_runs({tensor(dtype, {3}, {1, 2, 3})}, deviation(correction, of_variance),
                            {{sigma}, {-1 / (slope * sigma), 0, 1 / (slope * sigma)}},
                            tolerance_of(dtype));
      }
}

TEST_CASE("GE-04: the branch not taken gives its gradient nothing") {
  const auto chosen = [](Builder& b, Values v) {
    const Value positive = b.make(OpKind::Gt, {v[0], scalar(b, v[0], 0)});
    return b.make(OpKind::Where, {positive, b.make(OpKind::Sqrt, {v[0]}), v[0]});
  };
  for (DType dtype : kFloats) {
    check_gradient_runs({vector_of(dtype, {-1, -4, 4})}, chosen, {{-1, -4, 2}, {1, 1, 0.25}},
                        tolerance_of(dtype));
    // Where the derivative of the other branch is infinite.
    check_gradient_runs({vector_of(dtype, {0, -0.0, 4})}, chosen, {{0, 0, 2}, {1, 1, 0.25}},
                        tolerance_of(dtype));
  }
}

TEST_CASE("GE-06: a quotient masked afterwards has no NaN in its gradients") {
  const auto quotient = [](bool summed) {
    return [=](Builder& b, Values v) {
      const Value divides = b.make(OpKind::Ne, {v[1], scalar(b, v[1], 0)});
      const Value kept =
          b.make(OpKind::Where, {divides, b.make(OpKind::Div, {v[0], v[1]}), scalar(b, v[0], 0)});
      return summed ? b.sum(kept, {0}) : kept;
    };
  };
  for (DType dtype : kFloats) {
    const std::vector<InterpreterTensor> inputs{vector_of(dtype, {1, 1}), vector_of(dtype, {0, 1})};
    check_gradient_runs(inputs, quotient(true), {{1}, {0, 1}, {0, -1}}, tolerance_of(dtype));
    check_gradient_runs(inputs, quotient(false), {{0, 1}, {0, 1}, {0, -1}}, tolerance_of(dtype));
  }
}

TEST_CASE("GE-07: clamp after an overflow has gradient 0") {
  const auto clamped = [](Builder& b, Values v) {
    return b.make(OpKind::Clamp,
                  {b.make(OpKind::Exp, {v[0]}), scalar(b, v[0], 0), scalar(b, v[0], 10)});
  };
  for (DType dtype : kFloats) {
    check_gradient_runs({vector_of(dtype, {100, 0, -kInf})}, clamped, {{10, 1, 0}, {0, 1, 0}},
                        tolerance_of(dtype));
    check_gradient_runs({vector_of(dtype, {800, 0, kInf})}, clamped, {{10, 1, 10}, {0, 1, 0}},
                        tolerance_of(dtype));
  }
}

TEST_CASE("GE-08: power at base zero, by the base and by the exponent") {
  const auto power = [](Builder& b, Values v) { return b.make(OpKind::Pow, {v[0], v[1]}); };
  for (DType dtype : kFloats)
    for (double zero : {0.0, -0.0}) {
      CAPTURE(to_string(dtype));
      check_gradient_runs({vector_of(dtype, {zero, zero, zero}), vector_of(dtype, {2, 1, 0})},
                          power, {{0, 0, 1}, {0, 1, 0}, {0, 0, 0}}, 0);
      // With the exponent written down.
      const double values[] = {1, 0, 0, 0}, slopes[] = {0, 1, 0, 0};
      for (int exponent : {0, 1, 2, 3})
        check_gradient_runs(
            {vector_of(dtype, {zero})},
            [&](Builder& b, Values v) {
              return b.make(OpKind::Pow, {v[0], scalar(b, v[0], exponent)});
            },
            {{values[exponent]}, {slopes[exponent]}}, 0);
    }
}

TEST_CASE("GE-10: kinks and ties have one gradient on every back end") {
  const auto unary = [](OpKind kind) {
    return [=](Builder& b, Values v) { return b.make(kind, {v[0]}); };
  };
  const auto binary = [](OpKind kind) {
    return [=](Builder& b, Values v) { return b.make(kind, {v[0], v[1]}); };
  };
  const auto reduced = [](OpKind kind) {
    return [=](Builder& b, Values v) { return b.make(kind, {v[0]}, over({0})); };
  };
  const auto clamp01 = [](Builder& b, Values v) {
    return b.make(OpKind::Clamp, {v[0], scalar(b, v[0], 0), scalar(b, v[0], 1)});
  };
  for (DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    const InterpreterTensor kink = vector_of(dtype, {0, -0.0, -3, 3});
    check_gradient_runs({kink}, unary(OpKind::Relu), {{0, 0, 0, 3}, {0, 0, 0, 1}}, 0);
    check_gradient_runs({kink}, unary(OpKind::Abs), {{0, 0, 3, 3}, {0, 0, -1, 1}}, 0);
    // All to the first of a reduction, half to each of two operands: 1 together.
    for (OpKind kind : {OpKind::Max, OpKind::Min})
      check_gradient_runs({vector_of(dtype, {2, 2})}, reduced(kind), {{2}, {1, 0}}, 0);
    const InterpreterTensor two = vector_of(dtype, {2});
    for (OpKind kind : {OpKind::Maximum, OpKind::Minimum})
      check_gradient_runs({two, two}, binary(kind), {{2}, {0.5}, {0.5}}, 0);
    check_gradient_runs({vector_of(dtype, {0, 1, -1, 2, 0.5})}, clamp01,
                        {{0, 1, 0, 1, 0.5}, {1, 1, 0, 0, 1}}, 0);
  }
}

TEST_CASE("GE-12: log-sum-exp of -inf alone is -inf with gradient 0") {
  const auto lse = [](Builder& b, Values v) {
    return b.make(OpKind::LogSumExp, {v[0]}, over({1}));
  };
  const auto pair = [](Builder& b, Values v) { return b.make(OpKind::LogAddExp, {v[0], v[1]}); };
  const double half = std::log(2.0);
  for (DType dtype : kFloats) {
    check_gradient_runs({tensor(dtype, {1, 2}, {-kInf, -kInf})}, lse, {{-kInf}, {0, 0}}, 0);
    check_gradient_runs({tensor(dtype, {3, 2}, {-kInf, -kInf, 0, 0, -kInf, 1})}, lse,
                        {{-kInf, half, 1}, {0, 0, 0.5, 0.5, 0, 1}}, tolerance_of(dtype));
    check_gradient_runs({vector_of(dtype, {-kInf, 0}), vector_of(dtype, {-kInf, 0})}, pair,
                        {{-kInf, half}, {0, 0.5}, {0, 0.5}}, tolerance_of(dtype));
  }
}

TEST_CASE("GE-16: asinh of huge numbers keeps its gradient, and so does acosh") {
  // The cotangent is x itself, so that 1/x is told from 0.
  const auto scaled = [](OpKind kind) {
    return [=](Builder& b, Values v) { return b.make(OpKind::Mul, {b.make(kind, {v[0]}), v[1]}); };
  };
  for (DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    const double huge = dtype == DType::F64 ? 1e200 : dtype == DType::F16 ? 60000 : 1e25;
    const double angle = std::asinh(huge);
    const double value = dtype == DType::F16 ? kInf : angle * huge;
    check_gradient_runs({vector_of(dtype, {huge, 0, -huge}), vector_of(dtype, {huge, 1, huge})},
                        scaled(OpKind::Asinh), {{value, 0, -value}, {1, 1, 1}, {angle, 0, -angle}},
                        tolerance_of(dtype));
    check_gradient_runs({vector_of(dtype, {huge}), vector_of(dtype, {huge})}, scaled(OpKind::Acosh),
                        {{value}, {1}, {angle}}, tolerance_of(dtype));
  }
}

}  // namespace
}  // namespace mezzo::test
