// SPDX-License-Identifier: Apache-2.0
// What must hold of a module between passes: structure, types, references, and one set of rules a
// stage. Everything that is wrong is found at once, not only the first.
#pragma once

#include <mezzo/ir/graph.h>

#include <string>
#include <string_view>
#include <vector>

namespace mezzo::ir {

struct VerifierFinding {
  /// Null where the fault is the function's or the module's.
  const Op* op = nullptr;
  /// `@f: %1 = add: WHAT`, with both values.
  std::string text;
  Location location;
};

/// `net.cpp:12: TEXT`.
std::string to_string(const VerifierFinding& finding);

/// All findings, functions in order; empty for a valid module. Linear in the number of ops.
std::vector<VerifierFinding> verify(const Module& module);

/// Throws InternalError `internal error after pass 'P': ...` with the findings when there are any.
void verify_or_throw(const Module& module, std::string_view after_pass = "");

}  // namespace mezzo::ir
