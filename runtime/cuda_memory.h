// SPDX-License-Identifier: Apache-2.0
// Owners of device memory, of pinned host memory and of events.
#pragma once

#include <mezzo/runtime/cuda_context.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace mezzo::runtime {

/// Memory of a device. Given back in the order of the stream: work that uses it may still be under
/// way.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer() { release(); }

  cuda::DevicePointer address() const { return address_; }
  size_t bytes() const { return bytes_; }

  /// Copies and waits. [offset, offset + bytes) must lie in the buffer.
  void upload(const void* from, size_t bytes, size_t offset = 0);
  void download(void* to, size_t bytes, size_t offset = 0) const;

 private:
  friend class CudaContext;
  void release() noexcept;
  void check_range(size_t bytes, size_t offset) const;

  std::shared_ptr<CudaContext> context_;
  cuda::DevicePointer address_ = 0;
  size_t bytes_ = 0;
};

/// Host memory for asynchronous copies. Its destructor waits for the stream.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer() { release(); }

  void* data() const { return memory_; }
  size_t bytes() const { return bytes_; }

 private:
  friend class CudaContext;
  void release() noexcept;

  std::shared_ptr<CudaContext> context_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// A place in the stream that can be waited for, and a clock.
class CudaEvent {
 public:
  /// `timing`: milliseconds_since() may be asked, which makes the event a little dearer.
  explicit CudaEvent(std::shared_ptr<CudaContext> context, bool timing = false);
  CudaEvent(CudaEvent&& other) noexcept;
  CudaEvent& operator=(CudaEvent&& other) noexcept;
  ~CudaEvent() { release(); }

  /// Marks the end of what is on the stream now.
  void record();
  /// Waits until the work before the last record() has ended; throws what a kernel did wrong.
  void wait();
  /// Whether wait() would return at once.
  bool done();
  /// Both events must have `timing` and be done.
  double milliseconds_since(const CudaEvent& start) const;

 private:
  void release() noexcept;

  std::shared_ptr<CudaContext> context_;
  cuda::Event event_ = nullptr;
};

}  // namespace mezzo::runtime
