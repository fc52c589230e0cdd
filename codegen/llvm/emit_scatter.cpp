// SPDX-License-Identifier: Apache-2.0
// Scatter kernels: updates added to rows of x. The first launch, of one task, sorts the numbers of
// the updates by the rows that their indices name, stably, by counting. The second takes whole rows
// of the result: whatever is added to one is added there, in the order of the updates and in blocks
// (codegen/llvm/reduce.h), then the epilogue stores it. So no two tasks write to one place, and the
// bits do not depend on who ran what.
//
// Workspace, in i32: the place of the first update of each row (rows + 2), the updates in order.
#include <mezzo/codegen/llvm/emit_families.h>
#include <mezzo/codegen/llvm/reduce.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>

namespace mezzo::codegen {

using llvm::Value;

namespace {

const ir::Op& scatter_of(const ir::Op& kernel) {
  for (const ir::Op& op : *kernel.body())
    if (op.kind() == ir::OpKind::ScatterAdd) return op;
  throw InternalError("kernel @" + kernel.kernel_name() + " has no scatter_add");
}

class ScatterEmitter {
 public:
  ScatterEmitter(KernelFrame& frame, const ir::Op& kernel, int lanes)
      : frame_(frame),
        b_(frame.builder()),
        emitter_(frame, kernel),
        kernel_(kernel),
        scatter_(scatter_of(kernel)),
        axis_(static_cast<int>(scatter_.int_attr("axis"))),
        space_(scatter_.result().shape()),
        indices_(scatter_.operand(1).shape()),
        lanes_(lanes) {
    for (int i = 0; i < axis_; ++i) outer_ *= space_[i];
  }

  int64_t rows() const { return outer_ * space_[axis_]; }
  int64_t workspace_bytes() const { return 4 * (space_[axis_] + 2 + indices_.elements()); }

  void emit_sort() {
    const int64_t rows = space_[axis_];
    emitter_.set_lanes(1, nullptr);
    emitter_.eval_scalars();
    b_.CreateMemSet(begins(emitter_.index(0)), b_.getInt8(0), static_cast<uint64_t>(4 * (rows + 2)),
                    llvm::Align(4));
    // Counted two places on, added up, then moved on by one as each row is filled.
    for_updates([&](Value* row, Value*) {
      Value* place = begins(b_.CreateAdd(row, emitter_.index(2)));
      store(b_.CreateAdd(load(place), b_.getInt32(1)), place);
    });
    frame_.loop(emitter_.index(2), emitter_.index(rows + 1), 1, [&](Value* i) {
      Value* place = begins(i);
      Value* before = begins(b_.CreateSub(i, emitter_.index(1)));
      store(b_.CreateAdd(load(place), load(before)), place);
    });
    for_updates([&](Value* row, Value* update) {
      Value* place = begins(b_.CreateAdd(row, emitter_.index(1)));
      Value* at = load(place);
      store(b_.CreateTrunc(update, b_.getInt32Ty()), ordered(b_.CreateZExt(at, b_.getInt64Ty())));
      store(b_.CreateAdd(at, b_.getInt32(1)), place);
    });
    emitter_.write_flags();
  }

  void emit_rows(int64_t grain) {
    emitter_.set_lanes(lanes_, nullptr);
    emitter_.eval_scalars();
    auto row_of = [&](Value* task) {
      return b_.CreateBinaryIntrinsic(
          llvm::Intrinsic::smin, b_.CreateMul(task, emitter_.index(grain)), emitter_.index(rows()));
    };
    frame_.loop(row_of(frame_.first_task()), row_of(frame_.last_task()), 1,
                [&](Value* row) { emit_row(row); });
    emitter_.write_flags();
  }

 private:
  Value* words(int64_t from, Value* place) {
    Value* base = frame_.buffer(kernel_.num_operands() + kernel_.num_results());
    return b_.CreateGEP(b_.getInt32Ty(), base, b_.CreateAdd(emitter_.index(from), place));
  }
  Value* begins(Value* row) { return words(0, row); }
  Value* ordered(Value* place) { return words(space_[axis_] + 2, place); }
  Value* load(Value* place) { return b_.CreateAlignedLoad(b_.getInt32Ty(), place, llvm::Align(4)); }
  void store(Value* word, Value* place) { b_.CreateAlignedStore(word, place, llvm::Align(4)); }

  /// Coordinates of the row-major place `linear` of `dims`.
  Coordinates coordinates(Value* linear, std::span<const int64_t> dims) {
    Coordinates at;
    for (Value* position : delinearize(emitter_, linear, dims)) at.push_back({position, 0});
    return at;
  }

  /// Calls `visit(row, number)` for each update whose index names a row.
  void for_updates(const std::function<void(Value*, Value*)>& visit) {
    frame_.loop(emitter_.index(0), emitter_.index(indices_.elements()), 1, [&](Value* number) {
      RegionEmitter::Scope scope(emitter_);
      auto [row, bad] = emitter_.checked_index(scatter_.operand(1),
                                               coordinates(number, indices_.dims()), space_[axis_]);
      frame_.branch(bad, [] {}, [&, row = row] { visit(row, number); });
    });
  }

  /// `row`: number among those of all indices of the axes before the axis.
  void emit_row(Value* row) {
    RegionEmitter::Scope scope(emitter_);
    const size_t before = static_cast<size_t>(axis_) + 1;
    Coordinates at = coordinates(row, space_.dims().first(before));
    at.resize(static_cast<size_t>(space_.rank()), {emitter_.index(0), 0});
    Value* place = at[before - 1].base;
    Value* next = b_.CreateAdd(place, emitter_.index(1));
    Value* first = b_.CreateZExt(load(begins(place)), b_.getInt64Ty());
    Value* last = b_.CreateZExt(load(begins(next)), b_.getInt64Ty());

    const std::span<const int64_t> inner = space_.dims().subspan(before);
    const int axis = ir::vector_axis(inner);
    if (axis < 0) {
      // An axis of no elements has none to visit.
      const int64_t count = std::ranges::count(inner, 0) ? 0 : 1;
      frame_.loop(emitter_.index(0), emitter_.index(count), 1, [&](Value*) {
        emitter_.set_lanes(1, nullptr);
        emit_elements(at, first, last);
        emitter_.set_lanes(lanes_, nullptr);
      });
      return;
    }
    const size_t along = static_cast<size_t>(axis);
    int64_t lines = 1;
    for (int64_t dim : inner.first(along)) lines *= dim;
    frame_.loop(emitter_.index(0), emitter_.index(lines), 1, [&](Value* line) {
      const Coordinates position = coordinates(line, inner.first(along));
      std::ranges::copy(position, at.begin() + static_cast<std::ptrdiff_t>(before));
      vector_loop(emitter_, emitter_.index(0), emitter_.index(inner[along]), lanes_,
                  [&](Value* column) {
                    at[before + along] = {column, 1};
                    emit_elements(at, first, last);
                  });
    });
  }

  /// The elements at `at`, to which the updates from place `first` to `last` of the order are
  /// added.
  void emit_elements(const Coordinates& at, Value* first, Value* last) {
    RegionEmitter::Scope outer(emitter_);
    const int lanes = emitter_.lanes();
    Reducer sum(emitter_, scatter_, lanes);
    sum.begin();
    frame_.loop(first, last, 1, [&](Value* place) {
      RegionEmitter::Scope scope(emitter_);
      Value* number = b_.CreateZExt(load(ordered(place)), b_.getInt64Ty());
      Coordinates from(at.begin(), at.begin() + axis_);
      const Coordinates index = coordinates(number, indices_.dims());
      from.insert(from.end(), index.begin(), index.end());
      from.insert(from.end(), at.begin() + axis_ + 1, at.end());
      sum.add(emitter_.eval_vector(scatter_.operand(2), from), place);
    });
    Value* x = emitter_.eval_vector(scatter_.operand(0), at);
    Value* total = sum.finish(/*count=*/1, /*fold_lanes=*/false);
    Value* added =
        ir::is_float(scatter_.result().dtype()) ? b_.CreateFAdd(x, total) : b_.CreateAdd(x, total);
    // What nothing is added to keeps its bits, -0 too.
    Value* none = b_.CreateICmpEQ(first, last);
    emitter_.preset(scatter_.result(), b_.CreateSelect(none, x, added), /*rounded=*/false);
    const std::vector<ir::Value> yields = kernel_.body()->terminator()->operands();
    std::vector<Value*> values;
    for (ir::Value value : yields) values.push_back(emitter_.eval_vector(value, at));
    for (size_t i = 0; i < values.size(); ++i) emitter_.store(static_cast<int>(i), values[i], at);
    emitter_.forget(scatter_.result());
  }

  KernelFrame& frame_;
  llvm::IRBuilderBase& b_;
  RegionEmitter emitter_;
  const ir::Op& kernel_;
  const ir::Op& scatter_;
  int axis_;
  ir::Shape space_, indices_;
  int lanes_;
  int64_t outer_ = 1;
};

}  // namespace

CpuKernel emit_scatter(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol) {
  const ir::Plan plan = ir::Plan::from(kernel.plan());
  MEZZO_CHECK(plan.vector > 0 && plan.grain > 0,
              "kernel @" + kernel.kernel_name() + " has no plan");
  CpuKernel out;
  {
    KernelFrame frame(module, symbol + "_sort");
    ScatterEmitter emitter(frame, kernel, static_cast<int>(plan.vector));
    frame.loop(frame.first_task(), frame.last_task(), 1, [&](Value*) { emitter.emit_sort(); });
    frame.close();
    out.workspace_bytes = emitter.workspace_bytes();
    out.launches.push_back({symbol + "_sort", 1});
  }
  KernelFrame frame(module, symbol);
  ScatterEmitter emitter(frame, kernel, static_cast<int>(plan.vector));
  emitter.emit_rows(plan.grain);
  frame.close();
  out.launches.push_back({symbol, ir::ceil_div(emitter.rows(), plan.grain)});
  return out;
}

}  // namespace mezzo::codegen
