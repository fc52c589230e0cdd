// SPDX-License-Identifier: Apache-2.0
// Columns of a kernel as text: a block of threads that stand in some columns of vectors by some
// rows, what slabs of rows leave of each column in the workspace, and how it is added up and
// stored. Used by the families that reduce over leading axes.
#pragma once

#include <mezzo/codegen/cuda/reduction_text.h>
#include <mezzo/codegen/cuda/region_text.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace mezzo::codegen {

class ColumnText {
 public:
  /// `reductions` over `slabs` slabs of rows; `dims`: the axes that stay.
  ColumnText(RegionText& region, const ir::Op& kernel, std::vector<Reduction> reductions,
             std::span<const int64_t> dims, int64_t slabs);
  ColumnText(const ColumnText&) = delete;
  ColumnText& operator=(const ColumnText&) = delete;

  const std::vector<Reduction>& reductions() const { return reductions_; }
  int64_t columns() const { return columns_; }
  /// Threads of a block stand in `width` vectors; the rows that they then form are a power of two.
  void set_block(int64_t threads, int64_t width);
  int64_t height() const { return height_; }
  /// Blocks that hold all columns.
  int64_t blocks() const { return blocks_; }

  /// The thread's place: `x`, `y`, its first column `c`, which is that of the last vector where
  /// there is none of its own, so that whatever it reads is there; shared memory for the
  /// accumulators, or for the `totals` of slabs.
  void begin_entry(bool totals);
  /// The index of a lane's column.
  TextIndex column() const;
  /// Its coordinates, in the code of a lane.
  TextCoordinates decompose(const std::string& prefix);

  // `arrays`: names of accumulators, one array a reduction from `begin` on, one element a lane.
  using Arrays = std::vector<std::string>;

  /// Accumulators of nothing seen yet of `count` reductions.
  Arrays declare(size_t begin, size_t count);
  /// Adds those of the threads of each column; the first row has them then.
  void fold_threads(const Arrays& arrays, size_t begin = 0);
  /// All threads of a column get what the first row has.
  void share(const Arrays& arrays);

  /// Bytes of the workspace for what all slabs leave, never none.
  int64_t place_partials() { return place(offsets_, 0, slabs_); }
  /// A pointer to the accumulators of reduction `i` that `slab` leaves, at column `c`.
  std::string partials(size_t i, const std::string& slab) const;
  /// Stores them from the first row of threads.
  void store_partials(const Arrays& arrays, const std::string& slab, size_t begin = 0);
  /// Adds the slabs of `count` reductions, in an entry that has begun for totals; the first row has
  /// them then, as accumulators.
  Arrays add_slabs(size_t begin, size_t count);

  /// Further bytes of the workspace, for what was added up, behind `offset`.
  int64_t place_sums(int64_t offset) { return place(sum_offsets_, offset, 1); }
  void store_sums(const Arrays& arrays, size_t begin);
  /// Of the first `count` reductions, in every thread.
  Arrays load_sums(size_t count);

  /// Makes the reductions from the first on that have arrays known, in the code of a lane.
  void present(const Arrays& arrays);
  /// Evaluates values of column shape once, for all rows that the thread then goes through and for
  /// the results of the entry; what has other axes than the columns (an axis of length 1 moved
  /// between them) is left to those that read it.
  void hold(std::span<const ir::Value> values, const Arrays& known);
  /// Stores the results with the numbers `yields` in the first row of threads, where `condition`
  /// holds.
  void write_results(std::span<const int> yields, const Arrays& arrays,
                     const std::string& condition = "");

 private:
  std::string number(int64_t value) const { return region_.index_literal(value); }
  int lanes() const { return region_.lanes(); }
  void present(size_t i, const std::string& array);
  /// A lane's element of an array of the thread.
  std::string element_of(const std::string& array) const {
    return array + (lanes() > 1 ? "[j]" : "[0]");
  }
  /// Text that only the first row of threads runs, where a thread has columns of its own.
  void open_first_row(const std::string& condition = "");
  std::string sums(size_t i) const;
  /// Places `copies` accumulators of all columns for each reduction from `start` on; their bytes.
  int64_t place(std::vector<int64_t>& offsets, int64_t start, int64_t copies) const;
  /// Stores arrays from the first row of threads, each where `place` says.
  void store(const Arrays& arrays, const std::function<std::string(size_t)>& place);
  /// Coordinates of a value of column shape: reduced axes are dropped or of length 1; nothing where
  /// its axes are not those of the columns.
  std::optional<TextCoordinates> of_column(const ir::Shape& shape,
                                           const TextCoordinates& kept) const;

  RegionText& region_;
  const ir::Op& kernel_;
  std::vector<Reduction> reductions_;
  std::span<const int64_t> dims_;
  int64_t slabs_;
  int64_t columns_ = 1, threads_ = 0, width_ = 1, height_ = 1, blocks_ = 0;
  std::vector<int64_t> offsets_, sum_offsets_;
  std::unordered_set<const ir::ValueDef*> held_;  // in the entry
};

}  // namespace mezzo::codegen
