// SPDX-License-Identifier: Apache-2.0
// Lets a function that was traced for full batches run on fewer samples: the first samples of a
// batch count, what stands behind them is padding. Inside the library only.
#pragma once

#include <mezzo/ir/graph.h>

#include <optional>
#include <string>

namespace mezzo::detail {

/// Adds the parameter `%count: tensor<i32>`, the number of samples that count, and leaves the rest
/// out of every sum and mean over samples. Samples lie along the first axis of the first two
/// parameters. Returns the name of the new parameter; nothing, and the function as it was, when
/// samples meet in another way (a product or a maximum over them ...), so that padding would show.
/// `other_batch` holds the same function traced for another number of samples: where anything but
/// the axis of samples differs, such as a number made from its length, padding would show too, as
/// it may when there is no such trace (null).
std::optional<std::string> mask_batch(ir::Function& function, const ir::Module* other_batch);

}  // namespace mezzo::detail
