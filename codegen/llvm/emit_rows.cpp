// SPDX-License-Identifier: Apache-2.0
// Rows kernels: chained reductions over the last axes. Each task takes whole rows. For a row, the
// reductions run in levels (a level's operands need the results of earlier levels only), one loop
// over the columns a level, then one loop stores full-shape results. Costly values that several
// loops need are kept in a buffer of the thread's scratch. A sum folds lanes in a fixed tree, and
// rows longer than kSumBlock vectors fold blocks in f64.
// Rows + columns: a task is a part of the rows, of fixed length. The loop that stores full-shape
// results also adds each row to the part's accumulators of the columns, which stand in the
// workspace; a second launch (emit_columns.cpp) adds the parts. A part is at most one block of a
// sum.
#include <mezzo/codegen/llvm/column_parts.h>
#include <mezzo/codegen/llvm/emit_families.h>
#include <mezzo/codegen/llvm/line_buffers.h>
#include <mezzo/codegen/llvm/reduce.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>

namespace mezzo::codegen {

using llvm::Value;

namespace {

/// What is added to the columns is evaluated where the elements of a row are stored.
std::vector<ir::Value> column_operands(const ColumnParts& parts) {
  std::vector<ir::Value> operands;
  for (const ir::Op* op : parts.reductions()) operands.push_back(op->operand(0));
  return operands;
}

class RowsEmitter {
 public:
  RowsEmitter(KernelFrame& frame, const ir::Op& kernel, int lanes, const ColumnParts& parts)
      : frame_(frame),
        b_(frame.builder()),
        emitter_(frame, kernel),
        lanes_(lanes),
        parts_(parts),
        space_(ir::kernel_space(kernel)),
        kept_(space_.space.dims().first(static_cast<size_t>(space_.kept()))),
        reduced_(space_.space.dims().subspan(static_cast<size_t>(space_.kept()))),
        rows_(ir::Shape(kept_).elements()),
        columns_(ir::Shape(reduced_).elements()),
        levels_(kernel, space_.space, rows_, columns_, parts.columns(), column_operands(parts)),
        buffers_(emitter_, kernel, levels_, columns_) {
    const std::vector<ir::Value> yields = kernel.body()->terminator()->operands();
    for (size_t i = 0; i < yields.size(); ++i)
      if (!parts.is_column(yields[i])) yields_.emplace_back(static_cast<int>(i), yields[i]);
    for (const ir::Op* op : parts.reductions()) column_reducers_.emplace_back(emitter_, *op, lanes);
  }

  int64_t rows() const { return rows_; }
  int64_t scratch_bytes() const { return buffers_.scratch_bytes(); }

  void emit(int64_t grain) {
    emitter_.set_lanes(lanes_, nullptr);
    emitter_.eval_scalars();
    Value* limit = emitter_.index(rows_);
    auto row_of = [&](Value* task) {
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                      b_.CreateMul(task, emitter_.index(grain)), limit);
    };
    auto rows_of = [&](Value* first, Value* last) {
      frame_.loop(row_of(first), row_of(last), 1, [&](Value* row) { emit_row(row); });
    };
    if (column_reducers_.empty())
      rows_of(frame_.first_task(), frame_.last_task());
    else
      frame_.loop(frame_.first_task(), frame_.last_task(), 1, [&](Value* part) {
        part_ = part;
        clear_columns();
        rows_of(part, b_.CreateAdd(part, emitter_.index(1)));
      });
    emitter_.write_flags();
  }

 private:
  Coordinates row_coordinates(Value* row) {
    Coordinates at = emitter_.origin(space_.space);
    std::vector<Value*> position = delinearize(emitter_, row, kept_);
    for (size_t i = 0; i < position.size(); ++i) at[i].base = position[i];
    return at;
  }

  /// Coordinates of a value of row shape (axes dropped or kept at length 1).
  Coordinates of_row_value(ir::Value value, const Coordinates& row) {
    Coordinates at = emitter_.origin(value.shape());
    for (int i = 0; i < std::min(value.shape().rank(), space_.kept()); ++i)
      if (value.shape()[i] != 1) at[static_cast<size_t>(i)] = row[static_cast<size_t>(i)];
    return at;
  }

  /// Loops over all columns of a row; the body gets coordinates of the space and the linear column.
  /// A row of one column is a vector with one lane on.
  void column_loop(const Coordinates& row,
                   const std::function<void(const Coordinates&, Value*)>& body) {
    int axis = ir::vector_axis(reduced_);
    int64_t inner = axis < 0 ? 1 : reduced_[static_cast<size_t>(axis)];
    int64_t outer = inner == 0 ? 0 : columns_ / inner;
    auto one_line = [&](Value* line) {
      Coordinates at = row;
      if (axis > 0) {
        std::vector<Value*> position =
            delinearize(emitter_, line, reduced_.first(static_cast<size_t>(axis)));
        for (size_t i = 0; i < position.size(); ++i)
          at[static_cast<size_t>(space_.kept()) + i].base = position[i];
      }
      Value* base = b_.CreateMul(line, emitter_.index(inner));
      vector_loop(emitter_, emitter_.index(0), emitter_.index(inner), lanes_, [&](Value* column) {
        if (axis >= 0) at[static_cast<size_t>(space_.kept() + axis)] = {column, 1};
        body(at, b_.CreateAdd(base, column));
      });
    };
    if (outer == 1)
      one_line(emitter_.index(0));
    else
      frame_.loop(emitter_.index(0), emitter_.index(outer), 1, one_line);
  }

  void clear_columns() {
    vector_loop(emitter_, emitter_.index(0), emitter_.index(columns_), lanes_, [&](Value* column) {
      for (size_t i = 0; i < column_reducers_.size(); ++i)
        parts_.store(emitter_, column_reducers_[i], i, part_, column, column_reducers_[i].empty());
    });
  }

  void add_to_columns(const Coordinates& at, Value* column) {
    for (size_t i = 0; i < column_reducers_.size(); ++i) {
      Reducer& reducer = column_reducers_[i];
      Value* value = emitter_.eval_vector(reducer.op().operand(0), at);
      Value* before = parts_.load(emitter_, reducer, i, part_, column);
      parts_.store(emitter_, reducer, i, part_, column, reducer.with(before, value));
    }
  }

  void eval_row_values(size_t level, const Coordinates& row) {
    for (ir::Value value : levels_.line_operands(level))
      emitter_.eval(value, of_row_value(value, row));
  }

  void emit_row(Value* row) {
    RegionEmitter::Scope scope(emitter_);
    buffers_.begin_line();
    const size_t last = levels_.last();
    Coordinates at_row = row_coordinates(row);
    for (size_t level = 0; level < last; ++level) {
      eval_row_values(level, at_row);
      std::vector<Reducer> reducers;
      for (const ir::Op* op : levels_.reductions(level))
        reducers.emplace_back(emitter_, *op, lanes_);
      for (Reducer& reducer : reducers) reducer.begin();
      column_loop(at_row, [&](const Coordinates& at, Value* column) {
        buffers_.use(level, at, column);
        for (Reducer& reducer : reducers)
          reducer.add(emitter_.eval_vector(reducer.op().operand(0), at), column);
      });
      buffers_.leave(level);
      for (Reducer& reducer : reducers)
        emitter_.preset(reducer.op().result(), reducer.finish(columns_), false);
    }
    eval_row_values(last, at_row);
    for (const auto& [number, yielded] : yields_)
      if (!levels_.is_full(yielded)) {
        Coordinates at = of_row_value(yielded, at_row);
        emitter_.store(number, emitter_.eval(yielded, at), at);
      }
    if (levels_.stores()) {
      column_loop(at_row, [&](const Coordinates& at, Value* column) {
        buffers_.use(last, at, column);
        for (const auto& [number, yielded] : yields_)
          if (levels_.is_full(yielded)) {
            Value* value = emitter_.eval_vector(yielded, at);
            // A row of one column has one lane on.
            if (columns_ == 1) value = b_.CreateExtractElement(value, uint64_t{0});
            emitter_.store(number, value, at);
          }
        add_to_columns(at, column);
      });
      buffers_.leave(last);
    }
    for (size_t level = 0; level < last; ++level)
      for (const ir::Op* op : levels_.reductions(level)) emitter_.forget(op->result());
  }

  KernelFrame& frame_;
  llvm::IRBuilderBase& b_;
  RegionEmitter emitter_;
  int lanes_;
  const ColumnParts& parts_;
  std::vector<Reducer> column_reducers_;
  Value* part_ = nullptr;
  ir::KernelSpace space_;
  std::span<const int64_t> kept_, reduced_;
  int64_t rows_, columns_;
  ir::ReductionLevels levels_;
  LineBuffers buffers_;
  std::vector<std::pair<int, ir::Value>> yields_;  // with the numbers of their results; no columns
};

}  // namespace

CpuKernel emit_rows(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol) {
  ir::Plan plan = ir::Plan::from(kernel.plan());
  MEZZO_CHECK(plan.vector > 0 && plan.grain > 0,
              "kernel @" + kernel.kernel_name() + " has no plan");
  KernelFrame frame(module, symbol);
  const ColumnParts parts(kernel, plan);
  MEZZO_CHECK(parts.reductions().empty() || plan.grain <= ir::kSumBlock,
              "kernel @" + kernel.kernel_name() + " has parts longer than a block of a sum");
  RowsEmitter emitter(frame, kernel, static_cast<int>(plan.vector), parts);
  emitter.emit(plan.grain);
  frame.close();
  int64_t tasks = (emitter.rows() + plan.grain - 1) / plan.grain;
  CpuKernel out{{}, {{symbol, tasks}}, emitter.scratch_bytes(), parts.bytes()};
  if (!parts.reductions().empty())
    out.launches.push_back(emit_column_totals(module, kernel, parts, symbol + "_total"));
  return out;
}

}  // namespace mezzo::codegen
