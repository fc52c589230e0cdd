// SPDX-License-Identifier: Apache-2.0
#include <ops/gradient_cases.h>

namespace mezzo::test {

using ir::Attrs;
using ir::OpKind;
using ir::Shape;

std::vector<GradientCase> recurrent_gradient_cases() {
  std::vector<GradientCase> cases;
  for (const auto& [steps, units] : {std::pair<int64_t, int64_t>{1, 2}, {3, 2}})
    for (bool reverse : {false, true}) {
      const Shape x{steps, 2, 3}, state{2, units}, y{steps, 2, units}, wide{steps, 2, 4 * units};
      auto weights = [&](int64_t gates) {
        return std::pair(Shape{3, gates * units}, Shape{units, gates * units});
      };
      const auto [w1, u1] = weights(1);
      const auto [w3, u3] = weights(3);
      const auto [w4, u4] = weights(4);
      const Shape b1{units}, b3{3 * units}, b4{4 * units};
      const Attrs attrs{{"reverse", reverse}};
      cases.push_back({OpKind::Rnn, {x, state, w1, u1, b1}, attrs});
      cases.push_back({OpKind::Lstm, {x, state, state, w4, u4, b4}, attrs});
      cases.push_back({OpKind::Gru, {x, state, w3, u3, b3, b3}, attrs});
      cases.push_back({OpKind::RnnGrad, {x, state, w1, u1, y, y, y, y}, attrs});
      cases.push_back({OpKind::LstmGrad, {x, state, state, w4, u4, y, y, wide, y, y, wide}, attrs});
      cases.push_back({OpKind::GruGrad, {x, state, w3, u3, y, y, wide, y, y, wide}, attrs});
    }
  const Shape x{2, 2, 3}, state{2, 2};
  cases.push_back({OpKind::Rnn, {x, state, {3, 2}, {2, 2}, {2}}, {{"activation", "relu"}}});
  return cases;
}

}  // namespace mezzo::test
