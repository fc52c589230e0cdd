// SPDX-License-Identifier: Apache-2.0
// Buffers that keep costly values from one loop over a line to the next. Used by the families of
// rows and columns. Internal to codegen/llvm.
#pragma once

#include <mezzo/codegen/llvm/region_emitter.h>
#include <mezzo/ir/reduction_levels.h>

#include <cstdint>
#include <unordered_set>
#include <vector>

namespace mezzo::codegen {

/// Costly values that several loops need, in the scratch of the thread; beyond some bytes they are
/// computed anew.
class LineBuffers {
 public:
  /// `elements` that a line, or the lines side by side of a vector, have; 0 or 1: nothing is kept.
  LineBuffers(RegionEmitter& emitter, const ir::Op& kernel, const ir::ReductionLevels& levels,
              int64_t elements);

  int64_t scratch_bytes() const { return static_cast<int64_t>(values_.size()) * buffer_bytes(); }
  void begin_line() { stored_.clear(); }
  /// Presets what an earlier loop has stored, then evaluates and stores what this loop needs first.
  /// Those may read the former, so that none of them comes before: the body of a loop is emitted
  /// twice, and would read what the first copy has preset. `element`: of the buffer, that of the
  /// first lane.
  void use(size_t level, const Coordinates& at, llvm::Value* element);
  /// Behind the loop.
  void leave(size_t level);

 private:
  int64_t buffer_bytes() const;
  llvm::Value* place(size_t number, llvm::Value* element);
  llvm::Value* load(size_t number, llvm::Value* element);
  void store(size_t number, llvm::Value* element, llvm::Value* value);

  RegionEmitter& emitter_;
  const ir::ReductionLevels& levels_;
  int64_t elements_;
  std::vector<const ir::Op*> values_;  // in program order
  std::unordered_set<const ir::Op*> stored_;
};

}  // namespace mezzo::codegen
