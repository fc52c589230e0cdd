// SPDX-License-Identifier: Apache-2.0
// Rows + columns kernels. A block takes a part of the rows, of fixed length, and goes through it
// row by row, or each of its warps does so with every n-th row; a row is that of a rows kernel.
// Each thread has the same columns in every row, and adds them in ascending order of the rows to
// accumulators of its own: registers while they fit, which the warps of a block then add by halves,
// else slabs of the workspace, one a warp. What was added stands in the workspace in the end; a
// second launch adds the slabs and runs the epilogue, as the second launch of a columns kernel
// does. A part has at most kSumBlock rows. All sums are added in one order for one plan.
#include <mezzo/codegen/cuda/column_text.h>
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/codegen/cuda/row_text.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace mezzo::codegen {

namespace {

/// Bytes of the accumulators of columns that a thread keeps in registers.
constexpr int64_t kKeptBytes = 128;
/// Threads of a block of the second launch, in rows of one warp: few columns are a block, so that
/// there are many blocks.
constexpr int64_t kTotalThreads = 256, kTotalWidth = 32;

std::vector<Reduction> column_reductions(const ir::Op& kernel, bool some) {
  std::vector<Reduction> reductions;
  for (const ir::Op& op : *kernel.body())
    if (ir::is_reduction(op.kind()) && !ir::reduces_last_axes(op))
      reductions.push_back(reduction_of(op, some));
  return reductions;
}

/// Bytes of what a thread accumulates.
int64_t bytes_of_thread(const std::vector<Reduction>& reductions, const RowText& rows) {
  int64_t bytes = 0;
  for (const Reduction& reduction : reductions)
    bytes += accumulator_bytes(reduction.type) * rows.iterations() * rows.lanes();
  return bytes;
}

class RowsColumnsEmitter {
 public:
  RowsColumnsEmitter(const ir::Op& kernel, const ir::Plan& plan)
      : plan_(plan),
        rows_(kernel, plan, plan.at_once > 1 || plan.threads == 32, 1),
        region_(rows_.region()),
        at_once_(rows_.rows_per_block()),
        parts_(ir::ceil_div(rows_.rows(), std::max<int64_t>(plan.grain, 1))),
        bytes_(bytes_of_thread(column_reductions(kernel, true), rows_)),
        in_registers_(rows_.unrolled() && bytes_ <= kKeptBytes),
        columns_(region_, kernel, column_reductions(kernel, rows_.rows() > 0), rows_.reduced_dims(),
                 parts_ * (in_registers_ ? 1 : at_once_)) {
    MEZZO_CHECK(plan.grain > 0 && plan.grain <= ir::kSumBlock && (at_once_ & (at_once_ - 1)) == 0,
                fmt::format("kernel @{}: parts of {} rows, {} at once", kernel.kernel_name(),
                            plan.grain, at_once_));
    const std::vector<ir::Op*> ops = ir::kernel_ops(kernel);
    const std::unordered_set<const ir::Op*> behind = ir::column_ops(ops);
    const ir::Shape space = ir::kernel_space(kernel).space;
    const ir::Op* yield = kernel.body()->terminator();
    for (int r = 0; r < yield->num_operands(); ++r) {
      const ir::Value value = yield->operand(r);
      (behind.contains(value.op()) ? column_results_
       : value.shape() == space    ? full_
                                   : row_results_)
          .push_back(r);
    }
  }

  CudaSource emit(const std::string& name) {
    CudaSource source;
    source.name = name;
    source.workspace_bytes = columns_.place_partials();
    add_rows();
    std::vector<RegionText::Entry> entries{{name, plan_.threads, region_.take_body()}};
    source.launches.push_back({name, static_cast<int>(plan_.threads), parts_});
    add_parts();
    entries.push_back({name + "_total", kTotalThreads, region_.take_body()});
    source.launches.push_back(
        {name + "_total", static_cast<int>(kTotalThreads), columns_.blocks()});
    source.text = region_.finish(entries, true);
    source.checks_index = region_.checks_index();
    return source;
  }

 private:
  SourceWriter& thread() { return region_.writer(Level::Thread); }
  std::string number(int64_t value) const { return region_.index_literal(value); }

  void add_rows() {
    region_.enter(2);
    const auto type = region_.index_type();
    rows_.place_thread();
    const bool slab_of_warp = at_once_ > 1 && !in_registers_;
    thread().line(slab_of_warp ? fmt::format("const {0} slab = ({0})blockIdx.x * {1} + "
                                             "threadIdx.x / 32;",
                                             type, at_once_)
                               : fmt::format("const {} slab = blockIdx.x;", type));
    thread().line(
        fmt::format("const {0} begin = ({0})blockIdx.x * {1};", type, number(plan_.grain)));
    thread().line(fmt::format("const {0} end = begin + {1} < {2} ? begin + {1} : {2};", type,
                              number(plan_.grain), number(rows_.rows())));
    region_.eval_scalars();
    clear_columns();
    thread().line("#pragma unroll 1");
    thread().open(at_once_ > 1
                      ? fmt::format("for ({} row = begin + threadIdx.x / 32; row < end; row += {})",
                                    type, at_once_)
                      : fmt::format("for ({} row = begin; row < end; ++row)", type));
    rows_.begin_row(4, kKeptElements - (in_registers_ ? bytes_ / 4 : 0));
    for (size_t pass = 0; pass < rows_.passes(); ++pass) rows_.reduce_and_present(pass);
    rows_.for_each_element([&](const TextCoordinates& at) {
      std::vector<std::string> after;
      rows_.store_elements(full_, at, after);
      for (size_t i = 0; i < sums_.size(); ++i) add_element(i, at, after);
      return after;
    });
    rows_.store_rows(row_results_, "t == 0");
    thread().close();
    if (in_registers_) store_columns();
  }

  /// In the end, of accumulators in registers.
  void store_columns() {
    if (rows_.iterations() == 0) return;
    if (at_once_ > 1) {
      int64_t bytes = 4;
      for (const Reduction& reduction : columns_.reductions())
        bytes = std::max(bytes, accumulator_bytes(reduction.type));
      thread().line(
          fmt::format("__shared__ u64 parts[{}];", plan_.threads * rows_.lanes() * bytes / 8));
      thread().line("#pragma unroll");
      thread().open(fmt::format("for (u32 it = 0; it < {}; ++it)", rows_.iterations()));
      for (size_t i = 0; i < sums_.size(); ++i)
        thread().line(fmt::format("reduce_columns<{}, 32, {}>({}[it], parts);",
                                  columns_.reductions()[i].fold, at_once_, sums_[i]));
      thread().close();
      thread().open("if (threadIdx.x < 32)");
    }
    rows_.for_each_vector([&](SourceWriter& out) {
      for (size_t i = 0; i < sums_.size(); ++i)
        out.line(fmt::format("store_vector<{}>({}, {}[it]);", rows_.lanes(),
                             columns_.partials(i, "slab"), sums_[i]));
    });
    if (at_once_ > 1) thread().close();
  }

  /// Accumulators of nothing seen yet.
  void clear_columns() {
    for (const Reduction& reduction : columns_.reductions()) {
      sums_.push_back(region_.name("a"));
      if (!in_registers_ || rows_.iterations() == 0) continue;
      thread().line(fmt::format("{} {}[{}][{}];", reduction.type, sums_.back(), rows_.iterations(),
                                rows_.lanes()));
      thread().line("#pragma unroll");
      thread().open(fmt::format("for (u32 it = 0; it < {}; ++it)", rows_.iterations()));
      fill(thread(), sums_.back() + "[it]", reduction);
      thread().close();
    }
    if (in_registers_) return;
    rows_.for_each_vector([&](SourceWriter& out) {
      for (size_t i = 0; i < sums_.size(); ++i) {
        const Reduction& reduction = columns_.reductions()[i];
        const std::string none = region_.name("none");
        declare_accumulators(out, reduction.type, reduction.initial, none, rows_.lanes());
        out.line(fmt::format("store_vector<{}>({}, {});", rows_.lanes(),
                             columns_.partials(i, "slab"), none));
      }
    });
  }

  void fill(SourceWriter& out, const std::string& array, const Reduction& reduction) const {
    out.line("#pragma unroll");
    out.line(fmt::format("for (u32 j = 0; j < {}; ++j) {}[j] = {};", rows_.lanes(), array,
                         reduction.initial));
  }

  /// In the code of a lane.
  void add_element(size_t i, const TextCoordinates& at, std::vector<std::string>& after) {
    const Reduction& reduction = columns_.reductions()[i];
    if (in_registers_) return accumulate(region_, reduction, sums_[i] + "[it]", at);
    SourceWriter& out = region_.writer(Level::Iteration);
    const std::string place = columns_.partials(i, "slab");
    out.line(fmt::format("{} {}[{}];", reduction.type, sums_[i], rows_.lanes()));
    out.line(fmt::format("load_vector<{}>({}, {});", rows_.lanes(), sums_[i], place));
    accumulate(region_, reduction, sums_[i], at);
    after.push_back(fmt::format("store_vector<{}>({}, {});", rows_.lanes(), place, sums_[i]));
  }

  void add_parts() {
    region_.set_lanes(1);
    int64_t width = 1;
    while (width < kTotalWidth && width < rows_.columns()) width *= 2;
    columns_.set_block(kTotalThreads, width);
    columns_.begin_entry(true);
    columns_.write_results(column_results_, columns_.add_slabs(0, columns_.reductions().size()));
  }

  const ir::Plan& plan_;
  RowText rows_;
  RegionText& region_;
  int64_t at_once_, parts_;  // rows that a block takes at once; parts of the rows
  int64_t bytes_;
  bool in_registers_;
  ColumnText columns_;
  std::vector<int> full_, row_results_, column_results_;
  std::vector<std::string> sums_;
};

}  // namespace

CudaSource emit_cuda_rows_columns(const ir::Op& kernel, const ir::Plan& plan,
                                  const std::string& name) {
  return RowsColumnsEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
