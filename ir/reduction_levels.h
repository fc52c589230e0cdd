// SPDX-License-Identifier: Apache-2.0
// A chain of reductions over one line (a row, or the elements of a column) as loops: what each of
// them evaluates for every element, and what before it, once a line. Read by every back end's rows
// and columns.
#pragma once

#include <mezzo/ir/graph.h>

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

namespace mezzo::ir {

/// Reductions in levels: a level's operands need the results of earlier levels only. One loop over
/// the elements of a line runs each level, one more stores what has the shape of the space.
class ReductionLevels {
 public:
  /// `lines` of `length` elements each are the `space`. `left_out`: ops that are none of the chain;
  /// `stored`: further values that the last loop needs.
  ReductionLevels(const Op& kernel, const Shape& space, int64_t lines, int64_t length,
                  const std::unordered_set<const Op*>& left_out,
                  std::span<const Value> stored = {});

  /// Loops that run reductions; their numbers are less, that of the last loop is this one.
  size_t last() const { return reductions_.size(); }
  const std::vector<const Op*>& reductions(size_t level) const { return reductions_[level]; }
  /// Reductions and what is computed from them, one number a line.
  bool is_of_line(Value value) const {
    return !value.is_parameter() && line_values_.contains(value.op());
  }
  bool is_full(Value value) const { return value.shape() == space_ && !is_of_line(value); }
  /// The last loop has something to do.
  bool stores() const { return stores_; }
  /// Ops that the loop evaluates for every element.
  const std::unordered_set<const Op*>& in_loop(size_t level) const { return in_loop_[level]; }
  /// What has one number a line and stands behind ops of the loop, reductions apart: to be computed
  /// before it, once.
  std::vector<Value> line_operands(size_t level) const;
  /// Some value is an f64.
  bool has_f64() const { return has_f64_; }
  const Shape& space() const { return space_; }

 private:
  void find_line_values(std::span<Op* const> ops, int64_t lines, int64_t length);
  std::unordered_set<const Op*> ops_behind(std::vector<Value> roots) const;

  const Op& kernel_;
  Shape space_;
  std::vector<std::vector<const Op*>> reductions_;
  std::unordered_set<const Op*> line_values_;
  std::vector<std::unordered_set<const Op*>> in_loop_;
  bool has_f64_ = false, stores_ = false;
};

}  // namespace mezzo::ir
