// SPDX-License-Identifier: Apache-2.0
// Windows, normalisations and sequences for the generator of random graphs.
#pragma once

#include <support/random_graph_losses.h>

namespace mezzo::test {

/// The results of one more op, and what was made for it; nothing where no value fits.
std::vector<ir::Value> random_window(const GraphTools& tools);
std::vector<ir::Value> random_norm(const GraphTools& tools);
std::vector<ir::Value> random_sequence(const GraphTools& tools);

}  // namespace mezzo::test
