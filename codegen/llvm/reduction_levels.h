// SPDX-License-Identifier: Apache-2.0
// What the loops over one line of a chain of reductions evaluate (a row, or the elements of a
// column), and the buffers that keep costly values from one loop to the next. Used by the families
// of rows and columns. Internal to codegen/llvm.
#pragma once

#include <mezzo/codegen/llvm/region_emitter.h>
#include <mezzo/ir/graph.h>

#include <cstdint>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace mezzo::codegen {

/// Reductions in levels: a level's operands need the results of earlier levels only. One loop over
/// the elements of a line runs each level, one more stores what has the shape of the space.
class ReductionLevels {
 public:
  /// `lines` of `length` elements each are the `space`. `left_out`: ops that are none of the chain.
  ReductionLevels(const ir::Op& kernel, const ir::Shape& space, int64_t lines, int64_t length,
                  const std::unordered_set<const ir::Op*>& left_out);

  int deepest() const { return deepest_; }
  /// Of a level from 1 on; may be empty.
  const std::vector<const ir::Op*>& reductions(int level) const;
  /// Further values that the last loop needs.
  void add_root(ir::Value value) { last_roots_.push_back(value); }
  /// Reductions and what is computed from them, one number a line.
  bool is_of_line(ir::Value value) const {
    return !value.is_parameter() && line_values_.contains(value.op());
  }
  bool is_full(ir::Value value) const { return value.shape() == space_ && !is_of_line(value); }
  /// What the loop of `level` is run for; that behind the deepest stores.
  std::vector<ir::Value> roots(int level) const;
  /// Ops that the loop evaluates for every element.
  std::unordered_set<const ir::Op*> in_loop(int level) const;
  /// What has one number a line and stands behind ops of the loop, reductions apart: to be computed
  /// before it, once.
  std::vector<ir::Value> line_operands(int level) const;
  /// Some value is an f64.
  bool has_f64() const { return has_f64_; }
  const ir::Shape& space() const { return space_; }

 private:
  const ir::Op& kernel_;
  ir::Shape space_;
  std::map<int, std::vector<const ir::Op*>> reductions_;
  std::vector<ir::Value> last_roots_;
  std::unordered_set<const ir::Op*> line_values_;
  int deepest_ = 0;
  bool has_f64_ = false;
};

/// Costly values that several loops need, in the scratch of the thread; beyond some bytes they are
/// computed anew.
class LineBuffers {
 public:
  /// `elements` that a line, or the lines side by side of a vector, have. All roots of the levels
  /// must be known.
  LineBuffers(RegionEmitter& emitter, const ir::Op& kernel, const ReductionLevels& levels,
              int64_t elements);

  int64_t scratch_bytes() const { return std::ssize(values_) * buffer_bytes(); }
  void begin_line() { stored_.clear(); }
  /// Presets what an earlier loop has stored, then evaluates and stores what this loop needs first.
  /// Those may read the former, so that none of them comes before: the body of a loop is emitted
  /// twice, and would read what the first copy has preset. `element`: of the buffer, that of the
  /// first lane.
  void use(int level, const Coordinates& at, llvm::Value* element);
  /// Behind the loop.
  void leave(int level);

 private:
  int64_t buffer_bytes() const;
  llvm::Value* place(const ir::Op& op, int64_t number, llvm::Value* element);
  llvm::Value* load(const ir::Op& op, int64_t number, llvm::Value* element);
  void store(const ir::Op& op, int64_t number, llvm::Value* element, llvm::Value* value);

  RegionEmitter& emitter_;
  const ReductionLevels& levels_;
  int64_t elements_;
  std::vector<std::pair<const ir::Op*, int64_t>> values_;  // in program order
  std::unordered_set<const ir::Op*> stored_;
};

}  // namespace mezzo::codegen
