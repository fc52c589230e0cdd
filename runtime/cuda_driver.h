// SPDX-License-Identifier: Apache-2.0
// Whether this machine can run CUDA kernels, and on what. The driver's library is opened when it is
// first asked for: libcuda.so.1, or the file that MEZZO_CUDA_LIBRARY names and no other.
#pragma once

#include <mezzo/ir/target.h>

#include <cstdint>
#include <string>

namespace mezzo::runtime {

/// The oldest driver that is used, as CUDA's version (12.0): there is no NVRTC for older ones.
inline constexpr int kOldestDriver = 12000;

/// Whether there is a driver with at least one device; else `reason`, if given, says what is
/// missing.
bool cuda_available(std::string* reason = nullptr);

/// Number of devices; 0 where there is no driver.
int cuda_device_count();

struct CudaDeviceFacts {
  int ordinal = 0;
  std::string name;
  int compute_capability = 0;  // 90
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
  int64_t shared_bytes_per_block = 0;  // the most that a kernel can ask for
  int64_t shared_bytes_without_asking = 0;
  int max_threads_per_block = 0;
  int registers_per_block = 0;
  int64_t max_grid_x = 0, max_grid_y = 0;
  bool memory_pools = false;
  int driver_version = 0;  // CUDA's, major * 1000 + minor * 10

  bool operator==(const CudaDeviceFacts&) const = default;
};

/// Throws DeviceError where there is no driver or no such device.
CudaDeviceFacts cuda_device_facts(int ordinal);

/// What kernels are planned for: the architecture's entry of ir::target_by_name with the device's
/// own sizes. Throws DeviceError for an architecture that Mezzo does not know.
ir::Target cuda_target(const CudaDeviceFacts& facts);

/// `13.0` of 13000.
std::string cuda_version_text(int version);

}  // namespace mezzo::runtime
