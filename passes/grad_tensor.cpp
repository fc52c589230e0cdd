// SPDX-License-Identifier: Apache-2.0
// Gradient rules of views, movement, reductions, products and softmax.
#include <mezzo/passes/autodiff.h>
#include <mezzo/passes/reduced_axes.h>

namespace mezzo::passes {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

// --- views and movement

void grad_broadcast_to(GradContext& c) { c.accumulate(0, c.cotangent()); }

void grad_reshape(GradContext& c) {
  c.accumulate(0, c.builder.reshape(c.cotangent(), c.operand(0).shape()));
}

void grad_transpose(GradContext& c) {
  std::vector<int64_t> perm = c.op().ints_attr("perm"), inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  c.accumulate(0, c.builder.transpose(c.cotangent(), inverse));
}

/// Elements that the slice left out get zeros.
void grad_slice(GradContext& c) {
  std::vector<int64_t> starts = c.op().ints_attr("starts"), steps = c.op().ints_attr("steps");
  std::vector<int64_t> high, interior;
  for (int i = 0; i < c.operand(0).shape().rank(); ++i) {
    size_t axis = static_cast<size_t>(i);
    int64_t taken = c.result().shape()[i];
    int64_t span = taken == 0 ? 0 : (taken - 1) * steps[axis] + 1;
    high.push_back(c.operand(0).shape()[i] - starts[axis] - span);
    interior.push_back(taken > 1 ? steps[axis] - 1 : 0);
  }
  c.accumulate(0, c.builder.make(
                      OpKind::Pad, {c.cotangent()},
                      {{"low", Attr(starts)}, {"high", Attr(high)}, {"interior", Attr(interior)}}));
}

// --- reductions

namespace {

/// All of the cotangent goes to the first greatest element (the first least one for min), first in
/// the row-major order of the reduced axes.
void grad_first_extremum(GradContext& c, bool least) {
  const FlatAxes layout(c.builder, c.operand(0).shape(), c.op().ints_attr("axes"));
  Value flat = layout.flatten(c.operand(0));
  if (least) flat = c.make(OpKind::Neg, {flat});
  Value first =
      c.builder.make(OpKind::Argmax, {flat}, {{"axis", layout.axis()}, {"keepdims", true}});
  Value place =
      c.builder.make(OpKind::Iota, {}, {{"axis", 0}}, {Type(DType::I32, Shape{layout.length()})});
  Value g = layout.of_result(c.cotangent());
  Value chosen = c.make(OpKind::Eq, {place, first});
  Value picked = c.make(OpKind::Where, {chosen, g, c.scalar(g.dtype(), 0)});
  c.accumulate(0, layout.restore(picked));
}

}  // namespace

void grad_sum(GradContext& c) {
  const Shape& shape = c.operand(0).shape();
  Value g = with_kept_axes(c.builder, c.cotangent(), shape, c.op().ints_attr("axes"));
  c.accumulate(0, c.builder.broadcast_to(g, shape));
}

/// Divides in f32: the count may be beyond the range of a 16-bit type.
void grad_mean(GradContext& c) {
  std::vector<int64_t> axes = c.op().ints_attr("axes");
  Value x = c.operand(0);
  const auto count = static_cast<double>(reduced_count(x.shape(), axes));
  DType wide = x.dtype() == DType::F64 ? DType::F64 : DType::F32;
  Value g = c.builder.cast(c.cotangent(), wide, "a mean divides in f32");
  g = c.make(OpKind::Div, {g, c.scalar(wide, count)});
  g = with_kept_axes(c.builder, c.builder.cast(g, x.dtype(), "a mean divides in f32"), x.shape(),
                     axes);
  c.accumulate(0, c.builder.broadcast_to(g, x.shape()));
}

void grad_max(GradContext& c) { grad_first_extremum(c, false); }
void grad_min(GradContext& c) { grad_first_extremum(c, true); }

// --- products

namespace {

Value matmul(GradContext& c, Value a, Value b, bool transpose_a, bool transpose_b) {
  return c.builder.make(OpKind::Matmul, {a, b},
                        {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
                        {Type(a.dtype(), {})});
}

/// [..., m, n] as [..m, n].
Value flatten_rows(GradContext& c, Value value) {
  int64_t rows = 1;
  int rank = value.shape().rank();
  for (int i = 0; i + 1 < rank; ++i) rows *= value.shape()[i];
  return c.builder.reshape(value, Shape{rows, value.shape()[rank - 1]});
}

}  // namespace

void grad_matmul(GradContext& c) {
  Value a = c.operand(0), b = c.operand(1);
  bool ta = c.op().bool_attr("transpose_a"), tb = c.op().bool_attr("transpose_b");
  Value g = c.builder.cast(c.cotangent(), a.dtype(), "cotangent of a product with f32 result");
  if (c.wants(0)) c.accumulate(0, ta ? matmul(c, b, g, tb, true) : matmul(c, g, b, false, !tb));
  if (!c.wants(1)) return;
  // One product over all rows instead of a product for each batch and a sum.
  if (b.shape().rank() == 2 && a.shape().rank() > 2 && !ta) {
    a = flatten_rows(c, a);
    g = flatten_rows(c, g);
  }
  c.accumulate(1, tb ? matmul(c, g, a, true, ta) : matmul(c, a, g, !ta, false));
}

// --- softmax

void grad_softmax(GradContext& c) {
  c.accumulate(0, c.builder.make(OpKind::SoftmaxGrad, {c.result(), c.cotangent()},
                                 {{"axis", c.op().int_attr("axis")}}));
}

void grad_log_softmax(GradContext& c) {
  c.accumulate(0, c.builder.make(OpKind::LogSoftmaxGrad, {c.result(), c.cotangent()},
                                 {{"axis", c.op().int_attr("axis")}}));
}

}  // namespace mezzo::passes
