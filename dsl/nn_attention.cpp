// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/nn_attention.h>

#include <mezzo/dsl/layer_scope.h>
#include <mezzo/dsl/random.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

namespace mezzo::nn {

namespace {

double checked_rate(double rate, const char* layer, ir::Location location) {
  if (!(rate >= 0 && rate <= 1))
    throw UserError(location, fmt::format("{}: the rate must lie in [0, 1], not {:g}", layer, rate),
                    "it is the share of elements that are dropped");
  return rate;
}

int64_t checked_heads(int64_t features, int64_t heads, int64_t kv_heads, ir::Location location) {
  if (heads < 1 || kv_heads < 1 || features < 0 || features % heads != 0 || heads % kv_heads != 0)
    throw UserError(
        location,
        fmt::format("attention of {}, {} and {}: heads must divide features, and heads of keys "
                    "the heads",
                    ir::counted(features, "feature"), ir::counted(heads, "head"),
                    ir::counted(kv_heads, "head") + " of keys"),
        "nn::MultiHeadAttention takes the features, then the heads");
  return features / heads;
}

}  // namespace

Dropout::Dropout(double rate, ir::Location location)
    : rate_(checked_rate(rate, "dropout", location)) {}

Tensor Dropout::operator()(Operand x) const {
  detail::Trace& trace = detail::Trace::require("dropout", x.location());
  if (!trace.training) return trace.tensor(detail::single(trace, ir::OpKind::Dropout, x));
  return dropout(x, rate_);
}

MultiHeadAttention::MultiHeadAttention(int64_t features, int64_t heads,
                                       MultiHeadAttentionOptions options, ir::Location location)
    : features_(features),
      heads_(heads),
      kv_heads_(options.kv_heads == 0 ? heads : options.kv_heads),
      dropout_(checked_rate(options.dropout, "attention", location)),
      state_(detail::make_layer_state("attention", options.name)),
      query_(features, checked_heads(features, heads, kv_heads_, location) * heads,
             {.name = "query", .bias = options.bias, .initializer = options.initializer}, location),
      key_(features, features / heads * kv_heads_,
           {.name = "key", .bias = options.bias, .initializer = options.initializer}, location),
      value_(features, features / heads * kv_heads_,
             {.name = "value", .bias = options.bias, .initializer = options.initializer}, location),
      out_(features, features,
           {.name = "out", .bias = options.bias, .initializer = options.initializer}, location) {}

Tensor MultiHeadAttention::operator()(Operand x, MultiHeadMask mask) const {
  return (*this)(x, x, x, mask);
}

Tensor MultiHeadAttention::operator()(Operand query, Operand key, Operand value,
                                      MultiHeadMask mask) const {
  const ir::Location location = query.location();
  if (!state_)
    throw UserError(location, "attention: the layer was moved from",
                    "use the nn::MultiHeadAttention that it was moved to; a copy shares its "
                    "parameters");
  detail::Trace& trace = detail::Trace::require("attention", location);
  detail::LayerScope scope(trace, state_, location);
  auto at = [&](const Tensor& tensor) { return Operand(tensor, location); };
  /// [batch, length, features] as [batch, heads, length, depth].
  auto split = [&](const Dense& projection, const Operand& x, int64_t heads) {
    if (!x.is_tensor() || x.rank() != 3)
      throw UserError(location,
                      fmt::format("attention '{}': takes [batch, length, features], not {}",
                                  trace.scope(), x.is_tensor() ? to_string(x.type()) : "a number"),
                      "reshape the sequences to three axes");
    Tensor y = projection(x.at(location));
    Tensor apart = reshape(at(y), {x.shape()[0], x.shape()[1], heads, features_ / heads_});
    return transpose(at(apart), {0, 2, 1, 3});
  };
  Tensor q = split(query_, query, heads_), k = split(key_, key, kv_heads_),
         v = split(value_, value, kv_heads_);
  Tensor y = attention(
      at(q), at(k), at(v),
      {.mask = mask.mask, .causal = mask.causal, .dropout = trace.training ? dropout_ : 0});
  Tensor joined =
      reshape(at(transpose(at(y), {0, 2, 1, 3})), {query.shape()[0], query.shape()[1], features_});
  return out_(at(joined));
}

}  // namespace mezzo::nn
