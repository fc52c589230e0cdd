// SPDX-License-Identifier: Apache-2.0
// Parts of the text of a matrix product: how tiles of the operands come into shared memory, the
// loop over them, and what stands around it. Internal to codegen/cuda.
#pragma once

#include <mezzo/codegen/cuda/region_text.h>
#include <mezzo/ir/cuda_matmul_plan.h>

#include <string>

namespace mezzo::codegen {

/// What the parts share. Names in the text: `lane`, `warp`, `row0` and `column0` of the block's
/// tile, `k0` of its slice, `tiles` of its slice, `write` and `read` as bytes into shared memory.
struct MatmulText {
  const ir::Op& kernel;
  const ir::Op& product;
  const ir::CudaMatmul& plan;
  const ir::Target& target;
  RegionText& region;
  /// Of the product's batch axes.
  TextCoordinates batch;

  SourceWriter& out() { return region.writer(Level::Thread); }
  std::string_view accumulator() const {
    return plan.spec.acc == ir::DType::F64 ? "double" : "float";
  }
  int64_t stage_bytes() const { return plan.stage_a_bytes() + plan.stage_b_bytes(); }
};

/// One operand of the product on its way into shared memory. A tile is stored with rows along the
/// axis that is contiguous in global memory (Mma: 16-bit elements, chunks of 16 bytes of a row
/// exchanged so that columns of chunks lie in different banks), or with rows of one k (Fma).
class MatmulOperand {
 public:
  MatmulOperand(MatmulText& text, int number);

  /// Consecutive elements run along k.
  bool k_contiguous() const { return k_contiguous_; }
  /// Copied by `cp.async`: nothing to store.
  bool asynchronous() const { return way_ == Way::Async; }
  /// Bytes of a row of a tile of Mma, and of a tile of either operand before it in a stage.
  int64_t row_bytes() const { return columns_ * 2; }
  int64_t first_byte() const { return first_byte_; }

  /// Writes the thread's place in the tile and the functions `fetch_a` (of the next tile) and
  /// `store_a` (of what was fetched, to the stage `write`).
  void declare();
  std::string fetch() const { return call("fetch_"); }
  std::string store() const { return asynchronous() ? "" : call("store_"); }

  /// The exchange of chunks in a row: what is XORed to the number of a chunk, of a number of a row.
  static std::string exchange(const std::string& row, int64_t row_bytes);
  static int64_t exchange(int64_t row, int64_t row_bytes);

 private:
  enum class Way : uint8_t { Async, Raw, Evaluated };

  std::string call(const char* prefix) const { return prefix + name_ + "();"; }
  /// `a_to` and what is added for vector `v`.
  std::string place(int64_t v) const;
  /// "" or when vector `v` of the thread holds elements that are there.
  std::string there(int64_t v) const;
  void declare_pieces();
  void declare_evaluated();
  std::string evaluate();
  void store_lines();

  MatmulText& text_;
  std::string name_;  // `a` or `b`
  ir::Value value_;
  bool k_contiguous_ = false;
  Way way_ = Way::Evaluated;
  int64_t side_ = 0, extent_ = 0;   // of the tile and of the operand along m or n
  int64_t rows_ = 0, columns_ = 0;  // of the tile as it is in global memory
  int64_t lanes_ = 1;               // elements of a vector
  int64_t vectors_ = 0;             // a thread
  int64_t step_ = 0;                // rows from one vector of a thread to its next
  int64_t first_byte_ = 0;
  bool ragged_side_ = false, ragged_k_ = false;
};

/// The sums of the block's tile in `sums`: declares them, then the loop.
void emit_mma_loop(MatmulText& text, MatmulOperand& a, MatmulOperand& b);
void emit_fma_loop(MatmulText& text, MatmulOperand& a, MatmulOperand& b);

}  // namespace mezzo::codegen
