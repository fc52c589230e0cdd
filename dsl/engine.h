// SPDX-License-Identifier: Apache-2.0
// One way to run a function of a module for `jit` and the Trainer: compiled for a CPU, or by the
// interpreter. Inside the library only.
#pragma once

#include <mezzo/dsl/device.h>
#include <mezzo/runtime/compiler.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

class Program {
 public:
  virtual ~Program() = default;
  /// The function that runs; its parameters are those of the traced function and, behind them, the
  /// state that passes added.
  virtual const ir::Function& function() const = 0;
  /// As Executable::run; true when an index was out of range.
  virtual bool run(std::span<void* const> parameters, std::span<void* const> results) = 0;
  /// One line a launch.
  virtual std::vector<std::string> launch_lines() const = 0;

  runtime::CompileReport report;
};

/// Throws UserError for an unknown rounding mode, on devices too that have no use for it.
void check_rounding(const std::string& rounding, ir::Location location);
/// Takes the module over; throws UserError and DeviceError.
std::unique_ptr<Program> build_program(std::unique_ptr<ir::Module> module,
                                       const std::string& function, const ProgramOptions& options);

}  // namespace mezzo::detail
