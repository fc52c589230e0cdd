// SPDX-License-Identifier: Apache-2.0
// Layers of transformers: dropout and multi-head attention.
#pragma once

#include <mezzo/dsl/attention.h>
#include <mezzo/dsl/nn.h>

namespace mezzo::nn {

/// While a model is trained, a share `rate` of the elements is 0 and the others are times 1 / (1 -
/// rate); in evaluation the tensor as it is. A Trainer trains in `step` and `fit`; its `evaluate`
/// and `jit` without {.training = true} do not.
class Dropout {
 public:
  /// Throws UserError for a rate outside of [0, 1].
  explicit Dropout(double rate, ir::Location location = ir::Location::here());
  Tensor operator()(Operand x) const;

  double rate() const { return rate_; }

 private:
  double rate_;
};

struct MultiHeadAttentionOptions {
  std::string name = "";
  /// Heads of keys and values, which divide the heads; 0: as many.
  int64_t kv_heads = 0;
  /// Of the weights, while the model is trained.
  double dropout = 0;
  bool bias = true;
  Initializer initializer = initializers::glorot_uniform();
};

struct MultiHeadMask {
  /// As in AttentionOptions: broadcasts to [batch, heads, queries, keys].
  Tensor mask = {};
  bool causal = false;
};

/// Attention of `heads` heads over sequences [batch, length, features], between projections of
/// queries, keys, values and of what they give. Parameters `query.weight`, `key.weight`,
/// `value.weight`, `out.weight` and their biases.
class MultiHeadAttention {
 public:
  /// Throws UserError unless the heads divide the features and the key heads divide the heads.
  MultiHeadAttention(int64_t features, int64_t heads, MultiHeadAttentionOptions options = {},
                     ir::Location location = ir::Location::here());

  /// A sequence that reads itself.
  Tensor operator()(Operand x, MultiHeadMask mask = {}) const;
  /// Queries [batch, queries, features] that read keys and values [batch, keys, features].
  Tensor operator()(Operand query, Operand key, Operand value, MultiHeadMask mask = {}) const;

  const Dense& query() const { return query_; }
  const Dense& key() const { return key_; }
  const Dense& value() const { return value_; }
  const Dense& out() const { return out_; }

 private:
  int64_t features_, heads_, kv_heads_;
  double dropout_;
  std::shared_ptr<detail::LayerState> state_;
  Dense query_, key_, value_, out_;
};

}  // namespace mezzo::nn
