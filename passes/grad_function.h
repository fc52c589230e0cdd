// SPDX-License-Identifier: Apache-2.0
// Value and gradients of a function as a function of its own: what `mezzo grad` appends.
#pragma once

#include <mezzo/passes/pass.h>

#include <optional>
#include <string>
#include <vector>

namespace mezzo::passes {

/// Appends `@F_grad` (parameters of F -> results of F, then the gradients of the first result in
/// the order of `wrt`, parameter names of F) and expands every gradient of the module. With
/// `loss_scale` the backward pass starts from that number and its results are divided by it in f32
/// (f64 for f64). Throws UserError for an unknown function or parameter, a scale that is no
/// power of two in [2^-126, 2^127], or a module behind stage differentiated.
ir::Function* append_gradient_function(ir::Module& module, const std::string& function,
                                       const std::vector<std::string>& wrt,
                                       std::optional<double> loss_scale, PassContext& context);

}  // namespace mezzo::passes
