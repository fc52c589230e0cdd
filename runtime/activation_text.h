// SPDX-License-Identifier: Apache-2.0
// What fills the memory of a planned function's intermediate values, for whoever has too little.
#pragma once

#include <mezzo/runtime/run_plan.h>

#include <string>

namespace mezzo::runtime {

/// `activations of @step (tensor<128x512xf16> of relu at net.cpp:4, ...)`: the three largest values
/// of the arena, each with the op that computes it.
std::string activations_text(const ir::Function& function, const RunPlan& plan);

}  // namespace mezzo::runtime
