// SPDX-License-Identifier: Apache-2.0
// A rounding in one step is an error in all that follow: how much of it is left depends on the
// numbers. So the op itself is asked, in f64, what operands that are off make of it.
#include <fuzz/judge_recurrent.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter.h>
#include <support/run_op.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace mezzo::test {

using ir::DType;
using ir::InterpreterTensor;
using ir::OpKind;
using Tensors = std::vector<InterpreterTensor>;

namespace {

/// Trials with operands that are off, and how often the largest response may be exceeded.
constexpr int kTrials = 6;
constexpr double kMargin = 8;
/// Roundings of a product and an activation, in units of the accumulator.
constexpr double kRoundings = 64;

bool is_recurrent(OpKind kind) {
  switch (kind) {
    case OpKind::Rnn:
    case OpKind::Lstm:
    case OpKind::Gru:
    case OpKind::RnnGrad:
    case OpKind::LstmGrad:
    case OpKind::GruGrad:
      return true;
    default:
      return false;
  }
}

std::vector<double> run(const ir::Op& op, const Tensors& operands, int result) {
  ir::Attrs attrs = op.attrs();
  attrs.erase("word");
  const std::vector<ir::Type> declared(static_cast<size_t>(op.num_results()),
                                       ir::Type(DType::F64, {}));
  return run_op(op.kind(), operands, attrs, declared)
      .results.at(static_cast<size_t>(result))
      .floats;
}

}  // namespace

std::optional<std::vector<double>> recurrent_bounds(const ir::Op& op, const Tensors& operands,
                                                    int result) {
  if (!is_recurrent(op.kind())) return std::nullopt;
  const DType narrow = operands[0].type.dtype;
  const double unit = ir::unit_roundoff(ir::default_acc(narrow)),
               off = kRoundings * unit + (ir::is_16bit(narrow) ? 2 * ir::unit_roundoff(narrow) : 0);
  Tensors wide = operands;
  bool finite = true;
  for (InterpreterTensor& tensor : wide) {
    tensor.type.dtype = DType::F64;
    for (double value : tensor.floats) finite = finite && std::isfinite(value);
  }
  const std::vector<double> exact = run(op, wide, result);
  if (!finite) return std::vector<double>(exact.size(), HUGE_VAL);
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> share(-off, off);
  double response = 0, largest = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Tensors moved = wide;
    for (InterpreterTensor& tensor : moved)
      for (double& value : tensor.floats) value += value * share(random) + 0.125 * share(random);
    const std::vector<double> there = run(op, moved, result);
    for (size_t i = 0; i < exact.size(); ++i) {
      response = std::max(response, std::fabs(there[i] - exact[i]));
      largest = std::max(largest, std::fabs(exact[i]));
    }
  }
  return std::vector<double>(exact.size(), kMargin * response + kRoundings * unit * largest);
}

}  // namespace mezzo::test
