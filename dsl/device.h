// SPDX-License-Identifier: Apache-2.0
// Where a program runs.
#pragma once

#include <mezzo/ir/location.h>
#include <mezzo/runtime/device_id.h>

#include <string>

namespace mezzo {

class Device {
 public:
  /// Compiled kernels for this machine's CPU.
  static Device cpu() { return Device({runtime::DeviceId::Kind::Cpu}); }
  /// The reference interpreter: op by op, slow, right by definition.
  static Device interpreter() { return Device({runtime::DeviceId::Kind::Interpreter}); }
  /// A GPU of NVIDIA, numbered from 0. Whether it is there shows when a program is built for it: a
  /// DeviceError then says what is missing.
  static Device cuda(int ordinal = 0, ir::Location location = ir::Location::here());
  /// The first CUDA device if there is one, else the CPU; the log says so with the reason.
  static Device automatic() { return by_name("auto"); }
  /// `cpu`, `interp`, `cuda`, `cuda:N` or `auto`; throws UserError that lists them.
  static Device by_name(const std::string& name, ir::Location location = ir::Location::here());

  bool is_interpreter() const { return id_.kind == runtime::DeviceId::Kind::Interpreter; }
  bool is_cuda() const { return id_.kind == runtime::DeviceId::Kind::Cuda; }
  /// `cpu`, `interp` or `cuda:0`.
  std::string name() const { return runtime::to_string(id_); }
  runtime::DeviceId id() const { return id_; }

 private:
  explicit Device(runtime::DeviceId id) : id_(id) {}
  runtime::DeviceId id_;
};

/// Where `device` runs, in one line: threads and vectors of the processor, or the GPU with its
/// architecture and memory, and how each 16-bit type is treated (native, converted or emulated).
/// Throws DeviceError where there is no such GPU.
std::string describe_machine(Device device = Device::cpu());

}  // namespace mezzo
