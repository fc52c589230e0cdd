// SPDX-License-Identifier: Apache-2.0
// Decompositions of pooling and upsampling into taps (taps.h): a window is one read for each of its
// elements. The gradient of a maximum reads, at every element, which element of each window that it
// is in was the first greatest one.
#include <mezzo/ir/windows.h>
#include <mezzo/passes/taps.h>

#include <algorithm>
#include <cmath>

namespace mezzo::passes {

namespace {

using ir::WindowAxis;

/// Elements of windows whose maximum is taken at once; of larger ones the axes come one by one.
constexpr int64_t kMostJointElements = 25;

int64_t elements_of(std::span<const WindowAxis> axes) {
  int64_t count = 1;
  for (const WindowAxis& axis : axes) count *= axis.window;
  return count;
}

std::vector<WindowAxis> pool_axes(const Composite& op, const Shape& x) {
  return ir::window_axes(op.attrs, ir::places_of(x), op.attrs.get_ints("window"));
}

/// Element `element` of a window, in row-major order, as its place along each axis.
std::vector<int64_t> position_in(std::span<const WindowAxis> axes, int64_t element) {
  std::vector<int64_t> position(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    position[i] = element % axes[i].window;
    element /= axes[i].window;
  }
  return position;
}

/// Every window's element at `position`.
Value read_windows(ir::Builder& builder, Value x, std::span<const WindowAxis> axes,
                   std::span<const int64_t> position, Outside outside) {
  const int last = x.type().rank() - 1;
  std::vector<RemapAxis> places{{.axis = 0}};
  for (size_t i = 0; i < axes.size(); ++i)
    places.push_back({.axis = static_cast<int64_t>(i) + 1,
                      .multiple = axes[i].stride,
                      .offset = axes[i].at(0, position[i])});
  places.push_back({.axis = last});
  return make_remap(builder, x, ir::windowed_shape(x.shape()[0], axes, x.shape()[last]), places,
                    outside);
}

/// At every element of the tensor that is pooled: what `y` holds of the window in which it stands
/// at `position`; 0 where there is no such window.
Value read_back(ir::Builder& builder, Value y, const Shape& x, std::span<const WindowAxis> axes,
                std::span<const int64_t> position) {
  std::vector<RemapAxis> places{{.axis = 0}};
  for (size_t i = 0; i < axes.size(); ++i)
    places.push_back({.axis = static_cast<int64_t>(i) + 1,
                      .multiple = 1,
                      .offset = -axes[i].at(0, position[i]),
                      .divisor = axes[i].stride});
  places.push_back({.axis = x.rank() - 1});
  return make_remap(builder, y, x, places);
}

Value maximum_over(ir::Builder& builder, Value x, std::span<const WindowAxis> axes) {
  if (elements_of(axes) > kMostJointElements && axes.size() > 1) {
    for (size_t i = 0; i < axes.size(); ++i) {
      std::vector<WindowAxis> alone;
      for (size_t j = 0; j < axes.size(); ++j)
        alone.push_back(j == i ? axes[j]
                               : WindowAxis{.length = x.shape()[static_cast<int>(j) + 1]});
      x = maximum_over(builder, x, alone);
      if (elements_of(axes) == axes[i].window) return x;
    }
    return x;
  }
  Value top;
  for (int64_t element = 0; element < elements_of(axes); ++element) {
    Value read = read_windows(builder, x, axes, position_in(axes, element), Outside::Lowest);
    top = top ? builder.make(OpKind::Maximum, {top, read}) : read;
  }
  return top;
}

}  // namespace

/// In the type of x: a maximum rounds nothing.
std::vector<Value> decompose_max_pool(const Composite& op, ir::Builder& builder) {
  Value x = op.operand(0);
  return {maximum_over(builder, x, pool_axes(op, x.shape()))};
}

std::vector<Value> decompose_max_pool_grad(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value x = op.operand(0), y = op.operand(1);
  const std::vector<WindowAxis> axes = pool_axes(op, x.shape());
  const int64_t count = elements_of(axes);
  // The number of the first element that is the maximum, from 1 on, found backwards; 0 for none. A
  // maximum of NaN is met by NaN alone. Padding may look like it where all elements are -inf.
  const bool padded = !std::all_of(axes.begin(), axes.end(),
                                   [](const WindowAxis& axis) { return axis.stays_inside(); });
  Value first = builder.constant(Type(DType::I32, y.shape()), 0);
  for (int64_t element = count; element-- > 0;) {
    const std::vector<int64_t> position = position_in(axes, element);
    Value read = read_windows(builder, x, axes, position, Outside::Lowest);
    Value found = parts.make(
        OpKind::LogicalOr, {parts.make(OpKind::Eq, {read, y}), parts.make(OpKind::IsNan, {read})});
    if (padded) {
      Value all = builder.constant(Type(DType::Bool, x.shape()), 1);
      Value inside = read_windows(builder, all, axes, position, Outside::Zero);
      found = parts.make(OpKind::LogicalAnd, {found, inside});
    }
    Value number = parts.scalar(DType::I32, static_cast<double>(element + 1));
    first = parts.make(OpKind::Where, {found, number, first});
  }
  Value dy = parts.widen(op.operand(2));
  std::vector<Value> terms;
  for (int64_t element = 0; element < count; ++element) {
    const std::vector<int64_t> position = position_in(axes, element);
    Value chosen =
        parts.make(OpKind::Eq, {read_back(builder, first, x.shape(), axes, position),
                                parts.scalar(DType::I32, static_cast<double>(element + 1))});
    terms.push_back(parts.make(
        OpKind::Where,
        {chosen, read_back(builder, dy, x.shape(), axes, position), parts.scalar(dy, 0)}));
  }
  return {parts.narrow(sum_terms(parts, terms), x.dtype())};
}

namespace {

/// Taps of the sum of each window, or, backwards, of the windows that an element is in.
std::vector<TapAxis> window_taps(std::span<const WindowAxis> axes, bool backwards) {
  std::vector<TapAxis> out;
  for (const WindowAxis& axis : axes) {
    TapAxis& taps = out.emplace_back(TapAxis{backwards ? axis.length : axis.places(), {}});
    for (int64_t element = 0; element < axis.window; ++element) {
      const int64_t offset = axis.at(0, element);
      taps.taps.push_back(backwards ? Tap{1, -offset, axis.stride, {}}
                                    : Tap{axis.stride, offset, 1, {}});
    }
  }
  return out;
}

/// The sums of windows divided by the number of their elements, with padding or without.
Value divided_by_count(Parts& parts, const Composite& op, Value sums,
                       std::span<const WindowAxis> axes) {
  if (op.bool_attr("count_include_pad") ||
      std::all_of(axes.begin(), axes.end(), [](const WindowAxis& a) { return a.stays_inside(); }))
    return parts.make(OpKind::Div,
                      {sums, parts.scalar(sums, static_cast<double>(elements_of(axes)))});
  std::vector<int64_t> dims;
  for (const WindowAxis& axis : axes) dims.push_back(axis.places());
  ir::AttrList counts;
  std::vector<int64_t> place(axes.size(), 0);
  for (int64_t i = Shape(std::span<const int64_t>(dims)).elements(); i-- > 0;) {
    int64_t count = 1;
    for (size_t k = 0; k < axes.size(); ++k) {
      int64_t own = 0;
      for (int64_t element = 0; element < axes[k].window; ++element)
        own += axes[k].has(axes[k].at(place[k], element));
      count *= own;
    }
    counts.push_back(ir::scalar_attr(sums.dtype(), static_cast<double>(count)));
    for (size_t k = axes.size(); k-- > 0;) {
      if (++place[k] < dims[k]) break;
      place[k] = 0;
    }
  }
  dims.push_back(1);
  Value count = parts.builder.make(OpKind::Constant, {}, {{"value", ir::Attr(counts)}},
                                   {Type(sums.dtype(), Shape(std::span<const int64_t>(dims)))});
  return parts.make(OpKind::Div, {sums, count});
}

}  // namespace

std::vector<Value> decompose_avg_pool(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value x = parts.widen(op.operand(0));
  const std::vector<WindowAxis> axes = pool_axes(op, x.shape());
  Value sums = sum_taps(parts, x, window_taps(axes, false), Outside::Zero);
  return {parts.narrow(divided_by_count(parts, op, sums, axes), op.operand(0).dtype())};
}

std::vector<Value> decompose_avg_pool_grad(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value dy = parts.widen(op.operand(0));
  const std::vector<WindowAxis> axes = pool_axes(op, op.results[0].shape);
  Value share = divided_by_count(parts, op, dy, axes);
  Value dx = sum_taps(parts, share, window_taps(axes, true), Outside::Zero);
  return {parts.narrow(dx, op.operand(0).dtype())};
}

// --- upsampling

namespace {

/// What each element along an axis of the larger tensor is made of, and the line that it follows.
struct Blending {
  std::vector<TapRow> rows;
  int64_t multiple = 1, offset = 0, divisor = 1;
};

Blending nearest_along(int64_t length, int64_t size) {
  Blending out{{}, length, 0, std::max<int64_t>(size, 1)};
  for (int64_t i = 0; i < size; ++i) out.rows.push_back({{i * length / size, 1.0}});
  return out;
}

/// Element i stands at (i + 1/2) * length / size - 1/2, or with aligned corners at i * (length - 1)
/// / (size - 1), within the first and the last element; in whole numbers, so that a place that is
/// an element is met exactly.
Blending linear_along(int64_t length, int64_t size, bool corners) {
  Blending out{{}, 2 * length, length - size, 2 * size};
  if (corners) out = {{}, length - 1, 0, size - 1};
  if (corners && (size == 1 || length == 1)) out = {};
  for (int64_t i = 0; i < size; ++i) {
    int64_t at = i * out.multiple + out.offset;
    if (corners && length == 1) at = 0;
    at = std::clamp<int64_t>(at, 0, (length - 1) * out.divisor);
    const int64_t first = at / out.divisor, rest = at % out.divisor;
    const double share = static_cast<double>(rest) / static_cast<double>(out.divisor);
    TapRow& row = out.rows.emplace_back(TapRow{{first, 1 - share}});
    if (rest > 0) row.emplace_back(first + 1, share);
  }
  return out;
}

/// The line of the inverse: element i of the smaller tensor meets elements about it.
TapAxis backwards(const Blending& blending, int64_t length) {
  return taps_of(transposed(blending.rows, length), blending.divisor, -blending.offset,
                 blending.multiple);
}

std::vector<TapAxis> blended_axes(const Composite& op, const Shape& x, const Shape& y, bool linear,
                                  bool back) {
  std::vector<TapAxis> axes;
  for (int i = 1; i + 1 < x.rank(); ++i) {
    const Blending blending = linear ? linear_along(x[i], y[i], op.bool_attr("align_corners"))
                                     : nearest_along(x[i], y[i]);
    axes.push_back(
        back ? backwards(blending, x[i])
             : taps_of(blending.rows, blending.multiple, blending.offset, blending.divisor));
  }
  return axes;
}

Value upsampled(Parts& parts, const Composite& op, Value x, bool linear) {
  return sum_taps(parts, x, blended_axes(op, x.shape(), op.results[0].shape, linear, false),
                  Outside::Nearest);
}

std::vector<Value> upsampled_back(const Composite& op, ir::Builder& builder, bool linear) {
  Parts parts{builder};
  Value dy = parts.widen(op.operand(0));
  Value dx = sum_taps(parts, dy, blended_axes(op, op.results[0].shape, dy.shape(), linear, true),
                      Outside::Nearest);
  return {parts.narrow(dx, op.operand(0).dtype())};
}

}  // namespace

std::vector<Value> decompose_upsample_nearest(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  return {upsampled(parts, op, op.operand(0), false)};
}
std::vector<Value> decompose_upsample_nearest_grad(const Composite& op, ir::Builder& builder) {
  return upsampled_back(op, builder, false);
}

std::vector<Value> decompose_upsample_linear(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  Value y = upsampled(parts, op, parts.widen(op.operand(0)), true);
  return {parts.narrow(y, op.operand(0).dtype())};
}
std::vector<Value> decompose_upsample_linear_grad(const Composite& op, ir::Builder& builder) {
  return upsampled_back(op, builder, true);
}

}  // namespace mezzo::passes
