// SPDX-License-Identifier: Apache-2.0
#include <mezzo/codegen/llvm/reduce.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>

#include <llvm/IR/IRBuilder.h>

#include <limits>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;
using llvm::Value;

namespace {

bool adds(const ir::Op& op) { return op.kind() == OpKind::Sum || op.kind() == OpKind::ScatterAdd; }

/// The element type of what is reduced.
DType reduced_type(const ir::Op& op) {
  return op.operand(op.kind() == OpKind::ScatterAdd ? 2 : 0).dtype();
}

/// max or min of floats, which compares keys.
bool has_keys(const ir::Op& op) {
  return (op.kind() == OpKind::Max || op.kind() == OpKind::Min) && ir::is_float(reduced_type(op));
}

DType accumulated_type(const ir::Op& op) {
  DType dtype = reduced_type(op);
  if (has_keys(op)) return dtype == DType::F64 ? DType::I64 : DType::I32;
  if (!adds(op) && op.kind() != OpKind::Prod) return dtype;
  // A product has twice the exponent of its factors before it has many of them.
  if (dtype == DType::F64 || (ir::is_float(dtype) && op.kind() == OpKind::Prod)) return DType::F64;
  return ir::is_float(dtype) ? DType::F32 : DType::I64;
}

/// The integer of that many bits, as many lanes as `value` has.
llvm::Type* integers_like(llvm::IRBuilderBase& b, unsigned bits, Value* value) {
  llvm::Type* type = b.getIntNTy(bits);
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? llvm::FixedVectorType::get(type, vector->getNumElements()) : type;
}

/// Where the sign is set, all other bits are turned: between a float's bits and its key, either
/// way.
Value* turned(llvm::IRBuilderBase& b, Value* bits) {
  const unsigned width = bits->getType()->getScalarSizeInBits();
  Value* sign = b.CreateAShr(bits, llvm::ConstantInt::get(bits->getType(), width - 1));
  return b.CreateXor(bits, b.CreateLShr(sign, llvm::ConstantInt::get(bits->getType(), 1)));
}

/// Integers in the order of the floats, -0 below +0; a NaN is the end that wins. Comparing keys
/// takes one step where floats take several, each of which waits for the one before.
Value* key_of(llvm::IRBuilderBase& b, Value* x, bool maximum) {
  const unsigned width = x->getType()->getScalarSizeInBits();
  llvm::Type* type = integers_like(b, width, x);
  const llvm::APInt end =
      maximum ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getSignedMinValue(width);
  return b.CreateSelect(b.CreateFCmpUNO(x, x), llvm::ConstantInt::get(type, end),
                        turned(b, b.CreateBitCast(x, type)));
}

Value* of_key(llvm::IRBuilderBase& b, Value* key, llvm::Type* scalar) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(key->getType());
  llvm::Type* type = vector ? llvm::FixedVectorType::get(scalar, vector->getNumElements()) : scalar;
  return b.CreateBitCast(turned(b, key), type);
}

/// The bits, but for the sign, of the NaN that stands for a product of finite numbers beyond the
/// largest one, until a 0 ends it: as infinity it would make NaN of a later 0.
constexpr uint64_t kBeyond = 0x7FF8'0000'B470'0D0C;

Value* is_beyond(llvm::IRBuilderBase& b, Value* x) {
  llvm::Type* bits = integers_like(b, 64, x);
  Value* unsigned_bits =
      b.CreateAnd(b.CreateBitCast(x, bits), llvm::ConstantInt::get(bits, ~(uint64_t{1} << 63)));
  return b.CreateICmpEQ(unsigned_bits, llvm::ConstantInt::get(bits, kBeyond));
}

/// Factors of at most 2^128 and, but for 0, at least 2^-149, whose product is an ordinary f64.
constexpr int64_t kFactors = 6;

Value* with_sign_of(llvm::IRBuilderBase& b, const llvm::APFloat& size, Value* sign) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign,
                                 llvm::ConstantFP::get(sign->getType(), size), sign);
}

}  // namespace

Value* running_product(llvm::IRBuilderBase& b, Value* x, Value* y) {
  const auto& semantics = llvm::APFloat::IEEEdouble();
  Value* infinity = llvm::ConstantFP::getInfinity(x->getType());
  auto size_of = [&](Value* value) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value); };
  auto is_finite = [&](Value* value) { return b.CreateFCmpOLT(size_of(value), infinity); };
  auto held = [&](Value* value, Value* beyond) {
    Value* most = with_sign_of(b, llvm::APFloat::getLargest(semantics), value);
    return b.CreateSelect(beyond, most, value);
  };
  Value *x_beyond = is_beyond(b, x), *y_beyond = is_beyond(b, y);
  Value *x_held = held(x, x_beyond), *y_held = held(y, y_beyond);
  Value* product = b.CreateFMul(x_held, y_held);
  Value* overflows = b.CreateAnd(b.CreateFCmpOEQ(size_of(product), infinity),
                                 b.CreateAnd(is_finite(x_held), is_finite(y_held)));
  Value* zero = llvm::ConstantFP::get(x->getType(), 0.0);
  Value* ordinary = b.CreateAnd(b.CreateFCmpONE(product, zero), is_finite(product));
  Value* stays = b.CreateAnd(b.CreateOr(x_beyond, y_beyond), ordinary);
  Value* beyond = with_sign_of(b, llvm::APFloat(semantics, llvm::APInt(64, kBeyond)), product);
  return b.CreateSelect(b.CreateOr(overflows, stays), beyond, product);
}

Value* settled_product(llvm::IRBuilderBase& b, Value* product) {
  Value* infinity = with_sign_of(b, llvm::APFloat::getInf(llvm::APFloat::IEEEdouble()), product);
  return b.CreateSelect(is_beyond(b, product), infinity, product);
}

Reducer::Reducer(RegionEmitter& emitter, const ir::Op& op, int lanes)
    : emitter_(emitter),
      op_(op),
      lanes_(lanes),
      dtype_(reduced_type(op)),
      accumulated_(accumulated_type(op)) {}

int64_t Reducer::accumulator_bytes(const ir::Op& op) {
  const DType dtype = accumulated_type(op);
  return ir::is_16bit(dtype) ? 4 : ir::byte_size(dtype);
}

llvm::Type* Reducer::accumulator_type(int lanes) {
  return emitter_.compute_type_of(accumulated_, lanes);
}

Value* Reducer::empty() {
  llvm::Type* type = accumulator_type(lanes_);
  if (adds(op_)) {
    // -0 is the neutral element: a sum of negative zeros is -0.
    return ir::is_float(accumulated_) ? llvm::ConstantFP::get(type, -0.0)
                                      : llvm::Constant::getNullValue(type);
  }
  if (op_.kind() == OpKind::Prod)
    return ir::is_float(accumulated_) ? static_cast<Value*>(llvm::ConstantFP::get(type, 1.0))
                                      : llvm::ConstantInt::get(type, llvm::APInt(64, 1));
  bool maximum = op_.kind() != OpKind::Min;
  if (ir::is_float(accumulated_)) return llvm::ConstantFP::getInfinity(type, maximum);  // of argmax
  llvm::IRBuilderBase& b = emitter_.builder();
  if (ir::is_float(dtype_))
    return key_of(b,
                  llvm::ConstantFP::getInfinity(emitter_.compute_type_of(dtype_, lanes_), maximum),
                  maximum);
  unsigned bits = type->getScalarSizeInBits();
  bool is_unsigned = dtype_ == DType::U8 || dtype_ == DType::Bool;
  llvm::APInt limit =
      is_unsigned
          ? (maximum ? llvm::APInt::getMinValue(bits) : llvm::APInt::getMaxValue(bits))
          : (maximum ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
  return llvm::ConstantInt::get(type, limit);
}

void Reducer::begin() {
  llvm::IRBuilderBase& b = emitter_.builder();
  KernelFrame& frame = emitter_.frame();
  accumulator_ = frame.slot(accumulator_type(lanes_));
  b.CreateStore(empty(), accumulator_);
  if (adds(op_) && accumulated_ == DType::F32) {
    llvm::Type* wide = emitter_.compute_type_of(DType::F64, lanes_);
    total_ = frame.slot(wide);
    counter_ = frame.slot(b.getInt64Ty());
    b.CreateStore(llvm::ConstantFP::get(wide, -0.0), total_);
    b.CreateStore(b.getInt64(0), counter_);
  }
  if (op_.kind() == OpKind::Prod && ir::is_float(dtype_) && dtype_ != DType::F64) {
    group_ = frame.slot(accumulator_type(lanes_));
    counter_ = frame.slot(b.getInt64Ty());
    start_group();
  }
  if (op_.kind() == OpKind::Argmax) {
    llvm::Type* indices = emitter_.compute_type_of(DType::I64, lanes_);
    index_ = frame.slot(indices);
    b.CreateStore(llvm::Constant::getAllOnesValue(indices), index_);
  }
}

Value* Reducer::combine(Value* x, Value* y) {
  llvm::IRBuilderBase& b = emitter_.builder();
  if (adds(op_)) return ir::is_float(accumulated_) ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
  if (op_.kind() == OpKind::Prod)
    return ir::is_float(accumulated_) ? running_product(b, x, y) : b.CreateMul(x, y);
  return emitter_.extremum(op_.kind() != OpKind::Min, has_keys(op_) ? accumulated_ : dtype_, x, y);
}

Value* Reducer::widened(Value* value) {
  if (has_keys(op_)) return key_of(emitter_.builder(), value, op_.kind() == OpKind::Max);
  return emitter_.convert(dtype_, accumulated_, value);
}

Value* Reducer::with(Value* accumulators, Value* value) {
  return combine(accumulators, widened(value));
}

void Reducer::add_accumulators(Value* accumulators) {
  llvm::IRBuilderBase& b = emitter_.builder();
  llvm::Type* type = accumulator_type(lanes_);
  if (!total_) {
    b.CreateStore(combine(b.CreateLoad(type, accumulator_), accumulators), accumulator_);
    return;
  }
  llvm::Type* wide = emitter_.compute_type_of(DType::F64, lanes_);
  b.CreateStore(b.CreateFAdd(b.CreateLoad(wide, total_), b.CreateFPExt(accumulators, wide)),
                total_);
}

void Reducer::start_group() {
  llvm::IRBuilderBase& b = emitter_.builder();
  b.CreateStore(llvm::ConstantFP::get(accumulator_type(lanes_), 1.0), group_);
  b.CreateStore(b.getInt64(0), counter_);
}

void Reducer::take_group() {
  llvm::IRBuilderBase& b = emitter_.builder();
  llvm::Type* type = accumulator_type(lanes_);
  Value *old = b.CreateLoad(type, accumulator_), *group = b.CreateLoad(type, group_);
  // Neither 0 nor beyond the range, in no lane: the product is what it is.
  Value* product = b.CreateFMul(old, group);
  Value* size = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, product);
  Value* usual = b.CreateAnd(b.CreateFCmpOLT(size, llvm::ConstantFP::getInfinity(type)),
                             b.CreateFCmpOGT(size, llvm::ConstantFP::get(type, 0.0)));
  if (usual->getType()->isVectorTy()) usual = b.CreateAndReduce(usual);
  emitter_.frame().branch(
      usual, [&] { b.CreateStore(product, accumulator_); },
      [&] { b.CreateStore(running_product(b, old, group), accumulator_); });
  start_group();
}

void Reducer::add_factor(Value* value) {
  llvm::IRBuilderBase& b = emitter_.builder();
  Value* old = b.CreateLoad(accumulator_type(lanes_), group_);
  Value* product = b.CreateFMul(old, widened(value));
  if (Value* mask = emitter_.mask()) product = b.CreateSelect(mask, product, old);
  b.CreateStore(product, group_);
  Value* count = b.CreateAdd(b.CreateLoad(b.getInt64Ty(), counter_), b.getInt64(1));
  b.CreateStore(count, counter_);
  emitter_.frame().branch(
      b.CreateICmpEQ(count, b.getInt64(kFactors)), [&] { take_group(); }, [] {});
}

void Reducer::add(Value* value, Value* position) {
  llvm::IRBuilderBase& b = emitter_.builder();
  if (op_.kind() == OpKind::Argmax) return add_argmax(value, position);
  if (group_) return add_factor(value);
  Value* old = b.CreateLoad(accumulator_type(lanes_), accumulator_);
  Value* sum = with(old, value);
  if (Value* mask = emitter_.mask()) sum = b.CreateSelect(mask, sum, old);
  b.CreateStore(sum, accumulator_);
  if (!total_) return;
  // A full block goes to the total.
  Value* count = b.CreateAdd(b.CreateLoad(b.getInt64Ty(), counter_), b.getInt64(1));
  b.CreateStore(count, counter_);
  emitter_.frame().branch(
      b.CreateICmpEQ(count, b.getInt64(ir::kSumBlock)),
      [&] {
        llvm::Type* wide = emitter_.compute_type_of(DType::F64, lanes_);
        Value* block = b.CreateFPExt(b.CreateLoad(accumulator_type(lanes_), accumulator_), wide);
        b.CreateStore(b.CreateFAdd(b.CreateLoad(wide, total_), block), total_);
        b.CreateStore(empty(), accumulator_);
        b.CreateStore(b.getInt64(0), counter_);
      },
      [] {});
}

Value* Reducer::fold(Value* vector) {
  llvm::IRBuilderBase& b = emitter_.builder();
  for (int half = lanes_ / 2; half > 1; half /= 2) {
    llvm::SmallVector<int> low, high;
    for (int i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(half + i);
    }
    vector = combine(b.CreateShuffleVector(vector, low), b.CreateShuffleVector(vector, high));
  }
  if (lanes_ == 1) return vector;
  return combine(b.CreateExtractElement(vector, uint64_t{0}),
                 b.CreateExtractElement(vector, uint64_t{1}));
}

Value* Reducer::finish(int64_t count, bool fold_lanes) {
  llvm::IRBuilderBase& b = emitter_.builder();
  if (op_.kind() == OpKind::Argmax) return finish_argmax();
  if (group_) take_group();
  Value* value = b.CreateLoad(accumulator_type(lanes_), accumulator_);
  bool blocked = total_ != nullptr;
  if (blocked) {
    llvm::Type* wide = emitter_.compute_type_of(DType::F64, lanes_);
    value = b.CreateFAdd(b.CreateLoad(wide, total_), b.CreateFPExt(value, wide));
  }
  if (fold_lanes) value = fold(value);
  if (blocked) value = emitter_.convert(DType::F64, DType::F32, value);
  DType result = op_.result().dtype();
  // Sums of nothing are +0. An integer result is narrowed here, a float one by the caller's
  // rounding.
  if (adds(op_) && count == 0) value = llvm::Constant::getNullValue(value->getType());
  if (has_keys(op_)) return of_key(b, value, emitter_.compute_type_of(dtype_, 1));
  if (!ir::is_float(result)) return emitter_.convert(accumulated_, result, value);
  if (op_.kind() != OpKind::Prod) return value;
  value = settled_product(b, value);
  return dtype_ == DType::F64 ? value : emitter_.convert(DType::F64, DType::F32, value);
}

Value* Reducer::better(Value* value, Value* index, Value* than, Value* than_index) {
  llvm::IRBuilderBase& b = emitter_.builder();
  Value* earlier = b.CreateICmpULT(index, than_index);  // an empty lane has the largest index
  if (!ir::is_float(dtype_)) {
    bool is_unsigned = dtype_ == DType::U8;
    Value* greater = is_unsigned ? b.CreateICmpUGT(value, than) : b.CreateICmpSGT(value, than);
    return b.CreateOr(greater, b.CreateAnd(b.CreateICmpEQ(value, than), earlier));
  }
  Value* nan = b.CreateFCmpUNO(value, value);
  Value* than_nan = b.CreateFCmpUNO(than, than);
  Value* greater = b.CreateFCmpOGT(value, than);
  Value* equal = b.CreateAnd(b.CreateFCmpOEQ(value, than), earlier);
  Value* ordinary = b.CreateAnd(b.CreateNot(than_nan), b.CreateOr(greater, equal));
  Value* first_nan = b.CreateAnd(nan, b.CreateOr(b.CreateNot(than_nan), earlier));
  return b.CreateOr(ordinary, first_nan);
}

void Reducer::add_argmax(Value* value, Value* position) {
  llvm::IRBuilderBase& b = emitter_.builder();
  llvm::Type* indices = emitter_.compute_type_of(DType::I64, lanes_);
  llvm::SmallVector<llvm::Constant*> steps;
  for (int lane = 0; lane < lanes_; ++lane)
    steps.push_back(b.getInt64(static_cast<uint64_t>(lane)));
  Value* lane_steps =
      lanes_ == 1 ? static_cast<Value*>(b.getInt64(0)) : llvm::ConstantVector::get(steps);
  Value* index = b.CreateAdd(emitter_.splat(position, lanes_), lane_steps);
  Value* old = b.CreateLoad(accumulator_type(lanes_), accumulator_);
  Value* old_index = b.CreateLoad(indices, index_);
  Value* take = better(value, index, old, old_index);
  if (Value* mask = emitter_.mask()) take = b.CreateAnd(take, mask);
  b.CreateStore(b.CreateSelect(take, value, old), accumulator_);
  b.CreateStore(b.CreateSelect(take, index, old_index), index_);
}

Value* Reducer::finish_argmax() {
  llvm::IRBuilderBase& b = emitter_.builder();
  Value* values = b.CreateLoad(accumulator_type(lanes_), accumulator_);
  Value* indices = b.CreateLoad(emitter_.compute_type_of(DType::I64, lanes_), index_);
  if (lanes_ == 1) return b.CreateTrunc(indices, b.getInt32Ty());
  Value* best = b.CreateExtractElement(values, uint64_t{0});
  Value* best_index = b.CreateExtractElement(indices, uint64_t{0});
  for (int lane = 1; lane < lanes_; ++lane) {
    Value* value = b.CreateExtractElement(values, static_cast<uint64_t>(lane));
    Value* index = b.CreateExtractElement(indices, static_cast<uint64_t>(lane));
    Value* take = better(value, index, best, best_index);
    best = b.CreateSelect(take, value, best);
    best_index = b.CreateSelect(take, index, best_index);
  }
  return b.CreateTrunc(best_index, b.getInt32Ty());
}

}  // namespace mezzo::codegen
