// SPDX-License-Identifier: Apache-2.0
// What a processor does with the 16-bit types, in words, for all who tell of the machine.
#pragma once

#include <mezzo/ir/target.h>

#include <string>

namespace mezzo::runtime {

/// `converted (F16C)`; native, converted or emulated, and by what.
std::string f16_text(const ir::Target& target);
std::string bf16_text(const ir::Target& target);

}  // namespace mezzo::runtime
