// SPDX-License-Identifier: Apache-2.0
#include <mezzo/passes/taps.h>

#include <algorithm>
#include <limits>

namespace mezzo::passes {

using ir::Attr;

namespace {

/// Terms of one sum over several axes at once; of more, the axes are summed one after another.
constexpr size_t kMostJointTaps = 16;
int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

/// Weights along axis `axis` of a tensor of `rank` axes; they broadcast.
Value weights_along(Parts& parts, DType dtype, std::span<const double> weights, int axis,
                    int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank - axis), 1);
  dims[0] = static_cast<int64_t>(weights.size());
  ir::AttrList list;
  for (double weight : weights) list.push_back(ir::scalar_attr(dtype, weight));
  return parts.builder.make(OpKind::Constant, {}, {{"value", Attr(list)}},
                            {Type(dtype, Shape(std::span<const int64_t>(dims)))});
}

Value sum_jointly(Parts& parts, Value x, std::span<const TapAxis> axes, Outside outside) {
  const int rank = x.type().rank();
  std::vector<RemapAxis> places(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) places[static_cast<size_t>(i)].axis = i;
  Shape shape = x.shape();
  size_t count = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    shape = shape.with(static_cast<int>(i) + 1, axes[i].size);
    count *= axes[i].taps.size();
  }
  std::vector<Value> terms;
  for (size_t number = 0; number < count; ++number) {
    size_t rest = number;
    Value weight;
    for (size_t i = axes.size(); i-- > 0;) {  // the last axis moves first
      const Tap& tap = axes[i].taps[rest % axes[i].taps.size()];
      rest /= axes[i].taps.size();
      RemapAxis& place = places[i + 1];
      place.multiple = tap.multiple;
      place.offset = tap.offset;
      place.divisor = tap.divisor;
      if (tap.weights.empty()) continue;
      Value own = weights_along(parts, x.dtype(), tap.weights, static_cast<int>(i) + 1, rank);
      weight = weight ? parts.make(OpKind::Mul, {own, weight}) : own;
    }
    Value read = make_remap(parts.builder, x, shape, places, outside);
    terms.push_back(weight ? parts.make(OpKind::Mul0, {weight, read}) : read);
  }
  if (terms.empty()) return parts.builder.constant(x.type().with(shape), 0);
  return sum_terms(parts, terms);
}

}  // namespace

Value make_remap(ir::Builder& builder, Value x, const Shape& shape, std::span<const RemapAxis> axes,
                 Outside outside) {
  std::vector<int64_t> dims(shape.begin(), shape.end()), own, multiples, offsets, divisors, minors,
      minor_multiples;
  bool any_minor = false;
  for (const RemapAxis& axis : axes) {
    own.push_back(axis.axis);
    multiples.push_back(axis.multiple);
    offsets.push_back(axis.offset);
    divisors.push_back(axis.divisor);
    minors.push_back(axis.minor);
    minor_multiples.push_back(axis.minor_multiple);
    any_minor |= axis.minor >= 0;
  }
  ir::Attrs attrs{{"shape", Attr(dims)},
                  {"axes", Attr(own)},
                  {"multiples", Attr(multiples)},
                  {"offsets", Attr(offsets)},
                  {"divisors", Attr(divisors)}};
  if (any_minor) {
    attrs.set("minor_axes", Attr(minors));
    attrs.set("minor_multiples", Attr(minor_multiples));
  }
  if (outside == Outside::Nearest) attrs.set("clamp", true);
  if (outside == Outside::Lowest) attrs.set("lowest", true);
  return builder.make(OpKind::Remap, {x}, std::move(attrs));
}

TapAxis taps_of(std::span<const TapRow> rows, int64_t multiple, int64_t offset, int64_t divisor) {
  TapAxis out{std::ssize(rows), {}};
  auto base = [&](size_t i) {
    return floor_div(static_cast<int64_t>(i) * multiple + offset, divisor);
  };
  int64_t first = std::numeric_limits<int64_t>::max(), last = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].empty()) continue;
    first = std::min(first, rows[i].front().first - base(i));
    last = std::max(last, rows[i].back().first - base(i));
  }
  for (int64_t shift = first; shift <= last; ++shift) {
    Tap tap{multiple, offset + shift * divisor, divisor, {}};
    bool all = true, none = true;
    for (size_t i = 0; i < rows.size(); ++i) {
      double weight = 0;
      for (const auto& [index, each] : rows[i])
        if (index == base(i) + shift) weight = each;
      tap.weights.push_back(weight);
      all &= weight == 1;
      none &= weight == 0;
    }
    if (all) tap.weights.clear();
    if (!none) out.taps.push_back(std::move(tap));
  }
  return out;
}

std::vector<TapRow> transposed(std::span<const TapRow> rows, int64_t columns) {
  std::vector<TapRow> out(static_cast<size_t>(columns));
  for (size_t i = 0; i < rows.size(); ++i)
    for (const auto& [index, weight] : rows[i])
      out[static_cast<size_t>(index)].emplace_back(static_cast<int64_t>(i), weight);
  return out;
}

Value sum_taps(Parts& parts, Value x, std::span<const TapAxis> axes, Outside outside) {
  size_t count = 1, summed = 0;
  for (const TapAxis& axis : axes) {
    count *= axis.taps.size();
    summed += axis.taps.size() > 1;
  }
  if (count <= kMostJointTaps || summed < 2) return sum_jointly(parts, x, axes, outside);
  for (size_t i = 0; i < axes.size(); ++i) {
    // The other axes stay as they are.
    std::vector<TapAxis> alone;
    for (size_t j = 0; j < axes.size(); ++j)
      alone.push_back(j == i ? axes[j] : TapAxis{x.shape()[static_cast<int>(j) + 1], {Tap{}}});
    x = sum_jointly(parts, x, alone, outside);
  }
  return x;
}

Value sum_terms(Parts& parts, std::span<const Value> terms, size_t most) {
  if (terms.size() == 1) return terms[0];
  if (terms.size() <= most) return parts.builder.create(OpKind::AddN, terms)->result();
  std::vector<Value> sums;
  for (size_t first = 0; first < terms.size(); first += most) {
    const size_t count = std::min(most, terms.size() - first);
    sums.push_back(sum_terms(parts, terms.subspan(first, count), most));
  }
  return sum_terms(parts, sums, most);
}

}  // namespace mezzo::passes
