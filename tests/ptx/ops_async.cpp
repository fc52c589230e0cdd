// SPDX-License-Identifier: Apache-2.0
// cp.async. A copy lands as late as it may: when a wait of its thread needs it. Until then its
// target is poisoned, and whoever touches it is told so.
#include <fmt/format.h>

#include <cstring>
#include <ptx/memory_operand.h>

namespace mezzo::ptx::detail {

namespace {

constexpr uint32_t kOpen = ~0u;  // group of a copy that was not committed

/// How many bytes each lane reads: op[2] or all; none where the predicate in op[3] says so.
Mask source_sizes(Warp& warp, const Instruction& instruction, Mask lanes,
                  uint32_t (&sizes)[kLanes]) {
  const uint32_t bytes = instruction.count;
  const Mask ignored = instruction.op[3] ? warp.predicate(instruction.op[3]) ^ instruction.flip : 0;
  Mask reading = 0;
  for_lanes(lanes, [&](int lane) {
    sizes[lane] = instruction.op[2] ? warp.lanes<uint32_t>(instruction.op[2])[lane] : bytes;
    if (ignored >> lane & 1) sizes[lane] = 0;
    if (sizes[lane] > bytes)
      fail(warp, instruction, FaultKind::OutOfBounds, lane,
           fmt::format("reads {} bytes for a copy of {}", sizes[lane], bytes));
    if (sizes[lane]) reading |= Mask{1} << lane;
  });
  return reading;
}

/// op[0] the target, op[1] the source. `count` bytes; `mode` the bytes of the target's address;
/// `target` its displacement.
void begin_copies(Warp& warp, const Instruction& instruction, Mask lanes) {
  SharedMemory& shared = warp.block->shared;
  const uint32_t bytes = instruction.count;
  Addresses from, to;
  read_addresses(warp, instruction, instruction.op[1], instruction.address_bytes,
                 instruction.immediate, from);
  read_addresses(warp, instruction, instruction.op[0], instruction.mode,
                 static_cast<int32_t>(instruction.target), to);
  AsyncCopy& copy = warp.copies.emplace_back();
  copy.lanes = lanes;
  copy.group = kOpen;
  copy.bytes = bytes;
  if (instruction.op[2] | instruction.op[3]) {
    uint32_t sizes[kLanes];
    const Mask reading = source_sizes(warp, instruction, lanes, sizes);
    check_copy_sources(warp, instruction, reading, from, sizes, bytes);
    for_lanes(lanes, [&](int lane) {
      copy.source_bytes[lane] = static_cast<uint8_t>(sizes[lane]);
      copy.whole &= sizes[lane] == bytes;
    });
  } else {
    check_global(warp, instruction, lanes, from, bytes, Access::Read);
  }
  check_shared_bounds(warp, instruction, lanes, to, bytes);
  count_wavefronts(warp, instruction, lanes, to, bytes);
  for_lanes(lanes, [&](int lane) {
    const auto place = static_cast<uint32_t>(to.of[lane]);
    const uint32_t thread = warp.first_thread + static_cast<uint32_t>(lane);
    if (const Finding finding = shared.begin_copy(place, bytes, thread))
      fail_shared(warp, instruction, lane, bytes, finding);
    std::memset(shared.data() + place, 0xFF, bytes);
    copy.shared[lane] = place;
    copy.source[lane] = from.of[lane];
  });
}

template <uint32_t kBytes>
void land_whole(Warp& warp, const AsyncCopy& copy, Mask lanes) {
  SharedMemory& shared = warp.block->shared;
  const DeviceMemory& memory = *warp.block->launch->memory;
  for_lanes(lanes, [&](int lane) {
    const uint32_t place = copy.shared[lane];
    std::memcpy(shared.data() + place, memory.host(copy.source[lane]), kBytes);
    shared.end_copy(place, kBytes, warp.first_thread + static_cast<uint32_t>(lane));
  });
}

void land_parts(Warp& warp, const AsyncCopy& copy, Mask lanes) {
  SharedMemory& shared = warp.block->shared;
  const DeviceMemory& memory = *warp.block->launch->memory;
  for_lanes(lanes, [&](int lane) {
    std::byte* const to = shared.data() + copy.shared[lane];
    std::memset(to, 0, copy.bytes);
    if (copy.source_bytes[lane])
      std::memcpy(to, memory.host(copy.source[lane]), copy.source_bytes[lane]);
    shared.end_copy(copy.shared[lane], copy.bytes, warp.first_thread + static_cast<uint32_t>(lane));
  });
}

void land(Warp& warp, const AsyncCopy& copy, Mask lanes) {
  if (!copy.whole) return land_parts(warp, copy, lanes);
  if (copy.bytes == 16) return land_whole<16>(warp, copy, lanes);
  copy.bytes == 8 ? land_whole<8>(warp, copy, lanes) : land_whole<4>(warp, copy, lanes);
}

void commit(Warp& warp, const Instruction&, Mask lanes) {
  for (size_t i = 0, count = warp.copies.size(); i < count; ++i) {
    if (warp.copies[i].group != kOpen) continue;
    // Lanes that commit may have committed different numbers of groups, others not at all.
    Mask left = warp.copies[i].lanes & lanes;
    bool first = left == warp.copies[i].lanes;
    while (left) {
      const uint32_t group = warp.committed_groups[first_lane(left)];
      Mask same = 0;
      for_lanes(left, [&](int lane) {
        if (warp.committed_groups[lane] == group) same |= Mask{1} << lane;
      });
      left &= ~same;
      if (first && !left) {
        warp.copies[i].group = group;
      } else {
        AsyncCopy part = warp.copies[i];
        part.lanes = same;
        part.group = group;
        warp.copies[i].lanes &= ~same;
        warp.copies.push_back(part);
      }
      first = false;
    }
  }
  for_lanes(lanes, [&](int lane) { ++warp.committed_groups[lane]; });
}

/// `immediate`: how many groups may stay; -1: nothing may, not even what was not committed.
void wait(Warp& warp, const Instruction& instruction, Mask lanes) {
  std::erase_if(warp.copies, [&](AsyncCopy& copy) {
    Mask due = 0;
    for_lanes(copy.lanes & lanes, [&](int lane) {
      if (instruction.immediate < 0 ||
          (copy.group != kOpen &&
           copy.group + static_cast<uint64_t>(instruction.immediate) < warp.committed_groups[lane]))
        due |= Mask{1} << lane;
    });
    land(warp, copy, due);
    copy.lanes &= ~due;
    return copy.lanes == 0;
  });
}

void decode_copy(Decoder& d) {
  const bool small = d.take("ca");
  if (!small && !d.take("cg")) d.error_modifiers();
  if (!d.take("shared") && !d.take("shared::cta")) d.error_modifiers();
  if (!d.take("global")) d.error_modifiers();
  d.take_cache_modifiers();
  d.take_cache_policy();
  d.finish();
  d.expect_operands(3, 4);
  Instruction& to = d.instruction;
  uint8_t target_bytes = 0;
  int64_t displacement = 0;
  const Space target = d.address(d.operand(0), to.op[0], target_bytes, displacement);
  const Space source = d.address(d.operand(1), to.op[1], to.address_bytes, to.immediate);
  if (target != Space::Generic && target != Space::Shared)
    d.error("the target is not in shared memory");
  if (source != Space::Generic && source != Space::Global)
    d.error("the source is not in device memory");
  to.mode = target_bytes;
  to.target = static_cast<uint32_t>(static_cast<int32_t>(displacement));
  const uint64_t bytes = d.immediate(2);
  if (bytes != 16 && (!small || (bytes != 4 && bytes != 8)))
    d.error(fmt::format("a copy of {} bytes", bytes));
  to.count = static_cast<uint8_t>(bytes);
  if (d.count() == 4) {
    if (d.operand(3).kind == Operand::Kind::Predicate)
      to.op[3] = d.predicate_input(3, to.flip);
    else
      to.op[2] = d.input(3, kU32);
  }
  d.builder().note_shared_width(static_cast<uint32_t>(bytes));
  d.emit(begin_copies);
}

void decode_cp(Decoder& d) {
  if (!d.take("async")) d.error_modifiers();
  if (d.take("commit_group")) {
    d.finish();
    d.expect_operands(0);
    return d.emit(commit);
  }
  if (d.take("wait_group")) {
    d.finish();
    d.expect_operands(1);
    d.instruction.immediate = static_cast<int64_t>(d.immediate(0));
    return d.emit(wait);
  }
  if (d.take("wait_all")) {
    d.finish();
    d.expect_operands(0);
    d.instruction.immediate = -1;
    return d.emit(wait);
  }
  decode_copy(d);
}

constexpr Opcode kTable[] = {{"cp", decode_cp}};

}  // namespace

const std::span<const Opcode> kAsyncOpcodes = kTable;

}  // namespace mezzo::ptx::detail
