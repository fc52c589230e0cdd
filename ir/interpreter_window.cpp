// SPDX-License-Identifier: Apache-2.0
// The interpreter: reads through an affine index, convolution, pooling and upsampling as loops over
// the elements of their definitions, sums in double.
#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/interpreter_ops.h>
#include <mezzo/ir/windows.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mezzo::ir {

namespace {

Shape shape_of(std::span<const int64_t> dims) { return Shape(dims); }

/// Row-major place of `index` in `shape`.
int64_t place_of(const Shape& shape, std::span<const int64_t> index) {
  int64_t place = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    place = place * shape[axis] + index[static_cast<size_t>(axis)];
  return place;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

}  // namespace

void eval_remap(OpRun& run) {
  const std::vector<int64_t> axes = run.op.ints_attr("axes"),
                             multiples = run.op.ints_attr("multiples"),
                             offsets = run.op.ints_attr("offsets"),
                             divisors = run.op.ints_attr("divisors"),
                             minors = run.op.ints_attr("minor_axes"),
                             minor_multiples = run.op.ints_attr("minor_multiples");
  const bool clamp = run.op.bool_attr("clamp");
  const InterpreterTensor& x = run.operand(0);
  for (IndexWalk walk(run.result().type.shape); !walk.done(); walk.advance()) {
    bool inside = true;
    std::vector<int64_t> index;
    for (size_t i = 0; i < axes.size(); ++i) {
      int64_t at = offsets[i];
      if (axes[i] >= 0) at += multiples[i] * walk[static_cast<int>(axes[i])];
      if (!minors.empty() && minors[i] >= 0)
        at += minor_multiples[i] * walk[static_cast<int>(minors[i])];
      const int64_t length = x.type.shape[static_cast<int>(i)], place = floor_div(at, divisors[i]);
      inside &= clamp || (at % divisors[i] == 0 && place >= 0 && place < length);
      index.push_back(clamp ? std::clamp<int64_t>(place, 0, length - 1) : place);
    }
    const int64_t to = walk.linear(), from = inside ? place_of(x.type.shape, index) : 0;
    if (!x.holds_floats())
      run.store_integer(to, inside ? x.integers[static_cast<size_t>(from)] : 0);
    else if (inside)
      run.store(to, x.floats[static_cast<size_t>(from)]);
    else
      run.store(to, run.op.bool_attr("lowest") ? -std::numeric_limits<double>::infinity() : 0.0);
  }
}

// --- windows

namespace {

/// Calls `visit(place, element, source)` for every element of every window: the window's place, the
/// element's place in the window and its place in the tensor, each as a row-major index; source is
/// -1 in the padding.
void for_each_tap(std::span<const WindowAxis> axes, auto visit) {
  std::vector<int64_t> places, windows, lengths;
  for (const WindowAxis& axis : axes) {
    places.push_back(axis.places());
    windows.push_back(axis.window);
    lengths.push_back(axis.length);
  }
  for (IndexWalk place(shape_of(places)); !place.done(); place.advance())
    for (IndexWalk element(shape_of(windows)); !element.done(); element.advance()) {
      bool inside = true;
      std::vector<int64_t> source;
      for (size_t i = 0; i < axes.size(); ++i) {
        const int axis = static_cast<int>(i);
        source.push_back(axes[i].at(place[axis], element[axis]));
        inside &= axes[i].has(source.back());
      }
      visit(place.linear(), element.linear(),
            inside ? place_of(shape_of(lengths), source) : int64_t{-1});
    }
}

int64_t product(std::span<const int64_t> dims) {
  int64_t out = 1;
  for (int64_t dim : dims) out *= dim;
  return out;
}

/// Tensors of a convolution, with axes of places and windows seen as one: x [batch, in, channels],
/// weight [out, window, channels a group], y [batch, out, channels].
struct Convolution {
  std::vector<WindowAxis> axes;
  int64_t batch, channels, out, groups, x_places, y_places, taps;

  Convolution(const OpRun& run, const Shape& x, const Shape& weight)
      : axes(window_axes(run.op.attrs(), places_of(x), places_of(weight))),
        batch(x[0]),
        channels(x[x.rank() - 1]),
        out(weight[0]),
        groups(run.op.int_attr("groups")),
        x_places(product(places_of(x))),
        y_places(product(places_of(windowed_shape(1, axes, 1)))),
        taps(product(places_of(weight))) {}

  /// Calls `visit(x, weight, y)` with the places of the factors of every product; x is -1 in the
  /// padding.
  void for_each_product(auto visit) const {
    const int64_t each = channels / groups, out_each = out / groups;
    for_each_tap(axes, [&](int64_t place, int64_t tap, int64_t source) {
      for (int64_t n = 0; n < batch; ++n)
        for (int64_t o = 0; o < out; ++o)
          for (int64_t c = 0; c < each; ++c)
            visit(
                source < 0 ? source : (n * x_places + source) * channels + o / out_each * each + c,
                (o * taps + tap) * each + c, (n * y_places + place) * out + o);
    });
  }
};

std::vector<double> zeros(OpRun& run) {
  return std::vector<double>(static_cast<size_t>(run.result().elements()));
}

Shape shape_attribute(const OpRun& run) { return shape_of(run.op.ints_attr("shape")); }

}  // namespace

void eval_conv(OpRun& run) {
  const std::vector<double>&x = run.operand(0).floats, &w = run.operand(1).floats;
  std::vector<double> y = zeros(run);
  Convolution(run, run.operand(0).type.shape, run.operand(1).type.shape)
      .for_each_product([&](int64_t i, int64_t k, int64_t o) {
        // Padding is zeros, which meet weights as IEEE 754 says.
        const double value = i < 0 ? 0.0 : x[static_cast<size_t>(i)];
        y[static_cast<size_t>(o)] += value * w[static_cast<size_t>(k)];
      });
  run.store_all(y);
}

void eval_conv_grad_input(OpRun& run) {
  const std::vector<double>&dy = run.operand(0).floats, &w = run.operand(1).floats;
  std::vector<double> dx = zeros(run);
  Convolution(run, shape_attribute(run), run.operand(1).type.shape)
      .for_each_product([&](int64_t i, int64_t k, int64_t o) {
        if (i >= 0)
          dx[static_cast<size_t>(i)] += dy[static_cast<size_t>(o)] * w[static_cast<size_t>(k)];
      });
  run.store_all(dx);
}

void eval_conv_grad_weight(OpRun& run) {
  const std::vector<double>&x = run.operand(0).floats, &dy = run.operand(1).floats;
  std::vector<double> dw = zeros(run);
  Convolution(run, run.operand(0).type.shape, shape_attribute(run))
      .for_each_product([&](int64_t i, int64_t k, int64_t o) {
        if (i >= 0)
          dw[static_cast<size_t>(k)] += x[static_cast<size_t>(i)] * dy[static_cast<size_t>(o)];
      });
  run.store_all(dw);
}

namespace {

/// A pooled tensor x, and the places of the elements of its windows.
struct Pooling {
  std::vector<WindowAxis> axes;
  int64_t batch, channels, x_places, y_places, taps;

  Pooling(const OpRun& run, const Shape& x)
      : axes(window_axes(run.op.attrs(), places_of(x), run.op.ints_attr("window"))),
        batch(x[0]),
        channels(x[x.rank() - 1]),
        x_places(product(places_of(x))),
        y_places(product(places_of(windowed_shape(1, axes, 1)))),
        taps(product(run.op.ints_attr("window"))) {}

  /// Calls `visit(x, y)` for every element of every window that is no padding, each window in
  /// row-major order.
  void for_each_element(auto visit) const {
    for (int64_t n = 0; n < batch; ++n)
      for_each_tap(axes, [&](int64_t place, int64_t, int64_t source) {
        for (int64_t c = 0; c < channels && source >= 0; ++c)
          visit(static_cast<size_t>((n * x_places + source) * channels + c),
                static_cast<size_t>((n * y_places + place) * channels + c));
      });
  }

  /// What the sum of each window is divided by.
  std::vector<double> counts(const OpRun& run) const {
    std::vector<double> out(static_cast<size_t>(batch * y_places * channels));
    if (run.op.bool_attr("count_include_pad"))
      std::fill(out.begin(), out.end(), static_cast<double>(taps));
    else
      for_each_element([&](size_t, size_t y) { ++out[y]; });
    return out;
  }
};

}  // namespace

void eval_max_pool(OpRun& run) {
  const std::vector<double>& x = run.operand(0).floats;
  std::vector<double> y(zeros(run).size(), -std::numeric_limits<double>::infinity());
  Pooling(run, run.operand(0).type.shape).for_each_element([&](size_t i, size_t o) {
    y[o] = host_maximum(y[o], x[i]);
  });
  run.store_all(y);
}

// All of a cotangent goes to the first element that is y, the first NaN where y is one.
void eval_max_pool_grad(OpRun& run) {
  const std::vector<double>&x = run.operand(0).floats, &y = run.operand(1).floats,
        &dy = run.operand(2).floats;
  std::vector<double> dx = zeros(run);
  std::vector<bool> given(y.size(), false);
  Pooling(run, run.operand(0).type.shape).for_each_element([&](size_t i, size_t o) {
    if (given[o] || !(x[i] == y[o] || std::isnan(x[i]))) return;
    given[o] = true;
    dx[i] += dy[o];
  });
  run.store_all(dx);
}

void eval_avg_pool(OpRun& run) {
  const Pooling pooling(run, run.operand(0).type.shape);
  const std::vector<double> counts = pooling.counts(run);
  std::vector<double> y = zeros(run);
  pooling.for_each_element([&](size_t i, size_t o) { y[o] += run.operand(0).floats[i]; });
  for (size_t o = 0; o < y.size(); ++o) run.store(static_cast<int64_t>(o), y[o] / counts[o]);
}

void eval_avg_pool_grad(OpRun& run) {
  const Pooling pooling(run, shape_attribute(run));
  const std::vector<double> counts = pooling.counts(run);
  std::vector<double> dx = zeros(run);
  pooling.for_each_element(
      [&](size_t i, size_t o) { dx[i] += run.operand(0).floats[o] / counts[o]; });
  run.store_all(dx);
}

// --- upsampling

namespace {

/// Along one axis, the element of x or the two elements that an element of y is made of.
struct Blend {
  int64_t first = 0, second = 0;
  double share = 0;  // of the second
};

Blend nearest_along(int64_t length, int64_t size, int64_t place) {
  return {place * length / size, 0, 0};
}

/// Elements stand at their centres, or, with aligned corners, the first and the last ones of both
/// tensors stand at the same places.
Blend linear_along(int64_t length, int64_t size, int64_t place, bool corners) {
  double at =
      corners
          ? (size > 1 ? static_cast<double>(place * (length - 1)) / static_cast<double>(size - 1)
                      : 0)
          : static_cast<double>((2 * place + 1) * length - size) / static_cast<double>(2 * size);
  at = std::clamp(at, 0.0, static_cast<double>(length - 1));
  const int64_t first = static_cast<int64_t>(at);
  return {first, std::min(first + 1, length - 1), at - static_cast<double>(first)};
}

/// Calls `visit(x, y, share)` for every element of x that an element of y is made of.
void for_each_share(const OpRun& run, const Shape& x, const Shape& y, bool linear, auto visit) {
  const bool corners = linear && run.op.bool_attr("align_corners");
  const int places = x.rank() - 2;
  for (IndexWalk walk(y); !walk.done(); walk.advance()) {
    std::vector<Blend> blends;
    for (int i = 1; i <= places; ++i)
      blends.push_back(linear ? linear_along(x[i], y[i], walk[i], corners)
                              : nearest_along(x[i], y[i], walk[i]));
    for (int choice = 0; choice < 1 << places; ++choice) {
      double share = 1;
      std::vector<int64_t> index{walk[0]};
      for (int i = 0; i < places; ++i) {
        const Blend& blend = blends[static_cast<size_t>(i)];
        const bool second = (choice >> i & 1) != 0;
        share *= second ? blend.share : 1 - blend.share;
        index.push_back(second ? blend.second : blend.first);
      }
      index.push_back(walk[places + 1]);
      if (share > 0)
        visit(static_cast<size_t>(place_of(x, index)), static_cast<size_t>(walk.linear()), share);
    }
  }
}

void upsample(OpRun& run, bool linear) {
  const std::vector<double>& x = run.operand(0).floats;
  std::vector<double> y = zeros(run);
  for_each_share(
      run, run.operand(0).type.shape, run.result().type.shape, linear,
      [&](size_t i, size_t o, double share) { y[o] = linear ? y[o] + share * x[i] : x[i]; });
  run.store_all(y);
}

void upsample_grad(OpRun& run, bool linear) {
  const std::vector<double>& dy = run.operand(0).floats;
  std::vector<double> dx = zeros(run);
  for_each_share(run, run.result().type.shape, run.operand(0).type.shape, linear,
                 [&](size_t i, size_t o, double share) { dx[i] += share * dy[o]; });
  run.store_all(dx);
}

}  // namespace

void eval_upsample_nearest(OpRun& run) { upsample(run, false); }
void eval_upsample_nearest_grad(OpRun& run) { upsample_grad(run, false); }
void eval_upsample_linear(OpRun& run) { upsample(run, true); }
void eval_upsample_linear_grad(OpRun& run) { upsample_grad(run, true); }

}  // namespace mezzo::ir
