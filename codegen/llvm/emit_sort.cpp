// SPDX-License-Identifier: Apache-2.0
// Sort kernels: a task takes whole lines along the axis. An element becomes an integer item: its
// key, which orders as the elements do, above its index, which makes equal keys differ and the
// order stable. Items are sorted by merging runs of 1, 2, 4 ... in the thread's scratch; where only
// the first k are wanted a run keeps k, and a few are kept in order while the line is read. Results
// are read at the indices, so that they are the elements themselves, NaN and -0 among them.
#include <mezzo/codegen/llvm/emit_families.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;
using llvm::Value;

namespace {

class SortEmitter {
 public:
  SortEmitter(KernelFrame& frame, const ir::Op& kernel, const ir::Plan& plan)
      : frame_(frame),
        b_(frame.builder()),
        emitter_(frame, kernel),
        kernel_(kernel),
        op_(ir::axis_op(kernel)),
        lanes_(static_cast<int>(plan.vector)),
        grain_(plan.grain),
        shape_(op_.operand(0).shape()),
        axis_(static_cast<int>(op_.int_attr("axis"))),
        descending_(op_.bool_attr(op_.kind() == OpKind::Topk ? "largest" : "descending")),
        keys_(op_.operand(op_.kind() == OpKind::SortBy ? 1 : 0)) {
    key_bits_ = std::max(32u, static_cast<unsigned>(8 * ir::byte_size(keys_.dtype())));
    item_ = b_.getIntNTy(2 * key_bits_);
    taken_ = op_.kind() == OpKind::Topk ? op_.int_attr("k") : length();
  }

  int64_t tasks() const { return ir::ceil_div(lines(), grain_); }
  int64_t scratch_bytes() const { return 2 * buffer_bytes(); }

  void emit() {
    emitter_.set_lanes(lanes_, nullptr);
    emitter_.eval_scalars();
    Value* limit = emitter_.index(lines());
    auto line_of = [&](Value* task) {
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                      b_.CreateMul(task, emitter_.index(grain_)), limit);
    };
    if (shape_.elements() > 0)
      frame_.loop(line_of(frame_.first_task()), line_of(frame_.last_task()), 1, [&](Value* line) {
        RegionEmitter::Scope scope(emitter_);
        const Coordinates at = line_coordinates(line);
        if (op_.kind() == OpKind::Topk && taken_ > 0 && taken_ <= kMostKept) {
          keep_first(at);
          write(at, buffer(0));
        } else {
          fill(at);
          write(at, merge_runs());
        }
      });
    emitter_.write_flags();
  }

 private:
  /// Up to here even a line in falling order costs less than merging.
  static constexpr int64_t kMostKept = 16;

  int64_t length() const { return shape_[axis_]; }
  int64_t lines() const { return shape_.elements() / std::max<int64_t>(length(), 1); }
  int64_t item_bytes() const { return key_bits_ / 4; }
  int64_t buffer_bytes() const { return (length() * item_bytes() + 63) / 64 * 64; }
  Value* buffer(int number) {
    return b_.CreateConstGEP1_64(b_.getInt8Ty(), frame_.scratch(),
                                 static_cast<uint64_t>(number * buffer_bytes()));
  }
  Value* load(Value* items, Value* place) {
    return b_.CreateAlignedLoad(item_, b_.CreateGEP(item_, items, place), llvm::Align(8));
  }
  void store(Value* items, Value* place, Value* item) {
    b_.CreateAlignedStore(item, b_.CreateGEP(item_, items, place), llvm::Align(8));
  }
  Value* smaller(Value* x, Value* y) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  }

  Coordinates line_coordinates(Value* line) {
    std::vector<int64_t> dims;
    for (int i = 0; i < shape_.rank(); ++i) dims.push_back(i == axis_ ? 1 : shape_[i]);
    Coordinates at = emitter_.origin(shape_);
    const std::vector<Value*> position = delinearize(emitter_, line, dims);
    for (size_t i = 0; i < position.size(); ++i) at[i].base = position[i];
    return at;
  }

  /// An unsigned integer of `key_bits_` that orders as the elements do: NaN greatest, -0 as +0.
  Value* key_of(Value* x) {
    llvm::IntegerType* type = b_.getIntNTy(key_bits_);
    const DType dtype = keys_.dtype();
    Value* top = llvm::ConstantInt::get(type, llvm::APInt::getSignMask(key_bits_));
    Value* key = nullptr;
    if (ir::is_float(dtype)) {
      // -0 + 0 is +0. The bits of negative numbers fall as the numbers rise.
      Value* sum = b_.CreateFAdd(x, llvm::Constant::getNullValue(x->getType()));
      Value* bits = b_.CreateBitCast(sum, type);
      Value* flipped = b_.CreateSelect(b_.CreateICmpSLT(bits, llvm::ConstantInt::get(type, 0)),
                                       b_.CreateNot(bits), b_.CreateOr(bits, top));
      key = b_.CreateSelect(b_.CreateFCmpUNO(x, x), llvm::Constant::getAllOnesValue(type), flipped);
    } else if (dtype == DType::Bool || dtype == DType::U8) {
      key = b_.CreateZExt(x, type);
    } else {
      key = b_.CreateXor(x, top);
    }
    return descending_ ? b_.CreateNot(key) : key;
  }

  Value* item_of(Coordinates at, Value* place) {
    at[static_cast<size_t>(axis_)].base = place;
    Value* key = b_.CreateZExt(key_of(emitter_.eval(keys_, at)), item_);
    return b_.CreateOr(b_.CreateShl(key, key_bits_), b_.CreateZExtOrTrunc(place, item_));
  }

  void fill(const Coordinates& at) {
    frame_.loop(emitter_.index(0), emitter_.index(length()), 1, [&](Value* place) {
      RegionEmitter::Scope scope(emitter_);
      store(buffer(0), place, item_of(at, place));
    });
  }

  /// The first `taken_` items of the line, in order, in the first buffer. An item that comes before
  /// the last of them takes its place; each that it passes moves up by one.
  void keep_first(const Coordinates& at) {
    Value *kept = buffer(0), *moved = frame_.slot(item_);
    const auto for_kept = [&](const std::function<void(Value*)>& body) {
      frame_.loop(emitter_.index(0), emitter_.index(taken_), 1, body);
    };
    for_kept([&](Value* place) { store(kept, place, llvm::Constant::getAllOnesValue(item_)); });
    const auto insert = [&](Value* place) {
      Value *mine = load(kept, place), *other = b_.CreateLoad(item_, moved);
      store(kept, place, b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, mine, other));
      b_.CreateStore(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, mine, other), moved);
    };
    frame_.loop(emitter_.index(0), emitter_.index(length()), 1, [&](Value* place) {
      RegionEmitter::Scope scope(emitter_);
      Value* item = item_of(at, place);
      frame_.branch(
          b_.CreateICmpULT(item, load(kept, emitter_.index(taken_ - 1))),
          [&] {
            b_.CreateStore(item, moved);
            for_kept(insert);
          },
          [] {});
    });
  }

  /// Runs of `width` items, of which the first `taken_` count, become runs of twice the width; the
  /// buffer that holds the last one.
  Value* merge_runs() {
    int levels = 0;
    while ((int64_t{1} << levels) < length()) ++levels;
    frame_.loop(emitter_.index(0), emitter_.index(levels), 1, [&](Value* level) {
      Value* odd = b_.CreateTrunc(level, b_.getInt1Ty());
      Value* from = b_.CreateSelect(odd, buffer(1), buffer(0));
      Value* to = b_.CreateSelect(odd, buffer(0), buffer(1));
      Value* width = b_.CreateShl(emitter_.index(1), level);
      Value* both = b_.CreateShl(width, uint64_t{1});
      Value* pairs = b_.CreateUDiv(b_.CreateAdd(emitter_.index(length() - 1), both), both);
      frame_.loop(emitter_.index(0), pairs, 1,
                  [&](Value* pair) { merge_pair(from, to, b_.CreateMul(pair, both), width); });
    });
    return buffer(levels % 2);
  }

  void merge_pair(Value* from, Value* to, Value* begin, Value* width) {
    Value* most = smaller(width, emitter_.index(taken_));
    Value* middle = smaller(b_.CreateAdd(begin, width), emitter_.index(length()));
    Value* left = smaller(b_.CreateSub(middle, begin), most);
    Value* right = smaller(b_.CreateSub(emitter_.index(length()), middle), most);
    Value* count = smaller(b_.CreateAdd(left, right), emitter_.index(taken_));
    Value *left_end = b_.CreateAdd(begin, left), *right_end = b_.CreateAdd(middle, right);
    Value *i = frame_.slot(b_.getInt64Ty()), *j = frame_.slot(b_.getInt64Ty());
    b_.CreateStore(begin, i);
    b_.CreateStore(middle, j);
    frame_.loop(emitter_.index(0), count, 1, [&](Value* place) {
      Value *at_left = b_.CreateLoad(b_.getInt64Ty(), i),
            *at_right = b_.CreateLoad(b_.getInt64Ty(), j);
      // Where a run has ended any item that is there is read and not taken.
      Value* x = load(from, smaller(at_left, emitter_.index(length() - 1)));
      Value* y = load(from, smaller(at_right, emitter_.index(length() - 1)));
      Value* first =
          b_.CreateAnd(b_.CreateICmpSLT(at_left, left_end),
                       b_.CreateOr(b_.CreateICmpSGE(at_right, right_end), b_.CreateICmpULT(x, y)));
      store(to, b_.CreateAdd(begin, place), b_.CreateSelect(first, x, y));
      Value* one = b_.CreateZExt(first, b_.getInt64Ty());
      b_.CreateStore(b_.CreateAdd(at_left, one), i);
      b_.CreateStore(b_.CreateAdd(at_right, b_.CreateXor(one, emitter_.index(1))), j);
    });
  }

  void write(const Coordinates& line, Value* items) {
    frame_.loop(emitter_.index(0), emitter_.index(taken_), 1, [&](Value* place) {
      RegionEmitter::Scope scope(emitter_);
      Value* index = b_.CreateTrunc(load(items, place), b_.getInt32Ty());
      Coordinates to = line, from = line;
      to[static_cast<size_t>(axis_)].base = place;
      from[static_cast<size_t>(axis_)].base = b_.CreateZExt(index, b_.getInt64Ty());
      const ir::Op& yield = *kernel_.body()->terminator();
      for (int r = 0; r < yield.num_operands(); ++r) {
        Value* value = index;
        if (is_element(yield.operand(r))) {
          value = emitter_.eval(op_.operand(0), from);
          emitter_.flag(op_, {}, value, value);
        }
        emitter_.store(r, value, to);
      }
    });
  }

  /// The result holds elements, else indices.
  bool is_element(ir::Value result) const {
    return op_.kind() != OpKind::Argsort && result.index() == 0;
  }

  KernelFrame& frame_;
  llvm::IRBuilderBase& b_;
  RegionEmitter emitter_;
  const ir::Op& kernel_;
  const ir::Op& op_;
  int lanes_;
  int64_t grain_;
  ir::Shape shape_;
  int axis_;
  bool descending_;
  ir::Value keys_;
  unsigned key_bits_ = 32;
  llvm::IntegerType* item_ = nullptr;
  int64_t taken_ = 0;
};

}  // namespace

CpuKernel emit_sort(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol) {
  const ir::Plan plan = ir::Plan::from(kernel.plan());
  MEZZO_CHECK(plan.vector > 0 && plan.grain > 0,
              "kernel @" + kernel.kernel_name() + " has no plan");
  KernelFrame frame(module, symbol);
  SortEmitter emitter(frame, kernel, plan);
  emitter.emit();
  frame.close();
  return {{}, {{symbol, emitter.tasks()}}, emitter.scratch_bytes(), 0};
}

}  // namespace mezzo::codegen
