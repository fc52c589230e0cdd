// SPDX-License-Identifier: Apache-2.0
// What loads, stores and atomics have in common: the space, the order, the address operand.
#pragma once

#include <ptx/access.h>
#include <ptx/decoder.h>

namespace mezzo::ptx::detail {

/// Packed into Instruction::mode.
struct MemoryMode {
  Space space = Space::Generic;  // never Call
  bool strong = false;           // volatile, relaxed and above
  bool fence = false;            // acquire, release
  bool uniform = false;          // the same address in all lanes

  uint8_t pack() const {
    return static_cast<uint8_t>(static_cast<int>(space) | strong << 3 | fence << 4 | uniform << 5);
  }
  static MemoryMode unpack(uint8_t mode) {
    return {static_cast<Space>(mode & 7), (mode & 8) != 0, (mode & 16) != 0, (mode & 32) != 0};
  }
};

/// Takes order, scope and space from the modifiers.
MemoryMode take_memory_mode(Decoder& d);
/// Decodes `[...]` into op[1], address_bytes and immediate, and settles the space with the symbol.
void decode_address(Decoder& d, const Operand& operand, MemoryMode& mode);
/// Tells the builder of the width in those spaces that the access may reach.
void note_width(Decoder& d, const MemoryMode& mode, uint32_t bytes);

/// Lanes by the space that their generic address lies in.
struct SpaceMasks {
  Mask global = 0, shared = 0, local = 0, parameter = 0;
};
/// Sorts the lanes, and makes the addresses of all but global ones offsets.
SpaceMasks sort_lanes(Space space, Mask lanes, Addresses& at);

}  // namespace mezzo::ptx::detail
