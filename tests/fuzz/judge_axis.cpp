// SPDX-License-Identifier: Apache-2.0
#include <fuzz/judge_axis.h>

#include <mezzo/ir/interpreter_ops.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mezzo::test {

using ir::DType;
using ir::InterpreterTensor;
using ir::OpKind;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Of running sums and products.
constexpr double kDoubleUnit = 0x1p-53;

/// Elements in order, with the magnitudes of the finite ones.
struct Group {
  std::vector<double> elements;
  double count() const { return static_cast<double>(elements.size()); }
  double sum_of(auto of) const {
    double sum = 0;
    for (double x : elements)
      if (std::isfinite(x)) sum += of(std::fabs(x));
    return sum;
  }
  double largest() const {
    double most = 0;
    for (double x : elements)
      if (std::isfinite(x)) most = std::max(most, std::fabs(x));
    return most;
  }
  /// Largest less least, infinite ones apart.
  double range() const {
    double low = kInfinity, high = -kInfinity;
    for (double x : elements)
      if (std::isfinite(x)) low = std::min(low, x), high = std::max(high, x);
    return high >= low ? high - low : 0;
  }
};

/// Powers of two between which every partial product of finite factors other than 0 lies.
struct Extent {
  double low = 0, high = 0;
  void take(double x) {
    if (x == 0 || !std::isfinite(x)) return;
    const double power = std::log2(std::fabs(x));
    (power > 0 ? high : low) += power;
  }
  bool leaves_double() const { return high - low >= 1000; }
};

double bound_of_reduction(const ir::Op& op, const Group& group, double wanted, bool wide) {
  const double unit = wide ? kDoubleUnit : 0x1p-24, n = group.count();
  const double least = wide ? 0x1p-1074 : 0x1p-149, most = wide ? 0x1p1023 : 0x1p127;
  const double roundings = 256 + std::log2(std::max(n, 1.0)), size = std::fabs(wanted);
  // Where nothing leaves its range such a result is that of some element.
  const bool known = std::isfinite(wanted);
  switch (op.kind()) {
    case OpKind::Prod: {
      Extent extent;
      for (double x : group.elements) extent.take(x);
      return extent.leaves_double() ? kInfinity : known ? size * (unit + n * kDoubleUnit) : 0;
    }
    case OpKind::Var:
    case OpKind::Stddev: {
      // A deviation is off by the rounding of x - pivot and by that of the mean of these.
      const bool root = op.kind() == OpKind::Stddev;
      const double divisor = std::max(0.0, n - static_cast<double>(op.int_attr("correction")));
      const double range = group.range(), off = unit * (roundings + 4) * range;
      if (divisor == 0 || range * range >= most / std::max(n, 1.0)) return kInfinity;
      if (!known) return 0;
      const double variance = root ? wanted * wanted : wanted;
      const double error = 2 * std::sqrt(n / divisor * variance) * off + n / divisor * off * off +
                           unit * (roundings + 4) * variance + (n + 1) / divisor * least;
      if (!root) return error;
      return std::min(wanted > 0 ? error / wanted : kInfinity, std::sqrt(error)) + unit * size;
    }
    case OpKind::LogSumExp:
      if (!known) return 0;
      // An argument of exp down to -104 counts; its rounding moves the sum by as much.
      return unit * (roundings + 128 + 8 * std::max(size, group.largest()));
    case OpKind::Norm: {
      const double order = op.float_attr("ord");
      if (!known) return 0;
      return unit * (roundings + 32 + 8 * order) * (1 + 1 / order) * size + (n + 1) * least;
    }
    default:
      return 0;
  }
}

std::vector<Group> groups_of(const ir::Op& op, const InterpreterTensor& x, size_t count) {
  const ir::Strides strides = ir::group_strides(x.type.shape, op.ints_attr("axes"));
  std::vector<Group> groups(count);
  for (ir::IndexWalk walk(x.type.shape); !walk.done(); walk.advance())
    groups[static_cast<size_t>(walk.offset(strides))].elements.push_back(
        x.floats[static_cast<size_t>(walk.linear())]);
  return groups;
}

/// Of the running values of one line, in the order of the scan.
class RunningBound {
 public:
  RunningBound(OpKind kind, bool wide) : kind_(kind), unit_(wide ? kDoubleUnit : 0x1p-24) {}

  /// Behind the element `a` (of a linear scan with `b`), whose running value is `wanted`.
  double next(double a, double b, double wanted) {
    ++count_;
    const double size = std::fabs(wanted);
    if (kind_ == OpKind::Cumsum) {
      magnitude_ += std::fabs(a);
      return size * unit_ + kDoubleUnit * (count_ + 2) * magnitude_;
    }
    extent_.take(a);
    if (kind_ == OpKind::Cumprod)
      return extent_.leaves_double() ? kInfinity : size * (unit_ + kDoubleUnit * count_);
    // Grouped otherwise, infinite factors meet zeros that they follow elsewhere.
    strange_ |= !std::isfinite(a);
    magnitude_ = (magnitude_ == 0 ? 0 : magnitude_ * std::fabs(a)) + std::fabs(b);
    if (strange_ || extent_.leaves_double()) return kInfinity;
    return size * unit_ + kDoubleUnit * 4 * count_ * magnitude_;
  }

 private:
  OpKind kind_;
  double unit_, magnitude_ = 0, count_ = 0;
  bool strange_ = false;
  Extent extent_;
};

std::vector<double> scan_bounds(const ir::Op& op, const std::vector<InterpreterTensor>& operands,
                                const InterpreterTensor& wanted, bool wide) {
  const ir::AxisView view(wanted.type.shape, op.int_attr("axis"));
  std::vector<double> out(static_cast<size_t>(wanted.elements()));
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      RunningBound running(op.kind(), wide);
      for (int64_t k = 0; k < view.length; ++k) {
        const auto at =
            static_cast<size_t>(view.at(o, op.bool_attr("reverse") ? view.length - 1 - k : k, i));
        out[at] =
            running.next(operands[0].floats[at], operands.back().floats[at], wanted.floats[at]);
      }
    }
  return out;
}

}  // namespace

std::optional<std::vector<double>> axis_bounds(const ir::Op& op,
                                               const std::vector<InterpreterTensor>& operands,
                                               const InterpreterTensor& wanted) {
  const bool wide = op.result().dtype() == DType::F64;
  switch (op.kind()) {
    case OpKind::Prod:
    case OpKind::Var:
    case OpKind::Stddev:
    case OpKind::LogSumExp:
    case OpKind::Norm: {
      std::vector<double> out;
      const std::vector<Group> groups = groups_of(op, operands[0], wanted.floats.size());
      for (size_t i = 0; i < groups.size(); ++i)
        out.push_back(bound_of_reduction(op, groups[i], wanted.floats[i], wide));
      return out;
    }
    case OpKind::Cumsum:
    case OpKind::Cumprod:
    case OpKind::LinearScan:
      return scan_bounds(op, operands, wanted, wide);
    default:
      return std::nullopt;
  }
}

}  // namespace mezzo::test
