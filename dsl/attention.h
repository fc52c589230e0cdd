// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention.
#pragma once

#include <mezzo/dsl/operand.h>

#include <optional>

namespace mezzo {

struct AttentionOptions {
  /// Bools: true where a query may read a key. Floats: added to the scores; -inf masks as false
  /// does, a finite number does not. Broadcasts to [batch, heads, queries, keys]; empty: every key.
  Tensor mask = {};
  /// Query i reads keys 0 to i, whatever their numbers are.
  bool causal = false;
  /// Factor of the scores; 1 / sqrt(depth) when left out.
  std::optional<double> scale = std::nullopt;
  /// Share of the weights that are dropped, the others times 1 / (1 - dropout). Always drops:
  /// nn::MultiHeadAttention tells training from evaluation.
  double dropout = 0;
  /// As in RandomOptions.
  Tensor offset = {};
};

/// softmax(scale q k^T + mask) v for each batch and head: q [batch, heads, queries, depth], k
/// [batch, key heads, keys, depth], v [batch, key heads, keys, width] give [batch, heads, queries,
/// width]. Key heads divide heads: query head i reads key head i / (heads / key heads). Scores are
/// f32 (f64 for f64). A query that may read no key gives 0 and has gradients 0, whatever it holds;
/// keys and values that no query of their head reads may hold NaN. Gradients by q, k, v and a float
/// mask.
Tensor attention(Operand q, Operand k, Operand v, AttentionOptions options = {});

}  // namespace mezzo
