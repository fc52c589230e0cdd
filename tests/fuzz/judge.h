// SPDX-License-Identifier: Apache-2.0
// Whether the result of one op is right, given the operands that it had: bit for bit for rows of
// trait Exact, within the bound of its row otherwise.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/interpreter_tensor.h>

#include <string>
#include <vector>

namespace mezzo::test {

struct Judgement {
  /// "" when right.
  std::string difference;
  /// Largest error as a share of its bound; 0 for exact rows.
  double worst = 0;
  /// Largest error in units in the last place (elementwise rows that are not exact).
  double worst_ulp = 0;
  /// Elements whose value is not the correctly rounded one.
  int64_t not_correct = 0;
};

/// The distance of `got` and the unrounded `wanted` in units in the last place of `dtype` at
/// `wanted`; 0 for equal bits, infinite where only one of them is a number.
double ulp_distance(ir::DType dtype, double got, double wanted);

/// Whether kernels must give the interpreter's bits: rows of trait Exact, results that are no
/// floats, uniform numbers, and the rule of the loss scale.
bool is_exact(const ir::Op& op);

/// Judges `got`, a result of `op`, of which only kind, attributes and result types matter. Throws
/// InternalError for a row that is neither exact nor has a bound.
Judgement judge(const ir::Op& op, const std::vector<ir::InterpreterTensor>& operands,
                const ir::InterpreterTensor& got, int result = 0);

}  // namespace mezzo::test
