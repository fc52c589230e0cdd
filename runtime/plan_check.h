// SPDX-License-Identifier: Apache-2.0
// A plan may have been read instead of made: whether the code generator can follow it here.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/target.h>

namespace mezzo::runtime {

/// Throws UserError naming the first kernel of `function` (planned, verified) whose plan does not
/// fit its shapes, the vectors of a processor or the blocks of a GPU.
void check_plans(const ir::Function& function, const ir::Target& target);

}  // namespace mezzo::runtime
