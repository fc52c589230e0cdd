// SPDX-License-Identifier: Apache-2.0
// Inside the decompositions: what dropout and the dropout of attention share.
#pragma once

#include <mezzo/passes/decompose_parts.h>

namespace mezzo::passes {

/// Where dropout stands in the random numbers of a program.
struct DropoutSource {
  double rate;
  int64_t stream;
  Value rng;
  Value offset;  // empty: none
};

/// `x` where it is kept, times 1 / (1 - rate); 0 where it is dropped. A rate of 0 gives `x` itself,
/// a rate of 1 zeros. The comparison is one of integers, made anew by each call, so that the
/// backward pass draws the numbers of the forward pass instead of keeping them.
Value drop(Parts& parts, Value x, const DropoutSource& source);

}  // namespace mezzo::passes
