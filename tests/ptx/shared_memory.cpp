// SPDX-License-Identifier: Apache-2.0
// The shadow of shared memory.
#include <ptx/shared_memory.h>

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

void SharedMemory::resize(uint32_t bytes, uint32_t unit_log2, uint32_t warps, bool partial) {
  size_ = bytes;
  unit_ = unit_log2;
  warps_ = warps;
  partial_ = partial;
  bytes_.resize(bytes);
  cells_.resize((bytes + (1u << unit_) - 1) >> unit_);
  many_at_.resize(partial ? cells_.size() : 0);
}

void SharedMemory::reset() {
  std::fill(bytes_.begin(), bytes_.end(), std::byte{0xFF});
  std::fill(cells_.begin(), cells_.end(), Cell{});
  many_.clear();
  std::fill(many_at_.begin(), many_at_.end(), 0u);
  for (Times& times : known_) times.fill(0);
  floor_.fill(0);
  now_ = 1;
}

// ---- time ----

void SharedMemory::update_floor(uint32_t warp) {
  floor_[warp] = *std::min_element(known_[warp].begin(), known_[warp].begin() + warps_);
}

void SharedMemory::order_warp(uint32_t warp) {
  known_[warp][warp] = now_++;
  update_floor(warp);
}

void SharedMemory::arrive(uint32_t warp, Times& published) {
  for (uint32_t i = 0; i < warps_; ++i) published[i] = std::max(published[i], known_[warp][i]);
  published[warp] = now_++;
  known_[warp][warp] = published[warp];
  update_floor(warp);
}

void SharedMemory::open(uint32_t waiting, Times& published) {
  for (uint32_t i = 0; i < warps_; ++i) {
    if (waiting >> i & 1) published[i] = now_;
  }
  ++now_;
  for (uint32_t warp = 0; warp < warps_; ++warp) {
    if (!(waiting >> warp & 1)) continue;
    for (uint32_t i = 0; i < warps_; ++i) known_[warp][i] = std::max(known_[warp][i], published[i]);
    update_floor(warp);
  }
}

// ---- reads ----

template <bool kTogether>
Finding SharedMemory::look(uint32_t address, uint32_t bytes, uint32_t thread, bool strong) {
  const uint32_t warp = thread >> 5, floor = floor_[warp], now = now_;
  const auto reader = static_cast<uint16_t>(kTogether ? thread | kSeveral : thread);
  const uint32_t end = (address + bytes) >> unit_;
  for (uint32_t i = address >> unit_; i < end; ++i) {
    Cell& cell = cells_[i];
    // Written, landed and before everything that any warp did since: the usual case.
    if (cell.write_time - 1 >= floor) {
      if (const Finding found = check_read<kTogether>(cell, i << unit_, thread, strong))
        return found;
    }
    if (strong) continue;
    if (cell.read_time <= floor) {
      cell.read_time = now;
      cell.readers = reader;
    } else if (cell.readers != reader || cell.read_time != now) {
      note_read(cell, warp, reader);
    }
  }
  return {};
}

template <bool kTogether>
Finding SharedMemory::check_read(const Cell& cell, uint32_t address, uint32_t thread,
                                 bool strong) const {
  const uint32_t writer = cell.writer & kThread;
  if (cell.write_time == 0) return {Finding::Kind::Unwritten, address, -1};
  if (cell.write_time == kPending)
    return {Finding::Kind::Pending, address, static_cast<int>(writer)};
  if ((kTogether || writer != thread) && cell.write_time > known_[thread >> 5][writer >> 5] &&
      !(strong && (cell.writer & kStrong)))
    return {Finding::Kind::ReadAfterWrite, address, static_cast<int>(writer)};
  return {};
}

SharedMemory::Reads& SharedMemory::reads_of(const Cell& cell) {
  uint32_t& at = many_at_[static_cast<size_t>(&cell - cells_.data())];
  if (!at) {
    many_.emplace_back();
    at = static_cast<uint32_t>(many_.size());
  }
  return many_[at - 1];
}

/// Of a cell that was read after the floor. What comes before the reader need not be remembered:
/// who is ordered with the reader is ordered with that.
void SharedMemory::note_read(Cell& cell, uint32_t warp, uint16_t reader) {
  const uint32_t other = (cell.readers & kThread) >> 5;
  if (cell.readers & kMany) {
    if (partial_) note_read_of_many(reads_of(cell), warp, reader);
  } else if (cell.read_time <= known_[warp][other]) {
    cell.readers = reader;
  } else if (other == warp) {
    if (cell.readers != reader) cell.readers |= kSeveral;
  } else {
    if (partial_) {
      Reads& reads = reads_of(cell);
      reads = Reads{};
      reads.times[other] = cell.read_time;
      reads.threads[other] = cell.readers;
      note_read_of_many(reads, warp, reader);
    }
    cell.readers = kMany;
  }
  cell.read_time = now_;
}

void SharedMemory::note_read_of_many(Reads& reads, uint32_t warp, uint16_t reader) {
  uint16_t& own = reads.threads[warp];
  if (reads.times[warp] <= known_[warp][warp])
    own = reader;
  else if (own != reader)
    own |= kSeveral;
  reads.times[warp] = now_;
}

Finding SharedMemory::read(uint32_t address, uint32_t bytes, uint32_t thread, bool strong) {
  return look<false>(address, bytes, thread, strong);
}

Finding SharedMemory::read_together(uint32_t address, uint32_t bytes, uint32_t warp) {
  return look<true>(address, bytes, warp << 5, false);
}

// ---- writes ----

Finding SharedMemory::check_write(const Cell& cell, uint32_t address, uint32_t thread,
                                  bool strong) const {
  const uint32_t warp = thread >> 5, writer = cell.writer & kThread;
  if (cell.write_time == kPending)
    return {Finding::Kind::Pending, address, static_cast<int>(writer)};
  if (cell.write_time > floor_[warp] && writer != thread &&
      cell.write_time > known_[warp][writer >> 5] && !(strong && (cell.writer & kStrong)))
    return {Finding::Kind::WriteAfterWrite, address, static_cast<int>(writer)};
  if (cell.read_time <= floor_[warp] || cell.readers == thread) return {};
  return check_reads(cell, address, thread);
}

Finding SharedMemory::check_reads(const Cell& cell, uint32_t address, uint32_t thread) const {
  const Times& known = known_[thread >> 5];
  const auto found = [&](int reader) -> Finding {
    return {Finding::Kind::WriteAfterRead, address, reader & kSeveral ? -1 : reader};
  };
  if (!(cell.readers & kMany))
    return cell.read_time > known[(cell.readers & kThread) >> 5] ? found(cell.readers) : Finding{};
  // All warps know the same where all barriers are of all warps: that somebody read is enough.
  if (!partial_) return found(kSeveral);
  const Reads& reads = many_[many_at_[static_cast<size_t>(&cell - cells_.data())] - 1];
  for (uint32_t other = 0; other < warps_; ++other) {
    if (reads.times[other] > known[other] && reads.threads[other] != thread)
      return found(reads.threads[other]);
  }
  return {};
}

Finding SharedMemory::store(uint32_t address, uint32_t bytes, uint32_t thread, uint16_t writer,
                            uint32_t time) {
  const uint32_t floor = floor_[thread >> 5];
  const uint32_t end = (address + bytes) >> unit_;
  for (uint32_t i = address >> unit_; i < end; ++i) {
    Cell& cell = cells_[i];
    if (std::max(cell.write_time, cell.read_time) > floor) {
      if (const Finding found = check_write(cell, i << unit_, thread, writer & kStrong))
        return found;
    }
    cell = {time, 0, writer, 0};
  }
  return {};
}

Finding SharedMemory::write(uint32_t address, uint32_t bytes, uint32_t thread, bool strong) {
  return store(address, bytes, thread, static_cast<uint16_t>(thread | (strong ? kStrong : 0)),
               now_);
}

Finding SharedMemory::begin_copy(uint32_t address, uint32_t bytes, uint32_t thread) {
  return store(address, bytes, thread, static_cast<uint16_t>(thread), kPending);
}

void SharedMemory::end_copy(uint32_t address, uint32_t bytes, uint32_t thread) {
  const Cell landed{now_, 0, static_cast<uint16_t>(thread), 0};
  const uint32_t end = (address + bytes) >> unit_;
  for (uint32_t i = address >> unit_; i < end; ++i) cells_[i] = landed;
}

}  // namespace mezzo::ptx::detail
