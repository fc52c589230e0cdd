// SPDX-License-Identifier: Apache-2.0
// Rows of a kernel as text: a warp or a block takes a row, or a slice of one. Reductions that need
// no other run in one pass over the row, those that need its result in the next. What several
// passes read stays in registers while it fits. Used by the families that reduce over trailing
// axes.
#pragma once

#include <mezzo/codegen/cuda/reduction_text.h>
#include <mezzo/codegen/cuda/region_text.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mezzo::codegen {

/// Elements of all operands together that a thread may keep in registers: those that still let two
/// blocks of 512 threads run at once.
inline constexpr int64_t kKeptElements = 64;

class RowText {
 public:
  /// `warp`: a warp takes a row, else a block; `slices` of a row, each for a block.
  RowText(const ir::Op& kernel, const ir::Plan& plan, bool warp, int64_t slices);
  RowText(const RowText&) = delete;
  RowText& operator=(const RowText&) = delete;

  RegionText& region() { return region_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  std::span<const int64_t> reduced_dims() const { return reduced_dims_; }
  /// Threads of a row; rows that a block takes at a time.
  int64_t threads() const { return threads_; }
  int64_t rows_per_block() const { return rows_per_block_; }
  int64_t lanes() const { return lanes_; }
  /// Vectors of a row that a thread takes.
  int64_t iterations() const { return iterations_; }
  /// The whole row may be in registers, which have no addresses.
  bool unrolled() const;
  size_t passes() const { return passes_.size(); }
  const std::vector<Reduction>& pass(size_t number) const { return passes_[number]; }

  /// The number of the thread in its row as `t`.
  void place_thread();
  /// Behind the definition of `row`: its coordinates and what stays in registers, `budget` elements
  /// of its operands. The text stands `indent` deep.
  void begin_row(int indent, int64_t budget);

  /// The loop over the thread's vectors, whose first columns are `c`; `body` is the code of a
  /// vector as lines.
  void for_each_vector(const std::function<void(SourceWriter&)>& body);
  /// `body` at the coordinates of every element of the row, in the code of a lane; it gives the
  /// lines that follow the lanes.
  void for_each_element(
      const std::function<std::vector<std::string>(const TextCoordinates&)>& body);

  /// Writes a pass over the row: of each reduction what the thread has seen, and its type.
  struct Seen {
    std::string text, type;
  };
  std::vector<Seen> reduce(size_t pass);
  /// Runs a pass where a row has no slices: its reductions have their values then.
  void reduce_and_present(size_t pass);
  /// What all threads of the row have.
  std::string of_row(const Reduction& reduction, const std::string& mine) const;
  /// `all` is the reduction's value, of that type before it is converted.
  void present(const Reduction& reduction, const std::string& type, const std::string& all);

  /// The results `full`, of the shape of the space: in the code of a lane; adds the stores.
  void store_elements(std::span<const int> full, const TextCoordinates& at,
                      std::vector<std::string>& stores);
  /// The results `numbers`, one number a row, where `condition` holds.
  void store_rows(std::span<const int> numbers, const std::string& condition);

 private:
  SourceWriter& writer(Level level) { return region_.writer(level); }
  /// Some thread has nothing to do in the last iteration.
  bool ragged() const { return iterations_ * threads_ * lanes_ * slices_ != columns_; }
  std::string loop_head() const;
  std::string first_column() const;
  TextIndex element() const;
  void empty_block(const Reduction& reduction, const std::string& sum, const std::string& total,
                   std::vector<std::string>& after) const;

  const ir::Op& kernel_;
  ir::KernelSpace space_;
  std::span<const int64_t> kept_dims_, reduced_dims_;
  int64_t rows_ = 1, columns_ = 1;
  bool warp_;
  int64_t slices_;
  int64_t threads_ = 0, rows_per_block_ = 1, lanes_ = 1, iterations_ = 0;
  std::vector<std::vector<Reduction>> passes_;
  RegionText region_;
  int indent_ = 2;
  TextCoordinates kept_;
  size_t identities_ = 0;
};

}  // namespace mezzo::codegen
