// SPDX-License-Identifier: Apache-2.0
// A CUDA device as this process uses it: the primary context, one stream, memory in the order of
// that stream. All may be used from any thread; work of several threads follows one after the
// other. After a fault of a kernel every use throws and says which kernel it was.
#pragma once

#include <mezzo/ir/function_ref.h>
#include <mezzo/ir/target.h>
#include <mezzo/runtime/cuda_api.h>
#include <mezzo/runtime/cuda_driver.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::runtime {

class DeviceBuffer;
class PinnedBuffer;

/// What faults are told with: kernels and graphs by the words of their caller.
using CudaWorkName = std::shared_ptr<const std::string>;

struct CudaMemoryUse {
  int64_t free_bytes = 0;  // of the device, what this process keeps in reserve counted as free
  int64_t total_bytes = 0;
  int64_t allocated_bytes = 0;  // by DeviceBuffers of this context
};

class CudaContext : public std::enable_shared_from_this<CudaContext> {
 public:
  /// Use cuda_context(): a process has one for each device.
  explicit CudaContext(int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const CudaDeviceFacts& facts() const { return facts_; }
  const ir::Target& target() const { return target_; }
  /// `device 0 (NVIDIA H100)`.
  std::string device_text() const;

  /// Memory for work that is put on the stream from now on; `what` says in an error what it is for.
  /// Address 0 for 0 bytes. Aligned to 256 bytes at least; not cleared.
  DeviceBuffer allocate(size_t bytes, std::string_view what);
  /// Memory of the host that copies reach without a detour.
  PinnedBuffer allocate_pinned(size_t bytes, std::string_view what);
  CudaMemoryUse memory_use();

  /// Puts a copy on the stream. Host memory stays alive and unchanged until the copy is done; from
  /// and to memory that is not pinned the call may wait for the stream.
  void copy_to_device(cuda::DevicePointer to, const void* from, size_t bytes);
  void copy_to_host(void* to, cuda::DevicePointer from, size_t bytes);
  void copy_on_device(cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes);
  void fill(cuda::DevicePointer to, uint8_t value, size_t bytes);

  /// Waits for all work that has been put on the stream; other threads go on meanwhile, unless the
  /// caller has a Use of its own (an allocation that is tried again, CUDA_LAUNCH_BLOCKING).
  void synchronize();

  /// Whether every launch is waited for, so that a fault names its kernel: CUDA_LAUNCH_BLOCKING. A
  /// graph is one launch; who builds graphs does without while this is set.
  bool blocking() const { return blocking_; }
  /// The text that every use throws since a kernel's fault; "" while all is well.
  std::string fault() const;

  // For what else is built on a context: modules, graphs, events.
  class Use;
  cuda::Stream stream() const { return stream_; }
  /// Whether a graph is being recorded by this thread; waits while another one does it.
  bool recording() const {
    const std::lock_guard lock(mutex_);
    return recording_ != nullptr;
  }
  const cuda::Driver& driver() const { return driver_; }
  /// Throws DeviceError unless `code` is Success; remembers the fault of a kernel.
  void check(cuda::Result code, std::string_view call, std::string_view details = "");
  /// Runs what destroys a handle, with the context current. Codes are of no use there: after a
  /// fault, and while the process ends, every call fails.
  void destroy(ir::FunctionRef<void()> call) noexcept;
  /// Notes what was put on the stream; waits for it if `blocking`. A graph that is recorded keeps
  /// `kernel`.
  void launched(const CudaWorkName& work, std::shared_ptr<const void> kernel = nullptr);

 private:
  friend class DeviceBuffer;
  friend class PinnedBuffer;
  friend class CudaGraph;

  void open();
  void close() noexcept;
  cuda::Result try_allocate(cuda::DevicePointer& address, size_t bytes);
  void release(cuda::DevicePointer address) noexcept;
  void release_now(cuda::DevicePointer address) noexcept;
  void release_pinned(void* memory) noexcept;
  void release_pinned_now(void* memory) noexcept;
  std::string largest_allocations() const;
  std::string suspects_text() const;
  [[noreturn]] void fail(cuda::Result code, std::string_view call, std::string_view details);

  /// What a graph has been given so far.
  struct Recording {
    std::vector<CudaWorkName> work;
    std::vector<std::shared_ptr<const void>> kernels;
  };
  struct Allocation {
    size_t bytes = 0;
    std::string what;
  };

  const cuda::Driver& driver_;
  CudaDeviceFacts facts_;
  ir::Target target_;
  bool blocking_ = false;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  cuda::Pool pool_ = nullptr;  // null where the device has none

  // Held for one call, and by a graph for the whole recording: nobody else's work gets into it.
  mutable std::recursive_mutex mutex_;
  std::map<cuda::DevicePointer, Allocation> allocations_;
  struct Launched {
    CudaWorkName work;
    uint64_t number;  // of its last launch
  };
  std::vector<Launched> unconfirmed_;  // put on the stream and not known to have ended well
  uint64_t launches_ = 0;
  Recording* recording_ = nullptr;
  std::vector<cuda::DevicePointer> released_while_recording_;
  std::vector<void*> pinned_released_while_recording_;
  std::string fault_;
};

/// The device is ready for calls of this thread: its context is current, no other thread puts work
/// on the stream and no kernel has faulted, else the constructor throws.
class CudaContext::Use {
 public:
  /// Waiting: other threads go on meanwhile.
  enum class Kind : uint8_t { Exclusive, Waiting };
  explicit Use(CudaContext& context, Kind kind = Kind::Exclusive);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  CudaContext& context_;
  std::unique_lock<std::recursive_mutex> lock_;
};

/// The context of a device, made at the first call and kept to the end of the process. From then on
/// NVRTC is limited to the driver's major version. Throws DeviceError where there is no such device
/// or Mezzo does not know its architecture.
std::shared_ptr<CudaContext> cuda_context(int ordinal);

/// Forgets a device's context, so that the next cuda_context() begins anew once all that was made
/// on the old one is gone. After a kernel's fault that is worth a try where cases are independent;
/// CUDA promises a clean device to a new process alone.
void release_cuda_context(int ordinal);

}  // namespace mezzo::runtime
