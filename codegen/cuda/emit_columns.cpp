// SPDX-License-Identifier: Apache-2.0
// Columns kernels: reductions over the leading axes. Threads of a block stand in X columns of
// vectors by Y rows; the rows are divided into slabs, one a block, whose totals go to the
// workspace; a second launch, of blocks of the same shape, adds the slabs and runs the epilogue.
// With one slab there is one launch. A thread adds at most kTermsPerAccumulator rows in ascending
// order, threads are added by halves, slabs in double: in one order for one plan.
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/codegen/cuda/reduction_text.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo::codegen {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Bytes of an accumulator.
int64_t size_of(const std::string& type) { return type == "double" || type == "i64" ? 8 : 4; }

class ColumnsEmitter {
 public:
  ColumnsEmitter(const ir::Op& kernel, const ir::Plan& plan)
      : kernel_(kernel),
        space_(ir::kernel_space(kernel)),
        threads_(plan.threads),
        lanes_(plan.vector),
        slabs_(std::max<int64_t>(plan.slices, 1)),
        region_(kernel, static_cast<int>(plan.vector)) {
    const auto dims = space_.space.dims();
    reduced_dims_ = dims.first(static_cast<size_t>(space_.reduced));
    kept_dims_ = dims.subspan(static_cast<size_t>(space_.reduced));
    for (int64_t dim : reduced_dims_) rows_ *= dim;
    for (int64_t dim : kept_dims_) columns_ *= dim;
    width_ = plan.grain / lanes_;
    MEZZO_CHECK(
        plan.grain % lanes_ == 0 && width_ > 0 && threads_ % width_ == 0 && columns_ % lanes_ == 0,
        fmt::format("kernel @{}: {} columns a block of {} threads, {} a thread",
                    kernel.kernel_name(), plan.grain, threads_, lanes_));
    height_ = threads_ / width_;
    MEZZO_CHECK((height_ & (height_ - 1)) == 0,
                fmt::format("kernel @{}: {} rows of threads", kernel.kernel_name(), height_));
    column_blocks_ = ceil_div(columns_, plan.grain);
    rows_per_thread_ = ceil_div(rows_, slabs_ * height_);
    MEZZO_CHECK(
        rows_per_thread_ <= kTermsPerAccumulator,
        fmt::format("kernel @{}: {} rows in {} slabs", kernel.kernel_name(), rows_, slabs_));
    for (ir::Op& op : *kernel.body())
      if (ir::is_reduction(op.kind())) reductions_.push_back(reduction_of(op, rows_ > 0));
  }

  CudaSource emit(const std::string& name) {
    CudaSource source;
    source.name = name;
    const int threads = static_cast<int>(threads_);
    std::vector<RegionText::Entry> entries;
    source.launches.push_back({name, threads, column_blocks_ * slabs_});
    add_rows();
    if (slabs_ > 1) {
      source.workspace_bytes = place_partials();
      store_partials();
      entries.push_back({name, threads_, region_.take_body()});
      source.launches.push_back({name + "_total", threads, column_blocks_});
      add_slabs();
    }
    write_results();
    entries.push_back({source.launches.back().entry, threads_, region_.take_body()});
    source.text = region_.finish(entries, slabs_ > 1);
    source.checks_index = region_.checks_index();
    return source;
  }

 private:
  std::string number(int64_t value) const { return region_.index_literal(value); }

  /// The thread's place: `x`, `y`, its first column `c`, which is that of the last vector where
  /// there is none of its own, so that whatever it reads is there.
  void begin_entry(bool totals) {
    region_.enter(2);
    SourceWriter& out = region_.writer(Level::Thread);
    const auto type = region_.index_type();
    const std::string block =
        column_blocks_ == 1 ? std::string("0")
                            : fmt::format("blockIdx.x % {}", std::max<int64_t>(column_blocks_, 1));
    out.line(fmt::format("const u32 x = threadIdx.x % {0}, y = threadIdx.x / {0};", width_));
    out.line(fmt::format("const {0} place = (({0}){1} * {2} + x) * {3};", type, "(" + block + ")",
                         width_, lanes_));
    const std::string last = number(std::max<int64_t>(columns_ - lanes_, 0));
    out.line(fmt::format("const {0} c = place < {1} ? place : {1};", type, last));
    int64_t bytes = 4;
    for (const Reduction& reduction : reductions_)
      bytes = std::max(bytes, size_of(totals ? reduction.total_type() : reduction.type));
    out.line(fmt::format("__shared__ u64 parts[{}];", threads_ * lanes_ * bytes / 8));
  }

  TextIndex column() const {
    return {.base = "c", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Thread};
  }

  /// `body` once a lane, within the level of an iteration; `after` follows the lanes.
  template <class Body>
  void lanes_of(int indent, Body body) {
    region_.enter(indent + (lanes_ > 1 ? 2 : 0));
    if (lanes_ > 1) region_.lazy(Level::Lane, "ce", "c + j");
    body();
    const std::string lane = region_.leave();
    SourceWriter& out = region_.writer(Level::Iteration);
    if (lanes_ > 1) {
      out.line("#pragma unroll");
      out.open(fmt::format("for (u32 j = 0; j < {}; ++j)", lanes_));
    }
    out.append(lane);
    if (lanes_ > 1) out.close();
  }

  void add_rows() {
    begin_entry(false);
    const auto type = region_.index_type();
    for (const Reduction& reduction : reductions_) {
      sums_.push_back(region_.name("a"));
      declare_accumulators(region_.writer(Level::Thread), reduction.type, reduction.initial,
                           sums_.back(), lanes_);
    }
    const int64_t slab = rows_per_thread_ * height_;
    std::string first = "y", end = number(rows_);
    if (slabs_ > 1) {
      SourceWriter& out = region_.writer(Level::Thread);
      out.line(fmt::format("const {} slab = blockIdx.x / {};", type,
                           std::max<int64_t>(column_blocks_, 1)));
      out.line(fmt::format("const {0} begin = slab * {1};", type, number(slab)));
      out.line(fmt::format("const {0} end = begin + {1} < {2} ? begin + {1} : {2};", type,
                           number(slab), number(rows_)));
      first = "begin + y";
      end = "end";
    }
    region_.enter(4);
    region_.lazy(Level::Iteration, "e", fmt::format("r * {} + c", number(columns_)));
    lanes_of(4, [&] {
      const TextIndex row{.base = "r", .multiple = 1, .level = Level::Iteration};
      TextCoordinates at = region_.decompose(reduced_dims_, "q", row, "r");
      const TextCoordinates kept = region_.decompose(kept_dims_, "k", column(), "ce");
      region_.add_identity(ir::Shape(kept_dims_), kept, column());
      at.insert(at.end(), kept.begin(), kept.end());
      region_.add_identity(space_.space, at,
                           {.base = "e",
                            .stride = lanes_ > 1 ? 1 : 0,
                            .multiple = lanes_,
                            .level = Level::Iteration});
      for (size_t i = 0; i < reductions_.size(); ++i)
        accumulate(region_, reductions_[i], sums_[i], at);
      region_.drop_identities(0);
    });
    const std::string iteration = region_.leave();
    SourceWriter& out = region_.writer(Level::Thread);
    // Four rows are on their way at once.
    out.line("#pragma unroll 4");
    out.open(fmt::format("for ({} r = {}; r < {}; r += {})", type, first, end, height_));
    out.append(iteration);
    out.close();
    fold_threads(false);
  }

  void fold_threads(bool totals) {
    for (size_t i = 0; i < reductions_.size(); ++i)
      region_.writer(Level::Thread)
          .line(fmt::format("reduce_columns<{}, {}, {}>({}, parts);", reductions_[i].fold, width_,
                            height_, totals ? totals_[i] : sums_[i]));
  }

  /// Where the partials of each reduction start; the bytes of all.
  int64_t place_partials() {
    int64_t bytes = 0;
    for (const Reduction& reduction : reductions_) {
      offsets_.push_back(bytes);
      bytes += ceil_div(size_of(reduction.type) * slabs_ * columns_, 256) * 256;
    }
    return bytes;
  }

  std::string partials(size_t i, const std::string& slab) const {
    return fmt::format("reinterpret_cast<{}*>(workspace + {}ull) + ({} * {} + c)",
                       reductions_[i].type, offsets_[i], slab, number(columns_));
  }

  void store_partials() {
    SourceWriter& out = region_.writer(Level::Thread);
    out.open(fmt::format("if (y == 0 && place < {})", number(columns_)));
    for (size_t i = 0; i < reductions_.size(); ++i)
      out.line(fmt::format("store_vector<{}>({}, {});", lanes_, partials(i, "slab"), sums_[i]));
    out.close();
  }

  void add_slabs() {
    begin_entry(true);
    SourceWriter& out = region_.writer(Level::Thread);
    for (const Reduction& reduction : reductions_) {
      totals_.push_back(region_.name("b"));
      declare_accumulators(out, reduction.total_type(), reduction.initial, totals_.back(), lanes_);
    }
    out.line("#pragma unroll 4");
    out.open(fmt::format("for ({} s = y; s < {}; s += {})", region_.index_type(), number(slabs_),
                         height_));
    for (size_t i = 0; i < reductions_.size(); ++i) {
      const Reduction& reduction = reductions_[i];
      const std::string part = region_.name("part");
      out.line(fmt::format("{} {}[{}];", reduction.type, part, lanes_));
      out.line(fmt::format("load_vector<{}>({}, {});", lanes_, part, partials(i, "s")));
      out.line("#pragma unroll");
      out.line(fmt::format("for (u32 j = 0; j < {0}; ++j) {1}[j] = {2}::of({1}[j], ({3}){4}[j]);",
                           lanes_, totals_[i], reduction.fold, reduction.total_type(), part));
    }
    out.close();
    fold_threads(true);
  }

  void write_results() {
    const ir::Op* yield = kernel_.body()->terminator();
    std::string stores;
    region_.enter(4);
    lanes_of(4, [&] {
      const TextCoordinates kept = region_.decompose(kept_dims_, "m", column(), "ce");
      region_.add_identity(ir::Shape(kept_dims_), kept, column());
      for (size_t i = 0; i < reductions_.size(); ++i) present(i);
      // All are evaluated before any is stored.
      std::vector<std::string> computed;
      for (int r = 0; r < yield->num_operands(); ++r) {
        const ir::Value value = yield->operand(r);
        const std::string result =
            region_.eval_to_store(value, of_column(value.shape(), kept)).text;
        if (lanes_ == 1) {
          computed.push_back(fmt::format("narrow(r{}[c], {});", r, result));
          continue;
        }
        const std::string array = region_.name("y");
        region_.writer(Level::Iteration)
            .line(fmt::format("{} {}[{}];", compute_type_name(value.dtype()), array, lanes_));
        region_.writer(Level::Lane).line(fmt::format("{}[j] = {};", array, result));
        stores += fmt::format("    store_vector<{}>(r{} + c, {});\n", lanes_, r, array);
      }
      for (const std::string& store : computed) region_.writer(Level::Lane).line(store);
    });
    const std::string text = region_.leave();
    SourceWriter& out = region_.writer(Level::Thread);
    out.open(fmt::format("if (y == 0 && place < {})", number(columns_)));
    out.append(text);
    out.append(stores);
    out.close();
  }

  /// A reduction's value in a lane of the epilogue.
  void present(size_t i) {
    const Reduction& reduction = reductions_[i];
    const bool total = slabs_ > 1;
    const std::string element = (total ? totals_[i] : sums_[i]) + (lanes_ > 1 ? "[j]" : "[0]");
    const std::string from = total ? reduction.total_type() : reduction.type;
    const std::string_view type = compute_type_name(reduction.op->result().dtype());
    RegionText::Text text{element, Level::Lane};
    if (from != type)
      text = region_.define(Level::Lane, type, fmt::format("({}){}", type, element),
                            reduction.op->result());
    region_.preset(reduction.op->result(), text);
  }

  /// Coordinates of a value of column shape: reduced axes are dropped or of length 1.
  TextCoordinates of_column(const ir::Shape& shape, const TextCoordinates& kept) const {
    TextCoordinates at = RegionText::origin(shape);
    const int shift = shape.rank() - static_cast<int>(kept.size());
    for (int i = std::max(shift, 0); i < shape.rank(); ++i)
      if (shape[i] != 1) at[static_cast<size_t>(i)] = kept[static_cast<size_t>(i - shift)];
    return at;
  }

  const ir::Op& kernel_;
  ir::KernelSpace space_;
  std::span<const int64_t> reduced_dims_, kept_dims_;
  int64_t threads_, lanes_, slabs_;
  int64_t rows_ = 1, columns_ = 1;
  int64_t width_ = 1, height_ = 1;  // threads of a block along and across the columns
  int64_t column_blocks_ = 0, rows_per_thread_ = 0;
  RegionText region_;
  std::vector<Reduction> reductions_;
  std::vector<std::string> sums_, totals_;
  std::vector<int64_t> offsets_;
};

}  // namespace

CudaSource emit_cuda_columns(const ir::Op& kernel, const ir::Plan& plan, const std::string& name) {
  return ColumnsEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
