// SPDX-License-Identifier: Apache-2.0
// What the numbers of a run were, in lines of text: ranges and counts of results, and the
// operations whose flag words are set. For `mezzo run` and for MEZZO_DEBUG=numerics.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/runtime/host_array.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mezzo::runtime {

/// `0 %l: tensor<f32> min 0.5 max 0.5 mean 0.5 nan 0 inf 0 zero 0` of result `index`; minimum,
/// maximum and mean are of the finite elements, `-` where there are none. A result that updates
/// `%w` is called `%w'`.
std::string result_line(const ir::Function& function, int index, const HostArray& array);

/// `flag word 3: cast at net.cpp:12, backward: non-finite, overflow` for each set word in execution
/// order, or one line that no word is set; then a result_line for each result.
std::vector<std::string> numerics_lines(const ir::Function& function,
                                        std::span<const uint32_t> words,
                                        std::span<const HostArray> results);

}  // namespace mezzo::runtime
