// SPDX-License-Identifier: Apache-2.0
// Rows kernels: one warp a row, with shuffles, one block a row, with shared memory, or several
// blocks a row, each of which takes a slice. Reductions that need no other run in one pass over the
// row, those that need its result in the next; the last pass writes what has the shape of the
// space. What several passes read stays in registers while it fits. Where rows are sliced each pass
// is a launch that leaves its totals in the workspace, and every block of the next adds them up
// again. A sum is added lane by lane, then by halves, slices likewise: in one order for one plan.
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/codegen/cuda/row_text.h>
#include <mezzo/ir/plan.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo::codegen {

namespace {

/// Room for a total of any type.
constexpr int64_t kPartialBytes = 16;

class RowsEmitter {
 public:
  RowsEmitter(const ir::Op& kernel, const ir::Plan& plan)
      : plan_(plan),
        slices_(std::max<int64_t>(plan.slices, 1)),
        rows_(kernel, plan, slices_ == 1 && (plan.grain > 1 || plan.threads == 32), slices_),
        region_(rows_.region()) {
    const ir::Shape space = ir::kernel_space(kernel).space;
    const ir::Op* yield = kernel.body()->terminator();
    for (int r = 0; r < yield->num_operands(); ++r)
      (yield->operand(r).shape() == space ? full_ : row_results_).push_back(r);
  }

  CudaSource emit(const std::string& name) {
    CudaSource source;
    source.name = name;
    std::vector<RegionText::Entry> entries;
    const auto add_entry = [&](const std::string& entry, int64_t blocks) {
      source.launches.push_back({entry, static_cast<int>(plan_.threads), blocks});
      entries.push_back({entry, plan_.threads, region_.take_body()});
    };
    if (slices_ > 1) {
      source.workspace_bytes = place_partials();
      for (size_t pass = 0; pass < rows_.passes(); ++pass) {
        begin_row(true);
        for (size_t before = 0; before < pass; ++before) add_slices(before);
        const std::vector<RowText::Seen> seen = rows_.reduce(pass);
        for (size_t i = 0; i < seen.size(); ++i)
          store_partial(rows_.pass(pass)[i], places_[pass][i], seen[i].text);
        add_entry(fmt::format("{}_{}", name, pass), rows_.rows() * slices_);
      }
    }
    const bool writes_elements = !full_.empty();
    begin_row(writes_elements && slices_ > 1);
    for (size_t pass = 0; pass < rows_.passes(); ++pass)
      slices_ > 1 ? add_slices(pass) : rows_.reduce_and_present(pass);
    if (writes_elements)
      rows_.for_each_element([&](const TextCoordinates& at) {
        std::vector<std::string> stores;
        rows_.store_elements(full_, at, stores);
        return stores;
      });
    rows_.store_rows(row_results_,
                     writes_elements && slices_ > 1 ? "t == 0 && slice == 0" : "t == 0");
    add_entry(name,
              ir::ceil_div(rows_.rows(), rows_.rows_per_block()) * (writes_elements ? slices_ : 1));
    source.text = region_.finish(entries, slices_ > 1);
    source.checks_index = region_.checks_index();
    return source;
  }

 private:
  SourceWriter& thread() { return region_.writer(Level::Thread); }

  /// The thread's row, and `slice` where a block has one.
  void begin_row(bool sliced) {
    region_.enter(2);
    const auto type = region_.index_type();
    const int64_t at_once = rows_.rows_per_block();
    rows_.place_thread();
    if (sliced) {
      thread().line(fmt::format("const {} row = blockIdx.x / {};", type, slices_));
      thread().line(fmt::format("const u32 slice = blockIdx.x % {};", slices_));
    } else if (at_once > 1) {
      thread().line(
          fmt::format("const {0} row = ({0})blockIdx.x * {1} + threadIdx.x / 32;", type, at_once));
      if (rows_.rows() % at_once != 0)
        thread().line(fmt::format("if (row >= {}) return;", region_.index_literal(rows_.rows())));
    } else {
      thread().line(fmt::format("const {} row = blockIdx.x;", type));
    }
    rows_.begin_row(2, kKeptElements);
    region_.eval_scalars();
  }

  // --- several blocks a row

  /// Where the totals of each reduction stand, one a slice of a row; the bytes of all.
  int64_t place_partials() {
    int64_t bytes = 0;
    for (size_t pass = 0; pass < rows_.passes(); ++pass) {
      std::vector<int64_t>& places = places_.emplace_back();
      for (size_t i = 0; i < rows_.pass(pass).size(); ++i) {
        places.push_back(bytes);
        bytes += ir::ceil_div(kPartialBytes * rows_.rows() * slices_, 256) * 256;
      }
    }
    return bytes;
  }

  std::string partials(const Reduction& reduction, int64_t place) const {
    return fmt::format("(reinterpret_cast<{}*>(workspace + {}ull) + row * {})",
                       reduction.total_type(), place, region_.index_literal(slices_));
  }

  void store_partial(const Reduction& reduction, int64_t place, const std::string& mine) {
    const std::string type = reduction.total_type();
    const bool widened = type != reduction.type;
    const std::string all =
        rows_.of_row(reduction, widened ? fmt::format("({}){}", type, mine) : mine);
    const std::string name = region_.name("all");
    thread().line(fmt::format("const {} {} = {};", type, name, all));
    thread().line(fmt::format("if (t == 0) {}[slice] = {};", partials(reduction, place), name));
  }

  /// Adds up what a launch before has left.
  void add_slices(size_t pass) {
    for (size_t i = 0; i < rows_.pass(pass).size(); ++i) {
      const Reduction& reduction = rows_.pass(pass)[i];
      const std::string type = reduction.total_type(), sum = region_.name("b");
      thread().line(fmt::format("{} {} = {};", type, sum, reduction.initial));
      thread().line(fmt::format("for (u32 s = t; s < {0}; s += {1}) {2} = {3}::of({2}, {4}[s]);",
                                slices_, rows_.threads(), sum, reduction.fold,
                                partials(reduction, places_[pass][i])));
      rows_.present(reduction, type, rows_.of_row(reduction, sum));
    }
  }

  const ir::Plan& plan_;
  int64_t slices_;
  RowText rows_;
  RegionText& region_;
  std::vector<int> full_, row_results_;
  std::vector<std::vector<int64_t>> places_;  // of the totals in the workspace
};

}  // namespace

CudaSource emit_cuda_rows(const ir::Op& kernel, const ir::Plan& plan, const std::string& name) {
  return RowsEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
