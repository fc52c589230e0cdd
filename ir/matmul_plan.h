// SPDX-License-Identifier: Apache-2.0
// Blocking of a matrix product on a CPU: register tile, cache blocks, slices of k, task grid and
// memory, all from the shape and the target alone, so that results never depend on the number of
// threads. No LLVM here.
#pragma once

#include <mezzo/ir/dtype.h>
#include <mezzo/ir/graph.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/target.h>

#include <string>
#include <vector>

namespace mezzo::ir {

/// C[batch][m][n] = A·B. A is stored [m][k], or [k][m] when `trans_a`; B [k][n], or [n][k]; all
/// dense row-major.
struct MatmulSpec {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool trans_a = false, trans_b = false;
  /// One matrix for the whole batch.
  bool shared_a = false, shared_b = false;
  DType a_type = DType::F32, b_type = DType::F32, c_type = DType::F32;
  /// F32, or F64, which then multiplies in f64.
  DType acc = DType::F32;
  /// Multiply pairs by AVX512-BF16's dot product; both operands are bf16 then.
  bool bf16_pairs = false;

  /// Register tile.
  int mr = 0, nr = 0;
  /// Elements of a task's block: rows, columns, and steps of k packed at a time (a multiple of 8).
  int64_t mc = 0, nc = 0, kc = 0;
  /// Blocks of k summed in one run before their sum is added to the total; 0: all.
  int64_t run_blocks = 0;
  /// Parts of k computed by tasks of their own and added in ascending order by a last launch; 1
  /// to 16.
  int64_t slices = 1;
  /// Blocks of k in a slice.
  int64_t slice_blocks = 1;
  /// B is packed once by a launch of its own; else by every task that reads it.
  bool prepack_b = false;

  int64_t m_tiles() const { return mc > 0 ? (m + mc - 1) / mc : 0; }
  int64_t n_tiles() const { return nc > 0 ? (n + nc - 1) / nc : 0; }
  /// Panels of nr columns of B.
  int64_t panels() const { return (n + nr - 1) / nr; }
  /// Blocks of k, at least one.
  int64_t k_blocks() const { return slices * slice_blocks; }
  /// More than one block of k is summed into a tile.
  bool blocked_k() const { return slice_blocks > 1; }
  bool two_level() const { return run_blocks > 0; }
};

/// Fills in tile, blocks, slices and prepacking. `costly_b`: reading an element of B costs more
/// than a load.
MatmulSpec plan_matmul(MatmulSpec spec, const Target& target, bool costly_b = false);

/// Roundings that the first product of an element goes through: what the error bound counts.
int64_t rounding_steps(const MatmulSpec& spec);

/// The product of a kernel: sizes, transposes and types from its matmul, blocking from its plan if
/// it has one.
MatmulSpec matmul_spec(const Op& kernel);
/// The blocking as the fields of a kernel's plan.
Plan to_plan(const MatmulSpec& spec);

/// Bytes of scratch of a thread, of the workspace shared by all launches, and of its first part,
/// the packed B.
int64_t scratch_bytes(const MatmulSpec& spec);
int64_t workspace_bytes(const MatmulSpec& spec);
int64_t packed_b_bytes(const MatmulSpec& spec);

/// Rows of C that one task of the reduce launch finishes.
int64_t reduce_rows(const MatmulSpec& spec);

/// Offsets in bytes into a thread's scratch: A block at 0, then B panel, tiles, totals; the end is
/// scratch_bytes.
struct MatmulScratch {
  int64_t b_panel = 0, tiles = 0, totals = 0, end = 0;
  /// From one panel of A to the next: the panel and what packing writes behind it.
  int64_t a_stride = 0;
};
MatmulScratch matmul_scratch(const MatmulSpec& spec);

/// One line that names every choice: `6x16 block 126x512x256 slices 1 ...`.
std::string to_string(const MatmulSpec& spec);

}  // namespace mezzo::ir
