// SPDX-License-Identifier: Apache-2.0
// Columns kernels: reductions over the leading axes. Threads of a block stand in X columns of
// vectors by Y rows; the rows are divided into slabs, one a block, whose totals go to the
// workspace; a second launch, of blocks of the same shape, adds the slabs and runs the epilogue.
// With one slab there is one launch. A thread adds at most kSumBlock rows in ascending
// order, threads are added by halves, slabs in double: in one order for one plan.
#include <mezzo/codegen/cuda/column_text.h>
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mezzo::codegen {

namespace {

int64_t product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t dim : dims) n *= dim;
  return n;
}

std::vector<Reduction> reductions_of(const ir::Op& kernel, bool some) {
  std::vector<Reduction> reductions;
  for (ir::Op& op : *kernel.body())
    if (ir::is_reduction(op.kind())) reductions.push_back(reduction_of(op, some));
  return reductions;
}

class ColumnsEmitter {
 public:
  ColumnsEmitter(const ir::Op& kernel, const ir::Plan& plan)
      : kernel_(kernel),
        space_(ir::kernel_space(kernel)),
        reduced_dims_(space_.space.dims().first(static_cast<size_t>(space_.reduced))),
        threads_(plan.threads),
        lanes_(plan.vector),
        slabs_(std::max<int64_t>(plan.slices, 1)),
        rows_(product(reduced_dims_)),
        region_(kernel, static_cast<int>(plan.vector)),
        columns_(region_, kernel, reductions_of(kernel, rows_ > 0),
                 space_.space.dims().subspan(static_cast<size_t>(space_.reduced)), slabs_) {
    MEZZO_CHECK(plan.grain % lanes_ == 0, fmt::format("kernel @{}: {} columns a block, {} a thread",
                                                      kernel.kernel_name(), plan.grain, lanes_));
    columns_.set_block(threads_, plan.grain / lanes_);
    rows_per_thread_ = ir::ceil_div(rows_, slabs_ * columns_.height());
    MEZZO_CHECK(
        rows_per_thread_ <= ir::kSumBlock,
        fmt::format("kernel @{}: {} rows in {} slabs", kernel.kernel_name(), rows_, slabs_));
  }

  CudaSource emit(const std::string& name) {
    CudaSource source;
    source.name = name;
    const int threads = static_cast<int>(threads_);
    std::vector<int> yields(static_cast<size_t>(kernel_.num_results()));
    std::iota(yields.begin(), yields.end(), 0);
    std::vector<RegionText::Entry> entries;
    source.launches.push_back({name, threads, columns_.blocks() * slabs_});
    const std::vector<std::string> sums = add_rows();
    if (slabs_ > 1) {
      source.workspace_bytes = columns_.place_partials();
      columns_.store_partials(sums, "slab");
      entries.push_back({name, threads_, region_.take_body()});
      source.launches.push_back({name + "_total", threads, columns_.blocks()});
      columns_.write_results(yields, columns_.add_slabs(), true);
    } else {
      columns_.write_results(yields, sums, false);
    }
    entries.push_back({source.launches.back().entry, threads_, region_.take_body()});
    source.text = region_.finish(entries, slabs_ > 1);
    source.checks_index = region_.checks_index();
    return source;
  }

 private:
  std::string number(int64_t value) const { return region_.index_literal(value); }

  /// The names of what the first row of threads then has.
  std::vector<std::string> add_rows() {
    columns_.begin_entry(false);
    const auto type = region_.index_type();
    std::vector<std::string> sums;
    for (const Reduction& reduction : columns_.reductions()) {
      sums.push_back(region_.name("a"));
      declare_accumulators(region_.writer(Level::Thread), reduction.type, reduction.initial,
                           sums.back(), lanes_);
    }
    const int64_t slab = rows_per_thread_ * columns_.height();
    std::string first = "y", end = number(rows_);
    if (slabs_ > 1) {
      SourceWriter& out = region_.writer(Level::Thread);
      out.line(fmt::format("const {} slab = blockIdx.x / {};", type,
                           std::max<int64_t>(columns_.blocks(), 1)));
      out.line(fmt::format("const {0} begin = slab * {1};", type, number(slab)));
      out.line(fmt::format("const {0} end = begin + {1} < {2} ? begin + {1} : {2};", type,
                           number(slab), number(rows_)));
      first = "begin + y";
      end = "end";
    }
    region_.enter(4);
    region_.lazy(Level::Iteration, "e", fmt::format("r * {} + c", number(columns_.columns())));
    region_.enter_lanes(4);
    const TextIndex row{.base = "r", .multiple = 1, .level = Level::Iteration};
    TextCoordinates at = region_.decompose(reduced_dims_, "q", row, "r");
    const TextCoordinates kept = columns_.decompose("k");
    at.insert(at.end(), kept.begin(), kept.end());
    region_.add_identity(
        space_.space, at,
        {.base = "e", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Iteration});
    for (size_t i = 0; i < sums.size(); ++i)
      accumulate(region_, columns_.reductions()[i], sums[i], at);
    region_.drop_identities(0);
    region_.leave_lanes();
    const std::string iteration = region_.leave();
    SourceWriter& out = region_.writer(Level::Thread);
    // Four rows are on their way at once.
    out.line("#pragma unroll 4");
    out.open(fmt::format("for ({} r = {}; r < {}; r += {})", type, first, end, columns_.height()));
    out.append(iteration);
    out.close();
    columns_.fold_threads(sums);
    return sums;
  }

  const ir::Op& kernel_;
  ir::KernelSpace space_;
  std::span<const int64_t> reduced_dims_;
  int64_t threads_, lanes_, slabs_, rows_;
  int64_t rows_per_thread_ = 0;
  RegionText region_;
  ColumnText columns_;
};

}  // namespace

CudaSource emit_cuda_columns(const ir::Op& kernel, const ir::Plan& plan, const std::string& name) {
  return ColumnsEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
