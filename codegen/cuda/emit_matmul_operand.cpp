// SPDX-License-Identifier: Apache-2.0
// Operands of a matrix product on their way into shared memory. A bare 16-bit parameter whose rows
// are whole pieces of 16 bytes is copied as it is; anything else is evaluated in registers, a
// vector at a time, and stored when the stage is free. Elements beyond the tensor are read at its
// edge, so that no load needs a branch; those beyond k count as 0.
#include <mezzo/codegen/cuda/emit_matmul.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo::codegen {

MatmulOperand::MatmulOperand(MatmulText& text, int number)
    : text_(text), name_(number == 0 ? "a" : "b"), value_(text.product.operand(number)) {
  const ir::MatmulSpec& spec = text.plan.spec;
  k_contiguous_ = number == 0 ? !spec.trans_a : spec.trans_b;
  side_ = number == 0 ? spec.mc : spec.nc;
  extent_ = number == 0 ? spec.m : spec.n;
  rows_ = k_contiguous_ ? side_ : spec.kc;
  columns_ = k_contiguous_ ? spec.kc : side_;
  ragged_side_ = extent_ % side_ != 0;
  ragged_k_ = spec.k % spec.kc != 0;
  first_byte_ = number == 0 ? 0 : text.plan.stage_a_bytes();
  const int64_t along = k_contiguous_ ? spec.k : extent_;  // elements of a row in memory
  if (text.plan.mma()) {
    // Rows that pieces do not divide are read element by element, but stored as pieces.
    lanes_ = along % 8 == 4 ? 4 : 8;
    if (ir::moves_in_pieces(text.product, number))
      way_ = text.target.compute_capability >= 80 ? Way::Async : Way::Raw;
  } else {
    lanes_ = std::min(16 / text.plan.element_bytes(), rows_ * columns_ / text.plan.threads);
    while (along % lanes_ != 0) lanes_ /= 2;
  }
  const int64_t in_row = columns_ / lanes_;
  vectors_ = rows_ * in_row / text.plan.threads;
  step_ = std::max<int64_t>(1, text.plan.threads / in_row);
  MEZZO_CHECK(vectors_ > 0 && text.plan.threads % in_row == 0,
              "a tile that its threads cannot divide");
}

std::string MatmulOperand::exchange(const std::string& row, int64_t row_bytes) {
  return row_bytes >= 128 ? fmt::format("{} % 8", row) : fmt::format("{} / 2 % 4", row);
}

int64_t MatmulOperand::exchange(int64_t row, int64_t row_bytes) {
  return row_bytes >= 128 ? row % 8 : row / 2 % 4;
}

std::string MatmulOperand::place(int64_t v) const {
  // The thread's first row is below `step_`, a power of two: its bits and those of v steps are
  // apart, and so are their exchanges.
  const int64_t row = v * step_, swap = exchange(row, row_bytes()) * 16;
  const std::string base = swap ? fmt::format("({}_to ^ {}u)", name_, swap) : name_ + "_to";
  return fmt::format("write + {} + {}u", base, row * row_bytes() + first_byte_);
}

std::string MatmulOperand::there(int64_t v) const {
  const int64_t row = v * step_;
  std::string out;
  auto also = [&](const std::string& condition) { out += (out.empty() ? "" : " & ") + condition; };
  if (ragged_side_) also(k_contiguous_ ? fmt::format("({}_left > {})", name_, row) : name_ + "_in");
  if (ragged_k_) also(fmt::format("({}_k_left > {})", name_, k_contiguous_ ? int64_t{0} : row));
  return out;
}

void MatmulOperand::declare() {
  SourceWriter& out = text_.out();
  const int64_t in_row = columns_ / lanes_;
  const std::string& n = name_;
  out.line(
      fmt::format("const u32 {0}_row = threadIdx.x / {1}, {0}_column = threadIdx.x % {1} * {2};", n,
                  in_row, lanes_));
  if (text_.plan.mma())
    out.line(fmt::format("const u32 {0}_to = {0}_row * {1} + ({0}_column / 8 ^ {2}) * 16{3};", n,
                         row_bytes(), exchange(n + "_row", row_bytes()),
                         lanes_ < 8 ? fmt::format(" + {}_column % 8 * 2", n) : ""));
  if (way_ == Way::Evaluated)
    declare_evaluated();
  else
    declare_pieces();
}

void MatmulOperand::declare_pieces() {
  SourceWriter& out = text_.out();
  RegionText& region = text_.region;
  const ir::MatmulSpec& spec = text_.plan.spec;
  const std::string_view index = region.index_type();
  const std::string_view sign = region.wide() ? "i64" : "i32";
  const std::string& n = name_;
  const std::string side = n == "a" ? "row0" : "column0";
  out.line(fmt::format("const {0} {1}_r = {2} + {1}_row, {1}_c = {3} + {1}_column;", index, n,
                       k_contiguous_ ? side : "k0", k_contiguous_ ? "k0" : side));
  TextCoordinates at(static_cast<size_t>(value_.shape().rank()));
  const size_t rank = at.size();
  for (size_t i = 0; i + 2 < rank; ++i)
    if (value_.shape()[static_cast<int>(i)] != 1)
      at[i] = text_.batch[text_.batch.size() + 2 - rank + i];
  if (value_.shape()[static_cast<int>(rank) - 2] != 1)
    at[rank - 2] = {.base = n + "_r", .multiple = 1};
  if (value_.shape()[static_cast<int>(rank) - 1] != 1)
    at[rank - 1] = {.base = n + "_c", .multiple = lanes_};
  const std::string_view type = storage_type_name(value_.dtype());
  out.line(fmt::format("const {}* {}_from = {};", type, n, region.address(value_, at)));
  if (ragged_side_ && k_contiguous_)
    out.line(fmt::format("const {0} {1}_left = ({0})({2} - {1}_r);", sign, n,
                         region.index_literal(extent_)));
  if (ragged_side_ && !k_contiguous_)
    out.line(fmt::format("const bool {0}_in = {0}_c < {1};", n, region.index_literal(extent_)));
  if (ragged_k_)
    out.line(fmt::format("{0} {1}_k_left = ({0})({2} - {1}_{3});", sign, n,
                         region.index_literal(spec.k), k_contiguous_ ? "c" : "r"));
  if (way_ == Way::Raw) out.line(fmt::format("u32 {}_words[{}][4];", n, vectors_));
  out.open(fmt::format("auto fetch_{} = [&]", n));
  for (int64_t v = 0; v < vectors_; ++v) {
    const int64_t offset = v * step_ * (k_contiguous_ ? spec.k : extent_);
    const std::string from = fmt::format("{}_from + {}", n, region.index_literal(offset)),
                      condition = there(v);
    if (way_ == Way::Async)
      out.line(fmt::format("copy_async({}, {}{}{});", place(v), from, condition.empty() ? "" : ", ",
                           condition));
    else
      out.line(fmt::format("load_piece({}_words[{}], {}, {});", n, v, from,
                           condition.empty() ? "true" : condition));
  }
  const int64_t next = spec.kc * (k_contiguous_ ? 1 : extent_);
  out.line(fmt::format("{}_from += {};", n, region.index_literal(next)));
  if (ragged_k_) out.line(fmt::format("{}_k_left -= {};", n, spec.kc));
  out.close(";");
  if (way_ == Way::Raw) store_lines();
}

void MatmulOperand::declare_evaluated() {
  const std::string& n = name_;
  const std::string vector = evaluate();
  SourceWriter& out = text_.out();
  const ir::MatmulSpec& spec = text_.plan.spec;
  out.line(fmt::format("{} {}_k = k0;", text_.region.index_type(), n));
  if (text_.plan.mma())
    out.line(fmt::format("u32 {}_words[{}][{}];", n, vectors_, lanes_ / 2));
  else
    out.line(fmt::format("{} {}_x[{}][{}];", text_.accumulator(), n, vectors_, lanes_));
  out.open(fmt::format("auto fetch_{} = [&]", n));
  out.line("#pragma unroll");
  out.open(fmt::format("for (u32 v = 0; v < {}; ++v)", vectors_));
  out.append(vector);
  out.close();
  out.line(fmt::format("{}_k += {};", n, spec.kc));
  out.close(";");
  store_lines();
}

/// The lines that fill vector `v` of the thread.
std::string MatmulOperand::evaluate() {
  RegionText& region = text_.region;
  const ir::MatmulSpec& spec = text_.plan.spec;
  const std::string& n = name_;
  const int64_t row_extent = k_contiguous_ ? extent_ : spec.k;
  const int64_t column_extent = k_contiguous_ ? spec.k : extent_;
  const std::string side = n == "a" ? "row0" : "column0", k = n + "_k";
  const bool ragged_rows = k_contiguous_ ? ragged_side_ : ragged_k_;
  const bool ragged_columns = k_contiguous_ ? ragged_k_ : ragged_side_;
  const bool whole = column_extent % lanes_ == 0;  // no vector crosses the end of a row

  region.set_lanes(static_cast<int>(lanes_));
  region.enter(6);
  region.enter_lanes(6);
  SourceWriter head(6);
  const std::string_view index = region.index_type();
  const std::string row = fmt::format("{} + {}_row + v * {}", k_contiguous_ ? side : k, n, step_);
  const std::string column = fmt::format("{} + {}_column", k_contiguous_ ? k : side, n);
  auto clamped = [&](const std::string& name, const std::string& value, int64_t last, bool ragged) {
    if (ragged)
      head.line(fmt::format("const {0} {1} = {2} < {3} ? {2} : {3};", index, name, value,
                            region.index_literal(last)));
    else
      head.line(fmt::format("const {} {} = {};", index, name, value));
  };
  clamped(n + "_r", row, row_extent - 1, ragged_rows);
  TextIndex last{.base = n + "_c",
                 .stride = lanes_ > 1 ? 1 : 0,
                 .multiple = lanes_,
                 .level = Level::Iteration};
  if (whole) {
    clamped(n + "_c", column, column_extent - lanes_, ragged_columns);
  } else {
    head.line(fmt::format("const {} {}_c = {};", index, n, column));
    const std::string end = region.index_literal(column_extent - 1);
    region.lazy(Level::Lane, n + "_j", fmt::format("{0}_c + j < {1} ? {0}_c + j : {1}", n, end));
    last = {.base = n + "_j", .multiple = 1, .level = Level::Lane};
  }
  std::string counts;  // where the element is beyond k
  if (ragged_k_) {
    const std::string end = region.index_literal(spec.k);
    if (!k_contiguous_)
      counts = fmt::format("{} < {}", row, end);
    else
      counts = whole ? fmt::format("{} < {}", column, end) : fmt::format("{}_c + j < {}", n, end);
    if (!k_contiguous_ || whole) {
      head.line(fmt::format("const bool {}_there = {};", n, counts));
      counts = n + "_there";
    }
  }

  TextCoordinates at(static_cast<size_t>(value_.shape().rank()));
  const size_t rank = at.size();
  for (size_t i = 0; i + 2 < rank; ++i)
    if (value_.shape()[static_cast<int>(i)] != 1)
      at[i] = text_.batch[text_.batch.size() + 2 - rank + i];
  if (row_extent != 1) at[rank - 2] = {.base = n + "_r", .multiple = 1, .level = Level::Iteration};
  if (column_extent != 1) at[rank - 1] = last;
  // Pieces are packed, which rounds; multiply-adds take what has been rounded.
  std::string element =
      (text_.plan.mma() ? region.eval_to_store(value_, at) : region.eval(value_, at)).text;
  if (!counts.empty()) element = fmt::format("{} ? {} : 0", counts, element);
  const std::string array = text_.plan.mma() ? std::string("x") : n + "_x[v]";
  region.writer(Level::Lane)
      .line(fmt::format("{}[{}] = {};", array, lanes_ > 1 ? "j" : "0", element));

  region.leave_lanes();
  if (text_.plan.mma()) head.line(fmt::format("float x[{}];", lanes_));
  if (text_.plan.mma())
    region.writer(Level::Iteration)
        .line(fmt::format("pack({}_words[v], x, static_cast<const {}*>(nullptr));", n,
                          storage_type_name(value_.dtype())));
  return head.text() + region.leave();
}

void MatmulOperand::store_lines() {
  SourceWriter& out = text_.out();
  const std::string& n = name_;
  out.open(fmt::format("auto store_{} = [&]", n));
  if (text_.plan.mma()) {
    for (int64_t v = 0; v < vectors_; ++v)
      out.line(fmt::format("store_piece({}, {}_words[{}]);", place(v), n, v));
  } else {
    const int64_t stride = side_ + ir::kFmaPad;
    out.line(fmt::format("{0}* const to = reinterpret_cast<{0}*>(shared + write + {1});",
                         text_.accumulator(), first_byte_));
    out.line("#pragma unroll");
    out.open(fmt::format("for (u32 v = 0; v < {}; ++v)", vectors_));
    if (k_contiguous_) {
      out.line("#pragma unroll");
      out.line(
          fmt::format("for (u32 j = 0; j < {0}; ++j) to[({1}_column + j) * {2} + {1}_row + v * "
                      "{3}] = {1}_x[v][j];",
                      lanes_, n, stride, step_));
    } else {
      out.line(
          fmt::format("store_vector<{0}>(to + ({1}_row + v * {2}) * {3} + {1}_column, {1}_x[v]);",
                      lanes_, n, step_, stride));
    }
    out.close();
  }
  out.close(";");
}

}  // namespace mezzo::codegen
