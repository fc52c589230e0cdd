// SPDX-License-Identifier: Apache-2.0
// Columns kernels: reductions over the leading axes. A task takes a run of columns along the last
// axis; for every vector of columns all reductions run in one loop over the reduced axes, lanes
// staying apart, and the epilogue stores the vector. Rows are added in ascending order, in blocks
// (codegen/llvm/reduce.h).
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
  ColumnsEmitter(KernelFrame& frame, const ir::Op& kernel, const ir::Plan& plan)
      : frame_(frame),
        b_(frame.builder()),
        emitter_(frame, kernel),
        lanes_(static_cast<int>(plan.vector)),
        grain_(plan.grain),
        space_(ir::kernel_space(kernel)) {
    yields_ = kernel.body()->terminator()->operands();
    for (ir::Op& op : *kernel.body())
      if (ir::is_reduction(op.kind())) reductions_.push_back(&op);
    std::span<const int64_t> dims = space_.space.dims();
    reduced_ = dims.first(static_cast<size_t>(space_.reduced));
    kept_ = dims.subspan(static_cast<size_t>(space_.reduced));
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
        emit_columns(at);
      });
    });
    emitter_.write_flags();
  }

 private:
  /// Coordinates of a value of column shape (reduced axes dropped or kept at length 1).
  Coordinates of_column_value(const ir::Shape& shape, const Coordinates& at) {
    Coordinates out = emitter_.origin(shape);
    int shift = shape.rank() == space_.space.rank() ? 0 : space_.reduced;
    for (int i = 0; i < shape.rank(); ++i)
      if (shape[i] != 1) out[static_cast<size_t>(i)] = at[static_cast<size_t>(i + shift)];
    return out;
  }

  void emit_columns(const Coordinates& column) {
    std::vector<Reducer> reducers;
    for (const ir::Op* op : reductions_) reducers.emplace_back(emitter_, *op, lanes_);
    for (Reducer& reducer : reducers) reducer.begin();
    frame_.loop(emitter_.index(0), emitter_.index(rows_), 1, [&](Value* row) {
      RegionEmitter::Scope scope(emitter_);
      Coordinates at = column;
      std::vector<Value*> position = delinearize(emitter_, row, reduced_);
      for (size_t i = 0; i < position.size(); ++i) at[i] = {position[i], 0};
      for (Reducer& reducer : reducers)
        reducer.add(emitter_.eval_vector(reducer.op().operand(0), at), row);
    });
    for (Reducer& reducer : reducers)
      emitter_.preset(reducer.op().result(), reducer.finish(rows_, /*fold_lanes=*/false), false);
    RegionEmitter::Scope scope(emitter_);
    // A single column is the first lane of a vector whose lanes are all alike.
    bool single = last_ == 1;
    for (size_t i = 0; i < yields_.size(); ++i) {
      Coordinates at = of_column_value(yields_[i].shape(), column);
      Value* value = emitter_.eval_vector(yields_[i], at);
      if (single) value = b_.CreateExtractElement(value, uint64_t{0});
      emitter_.store(static_cast<int>(i), value, at);
    }
    for (const ir::Op* op : reductions_) emitter_.forget(op->result());
  }

  KernelFrame& frame_;
  llvm::IRBuilderBase& b_;
  RegionEmitter emitter_;
  int lanes_;
  int64_t grain_;
  ir::KernelSpace space_;
  std::vector<ir::Value> yields_;
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
  ColumnsEmitter emitter(frame, kernel, plan);
  emitter.emit();
  frame.close();
  return {{}, {{symbol, emitter.tasks()}}, 0, 0};
}

}  // namespace mezzo::codegen
