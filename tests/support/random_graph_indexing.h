// SPDX-License-Identifier: Apache-2.0
// The part of a random function that joins, reverses, reads and adds by index.
#pragma once

#include <mezzo/ir/builder.h>
#include <mezzo/ir/function_ref.h>

#include <vector>

namespace mezzo::test {

struct IndexingOptions {
  /// Correctly rounded ops and movement alone.
  bool exact = false;
  /// Larger results are not made.
  int64_t most_elements = 20000;
};

/// Makes such an op on some of the values `made` and returns it with the values that it needed,
/// all of them new; nothing where no value fits. `below(n)` draws from [0, n). One index in some is
/// out of range now and then.
std::vector<ir::Value> make_indexing(ir::Builder& builder, const std::vector<ir::Value>& made,
                                     ir::FunctionRef<int64_t(int64_t)> below,
                                     const IndexingOptions& options);

}  // namespace mezzo::test
