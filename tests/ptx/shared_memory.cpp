// SPDX-License-Identifier: Apache-2.0
// The shadow of shared memory.
#include "shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace mezzo::ptx::detail {

std::string to_string(const Finding& finding) {
  const std::string other = finding.other_thread < 0
                                ? std::string("other threads")
                                : fmt::format("thread {}", finding.other_thread);
  switch (finding.kind) {
    case Finding::Kind::ReadAfterWrite:
      return fmt::format("reads what {} wrote without a barrier between", other);
    case Finding::Kind::WriteAfterWrite:
      return fmt::format("overwrites what {} wrote without a barrier between", other);
    case Finding::Kind::WriteAfterRead:
      return fmt::format("overwrites what {} read without a barrier between", other);
    case Finding::Kind::Unwritten:
      return "reads shared memory that nobody has written";
    case Finding::Kind::Pending:
      return fmt::format("touches the target of a cp.async of {} that nobody waited for", other);
    case Finding::Kind::None:
      break;
  }
  return "";
}

void SharedMemory::resize(uint32_t bytes, uint32_t unit_log2, uint32_t warps) {
  size_ = bytes;
  unit_ = unit_log2;
  warps_ = warps;
  bytes_.resize(bytes);
  cells_.resize((bytes + (1u << unit_) - 1) >> unit_);
}

void SharedMemory::reset() {
  std::memset(bytes_.data(), 0xFF, bytes_.size());
  std::fill(cells_.begin(), cells_.end(), Cell{});
  for (Times& times : known_) times.fill(0);
  floor_.fill(0);
  now_ = 1;
}

void SharedMemory::update_floor(uint32_t warp) {
  floor_[warp] = *std::min_element(known_[warp].begin(), known_[warp].begin() + warps_);
}

Finding SharedMemory::read(uint32_t address, uint32_t bytes, uint32_t thread, bool strong) {
  const uint32_t warp = thread >> 5;
  const Times& known = known_[warp];
  const uint32_t floor = floor_[warp];
  const uint32_t end = (address + bytes) >> unit_;
  for (uint32_t i = address >> unit_; i < end; ++i) {
    Cell& cell = cells_[i];
    const uint32_t writer = cell.writer & kThread;
    if (cell.write_time == 0) return {Finding::Kind::Unwritten, i << unit_, -1};
    if (cell.writer & kPending)
      return {Finding::Kind::Pending, i << unit_, static_cast<int>(writer)};
    if (cell.write_time > floor && writer != thread && cell.write_time > known[writer >> 5] &&
        !(strong && (cell.writer & kStrong)))
      return {Finding::Kind::ReadAfterWrite, i << unit_, static_cast<int>(writer)};
    const uint32_t bit = 1u << warp;
    if (cell.read_time <= floor) {
      cell.read_time = now_;
      cell.read_warps = bit;
      cell.reader = static_cast<uint16_t>(thread);
    } else if (cell.reader != thread) {
      cell.read_warps |= bit;
      cell.reader |= kSeveral;
    }
  }
  return {};
}

Finding SharedMemory::check_write(const Cell& cell, uint32_t address, uint32_t thread,
                                  bool strong) const {
  const uint32_t warp = thread >> 5;
  const Times& known = known_[warp];
  const uint32_t writer = cell.writer & kThread;
  if (cell.writer & kPending) return {Finding::Kind::Pending, address, static_cast<int>(writer)};
  if (cell.write_time > floor_[warp] && writer != thread &&
      cell.write_time > known[writer >> 5] && !(strong && (cell.writer & kStrong)))
    return {Finding::Kind::WriteAfterWrite, address, static_cast<int>(writer)};
  if (cell.read_time <= floor_[warp] || cell.reader == thread || strong) return {};
  for (uint32_t left = cell.read_warps; left; left &= left - 1) {
    const uint32_t other = __builtin_ctz(left);
    if (cell.read_time > known[other]) {
      const bool several = cell.reader & kSeveral;
      return {Finding::Kind::WriteAfterRead, address,
              several ? -1 : static_cast<int>(cell.reader & kThread)};
    }
  }
  return {};
}

template <bool kCopy>
Finding SharedMemory::store(uint32_t address, uint32_t bytes, uint32_t thread, bool strong) {
  const uint32_t end = (address + bytes) >> unit_;
  for (uint32_t i = address >> unit_; i < end; ++i) {
    Cell& cell = cells_[i];
    if (Finding finding = check_write(cell, i << unit_, thread, strong)) return finding;
    cell.write_time = now_;
    cell.read_time = 0;
    cell.writer =
        static_cast<uint16_t>(thread | (strong ? kStrong : 0) | (kCopy ? kPending : 0));
  }
  return {};
}

Finding SharedMemory::write(uint32_t address, uint32_t bytes, uint32_t thread, bool strong) {
  return store<false>(address, bytes, thread, strong);
}

Finding SharedMemory::begin_copy(uint32_t address, uint32_t bytes, uint32_t thread) {
  return store<true>(address, bytes, thread, false);
}

Finding SharedMemory::end_copy(uint32_t address, uint32_t bytes, uint32_t thread) {
  const uint32_t end = (address + bytes) >> unit_;
  for (uint32_t i = address >> unit_; i < end; ++i) {
    Cell& cell = cells_[i];
    cell.write_time = now_;
    cell.writer = static_cast<uint16_t>(thread);
  }
  return {};
}

void SharedMemory::arrive(uint32_t warp, Times& published) {
  for (uint32_t i = 0; i < warps_; ++i) published[i] = std::max(published[i], known_[warp][i]);
  published[warp] = now_++;
  known_[warp][warp] = published[warp];
  update_floor(warp);
}

void SharedMemory::leave(uint32_t warp, const Times& published) {
  for (uint32_t i = 0; i < warps_; ++i)
    known_[warp][i] = std::max(known_[warp][i], published[i]);
  update_floor(warp);
  ++now_;
}

}  // namespace mezzo::ptx::detail
