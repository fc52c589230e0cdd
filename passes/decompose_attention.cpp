// SPDX-License-Identifier: Apache-2.0
// Decompositions of attention: a product, one kernel over the rows of scores, a product; the
// gradient computes the weights anew from the scores and the saved log-sum-exp. Scores and weights
// are f32 (f64 for f64); the weights are rounded once, where a product reads them.
//
// Query heads that read the same keys stand behind each other, so that a group of them is one
// product of more rows: [b, h, m, d] is [b, g, h / g * m, d] without moving anything.
#include <mezzo/ir/attention.h>
#include <mezzo/passes/decompose_random.h>

#include <cmath>

namespace mezzo::passes {

namespace {

class Attention {
 public:
  Attention(const Composite& op, ir::Builder& builder)
      : parts_{builder},
        op_(op),
        at_(ir::attention_operands(op.kind, op.attrs, op.operands.size())),
        q(op.operand(0)),
        k(op.operand(1)),
        v(op.operand(2)),
        wide_(ir::default_acc(q.dtype())),
        scores_{q.shape()[0], q.shape()[1], q.shape()[2], k.shape()[2]} {
    find_allowed();
  }

  bool empty() const { return scores_.elements() == 0; }
  DType wide() const { return wide_; }
  Parts& parts() { return parts_; }
  Value scalar(double value) { return parts_.scalar(wide_, value); }
  Value zeros(const Type& type) { return parts_.builder.constant(type, 0); }

  /// A product for each head of keys; the result has `dtype`.
  Value product(Value a, Value b, bool transpose_a, bool transpose_b, DType dtype) {
    return parts_.builder.make(OpKind::Matmul, {a, b},
                               {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
                               {Type(dtype, {})});
  }
  /// Rows of queries by heads of keys, and back.
  Value grouped(Value value) {
    const Shape& shape = value.shape();
    return parts_.builder.reshape(
        value, Shape{shape[0], k.shape()[1], scores_[1] * scores_[2] / k.shape()[1], shape[3]});
  }
  Value ungrouped(Value value) {
    return parts_.builder.reshape(value,
                                  Shape{scores_[0], scores_[1], scores_[2], value.shape()[3]});
  }

  /// a b^T for each query and key.
  Value pairs(Value a, Value b) { return ungrouped(product(grouped(a), b, false, true, wide_)); }
  /// Scaled and masked: -inf where a query may not read a key.
  Value scores() {
    Value s = parts_.make(OpKind::Mul, {pairs(q, k), scalar(op_.float_attr("scale"))});
    if (added_) s = parts_.make(OpKind::Add, {s, added_});
    return allowed_ ? parts_.make(OpKind::Where, {allowed_, s, scalar(-HUGE_VAL)}) : s;
  }
  /// What dropout leaves of `x`, one number for each query and key.
  Value dropped(Value x) {
    if (at_.rng < 0) return x;
    return drop(parts_, x,
                {op_.float_attr("rate"), op_.int_attr("stream"), operand(at_.rng),
                 at_.offset < 0 ? Value() : operand(at_.offset)});
  }
  /// Keys or values, 0 where no query reads them: what they hold there is not even a factor of 0.
  Value read_by_any(Value value) {
    if (!any_) return value;
    return parts_.make(OpKind::Where, {any_, value, parts_.scalar(value, 0)});
  }
  Value narrow(Value value) { return parts_.narrow(value, q.dtype()); }
  Value operand(int index) { return op_.operand(static_cast<size_t>(index)); }
  /// Sums over the axes along which a mask was broadcast, and its type.
  Value to_mask(Value ds) {
    const Shape mask = operand(at_.mask).shape();
    std::vector<int64_t> axes;
    const int extra = 4 - mask.rank();
    for (int i = 0; i < 4; ++i)
      if (i < extra || mask[i - extra] != scores_[i]) axes.push_back(i);
    return parts_.builder.reshape(axes.empty() ? ds : parts_.builder.sum(ds, axes), mask);
  }

 private:
  Parts parts_;
  const Composite& op_;
  ir::AttentionOperands at_;

 public:
  const Value q, k, v;

 private:
  /// Which pairs of a query and a key there are (a bool that broadcasts to the scores), what is
  /// added to their scores, and which keys any query reads, [b, g, n, 1]; empty for all and
  /// nothing.
  void find_allowed() {
    if (empty()) return;
    const int64_t queries = scores_[2], keys = scores_[3];
    if (at_.mask >= 0) {
      Value mask = operand(at_.mask);
      std::vector<int64_t> dims(static_cast<size_t>(4 - mask.type().rank()), 1);
      dims.insert(dims.end(), mask.shape().begin(), mask.shape().end());
      mask = parts_.builder.reshape(mask, Shape(std::span<const int64_t>(dims)));
      allowed_ = mask;
      if (is_float(mask.dtype())) {
        // -inf masks; anything else is a number.
        added_ = mask;
        allowed_ = parts_.make(OpKind::Ne, {mask, scalar(-HUGE_VAL)});
      }
    }
    const bool one_for_all = !allowed_ || allowed_.shape()[2] == 1;
    if (one_for_all) any_ = allowed_;
    if (op_.bool_attr("causal")) {
      // Key j for queries from j on: of more keys than queries the last ones are for none.
      restrict(allowed_, parts_.make(OpKind::Le, {places(3, keys), places(2, queries)}));
      if (one_for_all && keys > queries) {
        Value place = places(3, keys);
        restrict(any_, parts_.make(OpKind::Lt,
                                   {place, parts_.scalar(place, static_cast<double>(queries))}));
      }
    }
    if (!one_for_all) any_ = some(allowed_, 2);
    if (any_) any_ = by_keys(any_);
  }

  Value places(int axis, int64_t length) {
    return parts_.builder.make(OpKind::Iota, {}, {{"axis", axis}},
                               {Type(DType::I32, Shape{1, 1, 1, 1}.with(axis, length))});
  }
  void restrict(Value& allowed, Value by) {
    allowed = allowed ? parts_.make(OpKind::LogicalAnd, {allowed, by}) : by;
  }

  /// [b, h, 1, n] as [b, g, n, 1]: true where it is for a head of the group.
  Value by_keys(Value any) {
    const Shape shape = any.shape();
    const int64_t groups = k.shape()[1], each = scores_[1] / groups;
    if (shape[1] != 1 && each != 1)
      any = some(parts_.builder.reshape(any, Shape{shape[0], groups, each, shape[3]}), 2);
    const int64_t heads = shape[1] == 1 ? 1 : groups;
    return parts_.builder.reshape(any, Shape{shape[0], heads, shape[3], 1});
  }
  Value some(Value value, int64_t axis) {
    Value number = parts_.builder.cast(value, DType::I32, "the largest says whether any is true");
    Value most = parts_.builder.max(number, {axis}, true);
    return parts_.make(OpKind::Ne, {most, parts_.scalar(most, 0)});
  }

  DType wide_;
  Shape scores_;
  Value allowed_, added_, any_;
};

}  // namespace

std::vector<Value> decompose_attention(const Composite& op, ir::Builder& builder) {
  Attention it(op, builder);
  Parts& parts = it.parts();
  if (it.empty()) return {it.zeros(op.results[0]), builder.constant(op.results[1], -HUGE_VAL)};
  Value s = it.scores();
  Value top = builder.max(s, {3}, true);
  Value dead = parts.make(OpKind::Eq, {top, it.scalar(-HUGE_VAL)});
  // -inf - (-inf) is NaN, so such a row is shifted by 0.
  Value shift = parts.make(OpKind::Where, {dead, it.scalar(0), top});
  Value exp = parts.make(OpKind::Exp, {parts.make(OpKind::Sub, {s, shift})});
  Value sum = builder.sum(exp, {3}, true);
  Value total = parts.make(OpKind::Where, {dead, it.scalar(1), sum});
  Value log_sum = parts.make(OpKind::Add, {shift, parts.make(OpKind::Log, {total})});
  Value lse = parts.make(OpKind::Where, {dead, it.scalar(-HUGE_VAL), log_sum});
  Value p = it.narrow(it.dropped(parts.make(OpKind::Div, {exp, total})));
  Value product =
      it.product(it.grouped(p), it.read_by_any(it.v), false, false, op.results[0].dtype);
  return {it.ungrouped(product), builder.reshape(lse, op.results[1].shape)};
}

/// ds = p (dp - (Σ dy y - dlse)) with p = exp(s - lse); rows without a key have lse -inf, and
/// nothing of them is read.
std::vector<Value> decompose_attention_grad(const Composite& op, ir::Builder& builder) {
  Attention it(op, builder);
  Parts& parts = it.parts();
  std::vector<Value> results;
  if (it.empty()) {
    for (const Type& type : op.results) results.push_back(it.zeros(type));
    return results;
  }
  const Shape column = it.q.shape().with(3, 1);
  Value lse = builder.reshape(op.operand(4), column), dlse = builder.reshape(op.operand(6), column);
  Value dead = parts.make(OpKind::Eq, {lse, it.scalar(-HUGE_VAL)});
  auto live = [&](Value value) {
    return parts.make(OpKind::Where, {dead, parts.scalar(value, 0), value});
  };
  Value q = live(it.q), dy = live(op.operand(5)), k = it.read_by_any(it.k);
  Value shifted = parts.make(OpKind::Sub, {it.scores(), live(lse)});
  Value p = live(parts.make(OpKind::Exp, {shifted}));
  Value weights = it.narrow(it.dropped(p));
  Value products = parts.make(OpKind::Mul, {parts.widen(dy), parts.widen(live(op.operand(3)))});
  Value spread = parts.make(OpKind::Sub, {builder.sum(products, {3}, true), dlse});
  Value dp = it.dropped(it.pairs(dy, it.read_by_any(it.v)));
  Value ds = parts.make(OpKind::Mul0, {p, parts.make(OpKind::Sub, {dp, spread})});
  Value scaled =
      it.grouped(it.narrow(parts.make(OpKind::Mul, {ds, it.scalar(op.float_attr("scale"))})));
  results = {it.ungrouped(it.product(scaled, k, false, false, op.results[0].dtype)),
             it.product(scaled, it.grouped(q), true, false, op.results[1].dtype),
             it.product(it.grouped(weights), it.grouped(dy), true, false, op.results[2].dtype)};
  if (op.bool_attr("mask_grad")) results.push_back(it.to_mask(ds));
  return results;
}

}  // namespace mezzo::passes
