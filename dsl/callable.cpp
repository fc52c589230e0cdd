// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/callable.h>

#include <mezzo/ir/error.h>

namespace mezzo::detail {

void throw_no_function(const std::string& taker, const std::string& role, ir::Location location) {
  throw UserError(location, taker + ": the " + role + " is empty, so there is nothing to call",
                  "give a std::function or a pointer that holds a function");
}

}  // namespace mezzo::detail
