// SPDX-License-Identifier: Apache-2.0
// Rows + columns kernels. A warp or a block takes a part of the rows, of fixed length, and goes
// through it row by row, each as in a rows kernel; each thread has the same columns in every row,
// and adds them in ascending order of the rows to accumulators of its own: registers while they
// fit, else in the workspace. What a part has added stands in the workspace in the end; a second
// launch adds the parts and runs the epilogue, as the second launch of a columns kernel does. A
// part has at most kTermsPerAccumulator rows. All sums are added in one order for one plan.
#include <mezzo/codegen/cuda/column_text.h>
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/codegen/cuda/row_text.h>
#include <mezzo/ir/error.h>

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

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<Reduction> column_reductions(const ir::Op& kernel, bool some) {
  std::vector<Reduction> reductions;
  for (const ir::Op& op : *kernel.body())
    if (ir::is_reduction(op.kind()) && !ir::reduces_last_axes(op))
      reductions.push_back(reduction_of(op, some));
  return reductions;
}

class RowsColumnsEmitter {
 public:
  RowsColumnsEmitter(const ir::Op& kernel, const ir::Plan& plan)
      : plan_(plan),
        rows_(kernel, plan, plan.slices > 1 || plan.threads == 32, 1),
        region_(rows_.region()),
        parts_(ceil_div(rows_.rows(), std::max<int64_t>(plan.grain, 1))),
        columns_(region_, kernel, column_reductions(kernel, rows_.rows() > 0), rows_.reduced_dims(),
                 parts_) {
    MEZZO_CHECK(plan.grain > 0 && plan.grain <= kTermsPerAccumulator,
                fmt::format("kernel @{}: parts of {} rows", kernel.kernel_name(), plan.grain));
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
    int64_t bytes = 0;
    for (const Reduction& reduction : columns_.reductions())
      bytes += accumulator_bytes(reduction.type) * rows_.iterations() * rows_.lanes();
    in_registers_ = rows_.unrolled() && bytes <= kKeptBytes;
    if (in_registers_) kept_elements_ -= bytes / 4;
  }

  CudaSource emit(const std::string& name) {
    CudaSource source;
    source.name = name;
    source.workspace_bytes = columns_.place_partials();
    add_rows();
    std::vector<RegionText::Entry> entries{{name, plan_.threads, region_.take_body()}};
    source.launches.push_back(
        {name, static_cast<int>(plan_.threads), ceil_div(parts_, rows_.rows_per_block())});
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
    const int64_t at_once = rows_.rows_per_block();
    rows_.place_thread();
    thread().line(at_once > 1 ? fmt::format("const {0} slab = ({0})blockIdx.x * {1} + "
                                            "threadIdx.x / 32;",
                                            type, at_once)
                              : fmt::format("const {} slab = blockIdx.x;", type));
    if (parts_ % at_once != 0)
      thread().line(fmt::format("if (slab >= {}) return;", number(parts_)));
    thread().line(fmt::format("const {} begin = slab * {};", type, number(plan_.grain)));
    thread().line(fmt::format("const {0} end = begin + {1} < {2} ? begin + {1} : {2};", type,
                              number(plan_.grain), number(rows_.rows())));
    region_.eval_scalars();
    clear_columns();
    thread().line("#pragma unroll 1");
    thread().open(fmt::format("for ({} row = begin; row < end; ++row)", type));
    rows_.begin_row(4, kept_elements_);
    for (size_t pass = 0; pass < rows_.passes(); ++pass) {
      const std::vector<RowText::Seen> seen = rows_.reduce(pass);
      for (size_t i = 0; i < seen.size(); ++i) {
        const Reduction& reduction = rows_.pass(pass)[i];
        rows_.present(reduction, seen[i].type, rows_.of_row(reduction, seen[i].text));
      }
    }
    rows_.for_each_element([&](const TextCoordinates& at) {
      std::vector<std::string> after;
      rows_.store_elements(full_, at, after);
      for (size_t i = 0; i < sums_.size(); ++i) add_element(i, at, after);
      return after;
    });
    rows_.store_rows(row_results_, "t == 0");
    thread().close();
    if (in_registers_)
      rows_.for_each_vector([&](SourceWriter& out) {
        for (size_t i = 0; i < sums_.size(); ++i)
          out.line(fmt::format("store_vector<{}>({}, {}[it]);", rows_.lanes(),
                               columns_.partials(i, "slab"), sums_[i]));
      });
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
    columns_.write_results(column_results_, columns_.add_slabs(), true);
  }

  const ir::Plan& plan_;
  RowText rows_;
  RegionText& region_;
  int64_t parts_;
  ColumnText columns_;
  std::vector<int> full_, row_results_, column_results_;
  std::vector<std::string> sums_;
  bool in_registers_ = false;
  int64_t kept_elements_ = kKeptElements;
};

}  // namespace

CudaSource emit_cuda_rows_columns(const ir::Op& kernel, const ir::Plan& plan,
                                  const std::string& name) {
  return RowsColumnsEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
