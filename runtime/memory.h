// SPDX-License-Identifier: Apache-2.0
// What is said when memory does not suffice: what was asked, what there is and what to do.
#pragma once

#include <cstdint>
#include <string>

namespace mezzo::runtime {

/// Bytes of memory of this machine.
int64_t physical_memory();

/// Throws DeviceError `out of memory: 335.3 GiB for WHAT, this machine has 15.6 GiB`.
[[noreturn]] void fail_out_of_memory(const std::string& what, double bytes);

}  // namespace mezzo::runtime
