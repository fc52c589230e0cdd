// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/callable.h>

#include <mezzo/ir/error.h>

namespace mezzo::detail {

void throw_no_function(const std::string& what, ir::Location location) {
  throw UserError(location, what + " is an empty function",
                  "assign a function to it before it is handed over");
}

}  // namespace mezzo::detail
