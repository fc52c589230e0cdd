// SPDX-License-Identifier: Apache-2.0
// Shared memory of a block with a shadow: who wrote and read each unit, when, and whether it was
// written at all.
//
// Time is a number of the block that grows at every synchronisation. A warp knows of every other
// warp up to which time all it did comes before; of itself, up to the last `bar.warp.sync`. An
// access races with an earlier one of another thread that lies after what is known. Shuffles and
// votes order nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::ptx::detail {

struct Finding {
  enum class Kind : uint8_t { None, ReadAfterWrite, WriteAfterWrite, WriteAfterRead, Unwritten,
                              Pending };
  Kind kind = Kind::None;
  uint32_t address = 0;
  int other_thread = -1;  // -1: several, or unknown
  explicit operator bool() const { return kind != Kind::None; }
};
std::string to_string(const Finding& finding);

class SharedMemory {
 public:
  /// `unit_log2`: of the narrowest access there is.
  void resize(uint32_t bytes, uint32_t unit_log2, uint32_t warps);
  /// Poisons the bytes and forgets who did what.
  void reset();

  uint32_t size() const { return size_; }
  std::byte* data() { return bytes_.data(); }

  /// Looks at an access of `bytes` (a multiple of the unit, aligned, inside) and notes it. Strong
  /// accesses (atomic, volatile, relaxed) do not race with each other.
  Finding read(uint32_t address, uint32_t bytes, uint32_t thread, bool strong = false);
  Finding write(uint32_t address, uint32_t bytes, uint32_t thread, bool strong = false);
  /// An asynchronous copy begins: nobody may read until it landed.
  Finding begin_copy(uint32_t address, uint32_t bytes, uint32_t thread);
  Finding end_copy(uint32_t address, uint32_t bytes, uint32_t thread);

  /// All lanes of `warp` are ordered from now on.
  void order_warp(uint32_t warp) {
    known_[warp][warp] = now_++;
    update_floor(warp);
  }
  using Times = std::array<uint32_t, 32>;
  /// What a barrier passes on: `warp` arrives, and a warp that waited leaves.
  void arrive(uint32_t warp, Times& published);
  void leave(uint32_t warp, const Times& published);

 private:
  struct Cell {
    uint32_t write_time = 0;  // 0: never written
    uint32_t read_time = 0;   // 0: not since the last ordered write
    uint32_t read_warps = 0;
    uint16_t writer = 0;  // thread; top bits as below
    uint16_t reader = 0;
  };
  static constexpr uint16_t kThread = 0x3FF, kStrong = 0x400, kPending = 0x800, kSeveral = 0x400;

  Finding check_write(const Cell& cell, uint32_t address, uint32_t thread, bool strong) const;
  template <bool kCopy>
  Finding store(uint32_t address, uint32_t bytes, uint32_t thread, bool strong);
  void update_floor(uint32_t warp);

  uint32_t size_ = 0, unit_ = 0, warps_ = 0, now_ = 1;
  std::vector<std::byte> bytes_;
  std::vector<Cell> cells_;
  std::array<Times, 32> known_{};
  Times floor_{};  // the least of known_, a warp
};

}  // namespace mezzo::ptx::detail
