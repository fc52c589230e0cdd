// SPDX-License-Identifier: Apache-2.0
// One small module for every row of the op table that the families elementwise, rows and movement
// serve, with every element type and the shapes that give other code: what tests of the CUDA back
// end share.
#pragma once

#include <mezzo/ir/graph.h>

#include <memory>
#include <string>
#include <vector>

namespace mezzo::test {

struct CudaCase {
  std::string name;  // `add f16 tail`
  std::unique_ptr<ir::Module> module;
  /// Small enough to be run by an interpreter.
  bool small = true;
};

/// Every elementwise row × element type, each in a shape that vectors divide, in one that they do
/// not and broadcast; of one element and of none once a row.
std::vector<CudaCase> elementwise_cases();
/// Views, pad, constants, iota, random numbers, index checks.
std::vector<CudaCase> movement_cases();
/// Every row of trait Reduction × element type × rows of a warp, of a block, over several axes.
std::vector<CudaCase> reduction_cases();
/// Tensors of more than 2^31 elements.
std::vector<CudaCase> wide_cases();

/// Rows of the op table that no kernel of these families holds, with the reason in words.
const std::vector<std::pair<ir::OpKind, const char*>>& rows_elsewhere();

}  // namespace mezzo::test
