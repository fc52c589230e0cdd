// SPDX-License-Identifier: Apache-2.0
// Micro-tests on a device, by the driver alone: the PTX is compiled by the driver for its device.
#pragma once

#include <mezzo/runtime/cuda_context.h>

#include <ptx/micro.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace mezzo::gpu {

/// The driver's compiler does not take an instruction for this architecture, or at this driver's
/// version of PTX; the text is the compiler's first sentence.
class NotOnThisDevice : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// After a fault of a kernel every use of its context fails: the next one then begins with a new
/// context. Nothing that was made on the old one may be alive.
void renew_after_fault(int ordinal);

class MicroDevice {
 public:
  explicit MicroDevice(int ordinal) : ordinal_(ordinal) {}

  /// What the buffers hold behind the launch. Throws NotOnThisDevice, DeviceError. After a fault of
  /// a kernel the next launch begins with a new context.
  std::vector<std::vector<std::byte>> run(const ptx::test::MicroLaunch& launch);

 private:
  std::vector<std::vector<std::byte>> run_on(const std::shared_ptr<runtime::CudaContext>& context,
                                             const ptx::test::MicroLaunch& launch);
  int ordinal_;
};

/// `.version 8.4`, `.target sm_90a`: the newest PTX that both the driver and the micro-tests know,
/// and the device's own architecture with what only it has.
std::string ptx_header(int driver_version, int compute_capability);

/// Whether a compiler's message means that another architecture or version would take the text.
bool means_not_here(std::string_view log);

}  // namespace mezzo::gpu
