// SPDX-License-Identifier: Apache-2.0
// A kernel op as CUDA C++: the text that NVRTC compiles, without any #include.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/target.h>

#include <cstdint>
#include <span>
#include <string>

namespace mezzo::codegen {

/// One `__global__` function and how it is launched: a one-dimensional grid. Its parameters are a
/// pointer for each operand and each result (each aligned to 16 bytes at least), a `u32*` for each
/// flag word in the order of ir::kernel_words, one for the index-range flag if the region checks
/// indices, and one for each op of ir::kernel_slots: an i64 for a stream, a constant in its compute
/// type, which is the low bytes of ir::slot_bits.
struct CudaSource {
  std::string text;    // device functions and the kernel, without the prelude
  std::string entry;   // its name
  int threads = 0;     // a block
  int64_t blocks = 0;  // 0 where the results have no elements: nothing is launched
};

/// Throws UserError for a family that cannot be emitted yet.
CudaSource emit_cuda_kernel(const ir::Op& kernel, const ir::Target& target,
                            const std::string& name);
bool can_emit_cuda(const ir::Op& kernel);

/// Most kernels that one program may have: compile time grows faster than their number.
inline constexpr size_t kMaxKernelsPerProgram = 20;

/// What is compiled: the prelude once, then the kernels.
std::string cuda_program(std::span<const CudaSource> kernels);

}  // namespace mezzo::codegen
