// SPDX-License-Identifier: Apache-2.0
// Compiled kernels of this process: from memory if one is alive, from disk if one was stored, else
// from the code generator, several at a time.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/runtime/cache_key.h>
#include <mezzo/runtime/kernel_image.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mezzo::runtime {

class ThreadPool;

/// Code of a kernel in this process; one for all kernels of equal key. How it is run is the
/// business of its back end, which made it and knows its class.
struct LoadedKernel {
  virtual ~LoadedKernel() = default;
  std::string key;
  /// By launch, each after all tasks of the one before.
  std::vector<int64_t> tasks;
  /// Bytes of one workspace after the outputs.
  int64_t workspace_bytes = 0;
};

/// How kernels become code that runs on a device. Used by several threads at once.
class KernelBackend {
 public:
  virtual ~KernelBackend() = default;
  /// Kernels of equal key are one where this is equal too: `cpu`, `cuda:1`.
  virtual std::string device() const = 0;
  /// False after a fault: nothing can be loaded, and no entry of a cache is to blame.
  virtual bool usable() const { return true; }
  /// Throws what the code generator throws. `symbol`: an identifier for the code's entry.
  virtual KernelImage compile(const ir::Op& kernel, const std::string& symbol) const = 0;
  /// Throws DeviceError where the device does not take the image.
  virtual std::shared_ptr<LoadedKernel> load(const KernelImage& image,
                                             const ir::Op& kernel) const = 0;
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

/// Code that is no kernel op of a program: what a device needs for all of them.
struct HelperCode {
  std::string key;          // 32 hexadecimal digits
  std::string description;  // for who looks into the cache's folder
  std::function<KernelImage()> compile;
  std::function<std::shared_ptr<LoadedKernel>(const KernelImage& image)> load;
  std::function<bool()> usable = [] { return true; };  // as KernelBackend says
};

/// From the same places as a kernel; `device` as in KernelBackend.
StoredKernel load_helper(const HelperCode& helper, const std::string& device,
                         const StoreOptions& options);

/// One entry for each kernel op, equal kernels sharing one, then one for each of `helpers`, which
/// are made along with the kernels. Throws what the code generator throws.
std::vector<StoredKernel> load_kernels(std::span<const ir::Op* const> kernels,
                                       const KeyContext& context, const KernelBackend& backend,
                                       const StoreOptions& options,
                                       std::span<const HelperCode> helpers = {});

}  // namespace mezzo::runtime
