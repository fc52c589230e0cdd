// SPDX-License-Identifier: Apache-2.0
// The kernels of a function as the product plans and compiles them for a device, on memory of their
// own, timed by events of the device.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/runtime/cuda_kernels.h>
#include <mezzo/runtime/cuda_memory.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mezzo::gpu {

/// Median seconds of one call of `work`, which puts the same work on the stream each time. It is
/// called three times unmeasured; then batches of calls that take a quarter of a millisecond or
/// more are measured, for `seconds` in all and five times at least.
double median_seconds(const std::shared_ptr<runtime::CudaContext>& context, double seconds,
                      const std::function<void()>& work);

/// As many as a time needs on a device; on the fake driver a call is enough of everything.
double seconds_a_row(bool quick);

class TimedFunction {
 public:
  /// `module` has one function, whose parameters get numbers in [-1, 1), integers in [0, `range`).
  /// Throws DeviceError where the device has not enough memory.
  TimedFunction(std::shared_ptr<runtime::CudaContext> context, std::unique_ptr<ir::Module> module,
                int64_t range = 1);

  /// All launches of all kernels, on the stream.
  void launch() const;
  double median_seconds(double seconds) const;

  /// Of parameters and results, each once.
  int64_t bytes() const { return bytes_; }
  int kernels() const { return static_cast<int>(kernels_.size()); }
  /// Of the first kernel: NVRTC and the assembler.
  double compile_milliseconds() const { return compile_milliseconds_; }

 private:
  struct Launches {
    std::shared_ptr<runtime::LoadedCudaKernel> kernel;
    std::vector<uint64_t> values;  // of the parameters
    runtime::DeviceBuffer table;   // of `values`, where the kernel is indirect
    std::vector<uint64_t> arguments;
    std::vector<const void*> pointers;
  };
  runtime::DeviceBuffer filled(const ir::Type& type, int64_t range, uint64_t seed);
  void add_kernel(const ir::Op& kernel, const std::function<uint64_t(ir::Value)>& address);

  std::shared_ptr<runtime::CudaContext> context_;
  std::vector<runtime::DeviceBuffer> buffers_;
  std::vector<std::unique_ptr<Launches>> kernels_;
  int64_t bytes_ = 0;
  double compile_milliseconds_ = 0;
};

}  // namespace mezzo::gpu
