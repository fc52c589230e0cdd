// SPDX-License-Identifier: Apache-2.0
// What the first launch of a rows_columns kernel leaves to the second: for each column reduction an
// accumulator a column and part of the rows, in the workspace. Internal to codegen/llvm.
#pragma once

#include <mezzo/codegen/llvm/reduce.h>
#include <mezzo/codegen/llvm/region_emitter.h>
#include <mezzo/ir/plan.h>

#include <span>
#include <unordered_set>
#include <vector>

namespace mezzo::codegen {

class ColumnParts {
 public:
  /// A kernel of another family has no parts.
  ColumnParts(const ir::Op& kernel, const ir::Plan& plan);

  std::span<const ir::Op* const> reductions() const { return reductions_; }
  /// Made of column reductions.
  bool is_column(ir::Value value) const {
    return !value.is_parameter() && columns_.contains(value.op());
  }
  const std::unordered_set<const ir::Op*>& columns() const { return columns_; }
  int64_t parts() const { return parts_; }
  /// Of the workspace; 0 where there are no reductions.
  int64_t bytes() const { return bytes_; }

  /// The accumulators of reduction `number` and `part` from linear `column` on, under the emitter's
  /// mask.
  llvm::Value* load(RegionEmitter& emitter, Reducer& reducer, size_t number, llvm::Value* part,
                    llvm::Value* column) const;
  void store(RegionEmitter& emitter, Reducer& reducer, size_t number, llvm::Value* part,
             llvm::Value* column, llvm::Value* accumulators) const;

 private:
  llvm::Value* address(RegionEmitter& emitter, size_t number, llvm::Value* part,
                       llvm::Value* column) const;

  std::vector<const ir::Op*> reductions_;
  std::vector<int64_t> offsets_;
  std::unordered_set<const ir::Op*> columns_;
  int64_t parts_ = 0, width_ = 1, bytes_ = 0;
};

}  // namespace mezzo::codegen
