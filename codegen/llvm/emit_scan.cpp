// SPDX-License-Identifier: Apache-2.0
// Scan kernels: a running value along one axis. Vectors run along the last axis. Where that is
// another one, lanes are lines side by side, and a task takes a run of them. Where it is the axis
// of the scan, a task takes whole lines; sums and extrema of a vector are scanned by shifts,
// products and linear scans lane after lane, since an early 0 must stay. Running sums and products
// of floats are f64.
#include <mezzo/codegen/llvm/emit_families.h>
#include <mezzo/codegen/llvm/reduce.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <limits>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;
using llvm::Value;

namespace {

class ScanEmitter {
 public:
  ScanEmitter(KernelFrame& frame, const ir::Op& kernel, const ir::Plan& plan)
      : frame_(frame),
        b_(frame.builder()),
        emitter_(frame, kernel),
        kernel_(kernel),
        op_(ir::axis_op(kernel)),
        lanes_(static_cast<int>(plan.vector)),
        grain_(plan.grain),
        shape_(op_.result().shape()),
        axis_(static_cast<int>(op_.int_attr("axis"))),
        last_(ir::vector_axis(shape_.dims())),
        reverse_(op_.bool_attr("reverse")),
        exclusive_(op_.info().attribute("exclusive") && op_.bool_attr("exclusive")),
        dtype_(op_.operand(0).dtype()) {
    const bool accumulates = op_.kind() != OpKind::Cummax && op_.kind() != OpKind::Cummin;
    state_ = !accumulates ? dtype_ : ir::is_float(dtype_) ? DType::F64 : DType::I64;
  }

  int64_t tasks() const {
    if (!across()) return ir::ceil_div(lines(), grain_);
    return lines() / std::max<int64_t>(shape_[last_], 1) * ir::ceil_div(shape_[last_], grain_);
  }

  void emit() {
    emitter_.set_lanes(lanes_, nullptr);
    emitter_.eval_scalars();
    if (shape_.elements() > 0) across() ? emit_across() : emit_along();
    emitter_.write_flags();
  }

 private:
  /// Lanes are lines.
  bool across() const { return last_ > axis_; }
  int64_t length() const { return shape_[axis_]; }
  int64_t lines() const { return shape_.elements() / std::max<int64_t>(length(), 1); }
  llvm::Type* state_type(int lanes) { return emitter_.compute_type_of(state_, lanes); }

  Value* start(int lanes) {
    llvm::Type* type = state_type(lanes);
    switch (op_.kind()) {
      case OpKind::Cumprod:
        return ir::is_float(state_) ? static_cast<Value*>(llvm::ConstantFP::get(type, 1.0))
                                    : llvm::ConstantInt::get(type, 1);
      case OpKind::Cummax:
      case OpKind::Cummin:
        return extreme(type);
      default:
        // -0 leaves every number as it is; an exclusive sum starts as the sum of nothing.
        return ir::is_float(state_) && op_.kind() == OpKind::Cumsum && !exclusive_
                   ? static_cast<Value*>(llvm::ConstantFP::get(type, -0.0))
                   : llvm::Constant::getNullValue(type);
    }
  }

  /// What no element is beyond.
  Value* extreme(llvm::Type* type) {
    const bool largest = op_.kind() == OpKind::Cummax;
    if (ir::is_float(state_)) return llvm::ConstantFP::getInfinity(type, largest);
    const unsigned bits = type->getScalarSizeInBits();
    if (state_ == DType::U8)
      return llvm::ConstantInt::get(
          type, largest ? llvm::APInt::getMinValue(bits) : llvm::APInt::getMaxValue(bits));
    return llvm::ConstantInt::get(type, largest ? llvm::APInt::getSignedMinValue(bits)
                                                : llvm::APInt::getSignedMaxValue(bits));
  }

  /// The state behind an element x (of a linear scan: x[0] state + x[1]).
  Value* step(Value* state, const std::vector<Value*>& x) {
    switch (op_.kind()) {
      case OpKind::Cumsum:
        return ir::is_float(state_) ? b_.CreateFAdd(state, x[0]) : b_.CreateAdd(state, x[0]);
      case OpKind::Cumprod:
        return ir::is_float(state_) ? running_product(b_, state, x[0]) : b_.CreateMul(state, x[0]);
      case OpKind::LinearScan: {
        Value* zero = llvm::Constant::getNullValue(state->getType());
        Value* kept =
            b_.CreateSelect(b_.CreateFCmpOEQ(state, zero), zero, b_.CreateFMul(state, x[0]));
        return b_.CreateFAdd(kept, x[1]);
      }
      default:
        return emitter_.extremum(op_.kind() == OpKind::Cummax, state_, state, x[0]);
    }
  }

  Value* stored(Value* state) {
    if (op_.kind() == OpKind::Cumprod && ir::is_float(state_)) state = settled_product(b_, state);
    const DType result = op_.result().dtype();
    return emitter_.convert(state_, ir::is_16bit(result) ? DType::F32 : result, state);
  }

  std::vector<Value*> elements(const Coordinates& at) {
    std::vector<Value*> values;
    for (int i = 0; i < op_.num_operands(); ++i) {
      Value* value = emitter_.eval_vector(op_.operand(i), at);
      const DType from = ir::is_16bit(dtype_) ? DType::F32 : dtype_;
      values.push_back(
          from == state_ || ir::is_16bit(state_) ? value : emitter_.convert(from, state_, value));
    }
    return values;
  }

  void store(Value* states, const Coordinates& at) {
    emitter_.preset(op_.result(), stored(states), false);
    const std::vector<ir::Value> yields = kernel_.body()->terminator()->operands();
    std::vector<Value*> values;
    for (ir::Value value : yields) values.push_back(emitter_.eval_vector(value, at));
    for (size_t i = 0; i < values.size(); ++i) {
      // Lines of one element have one lane on.
      if (!across() && axis_ != last_) values[i] = b_.CreateExtractElement(values[i], uint64_t{0});
      emitter_.store(static_cast<int>(i), values[i], at);
    }
    emitter_.forget(op_.result());
  }

  /// Coordinates of line `line`, where `skipped` axes are left at 0.
  Coordinates line_coordinates(Value* line, std::initializer_list<int> skipped) {
    std::vector<int64_t> dims;
    std::vector<size_t> axes;
    for (int i = 0; i < shape_.rank(); ++i)
      if (std::ranges::count(skipped, i) == 0) {
        dims.push_back(shape_[i]);
        axes.push_back(static_cast<size_t>(i));
      }
    Coordinates at = emitter_.origin(shape_);
    const std::vector<Value*> position = delinearize(emitter_, line, dims);
    for (size_t i = 0; i < axes.size(); ++i) at[axes[i]].base = position[i];
    return at;
  }

  Value* in_order(Value* k) { return reverse_ ? b_.CreateSub(emitter_.index(length() - 1), k) : k; }

  void emit_across() {
    const int64_t run = ir::ceil_div(shape_[last_], grain_);
    Value* state = frame_.slot(state_type(lanes_));
    frame_.loop(frame_.first_task(), frame_.last_task(), 1, [&](Value* task) {
      RegionEmitter::Scope scope(emitter_);
      Coordinates at = line_coordinates(b_.CreateUDiv(task, emitter_.index(run)), {axis_, last_});
      Value* begin = b_.CreateMul(b_.CreateURem(task, emitter_.index(run)), emitter_.index(grain_));
      Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                            b_.CreateAdd(begin, emitter_.index(grain_)),
                                            emitter_.index(shape_[last_]));
      vector_loop(emitter_, begin, end, lanes_, [&](Value* column) {
        at[static_cast<size_t>(last_)] = {column, 1};
        b_.CreateStore(start(lanes_), state);
        frame_.loop(emitter_.index(0), emitter_.index(length()), 1, [&](Value* k) {
          RegionEmitter::Scope inner(emitter_);
          at[static_cast<size_t>(axis_)].base = in_order(k);
          Value* before = b_.CreateLoad(state_type(lanes_), state);
          Value* after = step(before, elements(at));
          b_.CreateStore(after, state);
          store(exclusive_ ? before : after, at);
        });
      });
    });
  }

  void emit_along() {
    carry_ = frame_.slot(state_type(1));
    Value* limit = emitter_.index(lines());
    auto line_of = [&](Value* task) {
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                      b_.CreateMul(task, emitter_.index(grain_)), limit);
    };
    frame_.loop(line_of(frame_.first_task()), line_of(frame_.last_task()), 1, [&](Value* line) {
      RegionEmitter::Scope scope(emitter_);
      const Coordinates at = line_coordinates(line, {axis_});
      b_.CreateStore(start(1), carry_);
      const int64_t whole = length() / lanes_, rest = length() % lanes_;
      frame_.loop(emitter_.index(0), emitter_.index(whole), 1, [&](Value* number) {
        Value* first = b_.CreateMul(number, emitter_.index(lanes_));
        if (reverse_) first = b_.CreateSub(emitter_.index(length() - lanes_), first);
        emit_vector(at, first);
      });
      if (rest > 0) {
        emitter_.set_lanes(lanes_, frame_.lane_mask(emitter_.index(rest), lanes_));
        emit_vector(at, emitter_.index(reverse_ ? 0 : whole * lanes_));
        emitter_.set_lanes(lanes_, nullptr);
      }
    });
  }

  /// Elements `first` ... of a line, one a lane.
  void emit_vector(Coordinates at, Value* first) {
    RegionEmitter::Scope scope(emitter_);
    if (axis_ == last_) at[static_cast<size_t>(axis_)] = {first, 1};
    std::vector<Value*> x = elements(at);
    const bool by_shifts = op_.kind() != OpKind::Cumprod && op_.kind() != OpKind::LinearScan;
    store(by_shifts ? scan_by_shifts(x[0]) : scan_by_lanes(x), at);
  }

  /// The lane whose element comes `distance` before that of `lane`, or -1.
  int lane_before(int lane, int distance) const {
    const int before = reverse_ ? lane + distance : lane - distance;
    return before >= 0 && before < lanes_ ? before : -1;
  }

  Value* scan_by_shifts(Value* x) {
    // No element is what changes none.
    const bool sum = op_.kind() == OpKind::Cumsum;
    llvm::Type* type = state_type(lanes_);
    Value* none = !sum                   ? extreme(type)
                  : ir::is_float(state_) ? static_cast<Value*>(llvm::ConstantFP::get(type, -0.0))
                                         : llvm::Constant::getNullValue(type);
    if (emitter_.mask()) x = b_.CreateSelect(emitter_.mask(), x, none);
    auto shifted = [&](Value* vector, Value* filler, int distance) {
      llvm::SmallVector<int> from;
      for (int lane = 0; lane < lanes_; ++lane) {
        const int before = lane_before(lane, distance);
        from.push_back(before < 0 ? lanes_ + lane : before);
      }
      return b_.CreateShuffleVector(vector, filler, from);
    };
    for (int distance = 1; distance < lanes_; distance *= 2)
      x = step(shifted(x, none, distance), {x});
    Value* carry = emitter_.splat(b_.CreateLoad(state_type(1), carry_), lanes_);
    x = step(carry, {x});
    b_.CreateStore(b_.CreateExtractElement(x, static_cast<uint64_t>(reverse_ ? 0 : lanes_ - 1)),
                   carry_);
    return exclusive_ ? shifted(x, carry, 1) : x;
  }

  Value* scan_by_lanes(const std::vector<Value*>& x) {
    Value* state = b_.CreateLoad(state_type(1), carry_);
    Value* states = llvm::PoisonValue::get(state_type(lanes_));
    for (int i = 0; i < lanes_; ++i) {
      const auto lane = static_cast<uint64_t>(reverse_ ? lanes_ - 1 - i : i);
      std::vector<Value*> element;
      for (Value* value : x) element.push_back(b_.CreateExtractElement(value, lane));
      Value* after = step(state, element);
      if (emitter_.mask())  // a lane that is off changes nothing
        after = b_.CreateSelect(b_.CreateExtractElement(emitter_.mask(), lane), after, state);
      states = b_.CreateInsertElement(states, exclusive_ ? state : after, lane);
      state = after;
    }
    b_.CreateStore(state, carry_);
    return states;
  }

  KernelFrame& frame_;
  llvm::IRBuilderBase& b_;
  RegionEmitter emitter_;
  const ir::Op& kernel_;
  const ir::Op& op_;
  int lanes_;
  int64_t grain_;
  ir::Shape shape_;
  int axis_, last_;
  bool reverse_, exclusive_;
  DType dtype_, state_;
  Value* carry_ = nullptr;  // of the line
};

}  // namespace

CpuKernel emit_scan(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol) {
  const ir::Plan plan = ir::Plan::from(kernel.plan());
  MEZZO_CHECK(plan.vector > 0 && plan.grain > 0,
              "kernel @" + kernel.kernel_name() + " has no plan");
  KernelFrame frame(module, symbol);
  ScanEmitter emitter(frame, kernel, plan);
  emitter.emit();
  frame.close();
  return {{}, {{symbol, emitter.tasks()}}, 0, 0};
}

}  // namespace mezzo::codegen
