// SPDX-License-Identifier: Apache-2.0
// Normalisations: reported failures of other frameworks as cases, by the interpreter and by kernels
// fused and unfused, and the conventions of masked and constant rows.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter.h>
#include <support/run_op.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <runtime/compiled.h>

namespace mezzo::test {

namespace {

using ir::Attrs;
using ir::DType;
using ir::InterpreterTensor;
using ir::make_tensor;
using ir::OpKind;
using ir::Shape;
using ir::Type;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The first result is `wanted` everywhere, within `error` of it and a rounding of the type.
void check_result(OpKind kind, const Tensors& inputs, const Attrs& attrs,
                  const std::vector<double>& wanted, double error = 1e-6) {
  for (const Tensors& results : run_everywhere(kind, inputs, attrs)) {
    const InterpreterTensor& y = results[0];
    REQUIRE(y.floats.size() == wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      INFO(std::string(ir::to_string(kind))
           << " of " << to_string(inputs[0].type) << ", element " << i);
      const double allowed = error + ir::unit_roundoff(y.type.dtype) * std::fabs(wanted[i]);
      CHECK(std::fabs(y.floats[i] - wanted[i]) <= allowed);
    }
  }
}

InterpreterTensor row(DType dtype, const std::vector<double>& values) {
  return make_tensor(Type(dtype, {1, static_cast<int64_t>(values.size())}), values);
}

constexpr DType kFloats[] = {DType::F64, DType::F32, DType::F16, DType::BF16};

Attrs rows(double eps) { return {{"axis", 1}, {"eps", eps}}; }

}  // namespace

TEST_CASE("NM-01 RMS normalisation does not square in 16 bits") {
  for (DType dtype : kFloats)
    check_result(OpKind::RmsNorm,
                 {row(dtype, {8000, -8000, 8000, -8000}), vector_of(dtype, {1, 1, 1, 1})},
                 rows(1e-6), {1, -1, 1, -1});
}

TEST_CASE("NM-02 the variance of activations of 300 fits") {
  for (DType dtype : kFloats)
    check_result(OpKind::LayerNorm, {row(dtype, {-300, 300})}, rows(1e-5),
                 {-0.999999999944, 0.999999999944});
}

TEST_CASE("NM-03 a sum of squares that leaves 16 bits") {
  std::vector<double> x, wanted;
  for (int i = 0; i < 1280; ++i) {
    x.push_back(i % 2 ? -30 : 30);
    wanted.push_back(i % 2 ? -1 : 1);
  }
  for (DType dtype : kFloats) {
    check_result(OpKind::LayerNorm, {row(dtype, x)}, rows(1e-5), wanted);
    check_result(OpKind::RmsNorm, {row(dtype, x)}, rows(1e-6), wanted);
  }
}

TEST_CASE("NM-04 a constant row with an eps that 16 bits cannot hold") {
  for (DType dtype : kFloats) {
    const InterpreterTensor x = row(dtype, {5, 5, 5, 5});
    check_result(OpKind::LayerNorm, {x}, rows(1e-12), {0, 0, 0, 0});
    for (const Tensors& results :
         run_everywhere(OpKind::LayerNormGrad,
                        {x, row(dtype, {1, 2, 3, 4}), vector_of(dtype, {1, 1, 1, 1})}, rows(1e-6)))
      for (const InterpreterTensor& each : results) CHECK(each.all_finite());
  }
}

TEST_CASE("a constant row whose sum is rounded is 0, also beside a small eps") {
  // A mean that is off by a bit is 316 bits of x away from 0, a million with the smaller eps.
  const std::vector<double> x(9, 27.590243146432226), zeros(9, 0.0);
  for (DType dtype : kFloats)
    for (double eps : {1e-5, 1e-12}) {
      check_result(OpKind::LayerNorm, {row(dtype, x)}, rows(eps), zeros, 0);
      check_result(OpKind::GroupNorm, {row(dtype, x)}, {{"groups", 1}, {"eps", eps}}, zeros, 0);
      const InterpreterTensor column = make_tensor(Type(dtype, {9, 1}), x);
      check_result(OpKind::BatchNorm, {column}, {{"eps", eps}}, zeros, 0);
    }
}

TEST_CASE("NM-07 the variance of numbers that differ by little from a large mean") {
  std::vector<double> x;
  for (int k = 0; k < 8; ++k) x.push_back(10000 + std::ldexp(k, -10));
  std::vector<double> wanted;
  for (int k = 0; k < 8; ++k) wanted.push_back((k - 3.5) / std::sqrt(5.25));
  CHECK(wanted[7] == doctest::Approx(1.52752523));
  for (DType dtype : {DType::F64, DType::F32}) {
    check_result(OpKind::LayerNorm, {row(dtype, x)}, rows(0), wanted);
    const InterpreterTensor column = make_tensor(Type(dtype, {8, 1}), x);
    check_result(OpKind::BatchNorm, {column}, {{"eps", 0.0}}, wanted);
    check_result(OpKind::GroupNorm, {row(dtype, x)}, {{"groups", 1}, {"eps", 0.0}}, wanted);
    for (const Tensors& results : run_everywhere(OpKind::BatchNorm, {column}, {{"eps", 0.0}})) {
      CHECK(results[2].floats[0] == doctest::Approx(5.00679016e-06).epsilon(1e-6));
      // The rounded mean and what it lacks are the mean.
      CHECK(results[1].floats[0] + results[3].floats[0] ==
            doctest::Approx(10000 + 3.5 / 1024).epsilon(1e-12));
    }
  }
}

TEST_CASE("NM-11 a running variance beyond the range of f16") {
  for (DType dtype : kFloats) {
    const DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
    check_result(OpKind::BatchNormInference,
                 {row(dtype, {1000}), vector_of(wide, {0}), vector_of(wide, {1e5})},
                 {{"eps", 1e-5}}, {3.16227766});
  }
}

TEST_CASE("NM-12 the mean is not taken in 16 bits") {
  for (DType dtype : {DType::F64, DType::F32, DType::F16})
    check_result(OpKind::LayerNorm, {row(dtype, {1000, 1001, 1002, 1003})}, rows(0),
                 {-1.34164079, -0.447213595, 0.447213595, 1.34164079});
}

TEST_CASE("a row with a cotangent of zeros leaks nothing into other gradients") {
  const InterpreterTensor x = make_tensor(Type(DType::F32, {2, 2}), {1, 3, kNan, 2});
  const InterpreterTensor dy = make_tensor(Type(DType::F32, {2, 2}), {1, 0, 0, 0});
  const InterpreterTensor weight = vector_of(DType::F32, {2, 3});
  for (const Tensors& results : run_everywhere(OpKind::LayerNormGrad, {x, dy, weight}, rows(0)))
    for (const InterpreterTensor& each : results) {
      CHECK(each.all_finite());
      if (each.type.rank() == 2) CHECK((each.floats[2] == 0 && each.floats[3] == 0));
    }
}

TEST_CASE("NaN and infinities reach their own row, group or channel alone") {
  for (double bad : {kNan, HUGE_VAL}) {
    const InterpreterTensor x = make_tensor(Type(DType::F32, {2, 2}), {1, 2, bad, 4});
    for (const Tensors& results : run_everywhere(OpKind::LayerNorm, {x}, rows(1e-5))) {
      CHECK(std::isfinite(results[0].floats[0] + results[0].floats[1]));
      CHECK(std::isnan(results[0].floats[2]));
    }
    for (const Tensors& results : run_everywhere(OpKind::BatchNorm, {x}, {})) {
      CHECK(std::isnan(results[0].floats[0]));
      CHECK(std::isfinite(results[0].floats[1] + results[0].floats[3]));
    }
  }
}

TEST_CASE("the mean of a channel is finite where differences to it are not") {
  for (double sign : {1.0, -1.0}) {
    const InterpreterTensor x =
        make_tensor(Type(DType::F32, {3, 1}), {sign * 3e38, -sign * 3e38, -sign * 3e38});
    for (const Tensors& results : run_everywhere(OpKind::BatchNorm, {x}, {}))
      CHECK(results[1].floats[0] == doctest::Approx(-sign * 1e38).epsilon(1e-6));
  }
}

TEST_CASE("the mean of a channel with an infinity is infinite, and of one with both is NaN") {
  for (DType dtype : kFloats) {
    const InterpreterTensor x =
        make_tensor(Type(dtype, {3, 3}), {1, HUGE_VAL, HUGE_VAL, -HUGE_VAL, 2, 1, 4, 4, -HUGE_VAL});
    for (const Tensors& results : run_everywhere(OpKind::BatchNorm, {x}, {})) {
      CHECK(results[1].floats[0] == -HUGE_VAL);
      CHECK(results[1].floats[1] == HUGE_VAL);
      CHECK(std::isnan(results[1].floats[2]));
      for (double variance : results[2].floats) CHECK(std::isnan(variance));
    }
  }
}

}  // namespace mezzo::test
