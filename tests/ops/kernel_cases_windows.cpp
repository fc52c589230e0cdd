// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/windows.h>

#include <ops/kernel_draft.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;

namespace {

Attr list(std::span<const int64_t> values) { return Attr(Ints(values.begin(), values.end())); }

}  // namespace

/// Moved, cut, spread, reversed and repeated axes, windows, and fixed places.
void remaps(const Draft& draft) {
  struct Case {
    Shape x;
    Ints shape, axes, multiples, offsets, divisors, minors, minor_multiples;
  };
  std::vector<Case> cases = {
      {{kRows, kColumns}, {kRows, kColumns}, {0, 1}, {1, 1}, {-3, 0}, {1, 1}, {}, {}}};
  if (draft.small())
    cases = {
        {{7, 13}, {9, 13}, {0, 1}, {1, 1}, {-1, 0}, {1, 1}, {}, {}},
        {{7, 13}, {7, 17}, {0, 1}, {1, 1}, {0, -2}, {1, 1}, {}, {}},
        {{7, 13}, {13, 7}, {1, 0}, {1, 1}, {0, 0}, {1, 1}, {}, {}},
        {{5, 16}, {5, 33}, {0, 1}, {1, 1}, {0, 0}, {1, 2}, {}, {}},
        {{5, 16}, {9, 16}, {0, 1}, {1, 1}, {-1, 0}, {2, 1}, {}, {}},
        {{17}, {9}, {0}, {2}, {-1}, {1}, {}, {}},
        {{17}, {21}, {0}, {-1}, {18}, {1}, {}, {}},
        {{17}, {40}, {0}, {3}, {-20}, {5}, {}, {}},
        {{6, 4}, {3, 4}, {-1, 1}, {1, 1}, {2, 0}, {1, 1}, {}, {}},
        {{2, 9, 4},
         {2, 4, 3, 4},
         {0, 1, 3},
         {1, 2, 1},
         {0, -1, 0},
         {1, 1, 1},
         {-1, 2, -1},
         {0, 2, 0}},
        {{9}, {4, 3}, {0}, {2}, {-1}, {1}, {1}, {2}},
        {{2, 4097}, {4099, 2}, {1, 0}, {1, 1}, {0, -1}, {1, 1}, {}, {}},
        {{}, {3}, {}, {}, {}, {}, {}, {}},
        {{0, 4}, {2, 4}, {0, 1}, {1, 1}, {0, 0}, {1, 1}, {}, {}},
        {{3, 4}, {3, 0}, {0, 1}, {1, 1}, {0, 0}, {1, 1}, {}, {}},
    };
  for (const Case& each : cases) {
    Attrs attrs{{"shape", Attr(each.shape)},
                {"axes", Attr(each.axes)},
                {"multiples", Attr(each.multiples)},
                {"offsets", Attr(each.offsets)},
                {"divisors", Attr(each.divisors)}};
    const Type x(draft.dtype, each.x);
    if (!each.minors.empty()) {
      attrs.set("minor_axes", Attr(each.minors));
      attrs.set("minor_multiples", Attr(each.minor_multiples));
    }
    for (const char* way : {"", "clamp", "lowest"}) {
      const bool clamp = std::string_view(way) == "clamp";
      if (clamp && (!each.minors.empty() || x.elements() == 0)) continue;
      if (std::string_view(way) == "lowest" && !ir::is_float(draft.dtype)) continue;
      Attrs own = attrs;
      own.set("clamp", clamp);
      own.set("lowest", std::string_view(way) == "lowest");
      draft.add({x}, own);
    }
  }
}

void convolutions(const Draft& draft) {
  struct Case {
    Shape x, weight;
    Ints strides, low, high, dilations;
    int64_t groups = 1;
  };
  std::vector<Case> cases = {{{1, kRows, 2}, {3, 3, 2}, {1}, {1}, {1}, {1}}};
  if (draft.small())
    cases = {
        {{2, 9, 9, 5}, {7, 3, 3, 5}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {{1, 9, 7, 4}, {6, 3, 2, 4}, {2, 2}, {1, 0}, {1, 1}, {1, 1}},
        {{2, 5, 6, 3}, {4, 1, 1, 3}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
        {{2, 5, 6, 3}, {4, 1, 1, 3}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},
        {{1, 8, 8, 4}, {6, 3, 3, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2},
        {{1, 8, 8, 4}, {6, 3, 3, 2}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 2},
        {{2, 7, 7, 6}, {6, 3, 3, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 6},
        {{1, 7, 7, 3}, {6, 3, 3, 1}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 3},
        {{2, 17, 3}, {5, 5, 3}, {1}, {4}, {0}, {1}},
        {{1, 19, 2}, {3, 3, 2}, {3}, {0}, {2}, {4}},
        {{1, 20, 6}, {6, 4, 1}, {1}, {0}, {3}, {1}, 6},
        {{1, 10, 10, 1}, {2, 8, 8, 1}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},
        {{0, 4, 4, 2}, {3, 2, 2, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
        {{2, 4, 4, 0}, {3, 2, 2, 0}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    };
  const DType wide = draft.dtype == DType::F64 ? DType::F64 : DType::F32;
  for (const Case& each : cases) {
    Attrs attrs{{"strides", Attr(each.strides)},
                {"low", Attr(each.low)},
                {"high", Attr(each.high)},
                {"dilations", Attr(each.dilations)},
                {"groups", Attr(each.groups)}};
    const std::vector<ir::WindowAxis> axes =
        ir::window_axes(attrs, ir::places_of(each.x), ir::places_of(each.weight));
    const Type x(draft.dtype, each.x),
        weight = x.with(each.weight),
        y = x.with(ir::windowed_shape(each.x[0], axes, each.weight[0]));
    std::vector<Type> operands{x, weight};
    if (draft.kind == OpKind::ConvGradInput) {
      operands = {y, weight};
      attrs.set("shape", list(each.x.dims()));
    }
    if (draft.kind == OpKind::ConvGradWeight) {
      operands = {x, y};
      attrs.set("shape", list(each.weight.dims()));
    }
    draft.add(operands, attrs);
    if (wide != draft.dtype) draft.add(operands, attrs, {x.with(wide)});
  }
}

void pools(const Draft& draft) {
  struct Case {
    Shape x;
    Ints window, strides, low, high, dilations;
  };
  std::vector<Case> cases = {{{1, kRows, 3}, {2}, {2}, {0}, {1}, {1}}};
  if (draft.small())
    cases = {
        {{2, 8, 8, 5}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},
        {{1, 9, 7, 17}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
        {{1, 6, 5, 3}, {3, 2}, {1, 1}, {1, 0}, {0, 1}, {1, 1}},
        {{1, 9, 9, 2}, {7, 5}, {2, 1}, {3, 0}, {0, 2}, {1, 1}},
        {{2, 33, 1}, {4}, {3}, {0}, {2}, {1}},
        {{1, 7, 3}, {7}, {1}, {0}, {0}, {1}},
        {{2, 9, 4}, {3}, {1}, {2}, {2}, {2}},
        {{0, 4, 3}, {2}, {2}, {0}, {0}, {1}},
        {{1, 4, 0}, {2}, {2}, {0}, {0}, {1}},
    };
  for (const Case& each : cases) {
    Attrs attrs{{"window", Attr(each.window)},
                {"strides", Attr(each.strides)},
                {"low", Attr(each.low)},
                {"high", Attr(each.high)}};
    if (draft.info().attribute("dilations")) attrs.set("dilations", Attr(each.dilations));
    const std::vector<ir::WindowAxis> axes =
        ir::window_axes(attrs, ir::places_of(each.x), each.window);
    const Type x(draft.dtype, each.x),
        y = x.with(ir::windowed_shape(each.x[0], axes, each.x[each.x.rank() - 1]));
    if (draft.info().attribute("shape")) attrs.set("shape", list(each.x.dims()));
    draft.add(draft.kind == OpKind::MaxPoolGrad   ? std::vector{x, y, y}
              : draft.kind == OpKind::AvgPoolGrad ? std::vector{y}
                                                  : std::vector{x},
              attrs);
  }
}

void upsamplings(const Draft& draft) {
  std::vector<std::pair<Shape, Ints>> cases = {{{1, kRows / 4, 3}, {kRows}}};
  if (draft.small())
    cases = {{{2, 4, 5, 17}, {8, 10}}, {{1, 5, 3, 4}, {7, 8}}, {{1, 6, 6, 3}, {4, 3}},
             {{2, 3, 1}, {12}},        {{1, 9, 5}, {2}},       {{1, 1, 4, 2}, {5, 1}},
             {{1, 3, 3, 2}, {3, 3}},   {{0, 3, 2}, {6}},       {{1, 2, 2, 16}, {9, 9}}};
  for (const auto& [shape, size] : cases)
    draft.add({Type(draft.dtype, shape)}, {{"size", Attr(size)}});
}

}  // namespace mezzo::test
