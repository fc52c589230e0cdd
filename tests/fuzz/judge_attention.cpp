// SPDX-License-Identifier: Apache-2.0
// Errors of attention: scores are off by the roundings of their products, weights by as much of
// themselves and, in 16 bits, by the rounding before the second product.
#include <mezzo/ir/attention.h>
#include <mezzo/ir/builder.h>

#include <algorithm>
#include <cmath>
#include <fuzz/judge_losses.h>

namespace mezzo::test {

using ir::InterpreterTensor;
using ir::OpKind;
using Tensors = std::vector<InterpreterTensor>;

namespace {

class Errors {
 public:
  Errors(const ir::Op& op, const Tensors& operands, int result)
      : op_(op),
        x_(operands),
        result_(result),
        at_(ir::attention_operands(op.kind(), op.attrs(), operands.size())),
        heads_(x_[0].type.shape[1]),
        groups_(x_[1].type.shape[1]),
        queries_(x_[0].type.shape[2]),
        keys_(x_[1].type.shape[2]),
        depth_(x_[0].type.shape[3]),
        width_(x_[2].type.shape[3]),
        scale_(op.float_attr("scale")),
        unit_(ir::unit_roundoff(ir::default_acc(x_[0].type.dtype))),
        narrow_(2 * ir::unit_roundoff(x_[0].type.dtype)),
        least_(x_[0].type.dtype == ir::DType::F16    ? 0x1p-24
               : x_[0].type.dtype == ir::DType::BF16 ? 0x1p-126
                                                     : 0),
        flush_(x_[0].type.dtype == ir::DType::BF16 ? 0x1p-126 : 0) {}

  std::vector<double> all() {
    std::vector<double> out(static_cast<size_t>(op_.result(result_).type().elements()), 0.0);
    for (int64_t b = 0; b < x_[0].type.shape[0]; ++b)
      for (int64_t h = 0; h < heads_; ++h) head(b, h, out);
    return out;
  }

 private:
  struct Score {
    double value = -HUGE_VAL, size = 0;
    double flushed = 0;  // terms with an operand that a product may take for 0
  };

  Score score(int64_t b, int64_t h, int64_t m, int64_t n) const {
    Score out;
    if (op_.bool_attr("causal") && n > m) return out;
    double added = 0;
    if (at_.mask >= 0) {
      const InterpreterTensor& mask = x_[static_cast<size_t>(at_.mask)];
      const ir::Shape& shape = mask.type.shape;
      const int64_t index[] = {b, h, m, n};
      int64_t place = 0;
      for (int i = 0; i < shape.rank(); ++i)
        place = place * shape[i] + (shape[i] == 1 ? 0 : index[4 - shape.rank() + i]);
      added = mask.number(place);
      if (mask.holds_floats() ? added == -HUGE_VAL : added == 0) return out;
      if (!mask.holds_floats()) added = 0;
    }
    double dot = 0, size = 0;
    for (int64_t i = 0; i < depth_; ++i) {
      const double q = x_[0].number(row(b, h, m) * depth_ + i),
                   k = x_[1].number(column(b, h, n) * depth_ + i), term = q * k;
      dot += term;
      size += std::fabs(term);
      if (std::min(std::fabs(q), std::fabs(k)) < flush_) out.flushed += std::fabs(term * scale_);
    }
    out.value = dot * scale_ + added;
    out.size = size * std::fabs(scale_) + std::fabs(added);
    return out;
  }
  int64_t row(int64_t b, int64_t h, int64_t m) const { return (b * heads_ + h) * queries_ + m; }
  int64_t column(int64_t b, int64_t h, int64_t n) const {
    return (b * groups_ + h / (heads_ / groups_)) * keys_ + n;
  }
  /// How far a weight is off, as a share of it.
  double share_off(double size, double flushed) const {
    return unit_ * (1024 + (256 + static_cast<double>(depth_)) * size) + narrow_ + 2 * flushed;
  }
  /// Numbers that a product multiplies by 0, or by a weight that one side rounds to 0.
  bool all_finite(size_t operand, int64_t first, int64_t count) const {
    for (int64_t i = 0; i < count; ++i)
      if (!std::isfinite(x_[operand].number(first + i))) return false;
    return true;
  }

  void head(int64_t b, int64_t h, std::vector<double>& out) {
    const bool gradient = op_.kind() == OpKind::AttentionGrad;
    bool finite = all_finite(0, row(b, h, 0) * depth_, queries_ * depth_) &&
                  all_finite(1, column(b, h, 0) * depth_, keys_ * depth_) &&
                  all_finite(2, column(b, h, 0) * width_, keys_ * width_);
    if (gradient)
      for (size_t operand : {3, 5})
        finite = finite && all_finite(operand, row(b, h, 0) * width_, queries_ * width_);
    for (int64_t m = 0; m < queries_; ++m) {
      std::vector<Score> scores;
      double largest = -HUGE_VAL, size = 0, flushed = 0;
      for (int64_t n = 0; n < keys_; ++n) {
        scores.push_back(score(b, h, m, n));
        largest = std::max(largest, scores.back().value);
        size = std::max(size, scores.back().size);
        flushed = std::max(flushed, scores.back().flushed);
      }
      // Sums of squares of large numbers may leave the range of the accumulator.
      const bool open = !finite || !(size < 1e30);
      gradient ? backward(b, h, m, scores, open, out)
               : forward(b, h, m, scores, largest, share_off(size, flushed), open, out);
    }
  }

  void forward(int64_t b, int64_t h, int64_t m, const std::vector<Score>& scores, double largest,
               double share, bool open, std::vector<double>& out) {
    const int64_t at = row(b, h, m);
    if (largest == -HUGE_VAL && !open) return;  // exact
    const double off = open ? HUGE_VAL : share / unit_;
    if (result_ == 1) {
      out[static_cast<size_t>(at)] = off + 64 * (std::fabs(largest) + static_cast<double>(keys_));
      return;
    }
    double total = 0;
    for (const Score& each : scores) total += std::exp(each.value - largest);
    const double kept = 1 / std::max(1 - op_.float_attr("rate"), 1e-9);
    for (int64_t i = 0; i < width_; ++i) {
      double sum = 0, lost = 0;
      for (int64_t n = 0; n < keys_; ++n) {
        const double v = std::fabs(x_[2].number(column(b, h, n) * width_ + i));
        sum += std::exp(scores[static_cast<size_t>(n)].value - largest) / total * v;
        lost += (least_ * v + flush_ * kept) / unit_;
      }
      out[static_cast<size_t>(at * width_ + i)] = open ? HUGE_VAL : sum * kept * off + lost;
    }
  }

  void backward(int64_t b, int64_t h, int64_t m, const std::vector<Score>& scores, bool open,
                std::vector<double>& out) {
    const int64_t at = row(b, h, m);
    const double lse = x_[4].number(at);
    const double kept = 1 / std::max(1 - op_.float_attr("rate"), 1e-9);
    double spread = std::fabs(x_[6].number(at));
    for (int64_t i = 0; i < width_; ++i)
      spread += std::fabs(x_[3].number(at * width_ + i) * x_[5].number(at * width_ + i));
    for (int64_t n = 0; n < keys_; ++n) {
      const Score& each = scores[static_cast<size_t>(n)];
      const int64_t key = column(b, h, n);
      const bool masked = each.value == -HUGE_VAL || lse == -HUGE_VAL;
      if (masked && !open) continue;
      const double p = std::exp(each.value - lse);
      double off = share_off(each.size + std::fabs(lse), each.flushed) / unit_;
      if (open || !std::isfinite(lse) || !std::isfinite(p)) off = HUGE_VAL;
      double dp = 0, flushed = 0;
      for (int64_t i = 0; i < width_; ++i) {
        const double dy = std::fabs(x_[5].number(at * width_ + i)),
                     v = std::fabs(x_[2].number(key * width_ + i));
        dp += dy * v * kept;
        flushed += flush_ * (dy + v + 1) * kept;
      }
      // Weights and gradients of scores that no f16 holds: the log-sum-exp is not that of the
      // scores.
      if (least_ == 0x1p-24 && p * std::max(kept, (dp + spread) * std::fabs(scale_)) > 60000)
        off = HUGE_VAL;
      const double ds = std::isinf(off) ? HUGE_VAL : p * (dp + spread) * off + p * flushed / unit_;
      const double lost = least_ / unit_,
                   flushed_operand = flush_ * (1 + p * (dp + spread) * std::fabs(scale_)) / unit_;
      auto add = [&](int64_t place, double factor, double narrowed) {
        out[static_cast<size_t>(place)] +=
            std::isinf(ds) ? HUGE_VAL
                           : ds * std::fabs(factor) + lost * std::fabs(narrowed) + flushed_operand;
      };
      for (int64_t i = 0; result_ == 0 && i < depth_; ++i)
        add(at * depth_ + i, scale_ * x_[1].number(key * depth_ + i),
            x_[1].number(key * depth_ + i));
      for (int64_t i = 0; result_ == 1 && i < depth_; ++i)
        add(key * depth_ + i, scale_ * x_[0].number(at * depth_ + i),
            x_[0].number(at * depth_ + i));
      for (int64_t i = 0; result_ == 2 && i < width_; ++i)
        out[static_cast<size_t>(key * width_ + i)] +=
            std::isinf(off) ? HUGE_VAL
                            : (p * kept * off + lost) * std::fabs(x_[5].number(at * width_ + i)) +
                                  flush_ * (1 + p * kept) / unit_;
      if (result_ == 3) {
        const ir::Shape& shape = x_[static_cast<size_t>(at_.mask)].type.shape;
        const int64_t index[] = {b, h, m, n};
        int64_t place = 0;
        for (int i = 0; i < shape.rank(); ++i)
          place = place * shape[i] + (shape[i] == 1 ? 0 : index[4 - shape.rank() + i]);
        add(place, 1, 0);
      }
    }
  }

  const ir::Op& op_;
  const Tensors& x_;
  int result_;
  ir::AttentionOperands at_;
  int64_t heads_, groups_, queries_, keys_, depth_, width_;
  double scale_, unit_, narrow_;
  double least_;  // what a weight in 16 bits may lose
  double flush_;  // below it a product of bf16 may take its operands and its sum for 0
};

}  // namespace

std::optional<std::vector<double>> attention_errors(const ir::Op& op, const Tensors& operands,
                                                    int result) {
  if (op.kind() != OpKind::Attention && op.kind() != OpKind::AttentionGrad) return std::nullopt;
  return Errors(op, operands, result).all();
}

}  // namespace mezzo::test
