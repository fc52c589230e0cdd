// SPDX-License-Identifier: Apache-2.0
// Decompositions of reductions: to bools and counts, variance and deviation, log-sum-exp, norms.
#include <mezzo/ir/shape_rules.h>
#include <mezzo/passes/decompose_parts.h>
#include <mezzo/passes/reduced_axes.h>

#include <algorithm>
#include <limits>

namespace mezzo::passes {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The axes of the composite and what they make one.
struct Reduced {
  std::vector<int64_t> axes;
  bool keepdims;
  int64_t count;

  explicit Reduced(const Composite& op)
      : axes(op.attrs.get_ints("axes")),
        keepdims(op.bool_attr("keepdims")),
        count(reduced_count(op.operand(0).shape(), axes)) {}
};

Value is_nonzero(Parts& parts, Value x) {
  return x.dtype() == DType::Bool ? x : parts.make(OpKind::Ne, {x, parts.scalar(x, 0)});
}

/// The bools of nonzero elements as bytes, folded by `kind`; `of_nothing` where there are none.
Value fold_nonzero(Parts& parts, const Composite& op, OpKind kind, bool of_nothing) {
  const Reduced reduced(op);
  if (reduced.count == 0) {
    const Shape shape = ir::reduced_shape(op.operand(0).shape(), reduced.axes, reduced.keepdims);
    return parts.builder.constant(Type(DType::Bool, shape), of_nothing);
  }
  Value bytes = parts.builder.cast(is_nonzero(parts, op.operand(0)), DType::U8, "bools as 0 and 1");
  Value folded =
      parts.make(kind, {bytes}, {{"axes", ir::Attr(reduced.axes)}, {"keepdims", reduced.keepdims}});
  return is_nonzero(parts, folded);
}

/// Σ (x - mean)² / max(0, n - correction) in f32 or f64: NaN of nothing, and of one element unless
/// the correction is 0.
Value variance(Parts& parts, const Composite& op) {
  const Reduced reduced(op);
  Value x = parts.widen(op.operand(0));
  const double divisor = std::max(
      0.0, static_cast<double>(reduced.count) - static_cast<double>(op.int_attr("correction")));
  Value squares = reduced.count == 0
                      ? x
                      : parts.make(OpKind::Square, {deviations(parts.builder, x, reduced.axes)});
  Value sum = parts.builder.sum(squares, reduced.axes, reduced.keepdims);
  return parts.make(OpKind::Div, {sum, parts.scalar(x, divisor)});
}

/// Σ |x|^order of |x| / scale, and the scale: the largest |x| of each group where it is finite and
/// not 0, else 1, so that no power overflows and not all vanish.
struct Powers {
  Value sum, scale;
};

Powers scaled_powers(Parts& parts, Value x, const Reduced& reduced, double order) {
  Value size = parts.make(OpKind::Abs, {x});
  Value largest = parts.builder.max(size, reduced.axes, true);
  Value usable =
      parts.make(OpKind::LogicalAnd, {parts.make(OpKind::IsFinite, {largest}),
                                      parts.make(OpKind::Ne, {largest, parts.scalar(x, 0)})});
  Value scale = parts.make(OpKind::Where, {usable, largest, parts.scalar(x, 1)});
  Value ratio = parts.make(OpKind::Div, {size, scale});
  Value power = order == 2 ? parts.make(OpKind::Square, {ratio})
                           : parts.make(OpKind::Pow, {ratio, parts.scalar(x, order)});
  return {parts.builder.sum(power, reduced.axes, true), scale};
}

}  // namespace

/// The index of the greatest of -x; of integers that of -1 - x (255 - x), which reverses their
/// order without overflow.
std::vector<Value> decompose_argmin(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value x = op.operand(0);
  const double last = x.dtype() == DType::U8 ? 255 : -1;
  Value mirrored = ir::is_float(x.dtype()) ? parts.make(OpKind::Neg, {x})
                                           : parts.make(OpKind::Sub, {parts.scalar(x, last), x});
  return {parts.make(OpKind::Argmax, {mirrored},
                     {{"axis", op.int_attr("axis")}, {"keepdims", op.bool_attr("keepdims")}})};
}

std::vector<Value> decompose_any(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  return {fold_nonzero(parts, op, OpKind::Max, false)};
}

std::vector<Value> decompose_all(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  return {fold_nonzero(parts, op, OpKind::Min, true)};
}

std::vector<Value> decompose_count_nonzero(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  const Reduced reduced(op);
  Value ones = builder.cast(is_nonzero(parts, op.operand(0)), DType::I32, "bools as 0 and 1");
  return {builder.sum(ones, reduced.axes, reduced.keepdims)};
}

std::vector<Value> decompose_var(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  return {parts.narrow(variance(parts, op), op.operand(0).dtype())};
}

std::vector<Value> decompose_stddev(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value deviation = parts.make(OpKind::Sqrt, {variance(parts, op)});
  return {parts.narrow(deviation, op.operand(0).dtype())};
}

/// log Σ exp(x - max) + max; of nothing, and of nothing but -inf, -inf. A maximum that is +inf or
/// NaN is the result.
std::vector<Value> decompose_logsumexp(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  const Reduced reduced(op);
  Value x = parts.widen(op.operand(0));
  const Shape shape = ir::reduced_shape(x.shape(), reduced.axes, reduced.keepdims);
  if (reduced.count == 0) return {builder.constant(Type(op.operand(0).dtype(), shape), -kInfinity)};
  Value top = builder.max(x, reduced.axes, true);
  Value finite = parts.make(OpKind::IsFinite, {top});
  Value shift = parts.make(OpKind::Where, {finite, top, parts.scalar(x, 0)});
  Value exp = parts.make(OpKind::Exp, {parts.make(OpKind::Sub, {x, shift})});
  Value total = builder.sum(exp, reduced.axes, true);
  // The logarithm of 0 would be a pole, which no input is at fault for.
  total = parts.make(OpKind::Where, {finite, total, parts.scalar(x, 1)});
  Value y = parts.make(OpKind::Add, {parts.make(OpKind::Log, {total}), top});
  return {parts.narrow(builder.reshape(y, shape), op.operand(0).dtype())};
}

/// Order 1 adds magnitudes; order 2 adds squares in f64, which holds the square of every f32; other
/// orders, and f64, add powers of |x| / max |x|.
std::vector<Value> decompose_norm(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  const Reduced reduced(op);
  const DType dtype = op.operand(0).dtype();
  const double order = op.float_attr("ord");
  const Shape shape = ir::reduced_shape(op.operand(0).shape(), reduced.axes, reduced.keepdims);
  Value x = parts.widen(op.operand(0));
  if (order == 1 || reduced.count == 0) {
    Value sum = builder.sum(parts.make(OpKind::Abs, {x}), reduced.axes, reduced.keepdims);
    return {parts.narrow(sum, dtype)};
  }
  if (order == 2 && dtype != DType::F64) {
    Value wide = builder.cast(op.operand(0), DType::F64, "squares are added in f64");
    Value squares = parts.make(OpKind::Square, {wide});
    Value sum = builder.sum(squares, reduced.axes, reduced.keepdims);
    return {parts.narrow(parts.make(OpKind::Sqrt, {sum}), dtype)};
  }
  const Powers powers = scaled_powers(parts, x, reduced, order);
  Value root = order == 2 ? parts.make(OpKind::Sqrt, {powers.sum})
                          : parts.make(OpKind::Pow, {powers.sum, parts.scalar(x, 1 / order)});
  Value y = parts.make(OpKind::Mul, {root, powers.scale});
  return {parts.narrow(builder.reshape(y, shape), dtype)};
}

}  // namespace mezzo::passes
