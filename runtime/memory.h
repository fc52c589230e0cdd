// SPDX-License-Identifier: Apache-2.0
// Amounts of memory in words; what is said when it does not suffice: what was asked, what there is
// and what to do.
#pragma once

#include <cstdint>
#include <string>

namespace mezzo::runtime {

/// `100 bytes`, `1.5 KiB`, `335.3 GiB`.
std::string bytes_text(double bytes);

/// Bytes of memory of this machine.
int64_t physical_memory();

/// Throws DeviceError `out of memory: 335.3 GiB for WHAT, this machine has 15.6 GiB`.
[[noreturn]] void fail_out_of_memory(const std::string& what, double bytes);

}  // namespace mezzo::runtime
