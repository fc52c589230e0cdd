// SPDX-License-Identifier: Apache-2.0
// Runs all blocks of a launch.
#pragma once

#include <ptx/warp.h>

namespace mezzo::ptx::detail {

/// Checks the limits, then runs the blocks in the order of the options. Throws Fault.
Counters run_launch(const ModuleData& module, Launch& launch);

}  // namespace mezzo::ptx::detail
