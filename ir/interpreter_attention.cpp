// SPDX-License-Identifier: Apache-2.0
// The interpreter: attention and its gradient, query by query in double. A key that a query may not
// read takes no part in its sums, so that nothing which the key or its value holds can show.
#include <mezzo/ir/attention.h>
#include <mezzo/ir/interpreter_rows.h>
#include <mezzo/ir/interpreter_stream.h>

#include <optional>

namespace mezzo::ir {

namespace {

class Heads {
 public:
  explicit Heads(OpRun& run)
      : run_(run),
        q_(run.operand(0)),
        k_(run.operand(1)),
        v_(run.operand(2)),
        shape_{q_.type.shape[0], q_.type.shape[1], q_.type.shape[2], k_.type.shape[2]},
        depth(q_.type.shape[3]),
        width(v_.type.shape[3]),
        scale(run.op.float_attr("scale")),
        causal_(run.op.bool_attr("causal")),
        rate_(run.op.float_attr("rate")) {
    AttentionOperands at = attention_operands(run.op.kind(), run.op.attrs(), run.operands.size());
    if (at.mask >= 0) {
      mask_ = &run.operand(at.mask);
      mask_strides_ = broadcast_strides(mask_->type.shape, shape_);
    }
    if (at.rng >= 0) drops_.emplace(run, at.rng, shape_);
  }

  const Shape& scores() const { return shape_; }
  const Strides& mask_strides() const { return mask_strides_; }
  /// A score, -inf where the query may not read the key.
  double score(const IndexWalk& at) const {
    if (causal_ && at[3] > at[2]) return -HUGE_VAL;
    double added = 0;
    if (mask_) {
      int64_t place = at.offset(mask_strides_);
      if (!mask_->holds_floats() && mask_->number(place) == 0) return -HUGE_VAL;
      if (mask_->holds_floats()) added = mask_->number(place);
      if (added == -HUGE_VAL) return -HUGE_VAL;
    }
    double dot = 0;
    for (int64_t i = 0; i < depth; ++i) dot += q(at, i) * k(at, i);
    return dot * scale + added;
  }
  /// What dropout leaves of a weight of 1.
  double kept(int64_t score) const {
    if (!drops_ || rate_ == 0) return 1;
    return drops_->below(score, rate_) ? 0 : 1 / (1 - rate_);
  }

  int64_t row(const IndexWalk& at) const { return (at[0] * shape_[1] + at[1]) * shape_[2] + at[2]; }
  /// Query head h reads key head h / (query heads / key heads).
  int64_t column(const IndexWalk& at) const {
    int64_t heads = k_.type.shape[1];
    return (at[0] * heads + at[1] / (shape_[1] / heads)) * shape_[3] + at[3];
  }
  double q(const IndexWalk& at, int64_t i) const { return q_.number(row(at) * depth + i); }
  double k(const IndexWalk& at, int64_t i) const { return k_.number(column(at) * depth + i); }
  double v(const IndexWalk& at, int64_t i) const { return v_.number(column(at) * width + i); }

 private:
  OpRun& run_;
  const InterpreterTensor &q_, &k_, &v_;
  const InterpreterTensor* mask_ = nullptr;
  Strides mask_strides_{};
  Shape shape_;

 public:
  const int64_t depth, width;
  const double scale;

 private:
  bool causal_;
  double rate_;
  std::optional<RandomStream> drops_;
};

}  // namespace

void eval_attention(OpRun& run) {
  Heads heads(run);
  const int64_t keys = heads.scores()[3];
  std::vector<double> y(run.result(0).floats.size(), 0.0);
  std::vector<std::vector<double>> scores(static_cast<size_t>(run.result(1).elements()));
  for (IndexWalk at(heads.scores()); !at.done(); at.advance())
    scores[static_cast<size_t>(heads.row(at))].push_back(heads.score(at));
  for (size_t row = 0; row < scores.size(); ++row) {
    RowSum sum(scores[row]);
    run.store(1, static_cast<int64_t>(row), sum.nothing() ? -HUGE_VAL : sum.largest + sum.log_rest);
  }
  for (IndexWalk at(heads.scores()); !at.done(); at.advance()) {
    const std::vector<double>& row = scores[static_cast<size_t>(heads.row(at))];
    double score = row[static_cast<size_t>(at.linear() % keys)];
    if (score == -HUGE_VAL) continue;
    double weight = RowSum(row).softmax(score) * heads.kept(at.linear());
    for (int64_t i = 0; i < heads.width; ++i)
      y[static_cast<size_t>(heads.row(at) * heads.width + i)] += weight * heads.v(at, i);
  }
  for (size_t i = 0; i < y.size(); ++i) run.store(0, static_cast<int64_t>(i), y[i]);
}

// With p the weights and d what dropout leaves of each, dv = Σ d p dy, dp = d dy·v,
// ds = p (dp - (dy·y - dlse)), dq = Σ scale ds k, dk = Σ scale ds q, and ds itself for the mask.
void eval_attention_grad(OpRun& run) {
  Heads heads(run);
  const InterpreterTensor &y = run.operand(3), &lse = run.operand(4), &dy = run.operand(5),
                          &dlse = run.operand(6);
  std::vector<std::vector<double>> sums;
  for (const InterpreterTensor& result : run.results) sums.emplace_back(result.floats.size(), 0.0);
  for (IndexWalk at(heads.scores()); !at.done(); at.advance()) {
    double score = heads.score(at);
    int64_t row = heads.row(at), column = heads.column(at);
    if (score == -HUGE_VAL || lse.number(row) == -HUGE_VAL) continue;
    double weight = std::exp(score - lse.number(row)), kept = heads.kept(at.linear());
    double dp = 0, spread = -dlse.number(row);
    for (int64_t i = 0; i < heads.width; ++i) {
      double cotangent = dy.number(row * heads.width + i);
      dp += cotangent * heads.v(at, i);
      spread += cotangent * y.number(row * heads.width + i);
      sums[2][static_cast<size_t>(column * heads.width + i)] += kept * weight * cotangent;
    }
    double ds = mul0(weight, mul0(kept, dp) - spread);
    for (int64_t i = 0; i < heads.depth; ++i) {
      sums[0][static_cast<size_t>(row * heads.depth + i)] += ds * heads.scale * heads.k(at, i);
      sums[1][static_cast<size_t>(column * heads.depth + i)] += ds * heads.scale * heads.q(at, i);
    }
    if (sums.size() > 3) sums[3][static_cast<size_t>(at.offset(heads.mask_strides()))] += ds;
  }
  for (size_t result = 0; result < sums.size(); ++result)
    for (size_t i = 0; i < sums[result].size(); ++i)
      run.store(static_cast<int>(result), static_cast<int64_t>(i), sums[result][i]);
}

}  // namespace mezzo::ir
