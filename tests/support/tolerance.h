// SPDX-License-Identifier: Apache-2.0
// How far a result may be from the reference: computed from the element type and the reduction,
// never typed by hand.
#pragma once

#include <mezzo/ir/dtype.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mezzo::test {

/// Bound of |result - reference| for a sum of `terms` terms (1 for an elementwise result) kept in
/// f32 and rounded once to `result`. `sum_of_magnitudes` is the sum of |term|. Blocked summation
/// adds in runs of at most 256 before a tree, which gives 256 + log2(terms) roundings of half a
/// unit each.
inline double tolerance(ir::DType result, double reference, int64_t terms,
                        double sum_of_magnitudes) {
  double roundings = 256 + std::log2(static_cast<double>(std::max<int64_t>(terms, 1)));
  return ir::unit_roundoff(result) * std::abs(reference) +
         std::ldexp(roundings * sum_of_magnitudes, -24);
}

}  // namespace mezzo::test
