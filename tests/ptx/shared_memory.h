// SPDX-License-Identifier: Apache-2.0
// Shared memory of a block with a shadow: who wrote and read each unit, when, and whether it was
// written at all.
//
// Time is a number of the block that grows at every synchronisation. A warp knows of every other
// warp up to which time all it did comes before; of itself, up to the last `bar.warp.sync`. An
// access races with an earlier one of another thread that lies after what is known. Shuffles,
// votes and matrix products order nothing. `bar.warp.sync` orders all lanes, whatever its mask.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::ptx::detail {

struct Finding {
  enum class Kind : uint8_t {
    None,
    ReadAfterWrite,
    WriteAfterWrite,
    WriteAfterRead,
    Unwritten,
    Pending
  };
  Kind kind = Kind::None;
  uint32_t address = 0;
  int other_thread = -1;  // -1: several, or unknown
  explicit operator bool() const { return kind != Kind::None; }
};
std::string to_string(const Finding& finding);

class SharedMemory {
 public:
  /// `unit_log2`: of the narrowest access there is. `partial`: some barrier is not one of all
  /// warps, so that warps may know different things of each other.
  void resize(uint32_t bytes, uint32_t unit_log2, uint32_t warps, bool partial);
  /// Poisons the bytes and forgets who did what.
  void reset();

  uint32_t size() const { return size_; }
  std::byte* data() { return bytes_.data(); }

  /// Looks at an access of `bytes` (a multiple of the unit, aligned, inside) and notes it. Strong
  /// accesses (atomic, volatile, relaxed) do not race with each other.
  Finding read(uint32_t address, uint32_t bytes, uint32_t thread, bool strong = false);
  Finding write(uint32_t address, uint32_t bytes, uint32_t thread, bool strong = false);
  /// All lanes of `warp` read: what one of them wrote has to be ordered too.
  Finding read_together(uint32_t address, uint32_t bytes, uint32_t warp);
  /// An asynchronous copy begins: nobody may touch its target until it landed.
  Finding begin_copy(uint32_t address, uint32_t bytes, uint32_t thread);
  void end_copy(uint32_t address, uint32_t bytes, uint32_t thread);

  /// All lanes of `warp` are ordered from now on.
  void order_warp(uint32_t warp);
  using Times = std::array<uint32_t, 32>;
  /// `warp` comes to a barrier: what it did and knows is published there.
  void arrive(uint32_t warp, Times& published);
  /// The barrier opens for the warps of `waiting` (a bit a warp), which have done nothing since
  /// they came.
  void open(uint32_t waiting, Times& published);

 private:
  /// 0 as a time: never. `readers` is the thread that read last, or several of its warp, or of many
  /// warps; then `read_time` is the last of all reads.
  struct Cell {
    uint32_t write_time = 0, read_time = 0;
    uint16_t writer = 0, readers = 0;
  };
  static constexpr uint32_t kPending = ~0u;                    // as the time of a write
  static constexpr uint16_t kThread = 0x3FF, kStrong = 0x400;  // of a writer
  static constexpr uint16_t kSeveral = 0x400, kMany = 0x800;   // of readers
  /// With partial barriers: the last read of each warp.
  struct Reads {
    Times times{};
    std::array<uint16_t, 32> threads{};
  };

  template <bool kTogether>
  Finding look(uint32_t address, uint32_t bytes, uint32_t thread, bool strong);
  template <bool kTogether>
  Finding check_read(const Cell& cell, uint32_t address, uint32_t thread, bool strong) const;
  void note_read(Cell& cell, uint32_t warp, uint16_t reader);
  void note_read_of_many(Reads& reads, uint32_t warp, uint16_t reader);
  Reads& reads_of(const Cell& cell);
  Finding check_write(const Cell& cell, uint32_t address, uint32_t thread, bool strong) const;
  Finding check_reads(const Cell& cell, uint32_t address, uint32_t thread) const;
  Finding store(uint32_t address, uint32_t bytes, uint32_t thread, uint16_t writer, uint32_t time);
  void update_floor(uint32_t warp);

  uint32_t size_ = 0, unit_ = 0, warps_ = 0, now_ = 1;
  bool partial_ = false;
  std::vector<std::byte> bytes_;
  std::vector<Cell> cells_;
  std::vector<Reads> many_;
  std::vector<uint32_t> many_at_;  // 1 + the place of a cell in many_, 0: none yet
  std::array<Times, 32> known_{};
  Times floor_{};  // the least of known_, a warp
};

}  // namespace mezzo::ptx::detail
