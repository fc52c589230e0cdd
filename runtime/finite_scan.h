// SPDX-License-Identifier: Apache-2.0
// Whether memory holds a NaN or an infinity.
#pragma once

#include <mezzo/ir/shape.h>

namespace mezzo::runtime {

/// Every element of the dense array is finite; true for integers and bools.
bool all_finite(const ir::Type& type, const void* data);

}  // namespace mezzo::runtime
