// SPDX-License-Identifier: Apache-2.0
#include <fuzz/judge_losses.h>

#include <mezzo/ir/philox.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mezzo::test {

using ir::DType;
using ir::InterpreterTensor;
using ir::OpKind;
using Tensors = std::vector<InterpreterTensor>;

namespace {

constexpr double kInfinity = HUGE_VAL;

/// Terms whose sum leaves the range of an f32 accumulator may give anything.
double in_range(const ir::Op& op, double terms, double largest = 0) {
  const double most = op.operand(0).dtype() == DType::F64 ? 1e300 : 1e35;
  return terms < most && largest < most ? terms : kInfinity;
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

/// The terms of a loss of elements.
double element_terms(const ir::Op& op, const Tensors& operands, int64_t i) {
  double x = operands[0].number(i), t = operands[1].number(i);
  switch (op.kind()) {
    case OpKind::Bce:
      return std::fabs(t) * std::fabs(std::max(std::log(x), -100.0)) +
             std::fabs(1 - t) * std::fabs(std::max(std::log1p(-x), -100.0));
    case OpKind::BceWithLogits: {
      double weight = 1;
      if (operands.size() > 2) {
        const int64_t length = operands[2].elements();
        weight = operands[2].number(length > 0 ? i % length : 0);
      }
      // The product of target and weight may be less than f32 can hold.
      return (std::fabs(t * weight) + 0x1p-125) * softplus(-x) + std::fabs(1 - t) * softplus(x);
    }
    default: {
      double share = op.bool_attr("log_target") ? std::exp(t) : std::fabs(t);
      double log_t = op.bool_attr("log_target") ? t : std::log(t);
      return share == 0 ? 0
                        : share * (1 + std::fabs(log_t)) * (1 + std::fabs(log_t) + std::fabs(x));
    }
  }
}

/// Rows of logits with what each class counts.
struct Classes {
  const ir::Op& op;
  const Tensors& operands;
  int64_t classes, rows;
  bool gradient, labelled;
  size_t weight_operand;

  Classes(const ir::Op& loss, const Tensors& all)
      : op(loss),
        operands(all),
        classes(all[0].type.shape[all[0].type.rank() - 1]),
        rows(all[0].elements() / classes),
        gradient(loss.kind() == OpKind::CrossEntropyGrad ||
                 loss.kind() == OpKind::SoftCrossEntropyGrad),
        labelled(!all[1].holds_floats()),
        weight_operand(gradient ? 3 : 2) {}

  bool weighted() const { return operands.size() > weight_operand; }
  double weight(int64_t k) const { return weighted() ? operands[weight_operand].number(k) : 1; }
  bool ignored(int64_t row) const {
    return labelled && operands[1].number(row) == static_cast<double>(op.int_attr("ignore_index"));
  }
  double smoothing() const {
    return op.kind() == OpKind::Nll ? 0 : op.float_attr("label_smoothing");
  }
  double share(int64_t row, int64_t k) const {
    double spread = smoothing() / static_cast<double>(classes);
    double own = labelled ? (operands[1].number(row) == static_cast<double>(k) ? 1 : 0)
                          : std::fabs(operands[1].number(row * classes + k));
    double share = own == 0 ? spread : (1 - smoothing()) * own + spread;
    return share == 0 ? 0 : share * std::fabs(weight(k));
  }
  double shares(int64_t row) const {
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += share(row, k);
    return sum;
  }
  /// A share that f32 cannot hold is 0 and masks what is no number.
  bool share_vanishes(int64_t row) const {
    for (int64_t k = 0; k < classes; ++k)
      if (share(row, k) != 0 && share(row, k) < 1e-37) return true;
    return false;
  }
  bool finite(int64_t row) const {
    for (int64_t k = 0; k < classes; ++k)
      if (!std::isfinite(operands[0].number(row * classes + k)) || !std::isfinite(share(row, k)))
        return false;
    return true;
  }
  /// Of a logarithm of a probability; of an nll its operand.
  double log_terms(int64_t row) const {
    double largest = 0;
    for (int64_t k = 0; k < classes; ++k) {
      double x = std::fabs(operands[0].number(row * classes + k));
      if (op.kind() == OpKind::Nll && share(row, k) == 0) continue;
      if (op.kind() == OpKind::Nll || std::isfinite(x)) largest = std::max(largest, x);
    }
    return op.kind() == OpKind::Nll ? largest
                                    : 1 + 2 * largest + std::log(static_cast<double>(classes));
  }
  /// By how much a mean is less than its sum, times how much the total cancels.
  double mean_factor() const {
    if (op.string_attr("reduce") != "mean") return 1;
    if (!labelled) return 1 / std::max<double>(1, static_cast<double>(rows));
    double total = 0, size = 0;
    for (int64_t row = 0; row < rows; ++row) {
      if (ignored(row)) continue;
      double own = weighted() ? weight(static_cast<int64_t>(operands[1].number(row))) : 1;
      total += own;
      size += std::fabs(own);
    }
    if (size == 0) return 1;
    size = in_range(op, size);
    return std::fabs(total) < 1e-3 * size ? kInfinity : size / (total * total);
  }
};

std::vector<double> class_errors(const ir::Op& op, const Tensors& operands) {
  Classes it(op, operands);
  const bool each = op.string_attr("reduce") == "none";
  // Sums are blocked; an argument of exp of at most 104 costs as many units.
  const double roundings = 128 + static_cast<double>(std::min<int64_t>(it.classes, 256)) +
                           static_cast<double>(each ? 0 : std::min<int64_t>(it.rows, 256)) +
                           std::log2(static_cast<double>(it.rows * it.classes) + 1);
  const double factor = it.mean_factor();
  std::vector<double> out(static_cast<size_t>(op.result().type().elements()), 0.0);
  for (int64_t row = 0; row < it.rows; ++row) {
    if (it.ignored(row)) continue;
    const double shares = in_range(op, it.shares(row));
    if (!it.gradient) {
      double logs = it.log_terms(row);
      double terms = shares == 0 ? 0 : in_range(op, shares * logs, logs) * factor;
      if (it.share_vanishes(row) && !it.finite(row)) terms = kInfinity;
      out[each ? static_cast<size_t>(row) : 0] += terms * roundings;
      continue;
    }
    double g = std::fabs(operands[2].number(each ? row : 0)) * factor;
    // 2^-125 is what a cotangent below the range of f32 loses, in units. A cotangent that f32
    // cannot hold is 0 and masks what is no number.
    if (g != 0 && g < 1e-37 && !it.finite(row)) g = kInfinity;
    for (int64_t k = 0; k < it.classes; ++k)
      out[static_cast<size_t>(row * it.classes + k)] =
          (g * roundings + 0x1p-125) * (shares + it.share(row, k));
  }
  return out;
}

}  // namespace

std::optional<std::vector<double>> loss_errors(const ir::Op& op, const Tensors& operands) {
  switch (op.kind()) {
    case OpKind::CrossEntropy:
    case OpKind::CrossEntropyGrad:
    case OpKind::SoftCrossEntropy:
    case OpKind::SoftCrossEntropyGrad:
    case OpKind::Nll:
      return class_errors(op, operands);
    case OpKind::Bce:
    case OpKind::BceWithLogits:
    case OpKind::KlDiv: {
      std::vector<double> out;
      for (int64_t i = 0; i < op.result().type().elements(); ++i)
        out.push_back(16 * in_range(op, element_terms(op, operands, i)));
      return out;
    }
    default:
      return std::nullopt;
  }
}

std::string judge_categorical(const ir::Op& op, const Tensors& operands,
                              const InterpreterTensor& got) {
  const ir::Shape& shape = operands[0].type.shape;
  const auto axis = static_cast<int>(op.int_attr("axis"));
  int64_t inner = 1, row = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  for (int i = 1; i < shape.rank(); ++i) row *= shape[i];
  const bool wide = operands[0].type.dtype == DType::F64;
  const auto seed = static_cast<uint64_t>(operands[1].integers[0]),
             step = static_cast<uint64_t>(operands[1].integers[1]);
  const uint64_t first =
      operands.size() > 2 ? static_cast<uint64_t>(operands[2].integers[0] * row) : 0;
  auto score = [&](int64_t index) {
    const uint64_t element = first + static_cast<uint64_t>(index);
    auto words = ir::random_block(seed, step, static_cast<uint32_t>(op.int_attr("stream")),
                                  element / (wide ? 2 : 4));
    double u = (words[element % 4] >> 8) * 0x1p-24;
    if (wide) {
      const size_t high = 2 * (element % 2);
      u = static_cast<double>((uint64_t{words[high]} << 32 | words[high + 1]) >> 11) * 0x1p-53;
    }
    u = std::max(u, wide ? 0x1p-54 : 0x1p-25);
    return operands[0].number(index) - std::log(-std::log(u));
  };
  for (int64_t i = 0; i < got.elements(); ++i) {
    const int64_t base = i / inner * inner * shape[axis] + i % inner;
    double best = -HUGE_VAL, largest = 1;
    int64_t nan = -1;
    for (int64_t k = 0; k < shape[axis]; ++k) {
      double value = score(base + k * inner);
      if (std::isnan(value) && nan < 0) nan = k;
      best = std::max(best, value);
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    }
    const int64_t chosen = got.integers[static_cast<size_t>(i)];
    if (chosen < 0 || chosen >= shape[axis] || (nan >= 0 && chosen != nan))
      return fmt::format("row {} has class {}", i, chosen);
    if (nan >= 0) continue;
    // Logarithms within 2 units each; a small -ln u magnifies its own error.
    const double off = (wide ? 0x1p-50 : 0x1p-21) * largest;
    const double value = score(base + chosen * inner);
    if (!(value >= best - off) && !(std::isinf(best) && value == best))
      return fmt::format("row {} has class {} with {:.9g}, not {:.9g}", i, chosen, value, best);
  }
  return "";
}

}  // namespace mezzo::test
