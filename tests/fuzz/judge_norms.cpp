// SPDX-License-Identifier: Apache-2.0
// With d = x - mean, the mean is off by units of R mean|x| =: e and what corrects it by units of R
// mean|d|, the variance by units of R (mean d^2 + e^2). So the normalised h is off by units of R H,
// H = |h| q^2 + q, q = 1 + e / root, and everything else follows from its formula. R: the roundings
// of a sum.
#include <fuzz/judge_norms.h>

#include <cmath>
#include <functional>

namespace mezzo::test {

namespace {

using ir::InterpreterTensor;
using ir::OpKind;
using Tensors = std::vector<InterpreterTensor>;

constexpr double kRoundings = 320;

/// How a normalisation divides its tensor.
struct Division {
  int64_t parts = 0;
  std::function<int64_t(int64_t)> part, parameter;  // of an element
  bool centred = true;
  size_t weight = 1;       // operand
  bool given = false;      // statistics are operands
  bool backwards = false;  // operand 1 is a cotangent
};

std::optional<Division> division_of(const ir::Op& op, const ir::Shape& shape) {
  const int64_t channels = shape.rank() > 0 ? shape[shape.rank() - 1] : 1;
  Division out;
  auto rows = [&] {
    int64_t length = 1;
    for (int64_t dim : shape.dims().subspan(static_cast<size_t>(op.int_attr("axis"))))
      length *= dim;
    length = std::max<int64_t>(length, 1);
    out.parts = shape.elements() / length;
    out.part = [length](int64_t i) { return i / length; };
    out.parameter = [length](int64_t i) { return i % length; };
  };
  auto groups = [&] {
    const int64_t count = op.int_attr("groups"), each = channels / count;
    const int64_t sample = shape[0] > 0 ? shape.elements() / shape[0] : 1;
    out.parts = shape[0] * count;
    out.part = [=](int64_t i) { return i / sample * count + i % channels / each; };
    out.parameter = [channels](int64_t i) { return i % channels; };
  };
  auto each_channel = [&](size_t weight, bool given) {
    out.parts = channels;
    out.part = out.parameter = [channels](int64_t i) { return i % channels; };
    out.weight = weight;
    out.given = given;
  };
  switch (op.kind()) {
    case OpKind::RmsNormGrad:
    case OpKind::LayerNormGrad:
    case OpKind::RmsNorm:
    case OpKind::LayerNorm:
      out.backwards = op.kind() == OpKind::RmsNormGrad || op.kind() == OpKind::LayerNormGrad;
      out.centred = op.kind() == OpKind::LayerNorm || op.kind() == OpKind::LayerNormGrad;
      rows();
      break;
    case OpKind::GroupNormGrad:
    case OpKind::GroupNorm:
      out.backwards = op.kind() == OpKind::GroupNormGrad;
      groups();
      break;
    case OpKind::BatchNorm:
      each_channel(1, false);
      break;
    case OpKind::BatchNormGrad:
      out.backwards = true;
      each_channel(5, true);
      break;
    case OpKind::BatchNormInference:
      each_channel(3, true);
      break;
    default:
      return std::nullopt;
  }
  if (out.backwards && !out.given) out.weight = 2;
  return out;
}

/// Sums over a part.
struct Sums {
  double count = 0, x = 0, size = 0, square = 0, greatest = 0, slope = 0, along = 0;
};

class Errors {
 public:
  Errors(const ir::Op& op, const Tensors& operands, Division division)
      : op_(op),
        operands_(operands),
        division_(std::move(division)),
        sums_(static_cast<size_t>(division_.parts)),
        limit_(op.operand(0).dtype() == ir::DType::F64 ? 1e290 : 1e34) {
    const int64_t count = operands_[0].elements();
    for (int64_t i = 0; i < count; ++i) {
      Sums& sums = own(i);
      ++sums.count;
      sums.x += x(i);
      sums.size += std::fabs(x(i));
      sums.greatest = std::max(sums.greatest, std::fabs(x(i)));
    }
    for (int64_t i = 0; i < count; ++i) own(i).square += d(i) * d(i);
    if (!division_.backwards) return;
    for (int64_t i = 0; i < count; ++i) own(i).slope += slope(i);
    for (int64_t i = 0; i < count; ++i) own(i).along += slope(i) * h(i);
  }

  std::vector<double> of(int result) {
    if (op_.kind() == OpKind::BatchNorm && result > 0) return statistics(result);
    if (result > 0) return parameters(result);
    std::vector<double> out;
    for (int64_t i = 0; i < operands_[0].elements(); ++i)
      out.push_back(bounded(i, division_.backwards ? gradient(i) : forward(i)));
    return out;
  }

 private:
  double x(int64_t i) const { return operands_[0].number(i); }
  Sums& own(int64_t i) { return sums_[static_cast<size_t>(division_.part(i))]; }
  double statistic(size_t operand, int64_t i) const {
    return operands_[operand].number(division_.part(i));
  }
  bool has_weight() const { return operands_.size() > division_.weight; }
  double weight(int64_t i) const {
    return has_weight() ? operands_[division_.weight].number(division_.parameter(i)) : 1;
  }
  /// x without the mean; of given statistics the size of the terms.
  double d(int64_t i) {
    if (division_.given) {
      const bool shifted = op_.kind() == OpKind::BatchNormGrad;
      return std::fabs(x(i)) + std::fabs(statistic(division_.backwards ? 2 : 1, i)) +
             (shifted ? std::fabs(statistic(4, i)) : 0);
    }
    return division_.centred ? x(i) - own(i).x / own(i).count : x(i);
  }
  double root(int64_t i) {
    const double square =
        division_.given ? statistic(division_.backwards ? 3 : 2, i) : own(i).square / own(i).count;
    return std::sqrt(square + op_.float_attr("eps"));
  }
  double q(int64_t i) {
    if (division_.given || !division_.centred) return 1;
    return 1 + kRoundings * unit() * own(i).size / own(i).count / root(i);
  }
  double unit() const { return op_.operand(0).dtype() == ir::DType::F64 ? 0x1p-53 : 0x1p-24; }
  /// H of above.
  double h(int64_t i) { return std::fabs(d(i)) / root(i) * q(i) * q(i) + q(i); }
  /// The size of the cotangent of h.
  double slope(int64_t i) {
    const double dy = std::fabs(operands_[1].number(i));
    return dy == 0 ? 0 : dy * std::fabs(weight(i));
  }

  double forward(int64_t i) {
    const bool biased = operands_.size() > division_.weight + 1;
    const double bias = biased ? operands_[division_.weight + 1].number(division_.parameter(i)) : 0;
    return kRoundings * (h(i) * std::fabs(weight(i)) + std::fabs(bias));
  }
  double gradient(int64_t i) {
    const double level = own(i).slope / own(i).count, along = own(i).along / own(i).count;
    return kRoundings * q(i) * q(i) * (slope(i) + level + h(i) * along) / root(i);
  }
  /// Infinite where squares or their sums leave the range of the accumulator.
  double bounded(int64_t i, double error) {
    const Sums& sums = own(i);
    const bool leaves = sums.greatest * sums.greatest * sums.count > limit_ ||
                        d(i) * d(i) > limit_ || error > limit_ || h(i) > limit_ ||
                        (division_.backwards && (sums.slope > limit_ || sums.along > limit_));
    const bool finite = division_.given ? std::isfinite(d(i)) : std::isfinite(sums.greatest);
    return finite && leaves ? HUGE_VAL : error;
  }

  std::vector<double> parameters(int result) {
    std::vector<double> out(static_cast<size_t>(operands_[division_.weight].elements()));
    for (int64_t i = 0; i < operands_[0].elements(); ++i) {
      const double dy = std::fabs(operands_[1].number(i));
      double& error = out[static_cast<size_t>(division_.parameter(i))];
      error += bounded(i, kRoundings * (dy == 0 ? 0 : result == 1 ? dy * h(i) : dy));
    }
    for (double& error : out)
      if (error > limit_) error = HUGE_VAL;
    return out;
  }

  std::vector<double> statistics(int result) {
    std::vector<double> out(sums_.size());
    for (int64_t i = 0; i < operands_[0].elements(); ++i) {
      const Sums& sums = own(i);
      const double size = sums.size / sums.count, square = sums.square / sums.count;
      out[static_cast<size_t>(division_.part(i))] =
          bounded(i, result == 2 ? kRoundings * (square + std::pow(kRoundings * unit() * size, 2))
                                 : kRoundings * size);
    }
    return out;
  }

  const ir::Op& op_;
  const Tensors& operands_;
  Division division_;
  std::vector<Sums> sums_;
  double limit_;
};

}  // namespace

std::optional<std::vector<double>> norm_errors(const ir::Op& op, const Tensors& operands,
                                               int result) {
  std::optional<Division> division = division_of(op, operands[0].type.shape);
  if (!division) return std::nullopt;
  return Errors(op, operands, std::move(*division)).of(result);
}

}  // namespace mezzo::test
