// SPDX-License-Identifier: Apache-2.0
// Gives errors from below the DSL the line of the user's program. Inside the library only.
#pragma once

#include <mezzo/ir/error.h>
#include <mezzo/ir/shape.h>

#include <span>
#include <string>
#include <string_view>

namespace mezzo::detail {

/// Runs `f`; a UserError without a place gets `location` and, unless `what` is empty, starts with
/// `WHAT: `.
template <typename F>
decltype(auto) located(ir::Location location, std::string_view what, F&& f) {
  try {
    return f();
  } catch (const UserError& error) {
    if (error.location().known()) throw;
    std::string start = what.empty() ? "" : std::string(what) + ": ";
    throw UserError(location, start + error.message(), error.hint());
  }
}

/// The shape that `what` was asked for. Throws UserError at `location` for one that cannot be.
inline ir::Shape located_shape(ir::Location location, std::string_view what,
                               std::span<const int64_t> dims) {
  return located(location, what, [&] { return ir::Shape(dims); });
}

}  // namespace mezzo::detail
