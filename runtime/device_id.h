// SPDX-License-Identifier: Apache-2.0
// Where a program runs, by name.
#pragma once

#include <mezzo/ir/location.h>

#include <cstdint>
#include <string>

namespace mezzo::runtime {

struct DeviceId {
  enum class Kind : uint8_t { Cpu, Interpreter, Cuda };
  Kind kind = Kind::Cpu;
  int ordinal = 0;  // Cuda

  bool operator==(const DeviceId&) const = default;
};

/// `cpu`, `interp`, `cuda:0`.
std::string to_string(const DeviceId& device);

/// `cpu`, `interp`, `cuda` (the first one), `cuda:N`, or `auto`: the first CUDA device if there is
/// one that kernels can be compiled for, else the processor, which the log then says with the
/// reason. Throws UserError that lists them; whether a CUDA device is there shows when a program is
/// built for it.
DeviceId device_by_name(const std::string& name, ir::Location location = {});

}  // namespace mezzo::runtime
