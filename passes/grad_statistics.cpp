// SPDX-License-Identifier: Apache-2.0
// Gradient rules of products, variance and deviation, log-sum-exp and norms. 16-bit operands are
// differentiated in f32 and rounded once.
#include <mezzo/passes/autodiff.h>
#include <mezzo/passes/reduced_axes.h>

#include <algorithm>
#include <limits>

namespace mezzo::passes {

using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Value;

namespace {

constexpr const char* kReason = "a reduction is differentiated in f32";

/// What the rules read: the operand and the cotangent in f32 or f64, the latter with reduced axes
/// of length 1.
struct Wide {
  GradContext& c;
  std::vector<int64_t> axes;
  Value x;
  Value g;

  explicit Wide(GradContext& context)
      : c(context), axes(c.op().ints_attr("axes")), x(widen(c.operand(0))) {
    g = kept(widen(c.cotangent()));
  }

  Value widen(Value value) const { return c.builder.widen(value, kReason); }
  Value kept(Value value) const {
    return with_kept_axes(c.builder, value, c.operand(0).shape(), axes);
  }
  /// The result, reduced axes kept; for 16-bit types computed again in f32, where nothing is
  /// rounded or out of range.
  Value result() const {
    if (x == c.operand(0)) return kept(c.result());
    Attrs attrs;
    for (const ir::AttrInfo& info : c.op().info().attributes)
      if (const ir::Attr* attr = c.op().attrs().find(info.name)) attrs.set(info.name, *attr);
    attrs.set("keepdims", true);
    return c.builder.make(c.op().kind(), {x}, std::move(attrs));
  }
  Value scalar(double value) const { return c.scalar(x.dtype(), value); }
  Value zero_where(Value condition, Value otherwise) const {
    return c.make(OpKind::Where, {condition, scalar(0), otherwise});
  }
  /// The number that a variance divides by.
  double divisor() const {
    const int64_t count = reduced_count(c.operand(0).shape(), axes);
    return static_cast<double>(std::max<int64_t>(0, count - c.op().int_attr("correction")));
  }
  bool nothing() const { return c.operand(0).type().elements() == 0; }
  void accumulate(Value dx) const {
    c.accumulate(0, c.builder.cast(dx, c.operand(0).dtype(), kReason));
  }
  void accumulate_zeros() const { c.accumulate(0, c.builder.constant(c.operand(0).type(), 0)); }
};

}  // namespace

/// g times the product of all others: those before an element times those behind it, so that any
/// number of zeros is right.
void grad_prod(GradContext& c) {
  const Wide wide(c);
  if (wide.nothing()) return wide.accumulate_zeros();
  const FlatAxes layout(c.builder, wide.x.shape(), wide.axes);
  Value x = layout.flatten(wide.x);
  auto others = [&](bool reverse) {
    return c.builder.make(OpKind::Cumprod, {x},
                          {{"axis", layout.axis()}, {"exclusive", true}, {"reverse", reverse}});
  };
  // An empty product times one that has left the range is 0.
  Value product = c.make(OpKind::Mul0, {others(false), others(true)});
  wide.accumulate(layout.restore(c.make(OpKind::Mul0, {layout.of_result(wide.g), product})));
}

/// 2 g (x - mean) / (n - correction)
void grad_var(GradContext& c) {
  const Wide wide(c);
  if (wide.nothing()) return wide.accumulate_zeros();
  Value scale = c.make(OpKind::Mul0, {wide.g, wide.scalar(2 / wide.divisor())});
  wide.accumulate(c.make(OpKind::Mul0, {scale, deviations(c.builder, wide.x, wide.axes)}));
}

/// g (x - mean) / ((n - correction) y), and 0 where y is 0.
void grad_stddev(GradContext& c) {
  const Wide wide(c);
  if (wide.nothing()) return wide.accumulate_zeros();
  Value y = wide.result();
  Value flat = c.make(OpKind::Eq, {y, wide.scalar(0)});
  Value scaled = c.make(OpKind::Mul, {y, wide.scalar(wide.divisor())});
  Value slope = wide.zero_where(flat, c.make(OpKind::Reciprocal, {scaled}));
  Value scale = c.make(OpKind::Mul0, {wide.g, slope});
  wide.accumulate(c.make(OpKind::Mul0, {scale, deviations(c.builder, wide.x, wide.axes)}));
}

/// g exp(x - y), and 0 where all elements are -inf.
void grad_logsumexp(GradContext& c) {
  const Wide wide(c);
  if (wide.nothing()) return wide.accumulate_zeros();
  Value y = wide.result();
  Value dead = c.make(OpKind::Eq, {y, wide.scalar(-std::numeric_limits<double>::infinity())});
  Value shifted = c.make(OpKind::Sub, {wide.x, wide.zero_where(dead, y)});
  Value g = wide.zero_where(dead, wide.g);
  wide.accumulate(c.make(OpKind::Mul0, {g, c.make(OpKind::Exp, {shifted})}));
}

/// g sign(x) (|x| / y)^(p - 1), and 0 where x is 0.
void grad_norm(GradContext& c) {
  const Wide wide(c);
  if (wide.nothing()) return wide.accumulate_zeros();
  const double order = c.op().float_attr("ord");
  if (order == 1)
    return wide.accumulate(c.make(OpKind::Mul0, {wide.g, c.make(OpKind::Sign, {wide.x})}));
  Value y = wide.result();
  Value none = c.make(OpKind::Eq, {y, wide.scalar(0)});
  Value ratio = c.make(OpKind::Div, {wide.x, c.make(OpKind::Where, {none, wide.scalar(1), y})});
  if (order == 2) return wide.accumulate(c.make(OpKind::Mul0, {wide.g, ratio}));
  Value zero = c.make(OpKind::Eq, {wide.x, wide.scalar(0)});
  Value power = c.make(OpKind::Pow, {c.make(OpKind::Abs, {ratio}), wide.scalar(order - 1)});
  Value slope = c.make(OpKind::Mul, {c.make(OpKind::Sign, {wide.x}), power});
  wide.accumulate(c.make(OpKind::Mul0, {wide.g, wide.zero_where(zero, slope)}));
}

}  // namespace mezzo::passes
