// SPDX-License-Identifier: Apache-2.0
// What runs: a launch, a block of it, a warp of that. One host thread has one Block object at a
// time and uses its memory again for the next block.
#pragma once

#include <atomic>
#include <ptx/module_data.h>
#include <ptx/shared_memory.h>
#include <span>

namespace mezzo::ptx::detail {

struct Launch;
struct Block;

/// A `cp.async` of a warp that has not landed.
struct AsyncCopy {
  Mask lanes = 0;
  uint32_t group = 0;  // of its lanes
  uint32_t bytes = 0;
  bool whole = true;  // all lanes read all bytes
  std::array<uint8_t, kLanes> source_bytes{};
  std::array<uint32_t, kLanes> shared{};
  std::array<Address, kLanes> source{};
};

struct Warp {
  std::byte* registers = nullptr;
  Block* block = nullptr;
  const KernelData* kernel = nullptr;
  uint32_t index = 0, first_thread = 0;
  Mask full = 0;         // lanes that exist
  Mask alive = 0;        // and have not exited
  Mask parked = 0;       // wait at a `.sync` instruction or a barrier
  Mask at_barrier = 0;   // of these, those at a barrier
  int barrier = -1;      // its number
  bool arrived = false;  // and the warp is counted there
  std::array<uint32_t, kLanes> pc{};
  std::array<uint8_t, kLanes> side{};  // of a branch; lanes of different sides stay apart
  uint64_t executed = 0;
  std::vector<AsyncCopy> copies;  // that have not landed
  std::array<uint32_t, kLanes> committed_groups{};
  std::vector<std::byte> local;

  template <class T>
  T* lanes(uint32_t at) {
    return reinterpret_cast<T*>(registers + at);
  }
  Mask& predicate(uint32_t at) { return *reinterpret_cast<Mask*>(registers + at); }
  /// Writes those bits of a predicate that belong to `mask`.
  void set_predicate(uint32_t at, Mask mask, Mask value) {
    Mask& to = predicate(at);
    to = (to & ~mask) | (value & mask);
  }
};

struct Barrier {
  uint32_t arrived = 0;   // threads
  uint32_t expected = 0;  // 0: all of the block that have not exited
  bool named = false;     // some warp waits here, `expected` holds
  std::array<uint32_t, kLanes> published{};
  uint32_t true_threads = 0, voters = 0;  // of bar.red
};

/// Counters of one instruction.
struct Tally {
  uint64_t executions = 0, lanes = 0, sectors = 0, ideal_sectors = 0, wavefronts = 0,
           ideal_wavefronts = 0;
};

struct Block {
  Launch* launch = nullptr;
  Dim3 id;
  uint32_t linear = 0;
  bool synchronized = false;  // has executed a fence: its stores may be ordered with other blocks'
  SharedMemory shared;
  std::vector<Warp> warps;
  std::vector<std::byte> registers;
  std::array<Barrier, 16> barriers;
  DeviceMemory::Block recent;  // the allocation that the last access fell into
  std::vector<Tally> tallies;  // empty where nothing is counted
  uint64_t executed = 0, barriers_passed = 0;
};

struct Launch {
  DeviceMemory* memory = nullptr;
  const KernelData* kernel = nullptr;
  Dim3 grid, block;
  uint32_t dynamic_shared = 0;
  std::span<const std::byte> parameters;
  Options options;
  uint32_t owner_base = 0;      // of block 0 in the table of last writers
  uint32_t* writers = nullptr;  // one entry a unit of device memory
  Address writers_begin = 0;
  std::atomic<uint64_t> executed{0};
};

/// Runs a warp until it rests: at a barrier, at its end or, after `slice` instructions, at a
/// branch.
void run_warp(Warp& warp, uint64_t slice);
/// Makes a block ready to run: registers, special registers, shared memory.
void start_block(Block& block, Launch& launch, uint32_t linear);
/// Runs each warp of a block up to `slice` instructions; false when all have exited. Warps go in
/// the order given.
bool step_block(Block& block, const std::vector<uint32_t>& order, uint64_t slice);

/// Throws a Fault that names all that is known. `lane` < 0: the warp.
[[noreturn]] void fail(const Warp& warp, const Instruction& instruction, FaultKind kind, int lane,
                       const std::string& what);

inline uint32_t index_of(const Warp& warp, const Instruction& instruction) {
  return static_cast<uint32_t>(&instruction - warp.kernel->code.data());
}
inline Tally* tally(Warp& warp, const Instruction& instruction) {
  std::vector<Tally>& tallies = warp.block->tallies;
  return tallies.empty() ? nullptr : &tallies[index_of(warp, instruction)];
}

/// The lowest lane of a mask that is not empty.
inline int first_lane(Mask mask) { return __builtin_ctz(mask); }

/// Calls `f(lane)` for the lanes of a mask, ascending.
template <class F>
inline void for_lanes(Mask mask, F&& f) {
  for (; mask; mask &= mask - 1) f(__builtin_ctz(mask));
}

}  // namespace mezzo::ptx::detail
