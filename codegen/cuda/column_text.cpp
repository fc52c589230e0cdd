// SPDX-License-Identifier: Apache-2.0
#include <mezzo/codegen/cuda/column_text.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mezzo::codegen {

ColumnText::ColumnText(RegionText& region, const ir::Op& kernel, std::vector<Reduction> reductions,
                       std::span<const int64_t> dims, int64_t slabs)
    : region_(region),
      kernel_(kernel),
      reductions_(std::move(reductions)),
      dims_(dims),
      slabs_(slabs) {
  for (int64_t dim : dims) columns_ *= dim;
}

void ColumnText::set_block(int64_t threads, int64_t width) {
  MEZZO_CHECK(
      width > 0 && threads % width == 0 && columns_ % lanes() == 0,
      fmt::format("kernel @{}: {} vectors of {} columns a block of {} threads, {} columns in all",
                  kernel_.kernel_name(), width, lanes(), threads, columns_));
  threads_ = threads;
  width_ = width;
  height_ = threads / width;
  MEZZO_CHECK((height_ & (height_ - 1)) == 0,
              fmt::format("kernel @{}: {} rows of threads", kernel_.kernel_name(), height_));
  blocks_ = ir::ceil_div(columns_, width * lanes());
}

void ColumnText::begin_entry(bool totals) {
  held_.clear();
  region_.enter(2);
  SourceWriter& out = region_.writer(Level::Thread);
  const auto type = region_.index_type();
  const std::string block = blocks_ == 1
                                ? std::string("0")
                                : fmt::format("blockIdx.x % {}", std::max<int64_t>(blocks_, 1));
  out.line(fmt::format("const u32 x = threadIdx.x % {0}, y = threadIdx.x / {0};", width_));
  out.line(fmt::format("const {0} place = (({0}){1} * {2} + x) * {3};", type, "(" + block + ")",
                       width_, lanes()));
  const std::string last = number(std::max<int64_t>(columns_ - lanes(), 0));
  out.line(fmt::format("const {0} c = place < {1} ? place : {1};", type, last));
  int64_t bytes = 4;
  for (const Reduction& reduction : reductions_)
    bytes = std::max(bytes, accumulator_bytes(totals ? reduction.total_type() : reduction.type));
  out.line(fmt::format("__shared__ u64 parts[{}];", threads_ * lanes() * bytes / 8));
}

TextIndex ColumnText::column() const {
  return {.base = "c", .stride = lanes() > 1 ? 1 : 0, .multiple = lanes(), .level = Level::Thread};
}

TextCoordinates ColumnText::decompose(const std::string& prefix) {
  if (lanes() > 1) region_.lazy(Level::Lane, "ce", "c + j");
  const TextCoordinates kept = region_.decompose(dims_, prefix, column(), "ce");
  region_.add_identity(ir::Shape(dims_), kept, column());
  return kept;
}

ColumnText::Arrays ColumnText::declare(size_t begin, size_t count) {
  Arrays arrays;
  for (const Reduction& reduction : std::span(reductions_).subspan(begin, count)) {
    arrays.push_back(region_.name("a"));
    declare_accumulators(region_.writer(Level::Thread), reduction.type, reduction.initial,
                         arrays.back(), lanes());
  }
  return arrays;
}

void ColumnText::fold_threads(const Arrays& arrays, size_t begin) {
  for (size_t i = 0; i < arrays.size(); ++i)
    region_.writer(Level::Thread)
        .line(fmt::format("reduce_columns<{}, {}, {}>({}, parts);", reductions_[begin + i].fold,
                          width_, height_, arrays[i]));
}

void ColumnText::share(const Arrays& arrays) {
  for (const std::string& array : arrays)
    region_.writer(Level::Thread)
        .line(fmt::format("share_columns<{}, {}>({}, parts);", width_, height_, array));
}

int64_t ColumnText::place(std::vector<int64_t>& offsets, int64_t start, int64_t copies) const {
  int64_t bytes = 0;
  for (const Reduction& reduction : reductions_) {
    offsets.push_back(start + bytes);
    const int64_t all = accumulator_bytes(reduction.type) * copies * columns_;
    bytes += std::max<int64_t>(ir::ceil_div(all, 256), 1) * 256;
  }
  return bytes;
}

std::string ColumnText::partials(size_t i, const std::string& slab) const {
  return fmt::format("reinterpret_cast<{}*>(workspace + {}ull) + ({} * {} + c)",
                     reductions_[i].type, offsets_[i], slab, number(columns_));
}

void ColumnText::open_first_row(const std::string& condition) {
  region_.writer(Level::Thread)
      .open(fmt::format("if (y == 0 && place < {}{}{})", number(columns_),
                        condition.empty() ? "" : " && ", condition));
}

void ColumnText::store_partials(const Arrays& arrays, const std::string& slab, size_t begin) {
  store(arrays, [&](size_t i) { return partials(begin + i, slab); });
}

void ColumnText::store_sums(const Arrays& arrays, size_t begin) {
  store(arrays, [&](size_t i) { return sums(begin + i); });
}

void ColumnText::store(const Arrays& arrays, const std::function<std::string(size_t)>& place) {
  SourceWriter& out = region_.writer(Level::Thread);
  open_first_row();
  for (size_t i = 0; i < arrays.size(); ++i)
    out.line(fmt::format("store_vector<{}>({}, {});", lanes(), place(i), arrays[i]));
  out.close();
}

ColumnText::Arrays ColumnText::add_slabs(size_t begin, size_t count) {
  SourceWriter& out = region_.writer(Level::Thread);
  Arrays totals;
  for (const Reduction& reduction : std::span(reductions_).subspan(begin, count)) {
    totals.push_back(region_.name("b"));
    declare_accumulators(out, reduction.total_type(), reduction.initial, totals.back(), lanes());
  }
  out.line("#pragma unroll 4");
  out.open(fmt::format("for ({} s = y; s < {}; s += {})", region_.index_type(), number(slabs_),
                       height_));
  for (size_t i = 0; i < count; ++i) {
    const Reduction& reduction = reductions_[begin + i];
    const std::string part = region_.name("part");
    out.line(fmt::format("{} {}[{}];", reduction.type, part, lanes()));
    out.line(fmt::format("load_vector<{}>({}, {});", lanes(), part, partials(begin + i, "s")));
    out.line("#pragma unroll");
    out.line(fmt::format("for (u32 j = 0; j < {0}; ++j) {1}[j] = {2}::of({1}[j], ({3}){4}[j]);",
                         lanes(), totals[i], reduction.fold, reduction.total_type(), part));
  }
  out.close();
  fold_threads(totals, begin);
  for (size_t i = 0; i < count; ++i) {
    const Reduction& reduction = reductions_[begin + i];
    if (reduction.total_type() == reduction.type) continue;
    const std::string total = std::exchange(totals[i], region_.name("a"));
    out.line(fmt::format("{} {}[{}];", reduction.type, totals[i], lanes()));
    out.line("#pragma unroll");
    out.line(fmt::format("for (u32 j = 0; j < {}; ++j) {}[j] = ({}){}[j];", lanes(), totals[i],
                         reduction.type, total));
  }
  return totals;
}

std::string ColumnText::sums(size_t i) const {
  return fmt::format("reinterpret_cast<{}*>(workspace + {}ull) + c", reductions_[i].type,
                     sum_offsets_[i]);
}

ColumnText::Arrays ColumnText::load_sums(size_t count) {
  SourceWriter& out = region_.writer(Level::Thread);
  Arrays arrays;
  for (size_t i = 0; i < count; ++i) {
    arrays.push_back(region_.name("a"));
    out.line(fmt::format("{} {}[{}];", reductions_[i].type, arrays[i], lanes()));
    out.line(fmt::format("load_vector<{}>({}, {});", lanes(), arrays[i], sums(i)));
  }
  return arrays;
}

void ColumnText::present(const Arrays& arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) present(i, arrays[i]);
}

void ColumnText::hold(std::span<const ir::Value> values, const Arrays& known) {
  if (values.empty()) return;
  std::vector<std::pair<ir::Value, std::string>> arrays;
  region_.enter(4);
  region_.enter_lanes(4);
  const TextCoordinates kept = decompose(region_.name("k") + "_");
  present(known);
  for (ir::Value value : values) {
    const auto at = of_column(value.shape(), kept);
    if (!at || !held_.insert(value.def()).second) continue;
    const std::string array = region_.name("h");
    region_.writer(Level::Thread)
        .line(fmt::format("{} {}[{}];", compute_type_name(value.dtype()), array, lanes()));
    const std::string text = region_.eval(value, *at).text;
    region_.writer(Level::Lane).line(fmt::format("{} = {};", element_of(array), text));
    arrays.emplace_back(value, array);
  }
  region_.drop_identities(0);
  region_.leave_lanes();
  const std::string text = region_.leave();
  if (arrays.empty()) return;
  SourceWriter& out = region_.writer(Level::Thread);
  out.open("");
  out.append(text);
  out.close();
  for (const auto& [value, array] : arrays)
    region_.stand_in(value, {element_of(array), Level::Lane});
}

void ColumnText::write_results(std::span<const int> yields, const Arrays& arrays,
                               const std::string& condition) {
  const ir::Op* yield = kernel_.body()->terminator();
  // All are evaluated before any is stored.
  std::vector<std::string> stores;
  region_.enter(4);
  region_.enter_lanes(4);
  const TextCoordinates kept = decompose("m");
  present(arrays);
  for (int r : yields) {
    const ir::Value value = yield->operand(r);
    const auto at = of_column(value.shape(), kept);
    MEZZO_CHECK(at, "a yield of columns has another shape, " + ir::to_string(value.type()));
    const std::string result = region_.eval_to_store(value, *at).text;
    stores.push_back(region_.store_result(r, result, "c"));
  }
  region_.leave_lanes();
  for (const std::string& store : stores) region_.writer(Level::Iteration).line(store);
  const std::string text = region_.leave();
  SourceWriter& out = region_.writer(Level::Thread);
  open_first_row(condition);
  out.append(text);
  out.close();
}

/// A reduction's value in the code of a lane.
void ColumnText::present(size_t i, const std::string& array) {
  const Reduction& reduction = reductions_[i];
  const std::string element = element_of(array);
  const std::string_view type = compute_type_name(reduction.op->result().dtype());
  const std::string value = reduction.settled(element);
  RegionText::Text text{element, Level::Lane};
  if (reduction.type != type || value != element)
    text = region_.define(Level::Lane, type, fmt::format("({}){}", type, value),
                          reduction.op->result());
  region_.preset(reduction.op->result(), text);
}

std::optional<TextCoordinates> ColumnText::of_column(const ir::Shape& shape,
                                                     const TextCoordinates& kept) const {
  TextCoordinates at = RegionText::origin(shape);
  const int shift = shape.rank() - static_cast<int>(kept.size());
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    if (i < shift || shape[i] != dims_[static_cast<size_t>(i - shift)]) return std::nullopt;
    at[static_cast<size_t>(i)] = kept[static_cast<size_t>(i - shift)];
  }
  return at;
}

}  // namespace mezzo::codegen
