// SPDX-License-Identifier: Apache-2.0
// The rules of `canonicalize`, by subject. Each holds for every value, NaN, infinities, -0 and
// 16-bit rounding included.
#pragma once

#include <mezzo/passes/rewrite.h>

namespace mezzo::passes {

/// Arithmetic, comparisons and selection (canonicalize_algebra.cpp).
std::span<const RewriteRule> algebra_rules();
/// Views, padding, reductions over nothing and transposes into products (canonicalize_views.cpp).
std::span<const RewriteRule> view_rules();

}  // namespace mezzo::passes
