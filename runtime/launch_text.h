// SPDX-License-Identifier: Apache-2.0
// Kernels in one line of words, for reports and logs.
#pragma once

#include <mezzo/ir/graph.h>

#include <cstdint>
#include <string>

namespace mezzo::runtime {

struct LoadedKernel;

/// Bytes of all operands and results of a kernel, each counted once.
int64_t traffic_bytes(const ir::Op& kernel);

/// The ops of a kernel by name, without constants: the first `most`, then `and 3 more`. `located`:
/// with their lines, `matmul (net.cpp:12)`, where these are known.
std::string ops_text(const ir::Op& kernel, int most, const char* separator, bool located);

/// `@k0 matmul (matmul add relu) 32x784xf32, 784x512xf32 -> 32x512xf32, 1.7 MB, 12 tasks {...}`.
std::string launch_text(const ir::Op& kernel, const LoadedKernel& loaded);

}  // namespace mezzo::runtime
