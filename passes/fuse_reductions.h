// SPDX-License-Identifier: Apache-2.0
// The form of reductions that kernel families take.
#pragma once

#include <mezzo/ir/graph.h>

namespace mezzo::passes {

/// Rewrites reductions until each runs over the first or the last axes of its operand (argmax: the
/// last), and none over no axis. True when something changed.
bool normalize_reductions(ir::Function& function);

}  // namespace mezzo::passes
