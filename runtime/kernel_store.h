// SPDX-License-Identifier: Apache-2.0
// Compiled kernels of this process: from memory if one is alive, from disk if one was stored, else
// from the code generator, several at a time.
#pragma once

#include <mezzo/codegen/llvm/orc.h>
#include <mezzo/ir/graph.h>
#include <mezzo/runtime/cache_key.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mezzo::runtime {

class ThreadPool;

/// Code of a kernel in this process; one for all kernels of equal key.
struct LoadedKernel {
  struct Launch {
    codegen::KernelFunction function = nullptr;
    int64_t tasks = 0;
  };
  std::string key;
  /// In order, each after all tasks of the one before.
  std::vector<Launch> launches;
  /// Bytes of scratch memory a thread, and of one workspace after the outputs.
  int64_t scratch_bytes = 0, workspace_bytes = 0;
  codegen::LoadedCode code;
};

/// Where a kernel came from.
enum class KernelSource : uint8_t { Memory, Disk, Compiled };

struct StoredKernel {
  std::shared_ptr<const LoadedKernel> kernel;
  KernelSource source = KernelSource::Memory;
  /// Why neither memory nor disk had it; empty for a hit.
  std::string miss_reason;
};

struct StoreOptions {
  bool disk = true;
  /// Compiles missing kernels in parallel.
  ThreadPool* pool = nullptr;
};

/// One entry for each kernel op, equal kernels sharing one. Throws what the code generator throws.
std::vector<StoredKernel> load_kernels(std::span<const ir::Op* const> kernels,
                                       const KeyContext& context, const StoreOptions& options);

/// A compiled kernel as bytes on disk.
struct KernelImage {
  codegen::ObjectCode object;
  std::vector<codegen::KernelLaunch> launches;
  int64_t scratch_bytes = 0, workspace_bytes = 0;
};
std::vector<std::byte> write_image(const KernelImage& image);
/// Nothing when the bytes are not an image.
std::optional<KernelImage> read_image(std::span<const std::byte> bytes);

}  // namespace mezzo::runtime
