// SPDX-License-Identifier: Apache-2.0
// Whether a run met an index out of range: known at once on the processor, on its way to the host
// on a device.
#pragma once

#include <mezzo/runtime/host_array.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

namespace mezzo::runtime {

class IndexFlag {
 public:
  IndexFlag(bool raised = false) : raised_(raised) {}  // NOLINT: what is known is a flag
  /// Four bytes that are not 0 where it is raised.
  explicit IndexFlag(std::shared_ptr<DeviceCopy> word) : word_(std::move(word)) {}

  /// Waits for the run; throws DeviceError.
  bool raised() const {
    if (!word_) return raised_;
    std::array<std::byte, 4> bytes{};
    word_->download(bytes);
    return bytes != std::array<std::byte, 4>{};
  }

 private:
  bool raised_ = false;
  std::shared_ptr<DeviceCopy> word_;  // null when it is known
};

}  // namespace mezzo::runtime
