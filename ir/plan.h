// SPDX-License-Identifier: Apache-2.0
// Typed view of the attributes of a kernel and of its plan. A plan depends on shapes and Target
// only, never on the number of threads; all work is divided into `tasks` of equal meaning that may
// run in any order and on any thread.
#pragma once

#include <mezzo/ir/graph.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::ir {

enum class Family : uint8_t {
#define FAMILY(Kind, name, summary) Kind,
#include <mezzo/ir/kernel_families.def>
#undef FAMILY
};

/// Terms that one f32 accumulator adds before it goes to a total in f64: however many blocks a sum
/// has, they add no error that counts.
inline constexpr int64_t kSumBlock = 256;

/// Bytes of each row that the task of a chain of columns takes at least: the line of a cache.
inline constexpr int64_t kBytesOfChain = 64;

/// The accumulators of the threads of a CUDA block, one a lane, meet in static shared memory: bytes
/// of each at most, and of what every architecture has.
inline constexpr int64_t kAccumulatorBytes = 8, kSharedBytes = 48 << 10;

/// The least integer from a / b on, for numbers that are not negative; 0 for b = 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return b == 0 ? 0 : (a + b - 1) / b; }

const char* to_string(Family family);
std::optional<Family> parse_family(std::string_view text);
/// The attribute `family` of a kernel op.
Family family_of(const Op& kernel);

/// What `plan-kernels` chooses. Fields that a family does not use stay 0 and are not printed.
struct Plan {
  int64_t vector = 0;   // elements handled at once: a CPU's registers of the widest type, a thread
  int64_t tasks = 1;    // independent pieces of work
  int64_t grain = 0;    // elements, rows (rows, rows_columns) or columns (columns) a task
  int64_t threads = 0;  // CUDA: threads a block
  // matmul
  int64_t mr = 0, nr = 0;          // register tile; CUDA: tile of a warp
  int64_t mc = 0, nc = 0, kc = 0;  // cache blocks; CUDA: tile of a block, steps of k of a stage
  int64_t stages = 0;              // CUDA: stages of shared memory
  int64_t slices = 0;        // of K, of rows (columns), of a row (rows), all added in one order
  int64_t at_once = 0;       // CUDA: rows that a block takes at once (rows_columns)
  int64_t slice_blocks = 0;  // blocks of kc in a slice
  int64_t run_blocks = 0;    // blocks summed in one run; 0: all
  int64_t prepack = 0;       // 1: a launch of its own packs B once
  int64_t pairs = 0;         // 1: multiplies bf16 pairs by the dot product instruction
  int64_t scratch = 0;       // bytes a thread
  int64_t workspace = 0;     // bytes shared by all tasks
  std::string reason;        // why, in words

  static Plan from(const Attrs& attrs);
  Attrs to_attrs() const;
  /// Names of all fields, as printed.
  static std::vector<std::string> field_names();
};

}  // namespace mezzo::ir
