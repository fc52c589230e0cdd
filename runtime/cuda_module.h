// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on a device: loading, limits, launching.
#pragma once

#include <mezzo/runtime/cuda_context.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mezzo::runtime {

namespace detail {
struct CudaModuleData;
struct CudaKernelData;
}  // namespace detail

/// Blocks of a launch.
struct CudaGrid {
  CudaGrid(int64_t x, int64_t y = 1) : x(x), y(y) {}  // NOLINT: a number is a grid
  int64_t x = 1, y = 1;
};

/// A kernel of a module, which it keeps loaded.
class CudaKernel {
 public:
  const std::string& name() const;
  int registers() const;  // a thread
  int64_t static_shared_bytes() const;
  int64_t local_bytes() const;  // a thread, in device memory: spills and arrays
  int max_threads() const;      // a block, with these registers

  /// Puts the kernel on the stream. `parameters` point to the values of its parameters, in order
  /// and complete, which are copied before the call returns. A grid without blocks does nothing.
  /// Throws DeviceError for what is beyond the kernel's and the device's limits.
  void launch(CudaGrid blocks, int threads, int64_t dynamic_shared_bytes,
              std::span<const void* const> parameters) const;

 private:
  friend class CudaModule;
  void check_limits(CudaGrid blocks, int threads, int64_t dynamic_shared_bytes) const;

  std::shared_ptr<const detail::CudaKernelData> data_;
};

/// A loaded image.
class CudaModule {
 public:
  /// `image` is what cuda_image() made, or the text of PTX, which the driver then compiles. `name`
  /// stands for the program in messages. Throws DeviceError with the driver's log.
  CudaModule(std::shared_ptr<CudaContext> context, const std::string& image, std::string name);

  /// `description`, if given, names the kernel in messages: source op and line. Launches may ask
  /// for up to `dynamic_shared_bytes`.
  CudaKernel function(const std::string& entry, std::string description = "",
                      int64_t dynamic_shared_bytes = 0) const;

 private:
  std::shared_ptr<detail::CudaModuleData> data_;
};

}  // namespace mezzo::runtime
