// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/plan_check.h>

#include <mezzo/ir/cuda_matmul_plan.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/matmul_plan.h>
#include <mezzo/ir/plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace mezzo::runtime {

namespace {

/// Far above what `plan-kernels` chooses; code and memory grow with these, and no product of two
/// overflows.
constexpr int64_t kWarp = 32, kMostTile = 256, kMostBlock = int64_t{1} << 24, kMostSlices = 16;

std::string unfit_product(const ir::Op& kernel, const ir::Target& target) {
  const ir::MatmulSpec spec = ir::matmul_spec(kernel);
  const ir::Plan plan = ir::Plan::from(kernel.plan());
  const int64_t lanes = target.lanes(spec.acc == ir::DType::F64 ? 8 : 4);
  struct Range {
    const char* name;
    int64_t value, least, most;
  };
  const Range ranges[] = {{"mr", plan.mr, 1, kMostTile},
                          {"nr", plan.nr, lanes, kMostTile},
                          {"mc", plan.mc, 1, kMostBlock},
                          {"nc", plan.nc, 1, kMostBlock},
                          {"kc", plan.kc, 1, kMostBlock},
                          {"slices", plan.slices, 1, kMostSlices},
                          {"slice_blocks", plan.slice_blocks, 1, kMostBlock},
                          {"run_blocks", plan.run_blocks, 0, kMostBlock}};
  for (const Range& range : ranges)
    if (range.value < range.least || range.value > range.most)
      return fmt::format("'{}' must lie in [{}, {}], not {}", range.name, range.least, range.most,
                         range.value);
  if (plan.nr % lanes != 0)
    return fmt::format("'nr' must be a multiple of the {} lanes of a vector, not {}", lanes,
                       plan.nr);
  if (plan.mc % plan.mr != 0 || plan.nc % plan.nr != 0)
    return fmt::format("a block of {}x{} does not divide into tiles of {}x{}", plan.mc, plan.nc,
                       plan.mr, plan.nr);
  const int64_t unit = spec.bf16_pairs ? 16 : 8;  // steps that packing transposes at a time
  if (plan.kc % unit != 0)
    return fmt::format("'kc' must be a multiple of {}, not {}", unit, plan.kc);
  if (spec.k_blocks() * plan.kc < spec.k)
    return fmt::format("{} of {} do not cover k = {}", ir::counted(spec.k_blocks(), "block"),
                       ir::counted(plan.kc, "step"), spec.k);
  const bool narrow = spec.a_type == ir::DType::BF16 && spec.b_type == ir::DType::BF16;
  if (spec.bf16_pairs && !(narrow && target.avx512bf16))
    return "'pairs' needs operands of bf16 and a processor with AVX512-BF16";
  return "";
}

std::string unfit_shared(const ir::Plan& plan) {
  const int64_t bytes = plan.threads * plan.vector * ir::kAccumulatorBytes;
  if (bytes <= ir::kSharedBytes) return "";
  return fmt::format("{} threads with vectors of {} add up in {} bytes of shared memory, of {}",
                     plan.threads, plan.vector, bytes, ir::kSharedBytes);
}

/// Blocks of columns, and how many rows one thread adds.
std::string unfit_cuda_columns(const ir::Op& kernel, const ir::Plan& plan) {
  const ir::KernelSpace space = ir::kernel_space(kernel);
  const auto dims = space.space.dims();
  int64_t rows = 1, columns = 1;
  for (size_t i = 0; i < dims.size(); ++i)
    (i < static_cast<size_t>(space.reduced) ? rows : columns) *= dims[i];
  const int64_t width = plan.grain / plan.vector;
  if (width == 0 || plan.grain % plan.vector != 0 || plan.threads % width != 0)
    return fmt::format("'grain' {} does not divide into vectors of {} for {} threads", plan.grain,
                       plan.vector, plan.threads);
  if (columns % plan.vector != 0)
    return fmt::format("'vector' {} does not divide {} columns", plan.vector, columns);
  const int64_t height = plan.threads / width, slabs = std::max<int64_t>(plan.slices, 1);
  if ((height & (height - 1)) != 0)
    return fmt::format("{} threads in rows of {} are {} rows, which must be a power of two",
                       plan.threads, width, height);
  const int64_t most = std::max<int64_t>(1, ir::ceil_div(rows, height)),
                least = std::max<int64_t>(1, ir::ceil_div(rows, height * ir::kSumBlock));
  if (slabs < least || slabs > most)
    return fmt::format(
        "'slices' must lie in [{}, {}] for {} rows and {} rows of threads, not {}: a thread adds 1 "
        "to {} rows",
        least, most, rows, height, slabs, ir::kSumBlock);
  return unfit_shared(plan);
}

/// A row a warp or a row a block; slices of a row, none of which is empty.
std::string unfit_cuda_rows(const ir::Op& kernel, const ir::Plan& plan) {
  const int64_t warps = plan.threads / kWarp;
  if (plan.grain != 1 && plan.grain != warps)
    return fmt::format("'grain' must be 1 (a row a block) or {} (a row a warp), not {}", warps,
                       plan.grain);
  const ir::KernelSpace space = ir::kernel_space(kernel);
  int64_t columns = 1;
  for (int64_t dim : space.space.dims().subspan(static_cast<size_t>(space.kept()))) columns *= dim;
  const int64_t most = std::max<int64_t>(1, columns / plan.threads);
  if (plan.slices > most)
    return fmt::format("'slices' must be at most {} for rows of {} and {} threads, not {}", most,
                       columns, plan.threads, plan.slices);
  return "";
}

/// Lines of a block side by side, vectors along the axis, slices of it.
std::string unfit_cuda_scan(const ir::Op& kernel, const ir::Plan& plan) {
  const ir::Op& scan = ir::axis_op(kernel);
  const ir::Shape& shape = scan.result().shape();
  const auto axis = static_cast<size_t>(scan.int_attr("axis"));
  const int64_t length = shape.dims()[axis];
  int64_t inner = 1;
  for (int64_t dim : shape.dims().subspan(axis + 1)) inner *= dim;
  if (plan.grain < 1 || plan.threads % plan.grain != 0)
    return fmt::format("'grain' must divide {} threads, not {}", plan.threads, plan.grain);
  if (length % plan.vector != 0)
    return fmt::format("'vector' {} does not divide an axis of {}", plan.vector, length);
  if (plan.vector > 1 && inner != 1)
    return fmt::format("'vector' must be 1 where {} lines lie side by side, not {}", inner,
                       plan.vector);
  if (plan.slices > std::max<int64_t>(length, 1))
    return fmt::format("'slices' must be at most {}, not {}", length, plan.slices);
  return "";
}

/// A block sorts its items in shared memory by a network over a power of two.
std::string unfit_cuda_order(const ir::Plan& plan) {
  constexpr int64_t kMostItems = 2048;
  if (plan.grain >= 2 && plan.grain <= kMostItems && (plan.grain & (plan.grain - 1)) == 0)
    return "";
  return fmt::format("'grain' must be a power of two in [2, {}], not {}", kMostItems, plan.grain);
}

/// A part of the rows is one block of a sum.
std::string unfit_parts(const ir::Plan& plan) {
  if (plan.grain >= 1 && plan.grain <= ir::kSumBlock) return "";
  return fmt::format("'grain' must lie in [1, {}], not {}", ir::kSumBlock, plan.grain);
}

/// What a block takes follows from its threads; a text may leave it out.
std::string unfit_cuda_elements(const ir::Plan& plan, int64_t elements) {
  if (plan.grain == 0 || plan.grain == elements) return "";
  return fmt::format("'grain' must be {}, what {} threads handle at once, not {}", elements,
                     plan.threads, plan.grain);
}

std::string unfit_cuda_rows_columns(const ir::Plan& plan) {
  const int64_t warps = plan.threads / kWarp;
  if (plan.at_once > 1 && (plan.at_once != warps || (warps & (warps - 1)) != 0))
    return fmt::format("'at_once' must be 1 or the warps of a block, a power of two, not {} of {}",
                       plan.at_once, warps);
  if (plan.at_once > plan.grain)
    return fmt::format("'at_once' {} takes more rows at once than the {} of a part", plan.at_once,
                       plan.grain);
  if (std::string what = unfit_shared(plan); !what.empty()) return what;
  return unfit_parts(plan);
}

/// A block of an optimizer.
std::string unfit_cuda_segments(const ir::Plan& plan) {
  if (plan.grain >= 1 && plan.grain % (plan.threads * plan.vector) == 0) return "";
  return fmt::format("'grain' {} is no multiple of {} threads with vectors of {}", plan.grain,
                     plan.threads, plan.vector);
}

std::string unfit_cuda(const ir::Op& kernel, const ir::Target& target) {
  if (ir::family_of(kernel) == ir::Family::Matmul) {
    const ir::CudaMatmul product = ir::cuda_matmul(kernel, target);
    return product.empty() ? "" : ir::unfit_blocking(product, target);
  }
  const ir::Plan plan = ir::Plan::from(kernel.plan());
  constexpr int64_t kMostThreads = 1024, kMostVector = 16;
  if (plan.threads < kWarp || plan.threads > kMostThreads || plan.threads % kWarp != 0)
    return fmt::format("'threads' must be a multiple of {} up to {}, not {}", kWarp, kMostThreads,
                       plan.threads);
  if (plan.vector < 1 || plan.vector > kMostVector)
    return fmt::format("'vector' must lie in [1, {}], not {}", kMostVector, plan.vector);
  switch (ir::family_of(kernel)) {
    case ir::Family::Columns:
      return unfit_cuda_columns(kernel, plan);
    case ir::Family::Rows:
      return unfit_cuda_rows(kernel, plan);
    case ir::Family::RowsColumns:
      return unfit_cuda_rows_columns(plan);
    case ir::Family::Scan:
      return unfit_cuda_scan(kernel, plan);
    case ir::Family::Sort:
      return unfit_cuda_order(plan);
    case ir::Family::Optimizer:
      return unfit_cuda_segments(plan);
    case ir::Family::Elementwise:
    case ir::Family::Movement:
      return unfit_cuda_elements(plan, plan.threads * plan.vector);
    case ir::Family::Scatter:
      return unfit_cuda_elements(plan, plan.threads);
    case ir::Family::Matmul:
      return "";  // above
  }
  return "";
}

std::string unfit(const ir::Op& kernel, const ir::Target& target) {
  if (target.kind == ir::Target::Kind::Cuda) return unfit_cuda(kernel, target);
  if (ir::family_of(kernel) == ir::Family::Matmul) return unfit_product(kernel, target);
  const ir::Plan plan = ir::Plan::from(kernel.plan());
  // A vector of one lane is no vector for LLVM; long ones are unrolled into registers.
  constexpr int64_t kLeast = 2;
  const int64_t most = 4 * target.lanes(4);
  if (plan.vector < kLeast || plan.vector > most)
    return fmt::format("'vector' must lie in [{}, {}], not {}", kLeast, most, plan.vector);
  if (ir::family_of(kernel) == ir::Family::RowsColumns) return unfit_parts(plan);
  if (plan.grain < 1) return fmt::format("'grain' must be positive, not {}", plan.grain);
  return "";
}

}  // namespace

void check_plans(const ir::Function& function, const ir::Target& target) {
  for (const ir::Op& op : function.body()) {
    if (op.kind() != ir::OpKind::Kernel) continue;
    const std::string what = unfit(op, target);
    if (what.empty()) continue;
    throw UserError(
        op.location(),
        fmt::format("kernel @{} of @{}: plan: {}; the target is '{}'{}", op.kernel_name(),
                    function.name(), what, target.name,
                    target.kind == ir::Target::Kind::Cuda
                        ? ""
                        : fmt::format(" with vectors of {} bytes", target.vector_bytes)),
        fmt::format("plan it again: `mezzo opt` from an earlier stage, --target={}",
                    target.kind == ir::Target::Kind::Cuda ? target.name : "native"));
  }
}

}  // namespace mezzo::runtime
