// SPDX-License-Identifier: Apache-2.0
// Tiles are judged by a small model of time: waves of blocks over the multiprocessors, each block
// as long as its share of the products takes at the rate that its warp tiles can be fed with. Sums
// by fused multiply-adds keep |error| <= 2^-24·(256 + log2 k)·sum|a·b| (2^-53 for f64), as on a
// processor: k beyond 256 is summed in runs; beyond k = 262,144 no blocking keeps it. Tensor cores
// truncate: 2^-23·k·sum|a·b|.
#include <mezzo/ir/cuda_matmul_plan.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/sizes.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace mezzo::ir {
namespace {

struct Tile {
  int64_t mc, nc, kc, mr, nr;
  double rate;  // share of the arithmetic that it can keep busy
};

// Each with 4 warps. A warp tile of 64×64 issues four products a fragment that it loads, one of
// 32×32 two, one of 16×16 one.
constexpr Tile kMmaTiles[] = {{128, 128, 32, 64, 64, 0.9}, {128, 64, 32, 64, 32, 0.75},
                              {64, 128, 32, 32, 64, 0.75}, {64, 64, 64, 32, 32, 0.6},
                              {32, 64, 64, 16, 32, 0.4},   {64, 32, 64, 32, 16, 0.4},
                              {32, 32, 64, 16, 16, 0.25}};
// 8×8 results a thread, or 4×4.
constexpr Tile kFmaTiles[] = {
    {128, 128, 8, 32, 64, 0.9}, {64, 64, 16, 16, 32, 0.6}, {32, 32, 16, 16, 32, 0.3}};
constexpr Tile kF64Tiles[] = {{64, 64, 8, 16, 32, 0.8}, {32, 32, 16, 16, 32, 0.4}};

constexpr int64_t kMostSlices = 16;
/// Of a grid along its first axis.
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
/// A slice is worth its partial sums from so many steps of k on.
constexpr int64_t kLeastSlice = 128;
/// Cycles that a launch takes beside its work, and a block to start and to store.
constexpr double kLaunchCycles = 4000, kBlockCycles = 1500;
/// Bytes a cycle of one multiprocessor to memory.
constexpr double kMemoryRate = 12;
/// Steps of k that one accumulator of Fma adds: one run up to kLongestRun, else runs of kRun.
constexpr int64_t kLongestRun = 256, kRun = 128;

/// Products a cycle of a multiprocessor.
double rate_of(const CudaMatmul& product) {
  if (product.mma()) return 1024;
  return product.spec.acc == DType::F64 ? 32 : 128;
}

void set_tile(CudaMatmul& product, const Tile& tile, int64_t slices) {
  MatmulSpec& spec = product.spec;
  spec.mc = tile.mc;
  spec.nc = tile.nc;
  // One stage of half the depth holds a short k.
  spec.kc = product.mma() && spec.k <= 32 ? 32 : tile.kc;
  spec.mr = static_cast<int>(tile.mr);
  spec.nr = static_cast<int>(tile.nr);
  const int64_t tiles = std::max<int64_t>(1, product.k_tiles());
  spec.slice_blocks = ceil_div(tiles, slices);
  spec.slices = ceil_div(tiles, spec.slice_blocks);
  product.threads = product.warps() * 32;
}

double cycles(const CudaMatmul& product, const Tile& tile, int multiprocessors) {
  const MatmulSpec& spec = product.spec;
  const double waves = static_cast<double>(ceil_div(product.blocks(), multiprocessors));
  const double block = static_cast<double>(spec.mc * spec.nc * spec.slice_blocks * spec.kc) /
                       (rate_of(product) * tile.rate);
  double total = waves * (block + kBlockCycles);
  if (spec.slices > 1)
    total += kLaunchCycles +
             2.0 * static_cast<double>(product.workspace_bytes()) / (kMemoryRate * multiprocessors);
  return total;
}

int64_t most_stages(const CudaMatmul& product, const Target& target) {
  if (!product.mma() || target.compute_capability < 80) return 2;  // staged in registers
  return target.shared_bytes >= (int64_t{128} << 10) ? 4 : 3;
}

int64_t rounding_steps(const CudaMatmul& product) {
  const MatmulSpec& spec = product.spec;
  const int64_t steps = std::min(spec.k, spec.slice_blocks * spec.kc);
  if (spec.run_blocks == 0) return steps + spec.slices - 1;
  const int64_t run = spec.run_blocks * spec.kc;
  return std::min(steps, run) + ceil_div(steps, run) - 1 + spec.slices - 1;
}

/// Cuts the sums of Fma into runs, and k into slices where runs alone do not keep the bound.
void bound_sums(CudaMatmul& product, const Tile& tile) {
  MatmulSpec& spec = product.spec;
  const int64_t allowed =
      kLongestRun + static_cast<int64_t>(std::log2(std::max<int64_t>(spec.k, 2)));
  for (int64_t slices = spec.slices; slices <= kMostSlices; ++slices) {
    set_tile(product, tile, slices);
    spec.run_blocks = spec.slice_blocks * spec.kc <= kLongestRun ? 0 : kRun / spec.kc;
    if (rounding_steps(product) <= allowed) return;
  }
}

std::string reason_of(const CudaMatmul& product, const Target& target) {
  const MatmulSpec& spec = product.spec;
  const std::string type = to_string(spec.a_type);
  std::string out;
  switch (product.arithmetic) {
    case CudaArithmetic::Mma:
      out = fmt::format("tensor cores, m16n8k{}", target.compute_capability >= 80 ? 16 : 8);
      break;
    case CudaArithmetic::Fma:
      out = fmt::format("multiply-adds in {}", spec.acc == DType::F64 ? "f64" : "f32");
      break;
    case CudaArithmetic::Emulated:
      out = fmt::format("{} emulated in f32: {} has no tensor cores for it", type, target.name);
      break;
  }
  const int64_t unsliced = spec.batch * spec.m_tiles() * spec.n_tiles();
  if (spec.slices > 1)
    out +=
        fmt::format("; {} of k, {} for {}", counted(spec.slices, "slice"),
                    counted(unsliced, "tile"), counted(target.multiprocessors, "multiprocessor"));
  return out;
}

}  // namespace

CudaArithmetic cuda_arithmetic(DType operand, const Target& target) {
  if (operand == DType::F16) return CudaArithmetic::Mma;
  if (operand != DType::BF16) return CudaArithmetic::Fma;
  return target.compute_capability >= 80 ? CudaArithmetic::Mma : CudaArithmetic::Emulated;
}

int64_t CudaMatmul::stage_a_bytes() const {
  return (spec.mc + (mma() ? 0 : kFmaPad)) * spec.kc * element_bytes();
}

int64_t CudaMatmul::stage_b_bytes() const {
  return (spec.nc + (mma() ? 0 : kFmaPad)) * spec.kc * element_bytes();
}

int64_t CudaMatmul::shared_bytes() const {
  const int64_t turned = warps() * turned_rows() * turned_stride() * accumulator_bytes();
  return std::max(spec.k > 0 ? stages * (stage_a_bytes() + stage_b_bytes()) : 0, turned);
}

int64_t CudaMatmul::workspace_bytes() const {
  if (spec.slices <= 1) return 0;
  return saturated_product(spec.slices * accumulator_bytes(), spec.batch * spec.m * spec.n);
}

bool moves_in_pieces(const Op& matmul, int operand) {
  constexpr int64_t kPiece = 8;
  const Value value = matmul.operand(operand);
  const Shape& shape = value.shape();
  return value.is_parameter() && is_16bit(value.dtype()) && shape[shape.rank() - 1] % kPiece == 0;
}

CudaMatmul plan_cuda_matmul(const MatmulSpec& product, int64_t vector, bool evaluated,
                            const Target& target) {
  CudaMatmul best;
  best.spec = product;
  best.arithmetic = cuda_arithmetic(product.a_type, target);
  // No vector crosses the end of a row of the result.
  best.vector = vector;
  while (best.vector > 1 && product.n % best.vector != 0) best.vector /= 2;
  std::vector<Tile> tiles(std::begin(kMmaTiles), std::end(kMmaTiles));
  if (!best.mma()) {
    if (product.acc == DType::F64)
      tiles.assign(std::begin(kF64Tiles), std::end(kF64Tiles));
    else
      tiles.assign(std::begin(kFmaTiles), std::end(kFmaTiles));
  }
  const int multiprocessors = std::max(target.multiprocessors, 1);
  const CudaMatmul empty = best;
  double least = 0;
  const Tile* chosen = nullptr;
  for (const Tile& tile : tiles) {
    // The largest leaves no registers to evaluate an operand in.
    if (best.mma() && evaluated && tile.mr * tile.nr == 64 * 64) continue;
    for (int64_t slices : {1, 2, 3, 4, 6, 8, 12, 16}) {
      CudaMatmul candidate = empty;
      set_tile(candidate, tile, slices);
      const int64_t unsliced = candidate.blocks() / candidate.spec.slices;
      if (slices > 1 &&
          (unsliced >= multiprocessors || product.k < slices * kLeastSlice || empty.empty()))
        break;
      const double time = cycles(candidate, tile, multiprocessors);
      if (chosen && time >= least) continue;
      least = time;
      chosen = &tile;
      best = candidate;
    }
  }
  if (!best.mma()) bound_sums(best, *chosen);
  best.stages = std::min(most_stages(best, target), std::max<int64_t>(2, best.spec.slice_blocks));
  best.reason = reason_of(best, target);
  return best;
}

CudaMatmul cuda_matmul(const Op& kernel, const Target& target) {
  CudaMatmul out;
  out.spec = matmul_spec(kernel);
  out.arithmetic = cuda_arithmetic(out.spec.a_type, target);
  const Plan plan = Plan::from(kernel.plan());
  out.stages = plan.stages;
  out.vector = plan.vector;
  out.threads = plan.threads;
  return out;
}

Plan to_plan(const CudaMatmul& product) {
  const MatmulSpec& spec = product.spec;
  Plan plan;
  plan.vector = product.vector;
  plan.threads = product.threads;
  plan.mr = spec.mr;
  plan.nr = spec.nr;
  plan.mc = spec.mc;
  plan.nc = spec.nc;
  plan.kc = spec.kc;
  plan.stages = product.stages;
  plan.slices = spec.slices;
  plan.slice_blocks = spec.slice_blocks;
  plan.run_blocks = spec.run_blocks;
  plan.tasks = product.blocks();
  plan.workspace = product.workspace_bytes();
  plan.reason = product.reason;
  return plan;
}

std::string unfit_blocking(const CudaMatmul& product, const Target& target) {
  const MatmulSpec& spec = product.spec;
  const int64_t least_warp = 16, most_warp = 64;
  const int64_t least_k = product.mma() ? 32 : 8;
  struct Field {
    const char* name;
    int64_t value, least, most;
  };
  const Field powers[] = {{"mr", spec.mr, least_warp, most_warp},
                          {"nr", spec.nr, product.mma() ? 16 : 32, most_warp},
                          {"mc", spec.mc, spec.mr, 256},
                          {"nc", spec.nc, spec.nr, 256},
                          {"kc", spec.kc, least_k, product.mma() ? 64 : 32},
                          {"vector", product.vector, 1, 16}};
  for (const Field& field : powers)
    if (field.value < field.least || field.value > field.most ||
        !std::has_single_bit(static_cast<uint64_t>(field.value)))
      return fmt::format("'{}' must be a power of two in [{}, {}], not {}", field.name, field.least,
                         field.most, field.value);
  if (!product.mma() && !(spec.mr == 32 && spec.nr == 64) && !(spec.mr == 16 && spec.nr == 32))
    return fmt::format("a warp tile of multiply-adds is 16x32 or 32x64, not {}x{}", spec.mr,
                       spec.nr);
  const Field ranges[] = {
      {"slices", spec.slices, 1, kMostSlices},
      {"slice_blocks", spec.slice_blocks, 1, int64_t{1} << 40},
      {"run_blocks", spec.run_blocks, 0, int64_t{1} << 40},
      // The stages before the first step are filled without a look at k.
      {"stages", product.stages, 2,
       std::min(most_stages(product, target), std::max<int64_t>(2, spec.slice_blocks))}};
  for (const Field& field : ranges)
    if (field.value < field.least || field.value > field.most)
      return fmt::format("'{}' must lie in [{}, {}], not {}", field.name, field.least, field.most,
                         field.value);
  if (product.threads != product.warps() * 32 || product.threads > 1024)
    return fmt::format("'threads' must be 32 for each of the {}, at most 1024, not {}",
                       counted(product.warps(), "warp"), product.threads);
  // Every thread moves whole pieces of 16 bytes, or of one element, to each tile.
  const int64_t piece = product.mma() ? 8 : 1;
  for (int64_t side : {spec.mc, spec.nc})
    if (side * spec.kc % (product.threads * piece) != 0)
      return fmt::format("a tile of {}x{} does not divide among {}", side, spec.kc,
                         counted(product.threads, "thread"));
  if (spec.n % product.vector != 0)
    return fmt::format("'vector' must divide the {} of the result, not be {}",
                       counted(spec.n, "column"), product.vector);
  if (spec.slices * spec.slice_blocks < product.k_tiles() ||
      (spec.slices - 1) * spec.slice_blocks >= std::max<int64_t>(product.k_tiles(), 1))
    return fmt::format("{} of {} of {} are not those of k = {}", counted(spec.slices, "slice"),
                       counted(spec.slice_blocks, "block"), counted(spec.kc, "step"), spec.k);
  if (product.blocks() > kMostBlocks)
    return fmt::format("{} blocks are more than the {} of a launch", product.blocks(), kMostBlocks);
  if (product.shared_bytes() > target.shared_bytes)
    return fmt::format("needs {} of shared memory, a block of {} has {}",
                       counted(product.shared_bytes(), "byte"), target.name, target.shared_bytes);
  return "";
}

}  // namespace mezzo::ir
