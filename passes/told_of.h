// SPDX-License-Identifier: Apache-2.0
// What a pass makes of an op can be larger than anything that the program wrote. The shape that
// cannot be is told of that op and its line.
#pragma once

#include <mezzo/ir/error.h>
#include <mezzo/ir/graph.h>

#include <string>

namespace mezzo::passes {

/// Runs `f`, which makes other ops of `op`; a UserError without a place becomes one of `op`.
template <typename F>
decltype(auto) told_of(const ir::Op& op, F&& f) {
  try {
    return f();
  } catch (const UserError& error) {
    if (error.location().known()) throw;
    std::string types;
    for (ir::Value operand : op.operands())
      types += (types.empty() ? "" : ", ") + to_string(operand.type());
    throw UserError(op.origin().location,
                    std::string(op.origin().name ? op.origin().name : op.info().name) + ": " +
                        error.message() + " (" + types + ")",
                    error.hint());
  }
}

}  // namespace mezzo::passes
