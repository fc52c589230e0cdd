// SPDX-License-Identifier: Apache-2.0
// Inside the decompositions: what softmax and the losses over classes share.
#pragma once

#include <mezzo/passes/decompose_parts.h>

#include <cmath>

namespace mezzo::passes {

/// A row's shifted logits and the sum of their exponentials, with the exceptional rows made
/// harmless.
struct Rows {
  Value shifted;  // x - max, and x itself in rows of -inf alone
  Value dead;     // bool: the row holds nothing but -inf
  Value exp;      // exp(shifted); 0 in dead rows
  Value total;    // its sum, 1 in dead rows
};

Rows shift_rows(Parts& parts, Value x, int64_t axis);
Value log_probabilities(Parts& parts, const Rows& rows);

/// An axis of no elements: nothing to compute, and no maximum to take.
inline bool is_empty(Value x) { return x.type().elements() == 0; }

}  // namespace mezzo::passes
