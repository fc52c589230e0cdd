// SPDX-License-Identifier: Apache-2.0
// An instruction as the parser hands it to the decoder: names resolved, types not yet looked at.
#pragma once

#include <ptx/module_data.h>
#include <string_view>

namespace mezzo::ptx::detail {

enum class Space : uint8_t {
  Generic,
  Global,
  Shared,
  Local,
  Parameter,
  Call,  // .param variables of a body; they lie in local memory
};

struct Operand {
  enum class Kind : uint8_t {
    Register,
    Predicate,
    Special,
    Integer,
    F32,
    F64,      // `bits`
    Symbol,   // `bits` is its address in `space`
    Address,  // parts[0] is the base, `bits` the displacement
    Vector,
    Pair,  // p|q
    Label,
    Sink,  // _
    List,  // (a, b) of a call
  };
  Kind kind = Kind::Sink;
  uint8_t bytes = 0;     // of a register
  bool negated = false;  // !p
  Space space = Space::Generic;
  Special special = Special::Zero;
  uint32_t at = 0;
  uint64_t bits = 0;
  std::string_view text;
  std::vector<Operand> parts;
};

struct Statement {
  int line = 0;
  std::string_view opcode;  // with modifiers
  std::vector<Operand> operands;
  uint32_t guard = 0, guard_flip = 0;
};

}  // namespace mezzo::ptx::detail
