// SPDX-License-Identifier: Apache-2.0
// Columns kernels: reductions over the leading axes. A task takes a run of columns along the last
// axis; for every vector of columns all reductions run in one loop over the reduced axes, lanes
// staying apart, and the epilogue stores the vector. Rows are added in ascending order, in blocks
// (codegen/llvm/reduce.h). The second launch of a rows_columns kernel does the same with the
// accumulators that the parts of the rows have left.
#include <mezzo/codegen/llvm/column_parts.h>
#include <mezzo/codegen/llvm/emit_families.h>
#include <mezzo/codegen/llvm/reduce.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>

namespace mezzo::codegen {

using llvm::Value;

namespace {

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
        space_(ir::kernel_space(kernel)) {
    const std::vector<ir::Value> yields = kernel.body()->terminator()->operands();
    for (size_t i = 0; i < yields.size(); ++i)
      if (!parts || parts->is_column(yields[i]))
        yields_.emplace_back(static_cast<int>(i), yields[i]);
    for (ir::Op& op : *kernel.body())
      if (ir::is_reduction(op.kind()) && !ir::reduces_last_axes(op)) reductions_.push_back(&op);
    std::span<const int64_t> dims = space_.space.dims();
    const auto leading = static_cast<size_t>(parts ? space_.kept() : space_.reduced);
    reduced_ = dims.first(leading);
    kept_ = dims.subspan(leading);
    for (int64_t dim : reduced_) rows_ *= dim;
    last_ = kept_.empty() ? 1 : kept_.back();
    if (!kept_.empty())
      for (int64_t dim : kept_.first(kept_.size() - 1)) outer_ *= dim;
    runs_ = (last_ + grain_ - 1) / grain_;
  }

  int64_t tasks() const { return outer_ * runs_; }

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
        for (size_t i = 0; i < position.size(); ++i) at[reduced_.size() + i].base = position[i];
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
  /// Coordinates of a value of column shape (reduced axes dropped or kept at length 1).
  Coordinates of_column_value(const ir::Shape& shape, const Coordinates& at) {
    Coordinates out = emitter_.origin(shape);
    int shift = shape.rank() == space_.space.rank() ? 0 : static_cast<int>(reduced_.size());
    for (int i = 0; i < shape.rank(); ++i)
      if (shape[i] != 1) out[static_cast<size_t>(i)] = at[static_cast<size_t>(i + shift)];
    return out;
  }

  void read_rows(std::vector<Reducer>& reducers, const Coordinates& column) {
    frame_.loop(emitter_.index(0), emitter_.index(rows_), 1, [&](Value* row) {
      RegionEmitter::Scope scope(emitter_);
      Coordinates at = column;
      std::vector<Value*> position = delinearize(emitter_, row, reduced_);
      for (size_t i = 0; i < position.size(); ++i) at[i] = {position[i], 0};
      for (Reducer& reducer : reducers)
        reducer.add(emitter_.eval_vector(reducer.op().operand(0), at), row);
    });
  }

  void read_parts(std::vector<Reducer>& reducers, Value* column) {
    frame_.loop(emitter_.index(0), emitter_.index(parts_->parts()), 1, [&](Value* part) {
      for (size_t i = 0; i < reducers.size(); ++i)
        reducers[i].add_accumulators(parts_->load(emitter_, reducers[i], i, part, column));
    });
  }

  /// `linear`: the row-major index of the column among all.
  void emit_columns(const Coordinates& column, Value* linear) {
    std::vector<Reducer> reducers;
    for (const ir::Op* op : reductions_) reducers.emplace_back(emitter_, *op, lanes_);
    for (Reducer& reducer : reducers) reducer.begin();
    parts_ ? read_parts(reducers, linear) : read_rows(reducers, column);
    for (Reducer& reducer : reducers)
      emitter_.preset(reducer.op().result(), reducer.finish(rows_, /*fold_lanes=*/false), false);
    RegionEmitter::Scope scope(emitter_);
    // A single column is the first lane of a vector whose lanes are all alike.
    bool single = last_ == 1;
    for (const auto& [number, yielded] : yields_) {
      Coordinates at = of_column_value(yielded.shape(), column);
      Value* value = emitter_.eval_vector(yielded, at);
      if (single) value = b_.CreateExtractElement(value, uint64_t{0});
      emitter_.store(number, value, at);
    }
    for (const ir::Op* op : reductions_) emitter_.forget(op->result());
  }

  KernelFrame& frame_;
  llvm::IRBuilderBase& b_;
  RegionEmitter emitter_;
  int lanes_;
  int64_t grain_;
  const ColumnParts* parts_;
  ir::KernelSpace space_;
  std::vector<std::pair<int, ir::Value>> yields_;  // with the numbers of their results
  std::vector<const ir::Op*> reductions_;
  std::span<const int64_t> reduced_, kept_;
  int64_t rows_ = 1, last_ = 1, outer_ = 1, runs_ = 1;
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
  return {{}, {{symbol, emitter.tasks()}}, 0, 0};
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
