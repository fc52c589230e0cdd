// SPDX-License-Identifier: Apache-2.0
// Checks of accesses. The usual case, all lanes inside one allocation, costs one pass over the
// addresses; lanes are looked at one by one only to name the one that is wrong.
#include <ptx/access.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo::ptx::detail {

namespace {

const char* verb(Access access) {
  return access == Access::Read ? "read" : access == Access::Write ? "write" : "atomic access";
}

/// Where an address lies, for messages.
std::string describe(const DeviceMemory& memory, Address address) {
  const auto before = memory.nearest_before(address);
  if (!before) return "no allocation lies before it";
  const Address end = before->begin + before->bytes;
  if (address < end)
    return fmt::format("{} bytes before the end of the allocation of {} bytes at {:#x}",
                       end - address, before->bytes, before->begin);
  return fmt::format("{} bytes behind the end of the allocation of {} bytes at {:#x}",
                     address - end, before->bytes, before->begin);
}

/// The lane that a check of all lanes together found something at; `misplaced(address)`.
template <class F>
int find_lane(Mask lanes, const Addresses& at, F&& misplaced) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) && misplaced(at.of[lane])) return lane;
  }
  return -1;
}

struct Range {
  uint64_t least = ~uint64_t{0}, most = 0, bits = 0;
};

Range range_of(Mask lanes, const Addresses& at) {
  Range range;
  if (lanes == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      range.least = std::min(range.least, at.of[lane]);
      range.most = std::max(range.most, at.of[lane]);
      range.bits |= at.of[lane];
    }
  } else {
    for_lanes(lanes, [&](int lane) {
      range.least = std::min(range.least, at.of[lane]);
      range.most = std::max(range.most, at.of[lane]);
      range.bits |= at.of[lane];
    });
  }
  return range;
}

[[noreturn]] void fail_misaligned(Warp& warp, const Instruction& instruction, Mask lanes,
                                  const Addresses& at, uint32_t bytes, const char* space) {
  const int lane = find_lane(lanes, at, [&](uint64_t address) { return address & (bytes - 1); });
  fail(warp, instruction, FaultKind::Misaligned, lane,
       fmt::format("access of {} bytes to {} address {:#x}, which is not aligned to them", bytes,
                   space, at.of[lane]));
}

}  // namespace

void read_addresses(Warp& warp, const Instruction&, uint32_t at, uint8_t register_bytes,
                    int64_t displacement, Addresses& out) {
  if (register_bytes == 8) {
    const uint64_t* from = warp.lanes<uint64_t>(at);
    for (int lane = 0; lane < kLanes; ++lane)
      out.of[lane] = from[lane] + static_cast<uint64_t>(displacement);
  } else {
    const uint32_t* from = warp.lanes<uint32_t>(at);
    for (int lane = 0; lane < kLanes; ++lane)
      out.of[lane] = from[lane] + static_cast<uint32_t>(displacement);
  }
}

void count_sectors(Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& at,
                   uint32_t bytes) {
  Tally* const to = tally(warp, instruction);
  if (!to) return;
  uint64_t sectors[kLanes * 2];
  int count = 0;
  uint64_t total = 0;
  for_lanes(lanes, [&](int lane) {
    total += bytes;
    for (uint64_t s = at.of[lane] / 32; s <= (at.of[lane] + bytes - 1) / 32; ++s)
      sectors[count++] = s;
  });
  std::sort(sectors, sectors + count);
  to->sectors += std::unique(sectors, sectors + count) - sectors;
  to->ideal_sectors += (total + 31) / 32;
}

void count_wavefronts(Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& at,
                      uint32_t bytes) {
  Tally* const to = tally(warp, instruction);
  if (!to) return;
  // 16-byte accesses go by eight lanes, 8-byte ones by sixteen; in each such part every bank gives
  // one word a cycle, and lanes that want the same word share it.
  const int together = bytes >= 16 ? 8 : bytes == 8 ? 16 : 32;
  for (int first = 0; first < kLanes; first += together) {
    uint32_t words[kLanes];
    int count = 0;
    for (int lane = first; lane < first + together; ++lane) {
      if (!(lanes >> lane & 1)) continue;
      for (uint64_t w = at.of[lane] / 4; w <= (at.of[lane] + bytes - 1) / 4; ++w)
        words[count++] = static_cast<uint32_t>(w);
    }
    if (!count) continue;
    std::sort(words, words + count);
    count = static_cast<int>(std::unique(words, words + count) - words);
    uint32_t banks[32] = {};
    uint32_t most = 0;
    for (int i = 0; i < count; ++i) most = std::max(most, ++banks[words[i] % 32]);
    to->wavefronts += most;
    to->ideal_wavefronts += 1;
  }
}

void check_global(Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& at,
                  uint32_t bytes, Access access) {
  const Range range = range_of(lanes, at);
  if (range.bits & (bytes - 1)) fail_misaligned(warp, instruction, lanes, at, bytes, "global");
  Block& block = *warp.block;
  const uint64_t span = range.most - range.least + bytes;
  if (!block.recent.contains(range.least, span)) {
    const DeviceMemory& memory = *block.launch->memory;
    if (const auto found = memory.find(range.least)) block.recent = *found;
    if (!block.recent.contains(range.least, span)) {
      const int lane =
          find_lane(lanes, at, [&](uint64_t address) { return !memory.holds(address, bytes); });
      if (lane >= 0)
        fail(warp, instruction, FaultKind::OutOfBounds, lane,
             fmt::format("{} of {} bytes at {:#x}, {}", verb(access), bytes, at.of[lane],
                         describe(memory, at.of[lane])));
    }
  }
  count_sectors(warp, instruction, lanes, at, bytes);
}

void check_copy_sources(Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& at,
                        const uint32_t (&sizes)[kLanes], uint32_t bytes) {
  if (!lanes) return;
  Mask whole = 0;
  for_lanes(lanes, [&](int lane) { whole |= Mask{sizes[lane] == bytes} << lane; });
  if (whole) check_global(warp, instruction, whole, at, bytes, Access::Read);
  const DeviceMemory& memory = *warp.block->launch->memory;
  for_lanes(lanes & ~whole, [&](int lane) {
    const Mask one = Mask{1} << lane;
    if (at.of[lane] & (bytes - 1)) fail_misaligned(warp, instruction, one, at, bytes, "global");
    if (!memory.holds(at.of[lane], sizes[lane]))
      fail(warp, instruction, FaultKind::OutOfBounds, lane,
           fmt::format("read of {} bytes at {:#x}, {}", sizes[lane], at.of[lane],
                       describe(memory, at.of[lane])));
    count_sectors(warp, instruction, one, at, sizes[lane]);
  });
}

void note_global_store(Warp& warp, const Instruction& instruction, int lane, Address address,
                       const std::byte* data, uint32_t bytes) {
  Block& block = *warp.block;
  Launch& launch = *block.launch;
  const uint32_t unit = warp.kernel->global_unit;
  const uint64_t first = (address - launch.writers_begin) >> unit;
  const uint32_t me = launch.owner_base + block.linear;
  for (uint32_t i = 0; i << unit < bytes; ++i) {
    const std::atomic_ref<uint32_t> entry(launch.writers[first + i]);
    const uint32_t owner = entry.load(std::memory_order_relaxed);
    if (owner != me && owner >= launch.owner_base && !block.synchronized &&
        std::memcmp(launch.memory->host(address + (i << unit)), data + (i << unit),
                    size_t{1} << unit) != 0)
      fail(warp, instruction, FaultKind::GlobalRace, lane,
           fmt::format("writes other bytes to {:#x} than block {} of this launch did",
                       address + (i << unit), owner - launch.owner_base));
    entry.store(me, std::memory_order_relaxed);
  }
}

void check_shared_bounds(Warp& warp, const Instruction& instruction, Mask lanes,
                         const Addresses& at, uint32_t bytes) {
  const Range range = range_of(lanes, at);
  if (range.bits & (bytes - 1)) fail_misaligned(warp, instruction, lanes, at, bytes, "shared");
  const uint64_t size = warp.block->shared.size();
  if (range.most >= size || bytes > size - range.most) {
    const int lane = find_lane(
        lanes, at, [&](uint64_t address) { return address >= size || bytes > size - address; });
    fail(warp, instruction, FaultKind::OutOfBounds, lane,
         fmt::format("access of {} bytes to shared address {:#x}, the block has {} bytes", bytes,
                     at.of[lane], size));
  }
}

void fail_shared(Warp& warp, const Instruction& instruction, int lane, uint32_t bytes,
                 const Finding& finding) {
  const bool unwritten =
      finding.kind == Finding::Kind::Unwritten || finding.kind == Finding::Kind::Pending;
  fail(warp, instruction, unwritten ? FaultKind::Uninitialized : FaultKind::SharedRace, lane,
       fmt::format("access of {} bytes to shared memory {} at shared address {:#x}", bytes,
                   to_string(finding), finding.address));
}

void check_shared(Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& at,
                  uint32_t bytes, Access access, bool strong) {
  check_shared_bounds(warp, instruction, lanes, at, bytes);
  SharedMemory& shared = warp.block->shared;
  for_lanes(lanes, [&](int lane) {
    const uint32_t address = static_cast<uint32_t>(at.of[lane]);
    const uint32_t thread = warp.first_thread + lane;
    Finding finding;
    if (access != Access::Write) finding = shared.read(address, bytes, thread, strong);
    if (access != Access::Read && !finding) finding = shared.write(address, bytes, thread, strong);
    if (finding) fail_shared(warp, instruction, lane, bytes, finding);
  });
  count_wavefronts(warp, instruction, lanes, at, bytes);
}

std::byte* check_local(Warp& warp, const Instruction& instruction, int lane, uint64_t address,
                       uint32_t bytes) {
  const uint64_t size = warp.kernel->local_bytes;
  if (address & (bytes - 1))
    fail(warp, instruction, FaultKind::Misaligned, lane,
         fmt::format("access of {} bytes to local address {:#x}, which is not aligned to them",
                     bytes, address));
  if (address >= size || bytes > size - address)
    fail(warp, instruction, FaultKind::OutOfBounds, lane,
         fmt::format("access of {} bytes to local address {:#x}, the thread has {} bytes", bytes,
                     address, size));
  return warp.local.data() + lane * size + address;
}

const std::byte* check_parameter(Warp& warp, const Instruction& instruction, int lane,
                                 uint64_t address, uint32_t bytes) {
  const auto parameters = warp.block->launch->parameters;
  if (address & (bytes - 1))
    fail(warp, instruction, FaultKind::Misaligned, lane,
         fmt::format("read of {} bytes at parameter offset {}, which is not aligned to them", bytes,
                     address));
  if (address >= parameters.size() || bytes > parameters.size() - address)
    fail(warp, instruction, FaultKind::OutOfBounds, lane,
         fmt::format("read of {} bytes at parameter offset {}, the kernel has {} bytes", bytes,
                     address, parameters.size()));
  return parameters.data() + address;
}

}  // namespace mezzo::ptx::detail
