// SPDX-License-Identifier: Apache-2.0
// Blocking of a matrix product on a GPU: arithmetic, tiles of blocks and warps, stages, slices of
// k, all from the shape and the target alone, so that a product has the same bits in every run.
#pragma once

#include <mezzo/ir/matmul_plan.h>

#include <string>

namespace mezzo::ir {

/// How products are computed, which the element type and the architecture decide.
enum class CudaArithmetic : uint8_t {
  Mma,      // tensor cores: products of f16 or bf16 added in f32
  Fma,      // one fused multiply-add a product, in f32 or f64
  Emulated  // bf16 where tensor cores have none: converted, then as f32
};

CudaArithmetic cuda_arithmetic(DType operand, const Target& target);

/// The product of a kernel and its blocking. Fields of MatmulSpec that it reuses: mc × nc is the
/// tile of a block, kc the steps of k of one stage, mr × nr the tile of a warp, run_blocks the
/// stages that are summed before their sum is added to the total (0: all).
struct CudaMatmul {
  MatmulSpec spec;
  CudaArithmetic arithmetic = CudaArithmetic::Fma;
  int64_t stages = 0;  // of shared memory
  int64_t vector = 1;  // elements of a result that a thread stores at once
  int64_t threads = 0;
  std::string reason;

  bool mma() const { return arithmetic == CudaArithmetic::Mma; }
  /// Bytes of an element in shared memory, and of an accumulator.
  int64_t element_bytes() const { return mma() ? 2 : accumulator_bytes(); }
  int64_t accumulator_bytes() const { return spec.acc == DType::F64 ? 8 : 4; }
  int64_t warps() const { return spec.mr && spec.nr ? spec.mc / spec.mr * (spec.nc / spec.nr) : 0; }
  /// Stages of kc that k has, and those of a slice but the last.
  int64_t k_tiles() const { return spec.kc ? (spec.k + spec.kc - 1) / spec.kc : 0; }
  int64_t blocks() const { return spec.batch * spec.slices * spec.m_tiles() * spec.n_tiles(); }
  bool empty() const { return spec.batch == 0 || spec.m == 0 || spec.n == 0; }

  /// Bytes of one stage: A, then B. Rows of the tiles of Fma have a pad behind them.
  int64_t stage_a_bytes() const;
  int64_t stage_b_bytes() const;
  /// Rows that a warp turns at once from the order of its accumulators into rows of the result, and
  /// elements from one of them to the next.
  int64_t turned_rows() const { return mma() ? 16 : 4; }
  int64_t turned_stride() const { return spec.nr + (mma() ? 8 : 4); }
  /// Dynamic shared memory of a block.
  int64_t shared_bytes() const;
  /// Partial sums of all slices.
  int64_t workspace_bytes() const;
};

/// Elements that the tiles of Fma have behind each of their rows.
inline constexpr int64_t kFmaPad = 4;

/// Whether operand 0 or 1 of a matmul in a kernel goes to shared memory as it lies in global
/// memory: a parameter of 16-bit elements whose rows are whole pieces of 16 bytes. Others are
/// evaluated, which takes registers.
bool moves_in_pieces(const Op& matmul, int operand);

/// Chooses the blocking. `vector`: elements of a result that a thread would store at once;
/// `evaluated`: some operand does not move in pieces.
CudaMatmul plan_cuda_matmul(const MatmulSpec& product, int64_t vector, bool evaluated,
                            const Target& target);

/// The product of a planned kernel, and the plan that stands for a product.
CudaMatmul cuda_matmul(const Op& kernel, const Target& target);
Plan to_plan(const CudaMatmul& product);

/// "" or why code for this product cannot follow its blocking.
std::string unfit_blocking(const CudaMatmul& product, const Target& target);

}  // namespace mezzo::ir
