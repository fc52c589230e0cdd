// SPDX-License-Identifier: Apache-2.0
// NVIDIA's run-time compiler of CUDA C++. It is opened when it is first asked for, so one binary
// runs with and without it; neither a GPU nor a driver is needed to compile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::codegen {

struct KernelResources {
  std::string entry;
  int registers = 0;  // a thread
  int64_t spill_store_bytes = 0, spill_load_bytes = 0;
  int64_t stack_bytes = 0;
  int64_t shared_bytes = 0;
};

struct CudaBinary {
  std::string ptx;
  std::string cubin;  // bytes
  std::string log;    // warnings and what ptxas reports
  double milliseconds = 0;
  std::vector<KernelResources> kernels;  // in the order of the log
};

/// From now on only an NVRTC of at most this major version is used, the newest that there is: what
/// a newer one makes need not load on the driver. 0: no limit.
void limit_nvrtc_major(int major);

/// Major * 1000 + minor * 10 (13.0 is 13000). Throws DeviceError where the library is missing.
int nvrtc_version();
/// Whether NVRTC can be opened here; else `reason`, if given, says what was looked for.
bool nvrtc_available(std::string* reason = nullptr);

/// Compiles a program for one architecture, `sm_90`. Any number of threads may compile at once.
/// `name` stands for the program in messages. Throws DeviceError with the log where the compiler
/// refuses.
CudaBinary compile_cuda(const std::string& source, const std::string& arch,
                        const std::string& name = "kernels");

/// The kernels that ptxas reports in a log (`--ptxas-options=-v`).
std::vector<KernelResources> parse_resources(std::string_view log);

}  // namespace mezzo::codegen
