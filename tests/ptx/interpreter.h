// SPDX-License-Identifier: Apache-2.0
// Executes PTX, the text that NVRTC makes of a kernel, on a machine without a GPU: a warp at a
// time, 32 lanes a register, with checks on every access. Independent of the rest of the project.
//
// What it cannot show: rounding inside tensor cores and the last bits of `.approx` instructions
// (both are computed more exactly than hardware does), the memory model between blocks, speed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ptx/memory.h>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::ptx {

/// PTX that cannot be read, an instruction that is not known: with line number and the line.
class ParseError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class FaultKind : uint8_t {
  OutOfBounds,  // no live allocation holds the access
  Misaligned,
  SharedRace,       // two threads, one of them writing, without a barrier between
  GlobalRace,       // two blocks write to one address different bytes
  DivergedBarrier,  // a barrier or a warp-synchronous instruction that not all lanes reach
  Uninitialized,    // reads shared memory nobody has written, a `cp.async` target nobody waited for
  LaunchLimits,     // threads, registers, shared memory beyond the architecture's limits
  Trap,             // `trap`
  Stuck,            // no warp can go on, or the instruction budget is used up
};
const char* to_string(FaultKind kind);

/// What a kernel did wrong. The text names kernel, PTX line, source line if the PTX has `.loc`,
/// block, thread and address.
class Fault : public std::runtime_error {
 public:
  Fault(FaultKind kind, int line, std::string text);
  FaultKind kind;
  int line = 0;  // of the PTX, from 1
};

/// What running did to one PTX line.
struct LineCounters {
  int line = 0;
  std::string text;
  uint64_t executions = 0;  // by warps
  uint64_t lanes = 0;       // active, over all executions
  /// Global accesses: 32-byte sectors touched, and the fewest that could hold the bytes.
  uint64_t sectors = 0, ideal_sectors = 0;
  /// Shared accesses: wavefronts (cycles of the 32 banks), and the fewest for that width.
  uint64_t wavefronts = 0, ideal_wavefronts = 0;
};

struct Counters {
  std::string kernel;
  uint64_t warp_instructions = 0;
  uint64_t barriers = 0;
  std::vector<LineCounters> lines;  // those that ran, ascending
};

enum class BlockOrder : uint8_t { Forward, Reversed, Random, RoundRobin };
/// How `mma.sync` adds: one product after another in f32, or exactly and then truncated to f32.
enum class MmaMode : uint8_t { Sequential, Exact };

struct Options {
  BlockOrder order = BlockOrder::Forward;
  uint64_t seed = 1;  // of Random
  /// Each side of a divergent branch runs alone until its next `.sync` instruction or its end.
  bool hostile_divergence = false;
  MmaMode mma = MmaMode::Sequential;
  bool count = false;  // fill in Counters
  int threads = 1;     // host threads that run blocks; 1 for BlockOrder::RoundRobin and for counts
  /// Warp instructions a launch may take; 0: no limit.
  uint64_t budget = 0;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t volume() const { return uint64_t{1} * x * y * z; }
};

struct KernelParameter {
  uint32_t offset = 0, bytes = 0, alignment = 1;
};

namespace detail {
struct ModuleData;
struct KernelData;
}  // namespace detail

/// A kernel of a loaded module.
class Kernel {
 public:
  const std::string& name() const;
  std::span<const KernelParameter> parameters() const;
  uint32_t parameter_bytes() const;
  /// Of `.shared` variables with a size.
  uint32_t static_shared_bytes() const;
  /// Product of `.maxntid`; 1024 where it is not given.
  uint32_t max_threads() const;

  /// Runs all blocks. `parameters` are the bytes of the parameter space. Throws Fault.
  Counters launch(DeviceMemory& memory, Dim3 grid, Dim3 block, uint32_t dynamic_shared,
                  std::span<const std::byte> parameters, const Options& options = {}) const;

 private:
  friend class Module;
  std::shared_ptr<const detail::ModuleData> module_;
  const detail::KernelData* kernel_ = nullptr;
};

/// PTX in memory, parsed once; its `.global` and `.const` variables live in `memory`.
class Module {
 public:
  /// Throws ParseError, std::bad_alloc where `memory` is full.
  Module(std::string_view text, DeviceMemory& memory);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// `.version` as 10 * major + minor, the number of `.target sm_N`.
  int version() const;
  int target() const;
  std::vector<std::string> kernel_names() const;
  /// Throws std::out_of_range naming those that there are.
  Kernel kernel(std::string_view name) const;

  struct Variable {
    Address address = 0;
    uint64_t bytes = 0;
  };
  /// Address 0 where there is none.
  Variable variable(std::string_view name) const;

 private:
  std::shared_ptr<detail::ModuleData> data_;
};

}  // namespace mezzo::ptx
