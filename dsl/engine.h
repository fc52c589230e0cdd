// SPDX-License-Identifier: Apache-2.0
// One way to run a function of a module for `jit` and the Trainer: compiled for a CPU or a GPU, or
// by the interpreter. Inside the library only.
#pragma once

#include <mezzo/dsl/device.h>
#include <mezzo/runtime/program.h>

#include <cstdint>
#include <memory>
#include <string>

namespace mezzo::detail {

struct ProgramOptions {
  Device device = Device::cpu();
  std::string policy;      // empty: types as written
  std::string loss_scale;  // options of the pass, or "off"
  std::string rounding = "excess";
  int threads = 0;
  ir::DebugOptions debug = {};
  bool background = false;  // compiled while other programs run
};

using runtime::Program;

/// Takes the module over; throws UserError and DeviceError.
std::unique_ptr<Program> build_program(std::unique_ptr<ir::Module> module,
                                       const std::string& function, const ProgramOptions& options);

}  // namespace mezzo::detail
