// SPDX-License-Identifier: Apache-2.0
// Gives every kernel its plan: vector width, tasks, tiles, from shapes and the target alone.
//
//   before  %1 = kernel @k0 (%x = %x) {family = "elementwise"} : tensor<1000xf32> { ... }
//   after   %1 = kernel @k0 (%x = %x) {family = "elementwise"} plan {grain = 16384, ...} : ...
//
// A plan that is there already is kept, so that an edited text keeps its edits. On a CPU results do
// not depend on the grain: tasks are cut between elements, rows, columns or tiles that are computed
// alike wherever they stand. Rows + columns are the exception: the grain is the part of the rows
// whose columns are added first. On a CUDA device the grain of rows, columns and scans also says
// how many threads share a line, and so in which order it is added.
#include <mezzo/ir/cuda_matmul_plan.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/kernel_rules.h>
#include <mezzo/ir/matmul_plan.h>
#include <mezzo/ir/sizes.h>
#include <mezzo/passes/pass.h>

#include <algorithm>

namespace mezzo::passes {

using namespace ir;

namespace {

/// Elements that one task handles at least: about 10 us of work, so that waking a thread for it
/// pays.
constexpr int64_t kElementsPerTask = 16384;
constexpr int kCudaThreads = 256;

int widest_bytes(const Op& kernel) {
  int64_t widest = 1;
  for (Op& op : *kernel.body())
    for (Value value : op.results())
      if (is_float(value.dtype())) widest = std::max(widest, byte_size(value.dtype()));
  return static_cast<int>(std::max<int64_t>(widest, 4));
}

/// Elements that a CUDA thread handles at once: the narrowest tensor moves in pieces of 16 bytes,
/// and no value fills more than four of them, so that a thread finds its registers.
int64_t cuda_vector(const Op& kernel) {
  const int64_t narrow = 16 / narrowest_bytes(kernel.operands(), kernel.results());
  return std::max<int64_t>(1, std::min<int64_t>(narrow, 64 / widest_bytes(kernel)));
}

/// The same for a kernel whose operands move otherwise.
int64_t cuda_result_vector(const Op& kernel) {
  int64_t narrowest = 8;
  for (Value value : kernel.results()) narrowest = std::min(narrowest, byte_size(value.dtype()));
  return std::clamp<int64_t>(16 / std::max<int64_t>(narrowest, 1), 1,
                             std::min<int64_t>(8, 64 / widest_bytes(kernel)));
}

int64_t product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t dim : dims) n *= dim;
  return n;
}

/// Whole rows of the vector axis where there are several axes, so that an index is divided once a
/// row.
int64_t elementwise_grain(const Shape& space) {
  int axis = vector_axis(space.dims());
  if (axis < 0) return kElementsPerTask;
  int64_t inner = std::max<int64_t>(space[axis], 1);
  if (inner == space.elements()) return kElementsPerTask;
  return inner * std::max<int64_t>(1, kElementsPerTask / inner);
}

Plan plan_elementwise(const Op& kernel, const Shape& space, const Target& target) {
  Plan plan;
  plan.grain = elementwise_grain(space);
  plan.tasks = ceil_div(space.elements(), plan.grain);
  if (target.kind == Target::Kind::Cuda) {
    plan.threads = kCudaThreads;
    plan.vector = cuda_vector(kernel);
    plan.grain = plan.threads * plan.vector;
    plan.tasks = ceil_div(space.elements(), plan.grain);
  } else {
    plan.vector = target.lanes(widest_bytes(kernel));
  }
  return plan;
}

/// Segments are cut separately; a task never spans two of them. A CUDA block takes several vectors
/// a thread as long as the device has two blocks a multiprocessor: what all elements share is
/// computed once for them.
Plan plan_optimizer(const Op& kernel, const Target& target) {
  Plan plan = plan_elementwise(kernel, Shape{}, target);
  const std::vector<std::vector<Value>> segments = optimizer_segments(kernel);
  auto tasks = [&] {
    int64_t count = 0;
    for (const std::vector<Value>& segment : segments)
      count += ceil_div(segment.front().type().elements(), plan.grain);
    return count;
  };
  if (target.kind == Target::Kind::Cuda) {
    const int64_t one = plan.grain;
    for (int64_t vectors : {4, 2, 1}) {
      plan.grain = vectors * one;
      if (tasks() >= 2 * target.multiprocessors) break;
    }
  } else {
    plan.grain = kElementsPerTask;
  }
  plan.tasks = tasks();
  return plan;
}

/// Rows that are long and few are cut, as far as the device has room for two blocks a
/// multiprocessor and a thread keeps work that pays for the launches that add the slices.
void slice_rows(Plan& plan, int64_t rows, int64_t columns, const Target& target) {
  constexpr int64_t kLongRow = 16384, kThreads = 256, kFewestVectors = 4;
  if (columns <= kLongRow || rows == 0 || rows >= target.multiprocessors) return;
  const int64_t room = ceil_div(2 * target.multiprocessors, rows);
  const int64_t slices = std::min(room, columns / (kThreads * plan.vector * kFewestVectors));
  if (slices < 2) return;
  plan.threads = kThreads;
  plan.slices = slices;
  plan.reason = "slices of a row, whose results a launch later adds";
}

/// One warp a row while that leaves a thread few elements, which it keeps in registers, else one
/// block.
bool is_row_of_warp(int64_t columns) { return columns <= 512; }

Plan plan_cuda_rows(const Op& kernel, int64_t columns) {
  const bool warp = is_row_of_warp(columns);
  Plan plan;
  plan.threads = warp ? 128 : std::clamp<int64_t>(ceil_div(columns, 32) * 4, 128, 512) / 32 * 32;
  plan.vector = cuda_vector(kernel);
  plan.grain = warp ? plan.threads / 32 : 1;
  plan.reason = warp ? "one warp a row" : "one block a row";
  return plan;
}

/// Rows and columns of a space whose last `reduced` axes are one row.
std::pair<int64_t, int64_t> rows_and_columns(const Shape& space, int reduced) {
  const std::span<const int64_t> dims = space.dims();
  const size_t kept = dims.size() - static_cast<size_t>(reduced);
  return {product(dims.first(kept)), product(dims.subspan(kept))};
}

Plan plan_rows(const Op& kernel, const Classified& kind, const Target& target) {
  const auto [rows, columns] = rows_and_columns(kind.space, kind.reduced_axes);
  Plan plan;
  if (target.kind == Target::Kind::Cuda) {
    plan = plan_cuda_rows(kernel, columns);
    slice_rows(plan, rows, columns, target);
  } else {
    plan.vector = target.lanes(widest_bytes(kernel));
    plan.grain = std::max<int64_t>(1, kElementsPerTask / 4 / std::max<int64_t>(columns, 1));
  }
  plan.tasks = ceil_div(rows, plan.grain) * std::max<int64_t>(plan.slices, 1);
  return plan;
}

/// Rows are cut into parts, whose columns a second launch adds up: enough of them to keep the
/// machine busy, yet long, so that what they leave is little beside what they read. A part adds no
/// more than 256 rows, one block of a sum. On a CUDA device a block takes a part.
Plan plan_rows_columns(const Op& kernel, const Classified& kind, const Target& target) {
  constexpr int64_t kThreadsPerMultiprocessor = 512, kFewestOfThread = 4;
  constexpr int64_t kFewParts = 16, kManyParts = 256, kLongPart = 32;
  const auto [rows, columns] = rows_and_columns(kind.space, kind.reduced_axes);
  Plan plan;
  if (target.kind == Target::Kind::Cuda) {
    plan = plan_cuda_rows(kernel, columns);
    while (plan.threads * plan.vector * kAccumulatorBytes > kSharedBytes) plan.vector /= 2;
    plan.at_once = plan.grain;
    const int64_t wanted = kThreadsPerMultiprocessor / plan.threads * target.multiprocessors;
    plan.grain = std::clamp(ceil_div(rows, wanted), kFewestOfThread * plan.at_once, kSumBlock);
    plan.reason = is_row_of_warp(columns) ? "one block a part of the rows, one warp a row"
                                          : "one block a part of the rows, row by row";
  } else {
    plan.vector = target.lanes(widest_bytes(kernel));
    const int64_t least = std::clamp<int64_t>(ceil_div(rows, kFewParts), 1, kLongPart);
    const int64_t busy = ceil_div(kElementsPerTask / 4, std::max<int64_t>(columns, 1));
    plan.grain = std::clamp(std::max(busy, ceil_div(rows, kManyParts)), least, kSumBlock);
  }
  plan.tasks = ceil_div(rows, plan.grain);
  return plan;
}

/// Threads of a block stand in a row of vectors, 32 at most, so that a warp reads 512 bytes of a
/// row or whole rows. Rows are cut into slabs while the device has room for blocks and a thread
/// keeps work that pays for the launch that adds them; a thread adds no more than 256 rows.
Plan plan_cuda_columns(const Op& kernel, const Classified& kind, int64_t rows, int64_t columns,
                       const Target& target) {
  constexpr int64_t kFewestRows = 16, kBlocksPerMultiprocessor = 4;
  Plan plan;
  plan.threads = kCudaThreads;
  plan.vector = cuda_vector(kernel);
  while (plan.vector > 1 && columns % plan.vector != 0) plan.vector /= 2;
  int64_t width = 1;
  while (width < 32 && width * plan.vector < columns) width *= 2;
  plan.grain = width * plan.vector;
  const int64_t height = plan.threads / width, blocks = ceil_div(columns, plan.grain);
  const int64_t wanted = std::max<int64_t>(
      1, kBlocksPerMultiprocessor * target.multiprocessors / std::max<int64_t>(blocks, 1));
  int64_t per_thread = std::clamp(ceil_div(rows, height * wanted), kFewestRows, kSumBlock);
  if (rows <= 2 * kFewestRows * height) per_thread = 2 * kFewestRows;
  plan.slices = std::max<int64_t>(1, ceil_div(rows, per_thread * height));
  plan.tasks = blocks * plan.slices;
  plan.reason = plan.slices == 1 ? "one block some columns, with all their rows"
                : kind.chained   ? "slabs of rows, whose sums a launch adds behind each pass"
                                 : "slabs of rows, whose sums a second launch adds";
  return plan;
}

/// Something that is computed for each of more elements than `columns` needs more registers than a
/// load and a sum.
bool computes_much(const Op& kernel, int64_t columns) {
  return std::ranges::any_of(kernel_ops(kernel), [&](const Op* op) {
    return is_costly(*op) && op->result().type().elements() > columns;
  });
}

/// Columns are cut along the last axis; each index of the kept axes before it starts anew. Vectors
/// side by side are read at once, since rows may lie pages apart, and each adds on its own. The
/// task of a chain reads its columns several times and stores some: as few of them as fill the
/// lines of a cache, so that the next loop finds them there.
Plan plan_columns(const Op& kernel, const Classified& kind, const Target& target) {
  constexpr int64_t kVectorsAtOnce = 4;
  const std::span<const int64_t> dims = kind.space.dims();
  const std::span<const int64_t> kept = dims.subspan(static_cast<size_t>(kind.reduced_axes));
  if (target.kind == Target::Kind::Cuda)
    return plan_cuda_columns(kernel, kind, product(dims.first(dims.size() - kept.size())),
                             product(kept), target);
  int64_t last = kept.empty() ? 1 : kept.back();
  int64_t outer = kept.empty() ? 1 : product(kept.first(kept.size() - 1));
  Plan plan;
  plan.vector = target.lanes(widest_bytes(kernel));
  plan.grain = 8 * plan.vector;
  if (kind.chained) {
    plan.grain = kBytesOfChain / narrowest_bytes(kernel.operands(), kernel.results());
    plan.vector = std::min(plan.vector, plan.grain);
  } else if (last >= kVectorsAtOnce * plan.vector && !computes_much(kernel, outer * last)) {
    plan.vector *= kVectorsAtOnce;
  }
  plan.tasks = outer * ceil_div(last, plan.grain);
  return plan;
}

/// Rows are cut into tasks as elements are; what is added to a row is not known ahead. On a CUDA
/// device a thread takes an element, so that threads side by side read updates side by side.
Plan plan_scatter(const Op& kernel, const Shape& space, const Target& target) {
  Plan plan;
  if (target.kind == Target::Kind::Cuda) {
    plan.threads = plan.grain = kCudaThreads;
    plan.vector = 1;
    plan.tasks = ceil_div(space.elements(), plan.grain);
    return plan;
  }
  int64_t rows = 1;
  for (Op& op : *kernel.body())
    if (op.kind() == OpKind::ScatterAdd)
      rows = product(space.dims().first(static_cast<size_t>(op.int_attr("axis")) + 1));
  plan.vector = target.lanes(widest_bytes(kernel));
  const int64_t elements = space.elements() / std::max<int64_t>(rows, 1);
  plan.grain = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(elements, 1));
  plan.tasks = ceil_div(rows, plan.grain);
  return plan;
}

/// A space around the axis that a scan or an order runs along.
struct AroundAxis {
  int64_t outer, length, inner;

  AroundAxis(const Op& kernel, const Shape& space) {
    const auto axis = static_cast<size_t>(axis_op(kernel).int_attr("axis"));
    const std::span<const int64_t> dims = space.dims();
    outer = product(dims.first(axis));
    length = dims[axis];
    inner = product(dims.subspan(axis + 1));
  }
};

int64_t power_of_two_from(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

/// A block takes `grain` lines side by side; its other threads divide the axis. Where lines lie
/// along memory a thread takes a vector of an axis, else an element. Where blocks are few the axis
/// is cut, as far as the device has room and a thread keeps work that pays for the second launch.
Plan plan_cuda_scan(const Op& kernel, const AroundAxis& space, const Target& target) {
  constexpr int64_t kMostLines = 32, kBusy = 65536, kFewestOfThread = 8;
  Plan plan;
  plan.vector = space.inner == 1 ? cuda_vector(kernel) : 1;
  while (plan.vector > 1 && space.length % plan.vector != 0) plan.vector /= 2;
  const bool many = space.outer * space.inner >= kBusy;
  plan.grain = std::min(power_of_two_from(space.inner), many ? kCudaThreads : kMostLines);
  const int64_t along = power_of_two_from(ceil_div(space.length, plan.vector));
  plan.threads = std::max<int64_t>(32, std::min(plan.grain * along, int64_t{kCudaThreads}));
  const int64_t step = plan.threads / plan.grain * plan.vector;
  const int64_t blocks = space.outer * ceil_div(space.inner, plan.grain);
  if (blocks > 0 && blocks < target.multiprocessors)
    plan.slices = std::min(ceil_div(2 * target.multiprocessors, blocks),
                           space.length / (step * kFewestOfThread));
  if (plan.slices < 2) plan.slices = 0;
  plan.tasks = blocks * std::max<int64_t>(plan.slices, 1);
  plan.reason = plan.slices ? "slices of an axis, whose ends a launch leaves to the next"
                            : "one block some lines";
  return plan;
}

/// Vectors run along the last axis, which is another one than that of the scan where there is one:
/// then a task takes a run of it.
Plan plan_scan(const Op& kernel, const Shape& shape, const Target& target) {
  const AroundAxis space(kernel, shape);
  if (target.kind == Target::Kind::Cuda) return plan_cuda_scan(kernel, space, target);
  Plan plan;
  plan.vector = target.lanes(widest_bytes(kernel));
  const int64_t lines =
      std::max<int64_t>(1, kElementsPerTask / 4 / std::max<int64_t>(space.length, 1));
  if (space.inner == 1) {
    plan.grain = lines;
    plan.tasks = ceil_div(space.outer, lines);
    return plan;
  }
  const int64_t last = shape[vector_axis(shape.dims())];
  plan.grain = std::max<int64_t>(1, lines / plan.vector) * plan.vector;
  plan.tasks = space.outer * space.inner / std::max<int64_t>(last, 1) * ceil_div(last, plan.grain);
  return plan;
}

/// On a CUDA device a block sorts `grain` elements in shared memory: some short lines, or a part of
/// a long one, whose parts further launches merge.
Plan plan_order(const Op& kernel, const Shape& shape, const Target& target) {
  constexpr int64_t kPart = 2048, kFewest = 512;
  const AroundAxis space(kernel, shape);
  const int64_t lines = space.outer * space.inner;
  Plan plan;
  if (target.kind == Target::Kind::Cuda) {
    plan.vector = 1;
    plan.threads = kCudaThreads;
    plan.grain = std::clamp(power_of_two_from(space.length), kFewest, kPart);
    const int64_t line = std::min(power_of_two_from(space.length), plan.grain);
    plan.tasks = ceil_div(lines, plan.grain / line) * ceil_div(space.length, line);
    plan.reason = space.length > kPart ? "sorted parts of a line, merged two by two"
                                       : "whole lines in a block";
  } else {
    plan.vector = target.lanes(widest_bytes(kernel));
    plan.grain = std::max<int64_t>(1, kElementsPerTask / 16 / std::max<int64_t>(space.length, 1));
    plan.tasks = ceil_div(lines, plan.grain);
  }
  return plan;
}

/// Elements of B cost more than a load where a cast or an op stands before the product.
Plan plan_product(const Op& kernel, const Target& target) {
  bool costly_b = false, evaluated = false;
  for (Op& op : *kernel.body()) {
    if (op.kind() != OpKind::Matmul) continue;
    costly_b = !op.operand(1).is_parameter();
    evaluated = !moves_in_pieces(op, 0) || !moves_in_pieces(op, 1);
  }
  if (target.kind == Target::Kind::Cuda)
    return to_plan(
        plan_cuda_matmul(matmul_spec(kernel), cuda_result_vector(kernel), evaluated, target));
  return to_plan(plan_matmul(matmul_spec(kernel), target, costly_b));
}

Plan plan_kernel(const Op& kernel, const Target& target) {
  if (family_of(kernel) == Family::Optimizer) return plan_optimizer(kernel, target);
  std::optional<Classified> kind = classify_kernel(kernel);
  MEZZO_CHECK(kind, "kernel @" + kernel.kernel_name() + " fits no family");
  switch (kind->family) {
    case Family::Rows:
      return plan_rows(kernel, *kind, target);
    case Family::Columns:
      return plan_columns(kernel, *kind, target);
    case Family::RowsColumns:
      return plan_rows_columns(kernel, *kind, target);
    case Family::Matmul:
      return plan_product(kernel, target);
    case Family::Scatter:
      return plan_scatter(kernel, kind->space, target);
    case Family::Scan:
      return plan_scan(kernel, kind->space, target);
    case Family::Sort:
      return plan_order(kernel, kind->space, target);
    case Family::Elementwise:
    case Family::Movement:
    case Family::Optimizer:
      return plan_elementwise(kernel, kind->space, target);
  }
  return {};
}

/// A kernel that is larger than any machine is what the program asks for, not a wrong plan.
void check_size(const Op& kernel, const Plan& plan, const Target& target) {
  constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
  const Op* asked = &kernel;
  for (const Op& op : *kernel.body())
    if (op.kind() == OpKind::Matmul) asked = &op;
  const bool launched = asked != &kernel && target.kind == Target::Kind::Cuda;
  std::string what;
  if (plan.workspace > kMostOfPlan)
    what = "needs a workspace of " + std::to_string(plan.workspace) + " bytes, the most is 2^59";
  else if (launched && plan.tasks > kMostBlocks)
    what = "has " + std::to_string(plan.tasks) + " blocks on " + target.name +
           ", a launch has 2^31 - 1 at most";
  if (what.empty()) return;
  std::string types;
  for (Value operand : asked->operands())
    types += (types.empty() ? "" : ", ") + to_string(operand.type());
  throw UserError(asked->origin().location,
                  std::string(asked->origin().name ? asked->origin().name : "kernel") + ": " +
                      what + " (" + types + ")",
                  "make an axis shorter, or work on the tensors in parts");
}

}  // namespace

bool plan_kernels(Module& module, PassContext& context) {
  if (module.stage() < Stage::Fused)
    throw UserError({},
                    std::string("plan-kernels: there are no kernels yet, the module has stage ") +
                        ir::to_string(module.stage()),
                    "move 'plan-kernels' after 'fuse'");
  bool changed = false;
  for (const auto& function : module.functions())
    for (Op& op : function->body()) {
      if (op.kind() != OpKind::Kernel || op.has_plan()) continue;
      const Plan plan = plan_kernel(op, context.target);
      check_size(op, plan, context.target);
      op.set_plan(plan.to_attrs());
      changed = true;
    }
  if (changed) module.attrs().set("target", context.target.name);
  return changed;
}

}  // namespace mezzo::passes
