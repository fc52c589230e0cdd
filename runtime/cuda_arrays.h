// SPDX-License-Identifier: Apache-2.0
// Arrays on a CUDA device: copies that programs keep of them, the way in for what the host has
// changed, and the way back for small results. None of it makes the host wait before it looks.
#pragma once

#include <mezzo/runtime/cuda_memory.h>
#include <mezzo/runtime/host_array.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace mezzo::runtime {

/// All bytes of an array in device memory.
class CudaCopy final : public DeviceCopy {
 public:
  CudaCopy(const std::shared_ptr<CudaContext>& context, int64_t bytes, std::string_view what);
  void download(std::span<std::byte> to) override;
  const std::shared_ptr<CudaContext>& context() const { return context_; }
  cuda::DevicePointer address() const { return buffer_.address(); }
  int64_t bytes() const { return static_cast<int64_t>(buffer_.bytes()); }

 private:
  std::shared_ptr<CudaContext> context_;
  DeviceBuffer buffer_;
};

/// The copy of `array` on that device; null where there is none. `current`: it has the array's
/// bytes.
struct CopyOf {
  std::shared_ptr<CudaCopy> copy;
  bool current = false;
};
CopyOf copy_of(const HostArray& array, const CudaContext& context);

/// What a copy of so many bytes takes of the pinned memory below.
constexpr int64_t pinned_bytes(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Pinned memory that one run after the other writes to and the device reads later.
class UploadRing {
 public:
  UploadRing(std::shared_ptr<CudaContext> context, size_t bytes);
  /// Begins a run: waits until the device has read what was put here two runs ago.
  void begin();
  /// Puts a copy on the stream; for what does not fit it waits.
  void copy(cuda::DevicePointer to, std::span<const std::byte> from);
  /// Ends the run's copies.
  void end();

 private:
  static constexpr size_t kSlots = 2;
  std::shared_ptr<CudaContext> context_;
  size_t bytes_ = 0, used_ = 0;
  std::vector<PinnedBuffer> slots_;
  std::vector<CudaEvent> read_;
  size_t run_ = 0;
  bool open_ = false;  // between begin() and end()
};

/// Small results on their way to the host, several runs deep: who looks at one waits for its run
/// alone. What nobody has looked at before its place is needed again is kept.
class Readback {
 public:
  Readback(std::shared_ptr<CudaContext> context, size_t bytes);
  ~Readback();
  /// Begins a run.
  void begin();
  /// Puts a copy on the stream; the result can be had after end().
  std::shared_ptr<DeviceCopy> copy(cuda::DevicePointer from, size_t bytes);
  /// Ends the run's copies.
  void end();

 private:
  class Result;
  struct Slot;
  static constexpr size_t kSlots = 4;
  std::shared_ptr<CudaContext> context_;
  size_t bytes_ = 0, used_ = 0;
  std::vector<std::shared_ptr<Slot>> slots_;
  size_t run_ = 0;
};

}  // namespace mezzo::runtime
