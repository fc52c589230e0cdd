// SPDX-License-Identifier: Apache-2.0
// What the loops over one line of a chain of reductions evaluate (a row, or the elements of a
// column), and the buffers that keep costly values from one loop to the next. Used by the families
// of rows and columns. Internal to codegen/llvm.
#pragma once

#include <mezzo/codegen/llvm/region_emitter.h>
#include <mezzo/ir/graph.h>

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

namespace mezzo::codegen {

/// Reductions in levels: a level's operands need the results of earlier levels only. One loop over
/// the elements of a line runs each level, one more stores what has the shape of the space.
class ReductionLevels {
 public:
  /// `lines` of `length` elements each are the `space`. `left_out`: ops that are none of the chain;
  /// `stored`: further values that the last loop needs.
  ReductionLevels(const ir::Op& kernel, const ir::Shape& space, int64_t lines, int64_t length,
                  const std::unordered_set<const ir::Op*>& left_out,
                  std::span<const ir::Value> stored = {});

  /// Loops that run reductions; their numbers are less, that of the last loop is this one.
  size_t last() const { return reductions_.size(); }
  const std::vector<const ir::Op*>& reductions(size_t level) const { return reductions_[level]; }
  /// Reductions and what is computed from them, one number a line.
  bool is_of_line(ir::Value value) const {
    return !value.is_parameter() && line_values_.contains(value.op());
  }
  bool is_full(ir::Value value) const { return value.shape() == space_ && !is_of_line(value); }
  /// The last loop has something to do.
  bool stores() const { return stores_; }
  /// Ops that the loop evaluates for every element.
  const std::unordered_set<const ir::Op*>& in_loop(size_t level) const { return in_loop_[level]; }
  /// What has one number a line and stands behind ops of the loop, reductions apart: to be computed
  /// before it, once.
  std::vector<ir::Value> line_operands(size_t level) const;
  /// Some value is an f64.
  bool has_f64() const { return has_f64_; }
  const ir::Shape& space() const { return space_; }

 private:
  void find_line_values(std::span<ir::Op* const> ops, int64_t lines, int64_t length);
  std::unordered_set<const ir::Op*> ops_behind(std::vector<ir::Value> roots) const;

  const ir::Op& kernel_;
  ir::Shape space_;
  std::vector<std::vector<const ir::Op*>> reductions_;
  std::unordered_set<const ir::Op*> line_values_;
  std::vector<std::unordered_set<const ir::Op*>> in_loop_;
  bool has_f64_ = false, stores_ = false;
};

/// Costly values that several loops need, in the scratch of the thread; beyond some bytes they are
/// computed anew.
class LineBuffers {
 public:
  /// `elements` that a line, or the lines side by side of a vector, have; 0 or 1: nothing is kept.
  LineBuffers(RegionEmitter& emitter, const ir::Op& kernel, const ReductionLevels& levels,
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
  const ReductionLevels& levels_;
  int64_t elements_;
  std::vector<const ir::Op*> values_;  // in program order
  std::unordered_set<const ir::Op*> stored_;
};

}  // namespace mezzo::codegen
