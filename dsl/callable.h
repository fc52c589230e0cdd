// SPDX-License-Identifier: Apache-2.0
// Functions that users hand over: one that holds nothing is an error at the line that takes it.
#pragma once

#include <mezzo/ir/location.h>

#include <string>
#include <type_traits>

namespace mezzo::detail {

/// Throws UserError: `what`, such as "jit: the function", is empty.
[[noreturn]] void throw_no_function(const std::string& what, ir::Location location);

/// Throws UserError for a std::function or a pointer without a function.
template <typename F>
void require_function(const F& function, const char* what, ir::Location location) {
  // A lambda is always one; that it converts to a pointer makes it comparable too.
  if constexpr (std::is_pointer_v<F> ||
                (std::is_class_v<F> && requires { function.target_type(); }))
    if (function == nullptr) throw_no_function(what, location);
}

}  // namespace mezzo::detail
