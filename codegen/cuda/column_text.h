// SPDX-License-Identifier: Apache-2.0
// Columns of a kernel as text: a block of threads that stand in some columns of vectors by some
// rows, what slabs of rows leave of each column in the workspace, and how it is added up and
// stored. Used by the families that reduce over leading axes.
#pragma once

#include <mezzo/codegen/cuda/reduction_text.h>
#include <mezzo/codegen/cuda/region_text.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mezzo::codegen {

/// Arrays of a thread, one a reduction and one element a lane.
struct ColumnArrays {
  enum class Hold : uint8_t {
    Accumulators,  // of the type of the accumulator
    Totals,        // of slabs
    Values         // of the reductions, in their compute types
  };
  std::vector<std::string> names;
  Hold hold = Hold::Accumulators;
};

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

  /// Adds the accumulators `arrays` of the threads of each column, those of the reductions from
  /// `begin` on; the first row has them then.
  void fold_threads(const std::vector<std::string>& arrays, size_t begin = 0);

  /// Bytes of the workspace for what all slabs leave, never none.
  int64_t place_partials();
  /// A pointer to the accumulators of reduction `i` that `slab` leaves, at column `c`.
  std::string partials(size_t i, const std::string& slab) const;
  /// Stores those of the reductions from `begin` on, from the first row of threads.
  void store_partials(const std::vector<std::string>& arrays, const std::string& slab,
                      size_t begin = 0);
  /// The entry that adds the slabs, whose totals the first row of threads has.
  ColumnArrays add_slabs();
  /// The same of the first `count` reductions, in an entry that has begun for totals.
  ColumnArrays add_slabs_of(size_t count);
  /// All threads of a column get what the totals give.
  ColumnArrays share(const ColumnArrays& totals);

  /// Makes the reductions that have arrays known, in the code of a lane.
  void present(const ColumnArrays& arrays);
  /// Stores the results with the numbers `yields` in the first row of threads, where `condition`
  /// holds.
  void write_results(std::span<const int> yields, const ColumnArrays& arrays,
                     const std::string& condition = "");

 private:
  std::string number(int64_t value) const { return region_.index_literal(value); }
  int lanes() const { return region_.lanes(); }
  void present(size_t i, const std::string& array, ColumnArrays::Hold hold);
  /// Coordinates of a value of column shape: reduced axes are dropped or of length 1.
  TextCoordinates of_column(const ir::Shape& shape, const TextCoordinates& kept) const;

  RegionText& region_;
  const ir::Op& kernel_;
  std::vector<Reduction> reductions_;
  std::span<const int64_t> dims_;
  int64_t slabs_;
  int64_t columns_ = 1, threads_ = 0, width_ = 1, height_ = 1, blocks_ = 0;
  std::vector<int64_t> offsets_;
};

}  // namespace mezzo::codegen
