// SPDX-License-Identifier: Apache-2.0
#include <ops/gradient_cases.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::OpKind;
using ir::Shape;

namespace {

using Dims = std::vector<int64_t>;

Attrs lists(std::initializer_list<std::pair<const char*, Dims>> entries) {
  Attrs attrs;
  for (const auto& [name, list] : entries) attrs.set(name, Attr(list));
  return attrs;
}

Attrs with(Attrs attrs, const char* name, Attr value) {
  attrs.set(name, std::move(value));
  return attrs;
}

Attrs windows(Dims strides, Dims low, Dims high, Dims dilations = {}) {
  Attrs attrs = lists({{"strides", strides}, {"low", low}, {"high", high}});
  if (!dilations.empty()) attrs.set("dilations", Attr(dilations));
  return attrs;
}

void add_remaps(std::vector<GradientCase>& cases) {
  auto remap = [](Dims shape, Dims axes, Dims multiples, Dims offsets, Dims divisors) {
    return lists({{"shape", shape},
                  {"axes", axes},
                  {"multiples", multiples},
                  {"offsets", offsets},
                  {"divisors", divisors}});
  };
  cases.push_back({OpKind::Remap, {{4, 3}}, remap({3, 5}, {1, 0}, {1, 1}, {-1, 1}, {1, 1})});
  cases.push_back({OpKind::Remap, {{5, 3}}, remap({4, 3}, {0, 1}, {2, 1}, {-1, 0}, {1, 1})});
  cases.push_back({OpKind::Remap, {{3}}, remap({8}, {0}, {1}, {-1}, {2})});
  cases.push_back({OpKind::Remap, {{5}}, remap({4}, {0}, {-2}, {5}, {1})});
  cases.push_back({OpKind::Remap, {{4, 3}}, remap({2, 3}, {-1, 1}, {1, 1}, {2, 0}, {1, 1})});
  Attrs minor = remap({2, 3, 2}, {0, 1}, {1, 2}, {0, -1}, {1, 1});
  minor.set("minor_axes", Attr(Dims{-1, 2}));
  minor.set("minor_multiples", Attr(Dims{0, 3}));
  cases.push_back({OpKind::Remap, {{2, 7}}, minor});
  cases.push_back({OpKind::Remap, {{3}}, with(remap({8}, {0}, {3}, {-4}, {7}), "clamp", true)});
  cases.push_back({OpKind::Remap,
                   {{3, 4}},
                   with(remap({2, 7, 2}, {1, -1}, {1, 1}, {-2, 1}, {2, 1}), "clamp", true)});
  cases.push_back({OpKind::Remap, {{5}}, with(remap({6}, {0}, {-1}, {3}, {1}), "clamp", true)});
}

void add_convolutions(std::vector<GradientCase>& cases) {
  struct Conv {
    Shape x, weight, y;
    Attrs attrs;
  };
  const std::vector<Conv> convolutions = {
      {{2, 5, 3}, {4, 3, 3}, {2, 3, 4}, windows({1}, {0}, {0}, {1})},
      {{1, 6, 2}, {2, 3, 2}, {1, 3, 2}, windows({2}, {1}, {0}, {1})},
      {{2, 4, 3}, {2, 1, 3}, {2, 4, 2}, windows({1}, {0}, {0}, {1})},
      {{1, 4, 5, 2}, {3, 2, 3, 2}, {1, 3, 5, 3}, windows({1, 1}, {0, 1}, {0, 1}, {1, 1})},
      {{1, 5, 5, 1}, {2, 2, 2, 1}, {1, 3, 2, 2}, windows({1, 2}, {0, 0}, {0, 0}, {2, 1})},
      {{1, 4, 4, 4},
       {2, 2, 2, 2},
       {1, 2, 2, 2},
       with(windows({2, 2}, {0, 0}, {0, 0}, {1, 1}), "groups", 2)},
      {{1, 4, 3, 4},
       {4, 3, 3, 2},
       {1, 4, 3, 4},
       with(windows({1, 1}, {1, 1}, {1, 1}, {1, 1}), "groups", 2)},
      {{2, 4, 3}, {3, 2, 1}, {2, 3, 3}, with(windows({1}, {0}, {0}, {1}), "groups", 3)},
      {{1, 5, 4, 2},
       {4, 3, 2, 1},
       {1, 3, 2, 4},
       with(windows({2, 2}, {1, 0}, {1, 0}, {1, 1}), "groups", 2)},
  };
  auto shaped = [](const Conv& conv, const Shape& shape) {
    return with(conv.attrs, "shape", Attr(Dims(shape.begin(), shape.end())));
  };
  for (const Conv& conv : convolutions) {
    cases.push_back({OpKind::Conv, {conv.x, conv.weight}, conv.attrs});
    cases.push_back({OpKind::ConvGradInput, {conv.y, conv.weight}, shaped(conv, conv.x)});
    cases.push_back({OpKind::ConvGradWeight, {conv.x, conv.y}, shaped(conv, conv.weight)});
  }
}

void add_pools(std::vector<GradientCase>& cases) {
  struct Pool {
    Shape x, y;
    Dims window, strides, low, high;
  };
  const std::vector<Pool> pools = {
      {{2, 6, 3}, {2, 3, 3}, {2}, {2}, {0}, {0}},
      {{1, 5, 2}, {1, 5, 2}, {3}, {1}, {1}, {1}},
      {{1, 4, 4, 2}, {1, 2, 2, 2}, {2, 2}, {2, 2}, {0, 0}, {0, 0}},
      {{1, 5, 4, 2}, {1, 3, 3, 2}, {3, 2}, {2, 1}, {1, 0}, {1, 0}},
      {{1, 7, 6, 1}, {1, 2, 1, 1}, {6, 5}, {1, 2}, {0, 0}, {0, 0}},
  };
  for (const Pool& pool : pools) {
    Attrs attrs = with(windows(pool.strides, pool.low, pool.high), "window", Attr(pool.window));
    const Attrs most = with(attrs, "dilations", Attr(Dims(pool.window.size(), 1)));
    const Attr shape(Dims(pool.x.begin(), pool.x.end()));
    cases.push_back({OpKind::MaxPool, {pool.x}, most});
    cases.push_back({OpKind::MaxPoolGrad, {pool.x, pool.y, pool.y}, most});
    for (bool padding : {true, false}) {
      attrs.set("count_include_pad", padding);
      cases.push_back({OpKind::AvgPool, {pool.x}, attrs});
      cases.push_back({OpKind::AvgPoolGrad, {pool.y}, with(attrs, "shape", shape)});
    }
  }
  Attrs dilated = windows({1}, {1}, {1}, {2});
  cases.push_back({OpKind::MaxPool, {{1, 6, 2}}, with(dilated, "window", Attr(Dims{3}))});
}

void add_upsamplings(std::vector<GradientCase>& cases) {
  const std::vector<std::pair<Shape, Dims>> sizes = {
      {{2, 3, 2}, {6}},       {{1, 5, 1}, {3}},       {{1, 3, 1}, {7}},
      {{1, 2, 3, 2}, {4, 6}}, {{1, 3, 2, 1}, {5, 1}}, {{1, 1, 4, 1}, {3, 3}}};
  for (const auto& [shape, size] : sizes) {
    Shape larger = shape;
    Dims own;
    for (size_t i = 0; i < size.size(); ++i) {
      own.push_back(shape[static_cast<int>(i) + 1]);
      larger = larger.with(static_cast<int>(i) + 1, size[i]);
    }
    const Attrs there = lists({{"size", size}}), back = lists({{"size", own}});
    cases.push_back({OpKind::UpsampleNearest, {shape}, there});
    cases.push_back({OpKind::UpsampleNearestGrad, {larger}, back});
    for (bool corners : {false, true}) {
      cases.push_back({OpKind::UpsampleLinear, {shape}, with(there, "align_corners", corners)});
      cases.push_back({OpKind::UpsampleLinearGrad, {larger}, with(back, "align_corners", corners)});
    }
  }
}

}  // namespace

std::vector<GradientCase> window_gradient_cases() {
  std::vector<GradientCase> cases;
  add_remaps(cases);
  add_convolutions(cases);
  add_pools(cases);
  add_upsamplings(cases);
  return cases;
}

}  // namespace mezzo::test
