// SPDX-License-Identifier: Apache-2.0
// cp.async. A copy lands as late as it may: when a wait of its thread needs it. Until then its
// target is poisoned, and whoever touches it is told so.
#include "memory_operand.h"

#include <fmt/format.h>

#include <cstring>

namespace mezzo::ptx::detail {

namespace {

constexpr uint32_t kOpen = ~0u;  // group of a copy that was not committed

/// op[0] the target, op[1] the source, op[2] the bytes to read or 0, op[3] a predicate that reads
/// none or 0. `count` bytes; `mode` the bytes of the target's address; `target` its displacement.
void begin_copies(Warp& warp, const Instruction& instruction, Mask lanes) {
  Block& block = *warp.block;
  const uint32_t bytes = instruction.count;
  Addresses from, to;
  read_addresses(warp, instruction, instruction.op[1], instruction.address_bytes,
                 instruction.immediate, from);
  read_addresses(warp, instruction, instruction.op[0], instruction.mode,
                 static_cast<int32_t>(instruction.target), to);
  uint32_t sizes[kLanes];
  Mask reading = 0;
  const Mask ignored = instruction.op[3] ? warp.predicate(instruction.op[3]) ^ instruction.flip : 0;
  for_lanes(lanes, [&](int lane) {
    sizes[lane] = instruction.op[2] ? warp.lanes<uint32_t>(instruction.op[2])[lane] : bytes;
    if (ignored >> lane & 1) sizes[lane] = 0;
    if (sizes[lane] > bytes)
      fail(warp, instruction, FaultKind::OutOfBounds, lane,
           fmt::format("reads {} bytes for a copy of {}", sizes[lane], bytes));
    if (sizes[lane]) reading |= Mask{1} << lane;
  });
  const SpaceMasks sources = sort_lanes(Space::Generic, reading, from);
  if (const Mask others = sources.shared | sources.local | sources.parameter)
    fail(warp, instruction, FaultKind::OutOfBounds, first_lane(others),
         "the source is not in device memory");
  check_copy_sources(warp, instruction, reading, from, sizes, bytes);
  const SpaceMasks targets = sort_lanes(Space::Shared, lanes, to);
  check_shared_bounds(warp, instruction, targets.shared, to, bytes);
  count_wavefronts(warp, instruction, lanes, to, bytes);
  for_lanes(lanes, [&](int lane) {
    const auto place = static_cast<uint32_t>(to.of[lane]);
    const uint32_t thread = warp.first_thread + static_cast<uint32_t>(lane);
    if (const Finding finding = block.shared.begin_copy(place, bytes, thread))
      fail_shared(warp, instruction, lane, bytes, finding);
    std::memset(block.shared.data() + place, 0xFF, bytes);
    warp.copies.push_back({.source = from.of[lane],
                           .shared = place,
                           .group = kOpen,
                           .bytes = static_cast<uint8_t>(bytes),
                           .source_bytes = static_cast<uint8_t>(sizes[lane]),
                           .lane = static_cast<uint8_t>(lane)});
  });
}

void land(Warp& warp, const AsyncCopy& copy) {
  Block& block = *warp.block;
  std::byte* const to = block.shared.data() + copy.shared;
  std::memset(to, 0, copy.bytes);
  std::memcpy(to, block.launch->memory->host(copy.source), copy.source_bytes);
  block.shared.end_copy(copy.shared, copy.bytes, warp.first_thread + copy.lane);
}

void commit(Warp& warp, const Instruction&, Mask lanes) {
  for (AsyncCopy& copy : warp.copies) {
    if (copy.group == kOpen && (lanes >> copy.lane & 1))
      copy.group = warp.committed_groups[copy.lane];
  }
  for_lanes(lanes, [&](int lane) { ++warp.committed_groups[lane]; });
}

/// `immediate`: how many groups may stay; -1: nothing may, not even what was not committed.
void wait(Warp& warp, const Instruction& instruction, Mask lanes) {
  std::erase_if(warp.copies, [&](const AsyncCopy& copy) {
    if (!(lanes >> copy.lane & 1)) return false;
    const bool due = instruction.immediate < 0 ||
                     (copy.group != kOpen && uint64_t{copy.group} + instruction.immediate <
                                                 warp.committed_groups[copy.lane]);
    if (due) land(warp, copy);
    return due;
  });
}

void decode_copy(Decoder& d) {
  const bool small = d.take("ca");
  if (!small && !d.take("cg")) d.error_modifiers();
  if (!d.take("shared") && !d.take("shared::cta")) d.error_modifiers();
  if (!d.take("global")) d.error_modifiers();
  const bool policy = d.take("L2::cache_hint");
  d.take_cache_modifiers();
  d.finish();
  const size_t hints = policy ? 1 : 0;
  d.expect_operands(3 + hints, 4 + hints);
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
  if (d.count() == 4 + hints) {
    if (d.operand(3).kind == Operand::Kind::Predicate)
      to.op[3] = d.predicate_input(3, to.flip);
    else
      to.op[2] = d.input(3, kU32);
  }
  if (policy) d.input(d.count() - 1, kB64);
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
