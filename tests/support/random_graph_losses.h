// SPDX-License-Identifier: Apache-2.0
// Losses, attention and random draws for the generator of random graphs.
#pragma once

#include <mezzo/ir/builder.h>

#include <functional>
#include <vector>

namespace mezzo::test {

/// What the generator offers.
struct GraphTools {
  ir::Builder& builder;
  ir::Value rng;
  std::function<int64_t(int64_t)> below;
  /// A value made so far that fits, or an empty one.
  std::function<ir::Value(const std::function<bool(ir::Value)>&)> any_value;

  bool chance(int percent) const { return below(100) < percent; }
};

/// The results of one more op, and what was made for it; nothing where no value fits.
std::vector<ir::Value> random_loss(const GraphTools& tools);
std::vector<ir::Value> random_attention(const GraphTools& tools);
std::vector<ir::Value> random_draw(const GraphTools& tools);

}  // namespace mezzo::test
