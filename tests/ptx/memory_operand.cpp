// SPDX-License-Identifier: Apache-2.0
// Address operands and address spaces.
#include <ptx/memory_operand.h>

namespace mezzo::ptx::detail {

MemoryMode take_memory_mode(Decoder& d) {
  MemoryMode mode;
  d.take("weak");
  const int order = d.take_one_of({"volatile", "relaxed", "acquire", "release", "acq_rel"});
  mode.strong = order >= 0;
  mode.fence = order >= 2;
  d.take_one_of({"cta", "cluster", "gpu", "sys"});
  d.take("mmio");
  const int space = d.take_one_of({"global", "const", "shared", "shared::cta", "local", "param"});
  constexpr Space kSpaces[] = {Space::Global, Space::Global, Space::Shared,
                               Space::Shared, Space::Local,  Space::Parameter};
  if (space >= 0) mode.space = kSpaces[space];
  d.take("entry");
  d.take_cache_modifiers();
  d.take_cache_policy();
  return mode;
}

void decode_address(Decoder& d, const Operand& operand, MemoryMode& mode) {
  Instruction& to = d.instruction;
  const Space symbol = d.address(operand, to.op[1], to.address_bytes, to.immediate);
  mode.uniform = symbol != Space::Generic;
  const Space lies = symbol == Space::Call ? Space::Local : symbol;
  if (mode.space == Space::Parameter && symbol == Space::Call) mode.space = Space::Local;
  if (mode.uniform && mode.space != Space::Generic && mode.space != lies)
    d.error("the variable lies in another address space");
  if (mode.space == Space::Generic && lies != Space::Generic) mode.space = lies;
}

void note_width(Decoder& d, const MemoryMode& mode, uint32_t bytes) {
  if (mode.space == Space::Generic || mode.space == Space::Shared)
    d.builder().note_shared_width(bytes);
  if (mode.space == Space::Generic || mode.space == Space::Global)
    d.builder().note_global_width(bytes);
}

SpaceMasks sort_lanes(Space space, Mask lanes, Addresses& at) {
  SpaceMasks result;
  switch (space) {
    case Space::Global:
      result.global = lanes;
      return result;
    case Space::Shared:
      result.shared = lanes;
      return result;
    case Space::Local:
    case Space::Call:
      result.local = lanes;
      return result;
    case Space::Parameter:
      result.parameter = lanes;
      return result;
    case Space::Generic:
      break;
  }
  for_lanes(lanes, [&](int lane) {
    uint64_t& address = at.of[lane];
    const Mask bit = Mask{1} << lane;
    if (address < kSharedWindow) {
      result.global |= bit;
    } else if (address - kSharedWindow < kWindowBytes) {
      address -= kSharedWindow;
      result.shared |= bit;
    } else if (address - kLocalWindow < kWindowBytes) {
      address -= kLocalWindow;
      result.local |= bit;
    } else if (address - kParameterWindow < kWindowBytes) {
      address -= kParameterWindow;
      result.parameter |= bit;
    } else {
      result.global |= bit;
    }
  });
  return result;
}

}  // namespace mezzo::ptx::detail
