// SPDX-License-Identifier: Apache-2.0
// The f16, bf16 and packed forms of opcodes that exist for other types too.
#pragma once

#include <ptx/decoder.h>

namespace mezzo::ptx::detail {

void decode_half_add(Decoder& d);
void decode_half_sub(Decoder& d);
void decode_half_mul(Decoder& d);
void decode_half_fma(Decoder& d);
void decode_half_min(Decoder& d);
void decode_half_max(Decoder& d);
void decode_half_neg(Decoder& d);
void decode_half_abs(Decoder& d);
void decode_half_ex2(Decoder& d);
void decode_half_tanh(Decoder& d);

/// f16, bf16 or a pair of them.
inline bool is_half(Type type) {
  return type.is_float() && (type.bytes == 2 || (type.bytes == 4 && type.parts == 2));
}

}  // namespace mezzo::ptx::detail
