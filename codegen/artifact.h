// SPDX-License-Identifier: Apache-2.0
// What a back end hands over: the calling convention of CPU kernels, object code as plain bytes and
// the launches that make up one kernel. Nothing here knows LLVM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::codegen {

/// Everything a CPU kernel reads besides its task range; compiled code knows this layout.
struct KernelArgs {
  /// Inputs, then outputs, then the shared workspace if the kernel asks for one.
  void* const* buffers = nullptr;
  /// Flag words that the kernel may OR into.
  uint32_t* const* flags = nullptr;
  /// Runtime slots.
  const int64_t* integers = nullptr;
};

/// Runs tasks [first_task, last_task); `scratch` is the calling thread's own memory, aligned to 64
/// bytes.
using KernelFunction = void (*)(const KernelArgs*, int64_t first_task, int64_t last_task,
                                void* scratch);

/// A relocatable ELF object.
struct ObjectCode {
  std::vector<std::byte> bytes;
};

/// One function of a kernel; the launches of a kernel run in order, each after all tasks of the one
/// before.
struct KernelLaunch {
  std::string symbol;
  int64_t tasks = 0;
};

}  // namespace mezzo::codegen
