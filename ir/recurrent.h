// SPDX-License-Identifier: Apache-2.0
// What the recurrent ops have side by side in the last axis of their weights and of the result `a`,
// which saves for the gradient what stands before the activations of every step.
#pragma once

#include <mezzo/ir/op_info.h>

namespace mezzo::ir {

struct RecurrentCell {
  /// Parts of w, u and the biases: rnn one; lstm input, forget, cell, output; gru reset, update,
  /// new (PyTorch's order).
  int64_t gates;
  /// Parts of `a`: as the gates; gru reset, update, the new part's product with the state, new.
  int64_t saved;
  /// The result behind `y` is a carried sequence: the cell of an lstm, the unrounded state of a
  /// gru.
  bool carry;
  int biases;
};

/// Of a recurrent op or its gradient.
inline RecurrentCell recurrent_cell(OpKind kind) {
  switch (kind) {
    case OpKind::Lstm:
    case OpKind::LstmGrad:
      return {4, 4, true, 1};
    case OpKind::Gru:
    case OpKind::GruGrad:
      return {3, 4, true, 2};
    default:
      return {1, 1, false, 1};
  }
}

}  // namespace mezzo::ir
