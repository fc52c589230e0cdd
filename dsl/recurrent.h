// SPDX-License-Identifier: Apache-2.0
// Recurrent networks over whole sequences, time first: x is [steps, batch, in], states are [batch,
// units]. Gates stand side by side in the last axis of the weights, in PyTorch's order. States and
// sums are f32 (f64 for f64) under every policy; products read the policy's type.
#pragma once

#include <mezzo/dsl/operand.h>

#include <string_view>

namespace mezzo {

struct RecurrentOptions {
  /// From the last step to the first; results stand at the step that they belong to.
  bool reverse = false;
};

struct RnnOptions {
  /// "tanh" or "relu".
  std::string_view activation = "tanh";
  bool reverse = false;
};

/// h[t] = tanh(x[t] w + b + h[t-1] u); w [in, units], u [units, units], b [units]. The states of
/// all steps, [steps, batch, units]; the last one is that of the last step (of the first in
/// reverse). Throws UserError for shapes that do not fit.
Tensor rnn(Operand x, Operand h0, Operand w, Operand u, Operand b, RnnOptions options = {});

struct LstmResult {
  Tensor h;  // outputs of all steps, [steps, batch, units]
  Tensor c;  // cell states
};

/// Gates i, f, g, o = x w + b + h u; c = σ(f) c + σ(i) tanh(g), h = σ(o) tanh(c) (Hochreiter and
/// Schmidhuber 1997, with the forget gate of Gers et al. 2000). w [in, 4 units], u [units, 4
/// units], b [4 units].
LstmResult lstm(Operand x, Operand h0, Operand c0, Operand w, Operand u, Operand b,
                RecurrentOptions options = {});

/// Gates r, z, n: r = σ(x w_r + b_r + h u_r + v_r), z alike, n = tanh(x w_n + b_n + r (h u_n +
/// v_n)), h = (1 - z) n + z h (Cho et al. 2014, in the form of cuDNN and PyTorch). w [in, 3 units],
/// u [units, 3 units], b and v [3 units].
Tensor gru(Operand x, Operand h0, Operand w, Operand u, Operand b, Operand v,
           RecurrentOptions options = {});

}  // namespace mezzo
