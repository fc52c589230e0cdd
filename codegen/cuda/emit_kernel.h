// SPDX-License-Identifier: Apache-2.0
// A kernel op as CUDA C++: the text that NVRTC compiles, without any #include.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/target.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mezzo::codegen {

/// One `__global__` function and how it is launched: a one-dimensional grid.
struct CudaLaunch {
  std::string entry;         // its name
  int threads = 0;           // a block
  int64_t blocks = 0;        // 0 where there are no elements: nothing is launched
  int64_t shared_bytes = 0;  // dynamic shared memory of a block
};

/// A kernel op as text, and its launches, each after all of the one before. All entries have the
/// same parameters: a pointer for each operand and each result (each aligned to 16 bytes at least),
/// a `u32*` for each flag word in the order of ir::kernel_words, one for the index-range flag if
/// `checks_index`, one for each op of ir::kernel_slots (an i64 for a stream, a constant in its
/// compute type, which is the low bytes of ir::slot_bits), and a pointer to the workspace if there
/// is one.
struct CudaSource {
  std::string text;  // device functions and the entries, without the prelude
  std::string name;  // of the namespace that holds them
  std::vector<CudaLaunch> launches;
  int64_t workspace_bytes = 0;  // aligned to 256 bytes, of any content
  bool checks_index = false;
  bool matrix = false;   // needs the prelude of matrix products
  bool scatter = false;  // needs the prelude of scatters
  bool axis = false;     // needs that of scans and order
  /// There may be more parameters than a launch can pass: the entries have one, a pointer to a
  /// table in device memory that holds all of the above in that order, 8 bytes each.
  bool indirect = false;
};

/// `kernel` has a plan for `target`, an `sm_N`; entries and namespace are named after `name`, an
/// identifier. Throws InternalError where the plan is none that the family can follow.
CudaSource emit_cuda_kernel(const ir::Op& kernel, const ir::Target& target,
                            const std::string& name);

/// Most kernels that one program may have: compile time grows faster than their number. The runtime
/// makes a program of each kernel, so that several are compiled at once and each is cached alone.
inline constexpr size_t kMaxKernelsPerProgram = 20;

/// What is compiled: the prelude once, then the kernels.
std::string cuda_program(std::span<const CudaSource> kernels);

}  // namespace mezzo::codegen
