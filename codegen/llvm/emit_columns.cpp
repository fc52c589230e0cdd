// SPDX-License-Identifier: Apache-2.0
// Columns kernels: chained reductions over the leading axes. A task takes a run of columns along
// the last axis; for every vector of columns each level of reductions runs in one loop over the
// reduced axes, lanes staying apart, then the vectors of column shape are stored, and a last loop
// stores what has the full shape. Rows are added in ascending order, in blocks
// (codegen/llvm/reduce.h). The second launch of a rows_columns kernel does the same with the
// accumulators that the parts of the rows have left.
#include <mezzo/codegen/llvm/column_parts.h>
#include <mezzo/codegen/llvm/emit_families.h>
#include <mezzo/codegen/llvm/line_buffers.h>
#include <mezzo/codegen/llvm/reduce.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_set>

namespace mezzo::codegen {

using llvm::Value;

namespace {

/// Of a kernel of rows and columns the second launch computes the columns alone.
std::unordered_set<const ir::Op*> left_out(const ir::Op& kernel, const ColumnParts* parts) {
  std::unordered_set<const ir::Op*> ops;
  for (const ir::Op* op : ir::kernel_ops(kernel))
    if (parts && !parts->columns().contains(op)) ops.insert(op);
  return ops;
}

class ColumnsEmitter {
 public:
  /// `parts`: null where the rows are read, not what is left of them.
  ColumnsEmitter(KernelFrame& frame, const ir::Op& kernel, int64_t lanes, int64_t grain,
                 const ColumnParts* parts)
      : frame_(frame),
        b_(frame.builder()),
        emitter_(frame, kernel),
        lanes_(static_cast<int>(lanes)),
        grain_(grain),
        parts_(parts),
        space_(ir::kernel_space(kernel)),
        leading_(static_cast<size_t>(parts ? space_.kept() : space_.reduced)),
        reduced_(space_.space.dims().first(leading_)),
        kept_(space_.space.dims().subspan(leading_)),
        rows_(ir::Shape(reduced_).elements()),
        last_(kept_.empty() ? 1 : kept_.back()),
        outer_(kept_.empty() ? 1 : ir::Shape(kept_.first(kept_.size() - 1)).elements()),
        runs_(ir::ceil_div(last_, grain)),
        levels_(kernel, space_.space, ir::Shape(kept_).elements(), rows_, left_out(kernel, parts)),
        buffers_(emitter_, kernel, levels_, parts ? 0 : rows_ * lanes) {
    const std::vector<ir::Value> yields = kernel.body()->terminator()->operands();
    for (size_t i = 0; i < yields.size(); ++i)
      if (!parts || parts->is_column(yields[i]))
        yields_.emplace_back(static_cast<int>(i), yields[i]);
  }

  int64_t tasks() const { return outer_ * runs_; }
  int64_t scratch_bytes() const { return buffers_.scratch_bytes(); }

  void emit() {
    emitter_.set_lanes(lanes_, nullptr);
    emitter_.eval_scalars();
    frame_.loop(frame_.first_task(), frame_.last_task(), 1, [&](Value* task) {
      RegionEmitter::Scope scope(emitter_);
      Value* run = b_.CreateURem(task, emitter_.index(std::max<int64_t>(runs_, 1)));
      Value* line = b_.CreateUDiv(task, emitter_.index(std::max<int64_t>(runs_, 1)));
      Coordinates at = emitter_.origin(space_.space);
      if (!kept_.empty()) {
        std::vector<Value*> position = delinearize(emitter_, line, kept_.first(kept_.size() - 1));
        for (size_t i = 0; i < position.size(); ++i) at[leading_ + i].base = position[i];
      }
      Value* begin = b_.CreateMul(run, emitter_.index(grain_));
      Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                            b_.CreateAdd(begin, emitter_.index(grain_)),
                                            emitter_.index(last_));
      vector_loop(emitter_, begin, end, lanes_, [&](Value* column) {
        if (!kept_.empty() && last_ != 1) at.back() = {column, 1};
        emit_columns(at, b_.CreateAdd(b_.CreateMul(line, emitter_.index(last_)), column));
      });
    });
    emitter_.write_flags();
  }

 private:
  /// Coordinates of a value of column shape (reduced axes dropped or kept at length 1); nothing
  /// where its axes are not those of the columns.
  std::optional<Coordinates> of_column_value(const ir::Shape& shape, const Coordinates& column) {
    const int shift = space_.space.rank() - shape.rank();
    if (shift < 0) return std::nullopt;
    Coordinates out = emitter_.origin(shape);
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] == 1) continue;
      const int axis = i + shift;
      if (axis < static_cast<int>(leading_) || shape[i] != space_.space[axis]) return std::nullopt;
      out[static_cast<size_t>(i)] = column[static_cast<size_t>(axis)];
    }
    return out;
  }

  void for_each_row(const Coordinates& column,
                    const std::function<void(const Coordinates&, Value*)>& body) {
    frame_.loop(emitter_.index(0), emitter_.index(rows_), 1, [&](Value* row) {
      RegionEmitter::Scope scope(emitter_);
      Coordinates at = column;
      std::vector<Value*> position = delinearize(emitter_, row, reduced_);
      for (size_t i = 0; i < position.size(); ++i) at[i] = {position[i], 0};
      body(at, row);
    });
  }

  /// The place of the vector in a buffer.
  Value* in_buffer(Value* row) { return b_.CreateMul(row, emitter_.index(lanes_)); }

  void read_rows(size_t level, std::vector<Reducer>& reducers, const Coordinates& column) {
    for_each_row(column, [&](const Coordinates& at, Value* row) {
      buffers_.use(level, at, in_buffer(row));
      for (Reducer& reducer : reducers)
        reducer.add(emitter_.eval_vector(reducer.op().operand(0), at), row);
    });
    buffers_.leave(level);
  }

  void read_parts(std::vector<Reducer>& reducers, Value* column) {
    frame_.loop(emitter_.index(0), emitter_.index(parts_->parts()), 1, [&](Value* part) {
      for (size_t i = 0; i < reducers.size(); ++i)
        reducers[i].add_accumulators(parts_->load(emitter_, reducers[i], i, part, column));
    });
  }

  /// A single column is the first lane of a vector whose lanes are all alike.
  void store(int number, ir::Value yielded, const Coordinates& at) {
    Value* value = emitter_.eval_vector(yielded, at);
    if (last_ == 1) value = b_.CreateExtractElement(value, uint64_t{0});
    emitter_.store(number, value, at);
  }

  bool is_full(ir::Value yielded) const { return !parts_ && levels_.is_full(yielded); }

  /// Everything of column shape that a loop needs is computed before it, once; what has other axes
  /// than the columns (an axis of length 1 moved between them) the loop computes where it reads it.
  void eval_column_values(size_t level, const Coordinates& column) {
    for (ir::Value value : levels_.line_operands(level))
      if (const auto at = of_column_value(value.shape(), column)) emitter_.eval(value, *at);
  }

  /// `linear`: the row-major index of the column among all.
  void emit_columns(const Coordinates& column, Value* linear) {
    RegionEmitter::Scope scope(emitter_);
    buffers_.begin_line();
    const size_t last = levels_.last();
    for (size_t level = 0; level < last; ++level) {
      std::vector<Reducer> reducers;
      for (const ir::Op* op : levels_.reductions(level))
        reducers.emplace_back(emitter_, *op, lanes_);
      if (!parts_) eval_column_values(level, column);
      for (Reducer& reducer : reducers) reducer.begin();
      parts_ ? read_parts(reducers, linear) : read_rows(level, reducers, column);
      for (Reducer& reducer : reducers)
        emitter_.preset(reducer.op().result(), reducer.finish(rows_, /*fold_lanes=*/false), false);
    }
    for (const auto& [number, yielded] : yields_)
      if (!is_full(yielded)) {
        const auto at = of_column_value(yielded.shape(), column);
        MEZZO_CHECK(at, "a yield of columns has another shape, " + ir::to_string(yielded.type()));
        store(number, yielded, *at);
      }
    if (!parts_ && levels_.stores()) {
      eval_column_values(last, column);
      for_each_row(column, [&](const Coordinates& at, Value* row) {
        buffers_.use(last, at, in_buffer(row));
        for (const auto& [number, yielded] : yields_)
          if (is_full(yielded)) store(number, yielded, at);
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
  int64_t grain_;
  const ColumnParts* parts_;
  ir::KernelSpace space_;
  size_t leading_;  // axes that are reduced
  std::span<const int64_t> reduced_, kept_;
  int64_t rows_, last_, outer_, runs_;
  ir::ReductionLevels levels_;
  LineBuffers buffers_;
  std::vector<std::pair<int, ir::Value>> yields_;  // with the numbers of their results
};

}  // namespace

CpuKernel emit_columns(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol) {
  ir::Plan plan = ir::Plan::from(kernel.plan());
  MEZZO_CHECK(plan.vector > 0 && plan.grain > 0,
              "kernel @" + kernel.kernel_name() + " has no plan");
  KernelFrame frame(module, symbol);
  ColumnsEmitter emitter(frame, kernel, plan.vector, plan.grain, nullptr);
  emitter.emit();
  frame.close();
  return {{}, {{symbol, emitter.tasks()}}, emitter.scratch_bytes(), 0};
}

KernelLaunch emit_column_totals(ModuleBuilder& module, const ir::Op& kernel,
                                const ColumnParts& parts, const std::string& symbol) {
  constexpr int64_t kVectorsPerTask = 8;
  const int64_t lanes = ir::Plan::from(kernel.plan()).vector;
  KernelFrame frame(module, symbol);
  ColumnsEmitter emitter(frame, kernel, lanes, kVectorsPerTask * lanes, &parts);
  emitter.emit();
  frame.close();
  return {symbol, emitter.tasks()};
}

}  // namespace mezzo::codegen
