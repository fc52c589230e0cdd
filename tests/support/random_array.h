// SPDX-License-Identifier: Apache-2.0
// Test inputs by domain letter of the op table, the same on every machine.
#pragma once

#include <mezzo/ir/interpreter_tensor.h>

#include <cstdint>

namespace mezzo::test {

/// Elements of the domain (`a` any, `p` positive, `u` unit-open, `s` small, `n` nonzero, `c` within
/// -1 and 1, `g` greater than 1, `i` index, `b` bool), a share `special` of them replaced by edge
/// values of the type: NaN, infinities, zeros, subnormals, extremes (indices and bools have none).
/// Indices lie in [0, index_limit).
ir::InterpreterTensor random_array(char domain, const ir::Type& type, uint64_t seed,
                                   double special = 0, int64_t index_limit = 4);

}  // namespace mezzo::test
