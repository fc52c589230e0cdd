// SPDX-License-Identifier: Apache-2.0
// Columns kernels: chained reductions over the leading axes. Threads of a block stand in X columns
// of vectors by Y rows; the rows are divided into slabs, one a block, whose totals go to the
// workspace; a second launch, of blocks of the same shape, adds the slabs and runs the epilogue.
// With one slab there is one launch. In a chain each pass of reductions is a launch, whose blocks
// first add the slabs of the passes before; a last one stores what has the full shape, or the
// epilogue alone. A thread adds at most kSumBlock rows in ascending order, threads are added by
// halves, slabs in double: in one order for one plan.
#include <mezzo/codegen/cuda/column_text.h>
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace mezzo::codegen {

namespace {

int64_t product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t dim : dims) n *= dim;
  return n;
}

using Passes = std::vector<std::vector<Reduction>>;

/// In the order of the passes.
std::vector<Reduction> all_of(const Passes& passes) {
  std::vector<Reduction> reductions;
  for (const std::vector<Reduction>& pass : passes)
    reductions.insert(reductions.end(), pass.begin(), pass.end());
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
        passes_(reduction_passes(ir::kernel_ops(kernel), rows_ > 0)),
        region_(kernel, static_cast<int>(plan.vector)),
        columns_(region_, kernel, all_of(passes_),
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
    find_yields();
    if (passes_.size() > 1 || !full_.empty())
      emit_chain(source);
    else
      emit_one_pass(source);
    source.checks_index = region_.checks_index();
    return source;
  }

 private:
  SourceWriter& thread() { return region_.writer(Level::Thread); }
  std::string number(int64_t value) const { return region_.index_literal(value); }

  /// What has the full shape, which reduced axes of length 1 may give to column values too, is made
  /// of reductions.
  void find_yields() {
    const ir::Op* yield = kernel_.body()->terminator();
    for (int r = 0; r < yield->num_operands(); ++r) {
      const bool full = rows_ != 1 && yield->operand(r).shape() == space_.space;
      (full ? full_ : column_results_).push_back(r);
    }
  }

  void emit_one_pass(CudaSource& source) {
    std::vector<RegionText::Entry> entries;
    source.launches.push_back(launch(source.name, columns_.blocks() * slabs_));
    columns_.begin_entry(false);
    if (slabs_ > 1) place_slab();
    const std::vector<std::string> sums = add_rows(0, {});
    if (slabs_ > 1) {
      source.workspace_bytes = columns_.place_partials();
      columns_.store_partials(sums, "slab");
      entries.push_back({source.name, threads_, region_.take_body()});
      source.launches.push_back(launch(source.name + "_total", columns_.blocks()));
      columns_.write_results(column_results_, columns_.add_slabs());
    } else {
      columns_.write_results(column_results_, {sums});
    }
    entries.push_back({source.launches.back().entry, threads_, region_.take_body()});
    source.text = region_.finish(entries, slabs_ > 1);
  }

  void emit_chain(CudaSource& source) {
    std::vector<RegionText::Entry> entries;
    const auto add_entry = [&](const std::string& entry, int64_t blocks) {
      source.launches.push_back(launch(entry, blocks));
      entries.push_back({entry, threads_, region_.take_body()});
    };
    source.workspace_bytes = columns_.place_partials();
    size_t known = 0;  // reductions of the passes before
    for (size_t pass = 0; pass < passes_.size(); ++pass) {
      columns_.begin_entry(true);
      place_slab();
      const ColumnArrays before = columns_.share(columns_.add_slabs_of(known));
      columns_.store_partials(add_rows(pass, before), "slab", known);
      known += passes_[pass].size();
      add_entry(fmt::format("{}_{}", source.name, pass), columns_.blocks() * slabs_);
    }
    columns_.begin_entry(true);
    if (!full_.empty()) place_slab();
    ColumnArrays all = columns_.add_slabs_of(known);
    if (!full_.empty()) {
      all = columns_.share(all);
      store_rows(all);
    }
    columns_.write_results(column_results_, all, full_.empty() ? "" : "slab == 0");
    add_entry(source.name, columns_.blocks() * (full_.empty() ? 1 : slabs_));
    source.text = region_.finish(entries, true);
  }

  CudaLaunch launch(const std::string& entry, int64_t blocks) const {
    return {entry, static_cast<int>(threads_), blocks};
  }

  /// The block's slab: its rows are [begin, end).
  void place_slab() {
    const auto type = region_.index_type();
    const int64_t slab = rows_per_thread_ * columns_.height();
    thread().line(fmt::format("const {} slab = blockIdx.x / {};", type,
                              std::max<int64_t>(columns_.blocks(), 1)));
    thread().line(fmt::format("const {0} begin = slab * {1};", type, number(slab)));
    thread().line(fmt::format("const {0} end = begin + {1} < {2} ? begin + {1} : {2};", type,
                              number(slab), number(rows_)));
  }

  /// The loop over the thread's rows, where `condition` holds, which is none or of the thread;
  /// `body` at the coordinates of an element, in the code of a lane, gives the lines that follow
  /// the lanes.
  void for_each_row(const std::string& condition,
                    const std::function<std::vector<std::string>(const TextCoordinates&)>& body) {
    const auto type = region_.index_type();
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
    const std::vector<std::string> after = body(at);
    region_.drop_identities(0);
    region_.leave_lanes();
    for (const std::string& line : after) region_.writer(Level::Iteration).line(line);
    const std::string iteration = region_.leave();
    const bool slab = slabs_ > 1 || passes_.size() > 1 || !full_.empty();
    // Four rows are on their way at once.
    thread().line("#pragma unroll 4");
    const std::string end = slab ? "end" : number(rows_);
    std::string first = slab ? "begin + y" : "y";
    if (!condition.empty()) first = fmt::format("{} ? {} : {}", condition, first, end);
    thread().open(
        fmt::format("for ({} r = {}; r < {}; r += {})", type, first, end, columns_.height()));
    thread().append(iteration);
    thread().close();
  }

  /// Runs a pass, with what those before have given; the names of what the first row of threads
  /// then has.
  std::vector<std::string> add_rows(size_t pass, const ColumnArrays& before) {
    const std::vector<Reduction>& reductions = passes_[pass];
    std::vector<std::string> sums;
    for (const Reduction& reduction : reductions) {
      sums.push_back(region_.name("a"));
      declare_accumulators(thread(), reduction.type, reduction.initial, sums.back(), lanes_);
    }
    for_each_row("", [&](const TextCoordinates& at) {
      columns_.present(before);
      for (size_t i = 0; i < sums.size(); ++i) accumulate(region_, reductions[i], sums[i], at);
      return std::vector<std::string>();
    });
    columns_.fold_threads(sums, before.names.size());
    return sums;
  }

  void store_rows(const ColumnArrays& all) {
    const ir::Op* yield = kernel_.body()->terminator();
    const std::string own = fmt::format("place < {}", number(columns_.columns()));
    for_each_row(own, [&](const TextCoordinates& at) {
      columns_.present(all);
      std::vector<std::string> stores;
      for (int r : full_) {
        const std::string result = region_.eval_to_store(yield->operand(r), at).text;
        const std::string place = region_.index_text({.base = "e", .level = Level::Iteration});
        stores.push_back(region_.store_result(r, result, place));
      }
      return stores;
    });
  }

  const ir::Op& kernel_;
  ir::KernelSpace space_;
  std::span<const int64_t> reduced_dims_;
  int64_t threads_, lanes_, slabs_, rows_;
  int64_t rows_per_thread_ = 0;
  Passes passes_;
  RegionText region_;
  ColumnText columns_;
  std::vector<int> full_, column_results_;
};

}  // namespace

CudaSource emit_cuda_columns(const ir::Op& kernel, const ir::Plan& plan, const std::string& name) {
  return ColumnsEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
