// SPDX-License-Identifier: Apache-2.0
// Gradient rules of reads through an affine index, convolutions, pooling and upsampling. The three
// convolutions are one another's gradients, so that derivatives of any order exist.
#include <mezzo/ir/error.h>
#include <mezzo/passes/autodiff.h>
#include <mezzo/passes/taps.h>

#include <algorithm>

namespace mezzo::passes {

using ir::Attr;
using ir::Attrs;

namespace {

using Dims = std::vector<int64_t>;

Attrs with_shape(Attrs attrs, const Shape& shape) {
  attrs.set("shape", Attr(Dims(shape.begin(), shape.end())));
  return attrs;
}

/// Row i: the place that index i of the result reads along an axis, clamped.
std::vector<TapRow> clamped_reads(const RemapAxis& axis, int64_t length, int64_t size) {
  std::vector<TapRow> rows;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t at = axis.multiple * i + axis.offset;
    const int64_t place = at < 0 ? 0 : at / axis.divisor;
    rows.push_back({{std::min(place, length - 1), 1.0}});
  }
  return rows;
}

/// The cotangent summed over the axes that no axis of x moves along, which stay with length 1.
Value without_copies(GradContext& c, std::span<const RemapAxis> axes) {
  Value g = c.cotangent();
  std::vector<bool> read(static_cast<size_t>(g.type().rank()), false);
  for (const RemapAxis& axis : axes)
    for (int64_t each : {axis.axis, axis.minor})
      if (each >= 0) read[static_cast<size_t>(each)] = true;
  Dims copies;
  for (size_t i = 0; i < read.size(); ++i)
    if (!read[i]) copies.push_back(static_cast<int64_t>(i));
  return copies.empty() ? g : c.builder.sum(g, copies, true);
}

/// With clamped places: axis by axis, the sum of what was read from each place.
Value clamped_gradient(GradContext& c, std::span<const RemapAxis> axes) {
  Value g = without_copies(c, axes);
  const Shape& shape = c.operand(0).shape();
  // The axes of g in the order of x; an axis of x that stays at its place has length 1 there.
  Dims order, dims;
  for (const RemapAxis& axis : axes) {
    if (axis.axis >= 0) order.push_back(axis.axis);
    dims.push_back(axis.axis < 0 ? 1 : g.shape()[static_cast<int>(axis.axis)]);
  }
  for (int i = 0; i < g.type().rank(); ++i)
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  g = c.builder.reshape(c.builder.transpose(g, order), Shape(std::span<const int64_t>(dims)));
  Parts parts{c.builder};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int own = static_cast<int>(i);
    RemapAxis line = axes[i];
    if (line.axis < 0) line.multiple = 1;
    const std::vector<TapRow> rows =
        transposed(clamped_reads(line, shape[own], dims[i]), shape[own]);
    const int64_t sign = line.multiple < 0 ? -1 : 1;
    const TapAxis taps =
        taps_of(rows, sign * line.divisor, -sign * line.offset, sign * line.multiple);
    // The axis in question second, as sum_taps has it.
    Dims around{1, g.shape()[own], 1};
    for (int k = 0; k < g.type().rank(); ++k)
      if (k != own) around[k < own ? 0 : 2] *= g.shape()[k];
    Shape whole = g.shape().with(own, shape[own]);
    Value flat = c.builder.reshape(g, Shape(std::span<const int64_t>(around)));
    g = c.builder.reshape(sum_taps(parts, flat, std::span(&taps, 1), Outside::Nearest), whole);
  }
  return g;
}

/// With filling: for each element of the minor axes one read of the cotangent, with the roles of
/// multiple and divisor exchanged.
Value scattered_gradient(GradContext& c, std::span<const RemapAxis> axes) {
  Value g = without_copies(c, axes);
  const Shape& shape = c.operand(0).shape();
  const int rank = g.type().rank();
  // An axis of x that stays at its offset gets an axis of length 1 in the cotangent.
  Dims dims(g.shape().begin(), g.shape().end()), minors;
  std::vector<size_t> fixed;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].minor >= 0) minors.push_back(axes[i].minor);
    if (axes[i].axis >= 0) continue;
    fixed.push_back(i);
    dims.push_back(1);
  }
  if (dims.size() > static_cast<size_t>(ir::kMaxRank))
    throw UserError(c.op().location(),
                    "gradient: remap to " + to_string(c.op().result().type()) + " with " +
                        ir::counted(fixed.size(), "fixed axis", "fixed axes") +
                        " needs more axes than a tensor has",
                    "slice those axes and reshape before it");
  g = c.builder.reshape(g, Shape(std::span<const int64_t>(dims)));
  int64_t count = 1;
  for (int64_t minor : minors) count *= g.shape()[static_cast<int>(minor)];
  std::vector<Value> terms;
  for (int64_t number = 0; number < count; ++number) {
    std::vector<RemapAxis> places(dims.size());
    int64_t rest = number;
    for (int64_t minor : minors) {
      const int64_t length = g.shape()[static_cast<int>(minor)];
      places[static_cast<size_t>(minor)].offset = rest % length;
      rest /= length;
    }
    size_t next_fixed = static_cast<size_t>(rank);
    for (size_t i = 0; i < axes.size(); ++i) {
      const RemapAxis& axis = axes[i];
      int64_t offset = axis.offset;
      if (axis.minor >= 0)
        offset += axis.minor_multiple * places[static_cast<size_t>(axis.minor)].offset;
      const bool is_fixed = axis.axis < 0;
      const int64_t multiple = is_fixed ? 1 : axis.multiple, sign = multiple < 0 ? -1 : 1;
      places[is_fixed ? next_fixed++ : static_cast<size_t>(axis.axis)] = {
          .axis = static_cast<int64_t>(i),
          .multiple = sign * axis.divisor,
          .offset = -sign * offset,
          .divisor = sign * multiple};
    }
    terms.push_back(make_remap(c.builder, g, shape, places));
  }
  if (terms.empty()) return c.builder.constant(c.operand(0).type(), 0);
  Parts parts{c.builder};
  return sum_terms(parts, terms);
}

}  // namespace

void grad_remap(GradContext& c) {
  const std::vector<RemapAxis> axes = ir::remap_axes(c.op());
  if (c.operand(0).type().elements() == 0 || c.cotangent().type().elements() == 0)
    return c.accumulate(0, c.builder.constant(c.operand(0).type(), 0));
  c.accumulate(0,
               c.op().bool_attr("clamp") ? clamped_gradient(c, axes) : scattered_gradient(c, axes));
}

// --- convolutions

namespace {

Attrs conv_attrs(GradContext& c) {
  return c.attributes({"strides", "low", "high", "dilations", "groups"});
}

/// A product in the type of the operand whose cotangent it is.
Value product(GradContext& c, OpKind kind, Value a, Value b, Attrs attrs) {
  return c.builder.make(kind, {a, b}, std::move(attrs), {Type(a.dtype(), {})});
}

/// The cotangent in the operands' type.
Value operand_cotangent(GradContext& c) {
  return c.builder.cast(c.cotangent(), c.operand(0).dtype(),
                        "cotangent of a product with f32 result");
}

}  // namespace

void grad_conv(GradContext& c) {
  Value x = c.operand(0), weight = c.operand(1), g = operand_cotangent(c);
  if (c.wants(0))
    c.accumulate(
        0, product(c, OpKind::ConvGradInput, g, weight, with_shape(conv_attrs(c), x.shape())));
  if (c.wants(1))
    c.accumulate(
        1, product(c, OpKind::ConvGradWeight, x, g, with_shape(conv_attrs(c), weight.shape())));
}

void grad_conv_grad_input(GradContext& c) {
  Value dy = c.operand(0), weight = c.operand(1), g = operand_cotangent(c);
  if (c.wants(0)) c.accumulate(0, product(c, OpKind::Conv, g, weight, conv_attrs(c)));
  if (c.wants(1))
    c.accumulate(
        1, product(c, OpKind::ConvGradWeight, g, dy, with_shape(conv_attrs(c), weight.shape())));
}

void grad_conv_grad_weight(GradContext& c) {
  Value x = c.operand(0), dy = c.operand(1), g = operand_cotangent(c);
  if (c.wants(0))
    c.accumulate(0, product(c, OpKind::ConvGradInput, dy, g, with_shape(conv_attrs(c), x.shape())));
  if (c.wants(1)) c.accumulate(1, product(c, OpKind::Conv, x, g, conv_attrs(c)));
}

// --- pooling and upsampling

void grad_max_pool(GradContext& c) {
  c.accumulate(0, c.builder.make(OpKind::MaxPoolGrad, {c.operand(0), c.result(), c.cotangent()},
                                 c.attributes({"window", "strides", "low", "high", "dilations"})));
}

void grad_avg_pool(GradContext& c) {
  c.accumulate(
      0, c.builder.make(
             OpKind::AvgPoolGrad, {c.cotangent()},
             with_shape(c.attributes({"window", "strides", "low", "high", "count_include_pad"}),
                        c.operand(0).shape())));
}

namespace {

void grad_upsample(GradContext& c, OpKind kind) {
  const std::span<const int64_t> dims = c.operand(0).shape().dims();
  Attrs attrs = c.attributes({"align_corners"});
  attrs.set("size", Attr(Dims(dims.begin() + 1, dims.end() - 1)));
  c.accumulate(0, c.builder.make(kind, {c.cotangent()}, std::move(attrs)));
}

}  // namespace

void grad_upsample_nearest(GradContext& c) { grad_upsample(c, OpKind::UpsampleNearestGrad); }
void grad_upsample_linear(GradContext& c) { grad_upsample(c, OpKind::UpsampleLinearGrad); }

}  // namespace mezzo::passes
