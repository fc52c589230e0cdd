// SPDX-License-Identifier: Apache-2.0
// Rows kernels: one warp a row, with shuffles, one block a row, with shared memory, or several
// blocks a row, each of which takes a slice. Reductions that need no other run in one pass over the
// row, those that need its result in the next; the last pass writes what has the shape of the
// space. What several passes read stays in registers while it fits. Where rows are sliced each pass
// is a launch that leaves its totals in the workspace, and every block of the next adds them up
// again. A sum is added lane by lane, then by halves, slices likewise: in one order for one plan.
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/codegen/cuda/reduction_text.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;

namespace {

/// Elements of one operand that a thread may keep in registers, and of all operands together: the
/// registers that still let two blocks of 512 threads run at once.
constexpr int64_t kKeptRow = 32;
constexpr int64_t kKeptElements = 64;
/// Room for a total of any type.
constexpr int64_t kPartialBytes = 16;

/// Reductions in passes: each after those that it is made of. `some`: a row has elements.
std::vector<std::vector<Reduction>> passes_of(const ir::Op& kernel, bool some) {
  std::unordered_map<const ir::Op*, size_t> depth;  // passes before an op is known
  std::vector<std::vector<Reduction>> passes;
  for (ir::Op& op : *kernel.body()) {
    size_t after = 0;
    for (ir::Value operand : op.operands())
      if (!operand.is_parameter()) after = std::max(after, depth.at(operand.op()));
    if (ir::is_reduction(op.kind())) {
      if (passes.size() <= after) passes.resize(after + 1);
      passes[after].push_back(reduction_of(op, some));
      ++after;
    }
    depth[&op] = after;
  }
  return passes;
}

class RowsEmitter {
 public:
  RowsEmitter(const ir::Op& kernel, const ir::Plan& plan)
      : kernel_(kernel), plan_(plan), space_(ir::kernel_space(kernel)) {
    const auto dims = space_.space.dims();
    kept_dims_ = dims.first(static_cast<size_t>(space_.kept()));
    reduced_dims_ = dims.subspan(static_cast<size_t>(space_.kept()));
    for (int64_t dim : kept_dims_) rows_ *= dim;
    for (int64_t dim : reduced_dims_) columns_ *= dim;
    slices_ = std::max<int64_t>(plan.slices, 1);
    warp_ = slices_ == 1 && (plan.grain > 1 || plan.threads == 32);
    threads_ = warp_ ? 32 : plan.threads;
    rows_per_block_ = warp_ ? plan.threads / 32 : 1;
    // Vectors that divide the row, as long as every thread gets one.
    lanes_ = plan.vector;
    while (lanes_ > 1 && (columns_ % lanes_ != 0 || columns_ < lanes_ * threads_ * slices_))
      lanes_ /= 2;
    iterations_ = ceil_div(columns_, threads_ * lanes_ * slices_);
    passes_ = passes_of(kernel, columns_ > 0);
    for (ir::Value value : kernel.body()->terminator()->operands())
      writes_elements_ |= value.shape() == space_.space;
  }

  CudaSource emit(const std::string& name) {
    RegionText region(kernel_, static_cast<int>(lanes_));
    region_ = &region;
    CudaSource source;
    source.name = name;
    std::vector<RegionText::Entry> entries;
    const auto add_entry = [&](const std::string& entry, int64_t blocks) {
      source.launches.push_back({entry, static_cast<int>(plan_.threads), blocks});
      entries.push_back({entry, plan_.threads, region.take_body()});
    };
    if (slices_ > 1) {
      source.workspace_bytes = place_partials();
      for (size_t pass = 0; pass < passes_.size(); ++pass) {
        begin_row(true);
        for (size_t before = 0; before < pass; ++before) add_slices(before);
        reduce(pass);
        add_entry(fmt::format("{}_{}", name, pass), rows_ * slices_);
      }
    }
    begin_row(writes_elements_ && slices_ > 1);
    for (size_t pass = 0; pass < passes_.size(); ++pass)
      slices_ > 1 ? add_slices(pass) : reduce(pass);
    write_results();
    add_entry(name, ceil_div(rows_, rows_per_block_) * (writes_elements_ ? slices_ : 1));
    source.text = region.finish(entries, slices_ > 1);
    source.checks_index = region.checks_index();
    return source;
  }

 private:
  static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
  SourceWriter& writer(Level level) { return region_->writer(level); }

  /// The thread's row, and `slice` where a block has one.
  void begin_row(bool sliced) {
    region_->enter(2);
    SourceWriter& out = writer(Level::Thread);
    const auto type = region_->index_type();
    if (sliced) {
      out.line("const u32 t = threadIdx.x;");
      out.line(fmt::format("const {} row = blockIdx.x / {};", type, slices_));
      out.line(fmt::format("const u32 slice = blockIdx.x % {};", slices_));
    } else if (warp_) {
      out.line("const u32 t = threadIdx.x % 32;");
      out.line(fmt::format("const {0} row = ({0})blockIdx.x * {1} + threadIdx.x / 32;", type,
                           rows_per_block_));
      if (rows_ % rows_per_block_ != 0)
        out.line(fmt::format("if (row >= {}) return;", region_->index_literal(rows_)));
    } else {
      out.line("const u32 t = threadIdx.x;");
      out.line(fmt::format("const {} row = blockIdx.x;", type));
    }
    region_->lazy(Level::Thread, "row_start",
                  fmt::format("row * {}", region_->index_literal(columns_)));
    const TextIndex row{.base = "row", .multiple = 1};
    kept_ = region_->decompose(kept_dims_, "k", row, "");
    region_->add_identity(ir::Shape(kept_dims_), kept_, row);
    identities_ = region_->identities();
    if (iterations_ > 0 && unrolled() && slices_ == 1) {
      kept_loop_ = {"#pragma unroll", loop_head(), first_column()};
      if (ragged())
        kept_loop_.push_back(fmt::format("if (c < {})", region_->index_literal(columns_)));
      region_->keep_row(element(), "row_start + c", iterations_, kKeptElements, kept_loop_);
    }
    region_->eval_scalars();
  }

  /// Some thread has nothing to do in the last iteration.
  bool ragged() const { return iterations_ * threads_ * lanes_ * slices_ != columns_; }
  /// The whole row may be in registers, which have no addresses.
  bool unrolled() const { return iterations_ * lanes_ <= kKeptRow; }
  std::string loop_head() const {
    return fmt::format("for (u32 it = 0; it < {}; ++it)", iterations_);
  }
  std::string first_column() const {
    std::string piece = region_->wide() ? "(u64)it" : "it";
    if (slices_ > 1)
      piece = fmt::format("(({})slice * {} + it)", region_->index_type(), iterations_);
    return fmt::format("const {} c = ({} * {} + t) * {};", region_->index_type(), piece, threads_,
                       lanes_);
  }
  TextIndex element() const {
    return {
        .base = "e", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Iteration};
  }

  /// `body` at the coordinates of every element of the row, in the code of a lane.
  template <class Body>
  void for_each_element(Body body) {
    if (iterations_ == 0) return;
    const int ragged_indent = ragged() ? 2 : 0;
    region_->enter(4 + ragged_indent);
    region_->enter((lanes_ > 1 ? 6 : 4) + ragged_indent);
    region_->lazy(Level::Iteration, "e", "row_start + c");
    const TextIndex column{
        .base = "c", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Iteration};
    if (lanes_ > 1) region_->lazy(Level::Lane, "ce", "c + j");
    const TextCoordinates inner = region_->decompose(reduced_dims_, "c", column, "ce");
    TextCoordinates at = kept_;
    at.insert(at.end(), inner.begin(), inner.end());
    region_->add_identity(space_.space, at, element());
    const std::vector<std::string> after = body(at);
    region_->drop_identities(identities_);

    const std::string lane = region_->leave();
    SourceWriter& iteration = writer(Level::Iteration);
    if (lanes_ > 1) {
      iteration.line("#pragma unroll");
      iteration.open(fmt::format("for (u32 j = 0; j < {}; ++j)", lanes_));
    }
    iteration.append(lane);
    if (lanes_ > 1) iteration.close();
    for (const std::string& line : after) iteration.line(line);
    const std::string text = region_->leave();
    SourceWriter& out = writer(Level::Thread);
    out.line(unrolled() ? "#pragma unroll" : "#pragma unroll 2");
    out.open(loop_head());
    out.line(first_column());
    if (ragged()) out.open(fmt::format("if (c < {})", region_->index_literal(columns_)));
    out.append(text);
    if (ragged()) out.close();
    out.close();
  }

  void reduce(size_t number) {
    const std::vector<Reduction>& pass = passes_[number];
    std::vector<std::string> sums, totals;
    for (const Reduction& reduction : pass) {
      sums.push_back(region_->name("a"));
      declare_accumulators(writer(Level::Thread), reduction.type, reduction.initial, sums.back(),
                           lanes_);
      const bool blocked = iterations_ > kTermsPerAccumulator && reduction.is_float_sum();
      totals.push_back(blocked ? region_->name("b") : "");
      if (blocked)
        writer(Level::Thread)
            .line(fmt::format("double {} = {};", totals.back(), reduction.initial));
    }
    for_each_element([&](const TextCoordinates& at) {
      std::vector<std::string> after;
      for (size_t i = 0; i < pass.size(); ++i) {
        accumulate(*region_, pass[i], sums[i], at);
        if (!totals[i].empty()) empty_block(pass[i], sums[i], totals[i], after);
      }
      return after;
    });
    for (size_t i = 0; i < pass.size(); ++i) {
      const std::string mine = of_thread(pass[i], sums[i], totals[i]);
      if (slices_ > 1)
        store_partial(pass[i], places_[number][i], mine);
      else
        present(pass[i], totals[i].empty() ? pass[i].type : "double", of_row(pass[i], mine));
    }
  }

  /// Moves a full block into the total, behind the lanes of an iteration.
  void empty_block(const Reduction& reduction, const std::string& sum, const std::string& total,
                   std::vector<std::string>& after) {
    after.push_back(
        fmt::format("if (it % {} == {}) {{", kTermsPerAccumulator, kTermsPerAccumulator - 1));
    after.push_back(fmt::format("  {0} = Add::of({0}, (double)fold<Add>({1}));", total, sum));
    after.push_back("  #pragma unroll");
    after.push_back(
        fmt::format("  for (u32 j = 0; j < {}; ++j) {}[j] = {};", lanes_, sum, reduction.initial));
    after.push_back("}");
  }

  /// What a thread has seen; what all threads of the row have.
  static std::string of_thread(const Reduction& reduction, const std::string& sum,
                               const std::string& total) {
    const std::string lanes = fmt::format("fold<{}>({})", reduction.fold, sum);
    return total.empty() ? lanes : fmt::format("Add::of({}, (double){})", total, lanes);
  }
  std::string of_row(const Reduction& reduction, const std::string& mine) const {
    return warp_ ? fmt::format("reduce_warp<{}>({})", reduction.fold, mine)
                 : fmt::format("reduce_block<{}, {}>({})", reduction.fold, threads_, mine);
  }

  /// `all` is the reduction's value, of that type before it is converted.
  void present(const Reduction& reduction, const std::string& type, const std::string& all) {
    const ir::Op& op = *reduction.op;
    RegionText::Text result = region_->define(Level::Thread, type, all, op.result());
    const std::string_view own = compute_type_name(op.result().dtype());
    if (op.kind() == OpKind::Argmax)
      result = region_->define(Level::Thread, own, fmt::format("({}){}.at", own, result.text),
                               op.result());
    else if (type != own)
      result =
          region_->define(Level::Thread, own, fmt::format("({}){}", own, result.text), op.result());
    region_->preset(op.result(), result);
  }

  // --- several blocks a row

  /// Where the totals of each reduction stand, one a slice of a row; the bytes of all.
  int64_t place_partials() {
    int64_t bytes = 0;
    for (const std::vector<Reduction>& pass : passes_) {
      std::vector<int64_t>& places = places_.emplace_back();
      for (size_t i = 0; i < pass.size(); ++i) {
        places.push_back(bytes);
        bytes += ceil_div(kPartialBytes * rows_ * slices_, 256) * 256;
      }
    }
    return bytes;
  }

  std::string partials(const Reduction& reduction, int64_t place) const {
    return fmt::format("(reinterpret_cast<{}*>(workspace + {}ull) + row * {})",
                       reduction.total_type(), place, region_->index_literal(slices_));
  }

  void store_partial(const Reduction& reduction, int64_t place, const std::string& mine) {
    const std::string type = reduction.total_type();
    const bool widened = type != reduction.type;
    const std::string all = of_row(reduction, widened ? fmt::format("({}){}", type, mine) : mine);
    const std::string name = region_->name("all");
    SourceWriter& out = writer(Level::Thread);
    out.line(fmt::format("const {} {} = {};", type, name, all));
    out.line(fmt::format("if (t == 0) {}[slice] = {};", partials(reduction, place), name));
  }

  /// Adds up what a launch before has left.
  void add_slices(size_t number) {
    for (size_t i = 0; i < passes_[number].size(); ++i) {
      const Reduction& reduction = passes_[number][i];
      const std::string type = reduction.total_type(), sum = region_->name("b");
      SourceWriter& out = writer(Level::Thread);
      out.line(fmt::format("{} {} = {};", type, sum, reduction.initial));
      out.line(fmt::format("for (u32 s = t; s < {0}; s += {1}) {2} = {3}::of({2}, {4}[s]);",
                           slices_, threads_, sum, reduction.fold,
                           partials(reduction, places_[number][i])));
      present(reduction, type, of_row(reduction, sum));
    }
  }

  void write_results() {
    const ir::Op* yield = kernel_.body()->terminator();
    std::vector<int> full, rows;
    for (int r = 0; r < yield->num_operands(); ++r)
      (yield->operand(r).shape() == space_.space ? full : rows).push_back(r);
    if (!full.empty())
      for_each_element([&](const TextCoordinates& at) {
        std::vector<std::string> stores;
        for (int r : full) store_element(r, yield->operand(r), at, stores);
        return stores;
      });
    for (int r : rows) {
      const ir::Value value = yield->operand(r);
      TextCoordinates at = kept_;
      at.resize(static_cast<size_t>(value.shape().rank()));
      const std::string result = region_->eval_to_store(value, at).text;
      const bool sliced = slices_ > 1 && writes_elements_;
      writer(Level::Thread)
          .line(fmt::format("if (t == 0{}) narrow(r{}[row], {});", sliced ? " && slice == 0" : "",
                            r, result));
    }
  }

  /// Writes the lane's code and adds the store of a vector, which follows the lanes.
  void store_element(int r, ir::Value value, const TextCoordinates& at,
                     std::vector<std::string>& stores) {
    const std::string result = region_->eval_to_store(value, at).text;
    const std::string place = region_->index_text({.base = "e", .level = Level::Iteration});
    if (lanes_ == 1) {
      writer(Level::Lane).line(fmt::format("narrow(r{}[{}], {});", r, place, result));
      return;
    }
    const std::string array = region_->name("y");
    writer(Level::Iteration)
        .line(fmt::format("{} {}[{}];", compute_type_name(value.dtype()), array, lanes_));
    writer(Level::Lane).line(fmt::format("{}[j] = {};", array, result));
    stores.push_back(fmt::format("store_vector<{}>(r{} + {}, {});", lanes_, r, place, array));
  }

  const ir::Op& kernel_;
  const ir::Plan& plan_;
  ir::KernelSpace space_;
  std::span<const int64_t> kept_dims_, reduced_dims_;
  int64_t rows_ = 1, columns_ = 1;
  bool warp_ = false;
  bool writes_elements_ = false;  // not only numbers of whole rows
  int64_t slices_ = 1;
  int64_t threads_ = 0, rows_per_block_ = 1, lanes_ = 1, iterations_ = 0;
  std::vector<std::vector<Reduction>> passes_;
  std::vector<std::vector<int64_t>> places_;  // of the totals in the workspace
  RegionText* region_ = nullptr;
  TextCoordinates kept_;
  size_t identities_ = 0;
  std::vector<std::string> kept_loop_;
};

}  // namespace

CudaSource emit_cuda_rows(const ir::Op& kernel, const ir::Plan& plan, const std::string& name) {
  return RowsEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
