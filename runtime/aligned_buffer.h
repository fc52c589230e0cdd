// SPDX-License-Identifier: Apache-2.0
// Memory for kernels: aligned to a cache line, which is also the widest vector.
#pragma once

#include <mezzo/runtime/memory.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace mezzo::runtime {

class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;

  AlignedBuffer() = default;
  /// `bytes` bytes of any content, at least one, so that every buffer has an address. Throws
  /// DeviceError where there is not that much memory.
  explicit AlignedBuffer(int64_t bytes)
      : data_(static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes > 0 ? bytes : 1),
                                                     std::align_val_t(kAlignment), std::nothrow))) {
    if (!data_) fail_out_of_memory("a buffer of kernels", static_cast<double>(bytes));
  }

  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const {
      ::operator delete(data, std::align_val_t(kAlignment));
    }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace mezzo::runtime
