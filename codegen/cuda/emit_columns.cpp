// SPDX-License-Identifier: Apache-2.0
// Columns kernels: chained reductions over the leading axes, level by level: each reduction after
// those that it is made of. Threads of a block stand in X columns of vectors by Y rows; the rows
// are divided into slabs, one a block. With one slab a block has its columns whole: one launch runs
// all levels and stores the results. With several each level is a launch that leaves the totals of
// slabs in the workspace, and one of fewer blocks that adds them up, once for all that read them;
// behind the last level it also runs the epilogue, unless a last launch stores what has the full
// shape. A thread adds at most kSumBlock rows in ascending order, threads are added by halves,
// slabs in double: in one order for one plan.
#include <mezzo/codegen/cuda/column_text.h>
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/reduction_levels.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace mezzo::codegen {

namespace {

/// In the order of the levels. `some`: a column has elements.
std::vector<Reduction> reductions_of(const ir::ReductionLevels& levels, bool some) {
  std::vector<Reduction> reductions;
  for (size_t level = 0; level < levels.last(); ++level)
    for (const ir::Op* op : levels.reductions(level)) reductions.push_back(reduction_of(*op, some));
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
        rows_(ir::Shape(reduced_dims_).elements()),
        levels_(kernel, space_.space, ir::Shape(kept_dims()).elements(), rows_, {}),
        region_(kernel, static_cast<int>(plan.vector)),
        columns_(region_, kernel, reductions_of(levels_, rows_ > 0), kept_dims(), slabs_) {
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
    if (slabs_ == 1)
      emit_one_launch(source);
    else
      emit_slabs(source);
    source.text = region_.finish(entries_, slabs_ > 1);
    source.checks_index = region_.checks_index();
    return source;
  }

 private:
  /// The axes of the columns.
  std::span<const int64_t> kept_dims() const {
    return space_.space.dims().subspan(static_cast<size_t>(space_.reduced));
  }
  SourceWriter& thread() { return region_.writer(Level::Thread); }
  std::string number(int64_t value) const { return region_.index_literal(value); }

  /// With one row the full shape and the column shape are the same: the epilogue stores all then.
  void find_yields() {
    const ir::Op* yield = kernel_.body()->terminator();
    for (int r = 0; r < yield->num_operands(); ++r) {
      const bool full = rows_ != 1 && levels_.is_full(yield->operand(r));
      (full ? full_ : column_results_).push_back(r);
    }
  }

  void add_entry(CudaSource& source, const std::string& entry, int64_t blocks) {
    source.launches.push_back({entry, static_cast<int>(threads_), blocks});
    entries_.push_back({entry, threads_, region_.take_body()});
    loops_ = 0;
  }

  void emit_one_launch(CudaSource& source) {
    columns_.begin_entry(false);
    std::vector<std::string> known;
    for (size_t level = 0; level < levels_.last(); ++level) {
      const std::vector<std::string> sums = add_rows(level, known);
      if (level + 1 < levels_.last() || !full_.empty()) columns_.share(sums);
      known.insert(known.end(), sums.begin(), sums.end());
    }
    if (!full_.empty()) store_rows(known);
    columns_.write_results(column_results_, known);
    add_entry(source, source.name, columns_.blocks());
  }

  void emit_slabs(CudaSource& source) {
    const bool chained = levels_.last() > 1 || !full_.empty();
    source.workspace_bytes = columns_.place_partials();
    if (chained) source.workspace_bytes += columns_.place_sums(source.workspace_bytes);
    size_t known = 0;  // reductions of the levels before
    for (size_t level = 0; level < levels_.last(); ++level) {
      const std::string entry = chained ? fmt::format("{}_{}", source.name, level) : source.name;
      const size_t count = levels_.reductions(level).size();
      columns_.begin_entry(false);
      place_slab();
      columns_.store_partials(add_rows(level, columns_.load_sums(known)), "slab", known);
      add_entry(source, entry, columns_.blocks() * slabs_);

      columns_.begin_entry(true);
      if (level + 1 < levels_.last() || !full_.empty()) {
        columns_.store_sums(columns_.add_slabs(known, count), known);
      } else {
        std::vector<std::string> all = columns_.load_sums(known);
        for (std::string& sum : columns_.add_slabs(known, count)) all.push_back(std::move(sum));
        columns_.write_results(column_results_, all);
      }
      add_entry(source, entry + "_total", columns_.blocks());
      known += count;
    }
    if (full_.empty()) return;
    columns_.begin_entry(false);
    place_slab();
    const std::vector<std::string> all = columns_.load_sums(known);
    store_rows(all);
    columns_.write_results(column_results_, all, "slab == 0");
    add_entry(source, source.name, columns_.blocks() * slabs_);
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
    // Names of the thread, which all loops of an entry see.
    const TextCoordinates kept = columns_.decompose(loops_++ == 0 ? "k" : region_.name("k") + "_");
    at.insert(at.end(), kept.begin(), kept.end());
    region_.add_identity(
        space_.space, at,
        {.base = "e", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Iteration});
    const std::vector<std::string> after = body(at);
    region_.drop_identities(0);
    region_.leave_lanes();
    for (const std::string& line : after) region_.writer(Level::Iteration).line(line);
    const std::string iteration = region_.leave();
    const bool slab = slabs_ > 1;
    // Rows that are on their way at once: fewer where a thread also has what it stores.
    thread().line(condition.empty() ? "#pragma unroll 4" : "#pragma unroll 2");
    const std::string end = slab ? "end" : number(rows_);
    std::string first = slab ? "begin + y" : "y";
    if (!condition.empty()) first = fmt::format("{} ? {} : {}", condition, first, end);
    thread().open(
        fmt::format("for ({} r = {}; r < {}; r += {})", type, first, end, columns_.height()));
    thread().append(iteration);
    thread().close();
  }

  /// Adds the rows of a level, with what those before have given; the names of what the first row
  /// of threads then has.
  std::vector<std::string> add_rows(size_t level, const std::vector<std::string>& known) {
    columns_.hold(levels_.line_operands(level), known);
    std::vector<std::string> sums =
        columns_.declare(known.size(), levels_.reductions(level).size());
    for_each_row("", [&](const TextCoordinates& at) {
      columns_.present(known);
      for (size_t i = 0; i < sums.size(); ++i)
        accumulate(region_, columns_.reductions()[known.size() + i], sums[i], at);
      return std::vector<std::string>();
    });
    columns_.fold_threads(sums, known.size());
    return sums;
  }

  void store_rows(const std::vector<std::string>& known) {
    const ir::Op* yield = kernel_.body()->terminator();
    columns_.hold(levels_.line_operands(levels_.last()), known);
    const std::string own = fmt::format("place < {}", number(columns_.columns()));
    for_each_row(own, [&](const TextCoordinates& at) {
      columns_.present(known);
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
  int loops_ = 0;  // over rows, of the entry
  ir::ReductionLevels levels_;
  RegionText region_;
  ColumnText columns_;
  std::vector<int> full_, column_results_;
  std::vector<RegionText::Entry> entries_;
};

}  // namespace

CudaSource emit_cuda_columns(const ir::Op& kernel, const ir::Plan& plan, const std::string& name) {
  return ColumnsEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
