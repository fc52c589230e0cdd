// SPDX-License-Identifier: Apache-2.0
// Padding with a value, reversal, concatenation, reading and adding by index. Indices are drawn
// from 0, 1, 2, so that places are read and added to several times.
#include <ops/gradient_cases.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::OpKind;

std::vector<GradientCase> indexing_gradient_cases() {
  using Ints = std::vector<int64_t>;
  auto axis = [](int64_t number) { return Attrs{{"axis", Attr(number)}}; };
  auto axes = [](Ints numbers) { return Attrs{{"axes", Attr(numbers)}}; };
  auto padding = [](Ints low, Ints high, Ints interior) {
    return Attrs{{"low", Attr(low)}, {"high", Attr(high)}, {"interior", Attr(interior)}};
  };
  return {
      {OpKind::Pad, {{3, 2}, {}}, padding({1, 0}, {0, 2}, {0, 1})},
      {OpKind::Pad, {{0, 2}, {}}, padding({1, 0}, {1, 0}, {0, 0})},
      {OpKind::Flip, {{2, 3, 4}}, axes({0, 2})},
      {OpKind::Flip, {{5}}, axes({})},
      {OpKind::Concat, {{2, 3}, {2, 1}, {2, 4}}, axis(1)},
      {OpKind::Concat, {{4, 3}, {0, 3}, {9, 3}}, axis(0)},
      {OpKind::Gather, {{3, 4}, {5}}, axis(0)},
      {OpKind::Gather, {{2, 3, 4}, {2, 3}}, axis(1)},
      {OpKind::Gather, {{4, 3}, {}}, axis(1)},
      {OpKind::Gather, {{3, 2}, {0}}, axis(0)},
      {OpKind::TakeAlongAxis, {{3, 4}, {3, 6}}, axis(1)},
      {OpKind::TakeAlongAxis, {{3, 2, 2}, {5, 2, 2}}, axis(0)},
      {OpKind::ScatterAdd, {{3, 4}, {5}, {5, 4}}, axis(0)},
      {OpKind::ScatterAdd, {{2, 3, 4}, {2, 3}, {2, 2, 3, 4}}, axis(1)},
      {OpKind::ScatterAdd, {{4, 3}, {}, {4}}, axis(1)},
      {OpKind::AddAlongAxis, {{3, 4}, {3, 6}, {3, 6}}, axis(1)},
      {OpKind::AddAlongAxis, {{3, 2, 2}, {5, 2, 2}, {5, 2, 2}}, axis(0)},
  };
}

}  // namespace mezzo::test
