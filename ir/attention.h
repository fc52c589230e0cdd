// SPDX-License-Identifier: Apache-2.0
// Which operands an attention op has behind those that are always there: a mask where the attribute
// `masked` says so, a random state where `rate` is above 0, and its sample offset.
#pragma once

#include <mezzo/ir/op_info.h>

namespace mezzo::ir {

/// Numbers of operands; -1 for what is not there.
struct AttentionOperands {
  int mask = -1, rng = -1, offset = -1;
};

/// Of `attention` or `attention_grad` with `count` operands.
AttentionOperands attention_operands(OpKind kind, const Attrs& attrs, size_t count);

}  // namespace mezzo::ir
