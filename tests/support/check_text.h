// SPDX-License-Identifier: Apache-2.0
// A small FileCheck: the lines of a text must match the CHECK lines of a specification, in order.
// Values are captured, never written as `%0`, so that a test does not depend on numbering.
#pragma once

#include <string>
#include <string_view>

namespace mezzo::test {

/// Checks `text` against the directives found in `spec` (any text; what stands before the directive
/// on its line is ignored). Returns "" or a sentence that names the failed line of `spec` and shows
/// where in `text` it was looked for. A `spec` without directives, or with a misspelt one, fails.
///
///   CHECK: P         the next match at or after the last one
///   CHECK-NEXT: P    a match on the line after the last match
///   CHECK-SAME: P    a match on the rest of the line of the last match
///   CHECK-NOT: P     no match between the matches before and after it
///   CHECK-LABEL: P   found first; other directives stay between the labels around them
///
/// A pattern is literal text (a run of spaces matches any run) with `{{R}}`, `[[name:R]]`
/// (captures) and `[[name]]` (the captured text). R is made of characters, `\c`, `.`, `[a-z_]`,
/// `[^...]`, each with an optional `*`, `+` or `?` (greedy), and `|` between alternatives. A match
/// stays within one line.
std::string check_text(std::string_view text, std::string_view spec);

}  // namespace mezzo::test
