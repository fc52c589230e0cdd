// SPDX-License-Identifier: Apache-2.0
// The name of a kernel's compiled code, in memory and on disk: equal keys, equal machine code.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/target.h>

#include <string>

namespace mezzo::runtime {

/// What everything but the kernel itself puts into its key.
struct KeyContext {
  std::string rounding;
  ir::Target target;
  /// A hash of the sources of `codegen/`.
  std::string generator;
  /// With its version: `llvm 19.1.7`, `nvrtc 13.0`.
  std::string compiler;
  bool sanitized = false;

  /// With the facts of this library.
  static KeyContext here(std::string rounding, const ir::Target& target);
};

/// 32 hexadecimal digits of the kernel's structure (values without names, which ops have a flag
/// word and which of them share it), its plan and the context. Names, locations, the numbers of
/// words and random streams, constants, places and bound values do not count: they are arguments.
std::string kernel_key(const ir::Op& kernel, const KeyContext& context);

}  // namespace mezzo::runtime
