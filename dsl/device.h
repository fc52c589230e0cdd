// SPDX-License-Identifier: Apache-2.0
// Where a program runs.
#pragma once

#include <mezzo/ir/location.h>

#include <string>

namespace mezzo {

class Device {
 public:
  /// Compiled kernels for this machine's CPU.
  static Device cpu() { return Device(Kind::Cpu); }
  /// The reference interpreter: op by op, slow, right by definition.
  static Device interpreter() { return Device(Kind::Interpreter); }
  /// `cpu` or `interp`; throws UserError that lists them.
  static Device by_name(const std::string& name, ir::Location location = ir::Location::here());

  bool is_interpreter() const { return kind_ == Kind::Interpreter; }
  const char* name() const { return is_interpreter() ? "interp" : "cpu"; }

 private:
  enum class Kind { Cpu, Interpreter };
  explicit Device(Kind kind) : kind_(kind) {}
  Kind kind_;
};

/// The machine in one line: threads, vectors, and how each 16-bit type is treated (native,
/// converted or emulated).
std::string describe_machine();

}  // namespace mezzo
