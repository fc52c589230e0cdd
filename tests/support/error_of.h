// SPDX-License-Identifier: Apache-2.0
// What a user is told, as text.
#pragma once

#include <mezzo/ir/error.h>

#include <string>

namespace mezzo::test {

/// The whole text of the `Expected` that `act` throws; "no error" when it throws none.
template <class Expected = UserError, class F>
std::string error_of(F&& act) {
  try {
    act();
  } catch (const Expected& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace mezzo::test
