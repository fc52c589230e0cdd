// SPDX-License-Identifier: Apache-2.0
// What the cases of edge points, NaN, shapes and fusion share.
#pragma once

#include <support/run_op.h>

#include <doctest/doctest.h>

#include <limits>
#include <ops/convention_runs.h>

namespace mezzo::test {

using Numbers = std::vector<double>;
using Values = std::span<const ir::Value>;

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr ir::DType kFloats[] = {ir::DType::F64, ir::DType::F32, ir::DType::F16,
                                        ir::DType::BF16};
inline constexpr ir::DType kNumbers[] = {ir::DType::F64,  ir::DType::F32, ir::DType::F16,
                                         ir::DType::BF16, ir::DType::I64, ir::DType::I32};

inline ir::InterpreterTensor tensor(ir::DType dtype, ir::Shape shape, const Numbers& values) {
  return ir::make_tensor(ir::Type(dtype, shape), std::span<const double>(values));
}

inline ir::Attrs over(std::vector<int64_t> axes, bool keepdims = false) {
  return {{"axes", ir::Attr(axes)}, {"keepdims", keepdims}};
}

/// A scalar of the element type of `like`.
inline ir::Value scalar(ir::Builder& b, ir::Value like, double value) {
  return b.constant(ir::Type(like.dtype(), {}), value);
}

/// check_runs of one op and its only result.
inline void check_op(ir::OpKind kind, const std::vector<ir::InterpreterTensor>& inputs,
                     const ir::Attrs& attrs, const Numbers& wanted, double tolerance = 0) {
  check_runs(
      inputs,
      [&](ir::Builder& b, Values x) {
        return std::vector<ir::Value>{b.create(kind, x, attrs)->result()};
      },
      {wanted}, tolerance);
}

}  // namespace mezzo::test
