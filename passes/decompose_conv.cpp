// SPDX-License-Identifier: Apache-2.0
// Decompositions of convolutions into matrix products. The elements of all windows are gathered as
// the rows of a matrix, whose product with the weights is the result; a window of one element that
// moves in steps of 1 needs no gathering. The gradient of x is the same with the windows' places
// and the tensor's exchanged, or, where windows move in longer steps, which leaves most of those
// rows empty, a product whose columns are added where they come from. Groups are a batch axis;
// groups of one channel read and one written or more (depthwise) are sums of taps times weights.
#include <mezzo/ir/windows.h>
#include <mezzo/passes/taps.h>

#include <algorithm>

namespace mezzo::passes {

namespace {

using ir::Attr;
using ir::WindowAxis;
using Dims = std::vector<int64_t>;

/// Windows of depthwise convolutions that are unrolled, and windows whose columns are added back.
constexpr int64_t kMostTaps = 49;

int64_t product(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

Shape shape_of(const Dims& dims) { return Shape(std::span<const int64_t>(dims)); }

/// A convolution of x [batch, lengths ..., in] by weights [out, window ..., in / groups] that gives
/// [batch, places ..., out].
struct Geometry {
  std::vector<WindowAxis> axes;
  int64_t batch, in, out, groups;
  Dims lengths, places, window;

  Geometry(const Composite& op, const Shape& x, const Shape& weight)
      : axes(ir::window_axes(op.attrs, ir::places_of(x), ir::places_of(weight))),
        batch(x[0]),
        in(x[x.rank() - 1]),
        out(weight[0]),
        groups(op.int_attr("groups")) {
    for (const WindowAxis& axis : axes) {
      lengths.push_back(axis.length);
      places.push_back(axis.places());
      window.push_back(axis.window);
    }
  }

  int64_t in_each() const { return in / groups; }
  int64_t out_each() const { return out / groups; }
  int64_t taps() const { return product(window); }
  bool is_depthwise() const { return groups > 1 && in_each() == 1 && taps() <= kMostTaps; }
  /// A window is one element and there is one at each.
  bool is_pointwise() const {
    return taps() == 1 && std::all_of(axes.begin(), axes.end(), [](const WindowAxis& axis) {
             return axis.stride == 1 && axis.low == 0 && axis.high == 0;
           });
  }
  bool has_strides() const {
    return std::any_of(axes.begin(), axes.end(),
                       [](const WindowAxis& axis) { return axis.stride > 1; });
  }
};

/// `batch`, `dims` and `last` in one list; `groups` in front where there are several.
Dims listed(int64_t groups, std::initializer_list<Dims> parts) {
  Dims out;
  if (groups > 1) out.push_back(groups);
  for (const Dims& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

class Products {
 public:
  Products(const Composite& op, ir::Builder& builder, const Geometry& geometry)
      : parts_{builder}, g_(geometry), dtype_(op.results[0].dtype) {}

  Value conv(Value x, Value weight) {
    Value y = matmul(gathered(x, false), weight_rows(weight), false, true);
    return channels_last(y, g_.places, g_.out_each());
  }

  Value grad_input(Value dy, Value weight) {
    if (g_.has_strides() && g_.taps() <= kMostTaps) return scattered(dy, weight);
    Value dx = matmul(gathered(dy, true), weight_columns(weight), false, false);
    return channels_last(dx, g_.lengths, g_.in_each());
  }

  Value grad_weight(Value x, Value dy) {
    Value dw = matmul(rows_of(dy, g_.places, g_.out_each()), gathered(x, false), true, false);
    return parts_.builder.reshape(dw, shape_of(listed(1, {{g_.out}, g_.window, {g_.in_each()}})));
  }

 private:
  Value matmul(Value a, Value b, bool transpose_a, bool transpose_b, DType dtype) {
    return parts_.builder.make(OpKind::Matmul, {a, b},
                               {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
                               {Type(dtype, {})});
  }
  Value matmul(Value a, Value b, bool transpose_a, bool transpose_b) {
    return matmul(a, b, transpose_a, transpose_b, dtype_);
  }

  /// [batch, dims ..., channels] as a matrix of rows of `each` channels, with groups in front.
  Value rows_of(Value value, const Dims& dims, int64_t each) {
    const int64_t rows = g_.batch * product(dims);
    if (g_.groups == 1) return parts_.builder.reshape(value, Shape{rows, each});
    value = parts_.builder.reshape(value, Shape{rows, g_.groups, each});
    return parts_.builder.transpose(value, {1, 0, 2});
  }

  /// The inverse.
  Value channels_last(Value rows, const Dims& dims, int64_t each) {
    if (g_.groups > 1) rows = parts_.builder.transpose(rows, {1, 0, 2});
    return parts_.builder.reshape(rows,
                                  shape_of(listed(1, {{g_.batch}, dims, {g_.groups * each}})));
  }

  /// For every place the elements of its window, [groups, places, window * channels]; `back`: for
  /// every element of x those of dy whose windows it is in.
  Value gathered(Value value, bool back) {
    const Dims &from = back ? g_.places : g_.lengths, &to = back ? g_.lengths : g_.places;
    const int64_t each = back ? g_.out_each() : g_.in_each();
    if (g_.is_pointwise()) return rows_of(value, from, each);
    // Of x, split by groups, [batch, lengths ..., groups, each] is read.
    const int64_t front = g_.groups > 1, count = std::ssize(from);
    std::vector<RemapAxis> axes{{.axis = front}};
    for (int64_t i = 0; i < count; ++i) {
      const WindowAxis& axis = g_.axes[static_cast<size_t>(i)];
      RemapAxis place{.axis = front + 1 + i, .minor = front + 1 + count + i};
      place.multiple = back ? 1 : axis.stride;
      place.divisor = back ? axis.stride : 1;
      place.minor_multiple = back ? -axis.dilation : axis.dilation;
      place.offset = back ? axis.low : -axis.low;
      axes.push_back(place);
    }
    if (g_.groups > 1) axes.push_back({.axis = 0});
    axes.push_back({.axis = front + 1 + 2 * count});
    if (g_.groups > 1)
      value =
          parts_.builder.reshape(value, shape_of(listed(1, {{g_.batch}, from, {g_.groups, each}})));
    Value all = make_remap(parts_.builder, value,
                           shape_of(listed(g_.groups, {{g_.batch}, to, g_.window, {each}})), axes);
    return parts_.builder.reshape(
        all, shape_of(listed(g_.groups, {{g_.batch * product(to), g_.taps() * each}})));
  }

  /// [groups, out, window * channels].
  Value weight_rows(Value weight) {
    return parts_.builder.reshape(
        weight, shape_of(listed(g_.groups, {{g_.out_each(), g_.taps() * g_.in_each()}})));
  }

  /// [groups, window * out, channels].
  Value weight_columns(Value weight) {
    const int64_t out = g_.out_each(), taps = g_.taps(), each = g_.in_each();
    if (g_.groups == 1) {
      weight = parts_.builder.reshape(weight, Shape{out, taps, each});
      return parts_.builder.reshape(parts_.builder.transpose(weight, {1, 0, 2}),
                                    Shape{taps * out, each});
    }
    weight = parts_.builder.reshape(weight, Shape{g_.groups, out, taps, each});
    return parts_.builder.reshape(parts_.builder.transpose(weight, {0, 2, 1, 3}),
                                  Shape{g_.groups, taps * out, each});
  }

  /// The product of dy and the weights has a column for each element of each window; they are added
  /// where the elements stand, in f32.
  Value scattered(Value dy, Value weight) {
    const DType wide = dy.dtype() == DType::F64 ? DType::F64 : DType::F32;
    Value columns =
        matmul(rows_of(dy, g_.places, g_.out_each()), weight_rows(weight), false, false, wide);
    const int64_t front = g_.groups > 1, count = std::ssize(g_.places);
    columns = parts_.builder.reshape(
        columns, shape_of(listed(g_.groups, {{g_.batch}, g_.places, g_.window, {g_.in_each()}})));
    const Shape result = shape_of(listed(g_.groups, {{g_.batch}, g_.lengths, {g_.in_each()}}));
    std::vector<Value> terms;
    for (int64_t tap = 0; tap < g_.taps(); ++tap) {
      std::vector<RemapAxis> axes;
      for (int64_t i = 0; i <= front; ++i) axes.push_back({.axis = i});
      std::vector<RemapAxis> elements;
      int64_t rest = tap;
      for (size_t i = g_.axes.size(); i-- > 0;) {
        elements.push_back({.offset = rest % g_.window[i]});
        rest /= g_.window[i];
      }
      std::reverse(elements.begin(), elements.end());
      for (size_t i = 0; i < g_.axes.size(); ++i)
        axes.push_back({.axis = front + 1 + static_cast<int64_t>(i),
                        .offset = -g_.axes[i].at(0, elements[i].offset),
                        .divisor = g_.axes[i].stride});
      axes.insert(axes.end(), elements.begin(), elements.end());
      axes.push_back({.axis = front + 1 + count});
      terms.push_back(make_remap(parts_.builder, columns, result, axes));
    }
    Value dx = parts_.narrow(sum_terms(parts_, terms), dtype_);
    if (g_.groups > 1) dx = parts_.builder.transpose(dx, front_to_last(dx.type().rank()));
    return parts_.builder.reshape(dx, shape_of(listed(1, {{g_.batch}, g_.lengths, {g_.in}})));
  }

  /// Brings the first axis before the last one.
  static Dims front_to_last(int rank) {
    Dims perm;
    for (int i = 1; i + 1 < rank; ++i) perm.push_back(i);
    perm.push_back(0);
    perm.push_back(rank - 1);
    return perm;
  }

  Parts parts_;
  const Geometry& g_;
  DType dtype_;
};

/// Groups of one channel of x: tensors are [batch, places ..., channels, results of a channel], and
/// every element of a window is a term.
class Depthwise {
 public:
  Depthwise(const Composite& op, ir::Builder& builder, const Geometry& geometry)
      : parts_{builder}, g_(geometry), dtype_(op.results[0].dtype) {}

  Value conv(Value x, Value weight) {
    x = split(x, g_.lengths, 1);
    weight = weight_rows(weight);
    std::vector<Value> terms;
    for (int64_t tap = 0; tap < g_.taps(); ++tap)
      terms.push_back(parts_.make(OpKind::Mul, {read_windows(x, tap), weight_row(weight, tap)}));
    return joined(sum_terms(parts_, terms), g_.places, g_.out);
  }

  Value grad_input(Value dy, Value weight) {
    dy = split(dy, g_.places, g_.out_each());
    weight = weight_rows(weight);
    std::vector<Value> terms;
    for (int64_t tap = 0; tap < g_.taps(); ++tap)
      terms.push_back(parts_.make(OpKind::Mul, {read_back(dy, tap), weight_row(weight, tap)}));
    Value dx = sum_terms(parts_, terms);
    if (g_.out_each() > 1) dx = parts_.builder.sum(dx, {dx.type().rank() - 1}, true);
    return joined(dx, g_.lengths, g_.in);
  }

  /// Each term is a sum over batch and places, of which all are one kernel of columns.
  Value grad_weight(Value x, Value dy) {
    x = split(x, g_.lengths, 1);
    dy = split(dy, g_.places, g_.out_each());
    Dims axes;
    for (int64_t i = 0; i <= std::ssize(g_.axes); ++i) axes.push_back(i);
    Value place = parts_.builder.make(OpKind::Iota, {}, {{"axis", 0}},
                                      {Type(DType::I32, Shape{g_.taps(), 1, 1})});
    Value all;
    for (int64_t tap = 0; tap < g_.taps(); ++tap) {
      Value sum = parts_.builder.sum(parts_.make(OpKind::Mul, {read_windows(x, tap), dy}), axes);
      Value here =
          parts_.make(OpKind::Eq, {place, parts_.scalar(DType::I32, static_cast<double>(tap))});
      Value other = all ? all : parts_.scalar(sum, 0);
      all = parts_.make(OpKind::Where, {here, sum, other});
    }
    // [taps, channels, results] -> [out, window ..., 1].
    Value rows = parts_.narrow(all, dtype_);
    rows = parts_.builder.transpose(parts_.builder.reshape(rows, Shape{g_.taps(), g_.out}), {1, 0});
    return parts_.builder.reshape(rows, shape_of(listed(1, {{g_.out}, g_.window, {1}})));
  }

 private:
  Value split(Value value, const Dims& dims, int64_t results) {
    return parts_.widen(
        parts_.builder.reshape(value, shape_of(listed(1, {{g_.batch}, dims, {g_.in, results}}))));
  }
  Value joined(Value value, const Dims& dims, int64_t channels) {
    return parts_.builder.reshape(parts_.narrow(value, dtype_),
                                  shape_of(listed(1, {{g_.batch}, dims, {channels}})));
  }
  /// [taps, channels, results of a channel], by a read that no kernel with a product of a row takes
  /// in: it is stored, so that a row is contiguous.
  Value weight_rows(Value weight) {
    weight = parts_.builder.reshape(weight, Shape{g_.out, g_.taps()});
    const RemapAxis axes[] = {
        {.axis = 1, .minor = 2, .multiple = g_.out_each(), .minor_multiple = 1}, {.axis = 0}};
    return make_remap(parts_.builder, weight, Shape{g_.taps(), g_.in, g_.out_each()}, axes);
  }
  Value weight_row(Value weight, int64_t tap) {
    Value row = parts_.builder.slice(weight, {tap, 0, 0}, {tap + 1, g_.in, g_.out_each()});
    return parts_.widen(parts_.builder.reshape(row, Shape{g_.in, g_.out_each()}));
  }
  std::vector<int64_t> position(int64_t tap) const {
    std::vector<int64_t> out(g_.axes.size());
    for (size_t i = out.size(); i-- > 0;) {
      out[i] = tap % g_.window[i];
      tap /= g_.window[i];
    }
    return out;
  }
  Value remapped(Value value, const Dims& to, int64_t tap, bool back) {
    const std::vector<int64_t> at = position(tap);
    const int64_t count = std::ssize(to);
    std::vector<RemapAxis> axes{{.axis = 0}};
    for (size_t i = 0; i < g_.axes.size(); ++i) {
      const WindowAxis& axis = g_.axes[i];
      const int64_t offset = axis.at(0, at[i]);
      axes.push_back({.axis = static_cast<int64_t>(i) + 1,
                      .multiple = back ? 1 : axis.stride,
                      .offset = back ? -offset : offset,
                      .divisor = back ? axis.stride : 1});
    }
    axes.push_back({.axis = count + 1});
    axes.push_back({.axis = count + 2});
    const int64_t results = value.shape()[value.type().rank() - 1];
    return make_remap(parts_.builder, value,
                      shape_of(listed(1, {{g_.batch}, to, {g_.in, results}})), axes);
  }
  Value read_windows(Value x, int64_t tap) { return remapped(x, g_.places, tap, false); }
  Value read_back(Value dy, int64_t tap) { return remapped(dy, g_.lengths, tap, true); }

  Parts parts_;
  const Geometry& g_;
  DType dtype_;
};

template <class Make>
std::vector<Value> decompose_into(const Composite& op, ir::Builder& builder, const Shape& x,
                                  const Shape& weight, Make make) {
  if (op.results[0].elements() == 0) return {builder.constant(op.results[0], 0)};
  const Geometry geometry(op, x, weight);
  if (geometry.is_depthwise()) return {make(Depthwise(op, builder, geometry))};
  return {make(Products(op, builder, geometry))};
}

}  // namespace

std::vector<Value> decompose_conv(const Composite& op, ir::Builder& builder) {
  return decompose_into(op, builder, op.operand(0).shape(), op.operand(1).shape(),
                        [&](auto way) { return way.conv(op.operand(0), op.operand(1)); });
}

std::vector<Value> decompose_conv_grad_input(const Composite& op, ir::Builder& builder) {
  return decompose_into(op, builder, op.results[0].shape, op.operand(1).shape(),
                        [&](auto way) { return way.grad_input(op.operand(0), op.operand(1)); });
}

std::vector<Value> decompose_conv_grad_weight(const Composite& op, ir::Builder& builder) {
  return decompose_into(op, builder, op.operand(0).shape(), op.results[0].shape,
                        [&](auto way) { return way.grad_weight(op.operand(0), op.operand(1)); });
}

}  // namespace mezzo::passes
