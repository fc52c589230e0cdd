// SPDX-License-Identifier: Apache-2.0
// Functions that users hand over: one that holds nothing is an error at the line that takes it.
#pragma once

#include <mezzo/ir/location.h>

#include <functional>
#include <string>

namespace mezzo::detail {

/// Throws UserError: `taker`, such as "jit", was given no `role`, such as "function".
[[noreturn]] void throw_no_function(const std::string& taker, const std::string& role,
                                    ir::Location location);

template <typename F>
bool holds_function(const F&) {
  return true;
}
template <typename Signature>
bool holds_function(const std::function<Signature>& function) {
  return function != nullptr;
}
template <typename Result, typename... Arguments>
bool holds_function(Result (*const& function)(Arguments...)) {
  return function != nullptr;
}

/// Throws UserError for a std::function or a pointer without a function.
template <typename F>
void require_function(const F& function, const std::string& taker, const std::string& role,
                      ir::Location location) {
  if (!holds_function(function)) throw_no_function(taker, role, location);
}

}  // namespace mezzo::detail
