// SPDX-License-Identifier: Apache-2.0
#include <mezzo/codegen/cuda/row_text.h>

#include <mezzo/ir/plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace mezzo::codegen {

using ir::OpKind;

namespace {

/// Elements of one operand that a thread may keep in registers.
constexpr int64_t kKeptRow = 32;

int64_t product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t dim : dims) n *= dim;
  return n;
}

/// Row reductions in passes: each after those that it is made of. `some`: a row has elements.
std::vector<std::vector<Reduction>> passes_of(const ir::Op& kernel, bool some) {
  std::vector<ir::Op*> ops = ir::kernel_ops(kernel);
  const std::unordered_set<const ir::Op*> columns = ir::column_ops(ops);
  std::erase_if(ops, [&](const ir::Op* op) { return columns.contains(op); });
  std::vector<std::vector<Reduction>> passes;
  for (const auto& level : ir::reduction_levels(ops)) {
    passes.emplace_back();
    for (const ir::Op* op : level) passes.back().push_back(reduction_of(*op, some));
  }
  return passes;
}

/// Vectors that divide the row, as long as every thread gets one.
int64_t lanes_of(const ir::Plan& plan, int64_t columns, int64_t threads) {
  int64_t lanes = plan.vector;
  while (lanes > 1 && (columns % lanes != 0 || columns < lanes * threads)) lanes /= 2;
  return lanes;
}

}  // namespace

RowText::RowText(const ir::Op& kernel, const ir::Plan& plan, bool warp, int64_t slices)
    : kernel_(kernel),
      space_(ir::kernel_space(kernel)),
      kept_dims_(space_.space.dims().first(static_cast<size_t>(space_.kept()))),
      reduced_dims_(space_.space.dims().subspan(static_cast<size_t>(space_.kept()))),
      rows_(product(kept_dims_)),
      columns_(product(reduced_dims_)),
      warp_(warp),
      slices_(slices),
      threads_(warp ? 32 : plan.threads),
      rows_per_block_(warp ? plan.threads / 32 : 1),
      lanes_(lanes_of(plan, columns_, threads_ * slices)),
      iterations_(ir::ceil_div(columns_, threads_ * lanes_ * slices)),
      passes_(passes_of(kernel, columns_ > 0)),
      region_(kernel, static_cast<int>(lanes_)) {}

bool RowText::unrolled() const { return iterations_ * lanes_ <= kKeptRow; }

std::string RowText::loop_head() const {
  return fmt::format("for (u32 it = 0; it < {}; ++it)", iterations_);
}

std::string RowText::first_column() const {
  std::string piece = region_.wide() ? "(u64)it" : "it";
  if (slices_ > 1) piece = fmt::format("(({})slice * {} + it)", region_.index_type(), iterations_);
  return fmt::format("const {} c = ({} * {} + t) * {};", region_.index_type(), piece, threads_,
                     lanes_);
}

TextIndex RowText::element() const {
  return {.base = "e", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Iteration};
}

void RowText::place_thread() {
  writer(Level::Thread)
      .line(warp_ ? "const u32 t = threadIdx.x % 32;" : "const u32 t = threadIdx.x;");
}

void RowText::begin_row(int indent, int64_t budget) {
  indent_ = indent;
  region_.lazy(Level::Thread, "row_start",
               fmt::format("row * {}", region_.index_literal(columns_)));
  const TextIndex row{.base = "row", .multiple = 1};
  kept_ = region_.decompose(kept_dims_, "k", row, "");
  region_.add_identity(ir::Shape(kept_dims_), kept_, row);
  identities_ = region_.identities();
  if (iterations_ == 0 || !unrolled() || slices_ > 1) return;
  std::vector<std::string> loop{"#pragma unroll", loop_head(), first_column()};
  if (ragged()) loop.push_back(fmt::format("if (c < {})", region_.index_literal(columns_)));
  region_.keep_row(element(), "row_start + c", iterations_, budget, loop);
}

void RowText::for_each_vector(const std::function<void(SourceWriter&)>& body) {
  if (iterations_ == 0) return;
  SourceWriter& out = writer(Level::Thread);
  out.line(unrolled() ? "#pragma unroll" : "#pragma unroll 2");
  out.open(loop_head());
  out.line(first_column());
  if (ragged()) out.open(fmt::format("if (c < {})", region_.index_literal(columns_)));
  body(out);
  if (ragged()) out.close();
  out.close();
}

void RowText::for_each_element(
    const std::function<std::vector<std::string>(const TextCoordinates&)>& body) {
  if (iterations_ == 0) return;
  const int indent = indent_ + (ragged() ? 4 : 2);
  region_.enter(indent);
  region_.enter_lanes(indent);
  region_.lazy(Level::Iteration, "e", "row_start + c");
  const TextIndex column{
      .base = "c", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Iteration};
  if (lanes_ > 1) region_.lazy(Level::Lane, "ce", "c + j");
  const TextCoordinates inner = region_.decompose(reduced_dims_, "c", column, "ce");
  TextCoordinates at = kept_;
  at.insert(at.end(), inner.begin(), inner.end());
  region_.add_identity(space_.space, at, element());
  const std::vector<std::string> after = body(at);
  region_.drop_identities(identities_);
  region_.leave_lanes();
  for (const std::string& line : after) writer(Level::Iteration).line(line);
  const std::string text = region_.leave();
  for_each_vector([&](SourceWriter& out) { out.append(text); });
}

std::vector<RowText::Seen> RowText::reduce(size_t number) {
  const std::vector<Reduction>& pass = passes_[number];
  std::vector<std::string> sums, totals;
  for (const Reduction& reduction : pass) {
    sums.push_back(region_.name("a"));
    declare_accumulators(writer(Level::Thread), reduction.type, reduction.initial, sums.back(),
                         lanes_);
    const bool blocked = iterations_ > ir::kSumBlock && reduction.is_float_sum();
    totals.push_back(blocked ? region_.name("b") : "");
    if (blocked)
      writer(Level::Thread).line(fmt::format("double {} = {};", totals.back(), reduction.initial));
  }
  for_each_element([&](const TextCoordinates& at) {
    std::vector<std::string> after;
    for (size_t i = 0; i < pass.size(); ++i) {
      accumulate(region_, pass[i], sums[i], at);
      if (!totals[i].empty()) empty_block(pass[i], sums[i], totals[i], after);
    }
    return after;
  });
  std::vector<Seen> seen;
  for (size_t i = 0; i < pass.size(); ++i) {
    const std::string lanes = fmt::format("fold<{}>({})", pass[i].fold, sums[i]);
    if (totals[i].empty())
      seen.push_back({lanes, pass[i].type});
    else
      seen.push_back({fmt::format("Add::of({}, (double){})", totals[i], lanes), "double"});
  }
  return seen;
}

void RowText::reduce_and_present(size_t pass) {
  const std::vector<Seen> seen = reduce(pass);
  for (size_t i = 0; i < seen.size(); ++i) {
    const Reduction& reduction = passes_[pass][i];
    present(reduction, seen[i].type, of_row(reduction, seen[i].text));
  }
}

/// Moves a full block into the total, behind the lanes of an iteration.
void RowText::empty_block(const Reduction& reduction, const std::string& sum,
                          const std::string& total, std::vector<std::string>& after) const {
  after.push_back(fmt::format("if (it % {} == {}) {{", ir::kSumBlock, ir::kSumBlock - 1));
  after.push_back(fmt::format("  {0} = Add::of({0}, (double)fold<Add>({1}));", total, sum));
  after.push_back("  #pragma unroll");
  after.push_back(
      fmt::format("  for (u32 j = 0; j < {}; ++j) {}[j] = {};", lanes_, sum, reduction.initial));
  after.push_back("}");
}

std::string RowText::of_row(const Reduction& reduction, const std::string& mine) const {
  return warp_ ? fmt::format("reduce_warp<{}>({})", reduction.fold, mine)
               : fmt::format("reduce_block<{}, {}>({})", reduction.fold, threads_, mine);
}

void RowText::present(const Reduction& reduction, const std::string& type, const std::string& all) {
  const ir::Op& op = *reduction.op;
  RegionText::Text result =
      region_.define(Level::Thread, type, reduction.settled(all), op.result());
  const std::string_view own = compute_type_name(op.result().dtype());
  if (op.kind() == OpKind::Argmax)
    result =
        region_.define(Level::Thread, own, fmt::format("({}){}.at", own, result.text), op.result());
  else if (type != own)
    result =
        region_.define(Level::Thread, own, fmt::format("({}){}", own, result.text), op.result());
  region_.preset(op.result(), result);
}

void RowText::store_elements(std::span<const int> full, const TextCoordinates& at,
                             std::vector<std::string>& stores) {
  const ir::Op* yield = kernel_.body()->terminator();
  for (int r : full) {
    const std::string result = region_.eval_to_store(yield->operand(r), at).text;
    const std::string place = region_.index_text({.base = "e", .level = Level::Iteration});
    stores.push_back(region_.store_result(r, result, place));
  }
}

void RowText::store_rows(std::span<const int> numbers, const std::string& condition) {
  const ir::Op* yield = kernel_.body()->terminator();
  const auto of_row = [&](ir::Value value) {
    TextCoordinates at = kept_;
    at.resize(static_cast<size_t>(value.shape().rank()));
    return at;
  };
  if (columns_ == 0)
    for (ir::Value value : ir::watched_line_values(kernel_, rows_))
      region_.eval(value, of_row(value));
  for (int r : numbers) {
    const ir::Value value = yield->operand(r);
    const std::string result = region_.eval_to_store(value, of_row(value)).text;
    writer(Level::Thread).line(fmt::format("if ({}) narrow(r{}[row], {});", condition, r, result));
  }
}

}  // namespace mezzo::codegen
