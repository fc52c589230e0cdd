// SPDX-License-Identifier: Apache-2.0
// Where something came from: a place in the user's C++ (or in a text), and the operation that a
// derived operation stands for. File names are interned strings with static lifetime, so that both
// types are plain values.
#pragma once

#include <string>
#include <string_view>

namespace mezzo::ir {

/// Returns a pointer to a copy of `text` that lives as long as the program; equal texts give equal
/// pointers. Thread-safe.
const char* intern(std::string_view text);

/// A source line. `file` is null when nothing is known.
struct Location {
  const char* file = nullptr;
  int line = 0;

  bool known() const { return file != nullptr; }
  bool operator==(const Location&) const = default;

  /// The place of the call that evaluates this default argument. `std::source_location` is missing
  /// in some of the supported compilers, the two builtins are not.
  static Location here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// `net.cpp:12`, or `<unknown>`.
std::string to_string(Location location);

}  // namespace mezzo::ir
