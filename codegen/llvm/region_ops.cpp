// SPDX-License-Identifier: Apache-2.0
// Arithmetic of region values: device functions on floats, plain integer code, conversions,
// rounding, flag words and random numbers.
#include <mezzo/codegen/llvm/region_emitter.h>
#include <mezzo/codegen/llvm/vector_emitter.h>
#include <mezzo/codegen/llvm/vector_io.h>
#include <mezzo/codegen/scalar_functions.h>
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/flags.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/philox.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>

namespace mezzo::codegen {

using ir::DType;
using ir::FlagBit;
using ir::OpKind;
using llvm::Value;

namespace {

int lanes_of(Value* value) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return type ? static_cast<int>(type->getNumElements()) : 1;
}

/// The IRBuilder behind the frame is a plain one.
llvm::IRBuilder<>& plain(llvm::IRBuilderBase& builder) {
  return static_cast<llvm::IRBuilder<>&>(builder);
}

/// Calls a device function with as many operands as it takes; null when it takes another number, or
/// there is none where none is needed.
template <bool kNeeded, class Function>
Value* call(Function function, const std::vector<Value*>& x) {
  using V = Value*;
  static_assert(!kNeeded || std::is_invocable_v<Function, V> ||
                    std::is_invocable_v<Function, V, V> || std::is_invocable_v<Function, V, V, V>,
                "a row of functions of floats needs its device function in codegen/scalar_*.h");
  if constexpr (std::is_invocable_v<Function, V>)
    if (x.size() == 1) return function(x[0]);
  if constexpr (std::is_invocable_v<Function, V, V>)
    if (x.size() == 2) return function(x[0], x[1]);
  if constexpr (std::is_invocable_v<Function, V, V, V>)
    if (x.size() == 3) return function(x[0], x[1], x[2]);
  return nullptr;
}

/// Functions of floats; a sum of any number of terms is written where it is computed.
constexpr bool needs_device_function(OpKind kind, ir::TypeRule types) {
  return types == ir::TypeRule::SameFloat && kind != OpKind::AddN;
}

/// The device function of an elementwise row on floats; null when there is none by that name.
Value* device_function(OpKind kind, VectorEmitter& e, const std::vector<Value*>& x) {
  switch (kind) {
#define ELEMENTWISE(Kind, name, operands, types, ...)                      \
  case OpKind::Kind:                                                       \
    return call<needs_device_function(OpKind::Kind, ir::TypeRule::types)>( \
        [&](auto... v) -> decltype(dev_##name(e, v...)) { return dev_##name(e, v...); }, x);
#include <mezzo/ir/ops.def>
    default:
      return nullptr;
  }
}

}  // namespace

llvm::Type* RegionEmitter::compute_type_of(DType dtype, int lanes) {
  llvm::IRBuilderBase& b = builder();
  llvm::Type* type = ir::is_float(dtype) ? compute_type(b, dtype)
                     : dtype == DType::Bool
                         ? b.getInt1Ty()
                         : b.getIntNTy(static_cast<unsigned>(ir::byte_size(dtype) * 8));
  return lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
}

Value* RegionEmitter::round(DType dtype, Value* value) {
  if (!ir::is_16bit(dtype)) return value;
  llvm::IRBuilderBase& b = builder();
  bool scalar = !value->getType()->isVectorTy();
  if (scalar) value = b.CreateVectorSplat(1, value);
  Value* rounded = widen(b, dtype, narrow(b, dtype, value));
  return scalar ? b.CreateExtractElement(rounded, uint64_t{0}) : rounded;
}

Value* RegionEmitter::convert(DType from, DType to, Value* value) {
  llvm::IRBuilderBase& b = builder();
  int lanes = lanes_of(value);
  llvm::Type* type = compute_type_of(to, lanes);
  llvm::Type* source = value->getType();
  if (ir::is_float(from)) {
    if (to == DType::Bool) return b.CreateFCmpUNE(value, llvm::Constant::getNullValue(source));
    if (!ir::is_float(to))
      return b.CreateIntrinsic(
          to == DType::U8 ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat,
          {type, source}, {value});
    if (ir::is_16bit(to)) {
      bool scalar = lanes == 1;
      Value* vector = scalar ? b.CreateVectorSplat(1, value) : value;
      vector = widen(b, to, narrow(b, to, vector));
      return scalar ? b.CreateExtractElement(vector, uint64_t{0}) : vector;
    }
    return b.CreateFPCast(value, type);
  }
  if (!ir::is_float(to)) {
    if (to == DType::Bool)
      return from == DType::Bool ? value
                                 : b.CreateICmpNE(value, llvm::Constant::getNullValue(source));
    return from == DType::Bool || from == DType::U8 ? b.CreateZExtOrTrunc(value, type)
                                                    : b.CreateSExtOrTrunc(value, type);
  }
  bool is_unsigned = from == DType::Bool || from == DType::U8;
  // By way of f64, which holds every i32, so that a 16-bit result is rounded once. An i64 is
  // shortened to 53 bits, with what is dropped kept as one sticky bit.
  bool by_double = ir::is_16bit(to);
  if (by_double && from == DType::I64) value = shorten_to_double(value);
  llvm::Type* number = by_double ? compute_type_of(DType::F64, lanes) : type;
  Value* real = is_unsigned ? b.CreateUIToFP(value, number) : b.CreateSIToFP(value, number);
  return by_double ? convert(DType::F64, to, real) : real;
}

Value* RegionEmitter::shorten_to_double(Value* value) {
  llvm::IRBuilderBase& b = builder();
  auto constant = [&](int64_t number) {
    return llvm::ConstantInt::get(value->getType(), static_cast<uint64_t>(number), true);
  };
  constexpr int64_t kLow = (1 << 11) - 1, kLimit = int64_t{1} << 53;
  Value* dropped = b.CreateICmpNE(b.CreateAnd(value, constant(kLow)), constant(0));
  Value* sticky = b.CreateShl(b.CreateZExt(dropped, value->getType()), uint64_t{11});
  Value* shortened = b.CreateOr(b.CreateAnd(value, constant(~kLow)), sticky);
  Value* fits = b.CreateAnd(b.CreateICmpSGE(value, constant(-kLimit)),
                            b.CreateICmpSLE(value, constant(kLimit)));
  return b.CreateSelect(fits, value, shortened);
}

Value* RegionEmitter::extremum(bool maximum, DType dtype, Value* x, Value* y) {
  llvm::IRBuilderBase& b = builder();
  if (!ir::is_float(dtype)) {
    bool is_unsigned = dtype == DType::U8;
    auto id = maximum ? (is_unsigned ? llvm::Intrinsic::umax : llvm::Intrinsic::smax)
                      : (is_unsigned ? llvm::Intrinsic::umin : llvm::Intrinsic::smin);
    return b.CreateBinaryIntrinsic(id, x, y);
  }
  VectorEmitter e(plain(b), dtype == DType::F64 ? 64 : 32, lanes_of(x));
  return maximum ? dev_maximum(e, x, y) : dev_minimum(e, x, y);
}

Value* RegionEmitter::compute(const ir::Op& op, std::vector<Value*> x) {
  llvm::IRBuilderBase& b = builder();
  DType from = op.operand(op.kind() == OpKind::Where ? 1 : 0).dtype();
  switch (op.kind()) {
    case OpKind::Cast: {
      // Rounding to 16 bits is left to `round`, so that a flag can compare before and after.
      DType to = op.result().dtype();
      if (ir::is_float(from) && ir::is_16bit(to))
        return from == DType::F64 ? convert(from, to, x[0]) : x[0];
      return convert(from, to, x[0]);
    }
    case OpKind::StopGradient:
      return x[0];
    case OpKind::Where:
      return b.CreateSelect(x[0], x[1], x[2]);
    case OpKind::LogicalAnd:
      return b.CreateAnd(x[0], x[1]);
    case OpKind::LogicalOr:
      return b.CreateOr(x[0], x[1]);
    case OpKind::LogicalXor:
      return b.CreateXor(x[0], x[1]);
    case OpKind::LogicalNot:
      return b.CreateNot(x[0]);
    case OpKind::AddN: {
      Value* total = x[0];
      for (size_t i = 1; i < x.size(); ++i) total = b.CreateFAdd(total, x[i]);
      return total;
    }
    default:
      break;
  }
  if (!ir::is_float(from)) return compute_integer(op, x);
  VectorEmitter e(plain(b), from == DType::F64 ? 64 : 32, lanes_of(x[0]));
  Value* result = device_function(op.kind(), e, x);
  MEZZO_CHECK(result, std::string("'") + op.info().name + "' has no device function of " +
                          std::to_string(x.size()) + " operands");
  return result;
}

Value* RegionEmitter::compute_integer(const ir::Op& op, const std::vector<Value*>& x) {
  llvm::IRBuilderBase& b = builder();
  DType dtype = op.operand(0).dtype();
  bool is_unsigned = dtype == DType::U8 || dtype == DType::Bool;
  Value* zero = llvm::Constant::getNullValue(x[0]->getType());
  auto less = [&](Value* left, Value* right) {
    return is_unsigned ? b.CreateICmpULT(left, right) : b.CreateICmpSLT(left, right);
  };
  switch (op.kind()) {
    case OpKind::Add:
      return b.CreateAdd(x[0], x[1]);
    case OpKind::Sub:
      return b.CreateSub(x[0], x[1]);
    case OpKind::Mul:
      return b.CreateMul(x[0], x[1]);
    case OpKind::Neg:
      return b.CreateNeg(x[0]);
    case OpKind::Square:
      return b.CreateMul(x[0], x[0]);
    case OpKind::Abs:
      return is_unsigned ? x[0] : b.CreateSelect(less(x[0], zero), b.CreateNeg(x[0]), x[0]);
    case OpKind::Sign: {
      Value* positive = b.CreateZExt(less(zero, x[0]), x[0]->getType());
      return b.CreateSub(positive, b.CreateZExt(less(x[0], zero), x[0]->getType()));
    }
    case OpKind::FloorDiv:
    case OpKind::Remainder:
      return divide_integers(op.kind() == OpKind::FloorDiv, is_unsigned, x[0], x[1]);
    case OpKind::Relu:
      return extremum(true, dtype, x[0], zero);
    case OpKind::Relu6:
      return extremum(false, dtype, extremum(true, dtype, x[0], zero),
                      llvm::ConstantInt::get(x[0]->getType(), 6));
    case OpKind::Clamp:
      return extremum(false, dtype, extremum(true, dtype, x[0], x[1]), x[2]);
    case OpKind::Maximum:
      return extremum(true, dtype, x[0], x[1]);
    case OpKind::Minimum:
      return extremum(false, dtype, x[0], x[1]);
    case OpKind::BitwiseAnd:
      return b.CreateAnd(x[0], x[1]);
    case OpKind::BitwiseOr:
      return b.CreateOr(x[0], x[1]);
    case OpKind::BitwiseXor:
      return b.CreateXor(x[0], x[1]);
    case OpKind::BitwiseNot:
      return b.CreateNot(x[0]);
    case OpKind::Eq:
      return b.CreateICmpEQ(x[0], x[1]);
    case OpKind::Ne:
      return b.CreateICmpNE(x[0], x[1]);
    case OpKind::Lt:
      return less(x[0], x[1]);
    case OpKind::Gt:
      return less(x[1], x[0]);
    case OpKind::Le:
      return b.CreateNot(less(x[1], x[0]));
    case OpKind::Ge:
      return b.CreateNot(less(x[0], x[1]));
    default:
      throw InternalError(std::string("'") + op.info().name + "' has no integer code");
  }
}

Value* RegionEmitter::divide_integers(bool quotient, bool is_unsigned, Value* x, Value* y) {
  llvm::IRBuilderBase& b = builder();
  llvm::Type* type = x->getType();
  Value* zero = llvm::Constant::getNullValue(type);
  // Lanes behind the end of a tensor may hold anything, and a division must not trap in them.
  Value* divisor = b.CreateFreeze(y);
  Value* by_zero = b.CreateICmpEQ(divisor, zero);
  Value* by_minus_one = is_unsigned
                            ? llvm::ConstantInt::getFalse(by_zero->getType())
                            : b.CreateICmpEQ(divisor, llvm::Constant::getAllOnesValue(type));
  raise_range(by_zero);
  // By 1 in place of 0 and of -1, whose quotient of the lowest integer does not fit.
  Value* safe =
      b.CreateSelect(b.CreateOr(by_zero, by_minus_one), llvm::ConstantInt::get(type, 1), divisor);
  Value* whole = is_unsigned ? b.CreateUDiv(x, safe) : b.CreateSDiv(x, safe);
  Value* rest = b.CreateSub(x, b.CreateMul(whole, safe));
  Value* below =
      b.CreateAnd(b.CreateICmpNE(rest, zero), b.CreateICmpSLT(b.CreateXor(rest, divisor), zero));
  if (!quotient) {
    if (is_unsigned) return rest;
    return b.CreateSelect(below, b.CreateAdd(rest, divisor), rest);
  }
  Value* floored = is_unsigned ? whole : b.CreateSub(whole, b.CreateZExt(below, type));
  return b.CreateSelect(by_zero, zero, b.CreateSelect(by_minus_one, b.CreateNeg(x), floored));
}

// --- flags

Value* RegionEmitter::any_lane(Value* condition) {
  return condition->getType()->isVectorTy() ? builder().CreateOrReduce(condition) : condition;
}

/// Flags gather in masks on the stack, which become registers; one OR into memory at the end.
void RegionEmitter::accumulate(const ir::Op& op, unsigned bit, Value* condition) {
  llvm::IRBuilderBase& b = builder();
  int64_t word = op.attrs().get_int("word");
  if (condition->getType()->isVectorTy() && mask_) condition = b.CreateAnd(condition, mask_);
  int lanes = lanes_of(condition);
  Value*& slot = flags_[{word, lanes, bit}];
  llvm::Type* stored =
      lanes == 1 ? static_cast<llvm::Type*>(b.getInt32Ty())
                 : llvm::FixedVectorType::get(b.getInt32Ty(), static_cast<unsigned>(lanes));
  if (!slot) slot = zeroed_slot(stored);
  b.CreateStore(b.CreateOr(b.CreateLoad(stored, slot), b.CreateSExt(condition, stored)), slot);
}

/// Bits of infinity in f32: magnitudes that are no numbers have no less.
constexpr uint32_t kInfinityBits = 0x7f800000, kSignBit = 0x80000000;

/// The largest magnitude of what a word watches, as an integer: an instruction less than a
/// comparison for each value.
void RegionEmitter::watch_magnitude(const ir::Op& op, Value* value) {
  llvm::IRBuilderBase& b = builder();
  const int lanes = lanes_of(value);
  llvm::Type* type = lanes == 1
                         ? static_cast<llvm::Type*>(b.getInt32Ty())
                         : llvm::FixedVectorType::get(b.getInt32Ty(), static_cast<unsigned>(lanes));
  Value* bits = b.CreateAnd(b.CreateBitCast(value, type), llvm::ConstantInt::get(type, ~kSignBit));
  if (lanes > 1 && mask_) bits = b.CreateSelect(mask_, bits, llvm::Constant::getNullValue(type));
  Value*& slot = magnitudes_[{op.attrs().get_int("word"), lanes}];
  if (!slot) slot = zeroed_slot(type);
  Value* largest = b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, b.CreateLoad(type, slot), bits);
  b.CreateStore(largest, slot);
}

void RegionEmitter::flag(const ir::Op& op, const std::vector<Value*>& x, Value* unrounded,
                         Value* rounded) {
  if (!op.attrs().has("word") || !ir::is_float(op.result().dtype())) return;
  llvm::IRBuilderBase& b = builder();
  auto nonfinite = [&](Value* value) {
    Value* magnitude = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
    return b.CreateFCmpUEQ(magnitude, llvm::ConstantFP::getInfinity(value->getType()));
  };
  if (rounded->getType()->getScalarType()->isFloatTy())
    watch_magnitude(op, rounded);
  else
    accumulate(op, static_cast<unsigned>(FlagBit::NonFinite), nonfinite(rounded));
  if (ir::is_16bit(op.result().dtype())) {
    Value* source = op.kind() == OpKind::Cast && x.size() == 1 ? x[0] : unrounded;
    Value* magnitude = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, rounded);
    Value* overflow = b.CreateFCmpOEQ(magnitude, llvm::ConstantFP::getInfinity(rounded->getType()));
    // An integer is finite always.
    if (source->getType()->getScalarType()->isFloatingPointTy())
      overflow = b.CreateAnd(overflow, b.CreateNot(nonfinite(source)));
    accumulate(op, static_cast<unsigned>(FlagBit::Overflow), overflow);
  }
  for (const ir::Pole& pole : op.info().poles) {
    Value* value = x[static_cast<size_t>(pole.operand)];
    Value* there = b.CreateFCmpOEQ(value, llvm::ConstantFP::get(value->getType(), pole.value));
    if (pole.other >= 0) {
      Value* other = x[static_cast<size_t>(pole.other)];
      Value* zero = llvm::Constant::getNullValue(other->getType());
      there =
          b.CreateAnd(there, pole.when == ir::PoleWhen::Negative ? b.CreateFCmpOLT(other, zero)
                                                                 : b.CreateFCmpUNE(other, zero));
    }
    accumulate(op, static_cast<unsigned>(FlagBit::Pole), there);
  }
}

void RegionEmitter::write_flags() {
  llvm::IRBuilderBase& b = builder();
  std::vector<int64_t> words = ir::kernel_words(kernel_);
  std::map<int64_t, Value*> totals;
  for (const auto& [key, slot] : flags_) {
    const auto [word, lanes, bit] = key;
    llvm::Type* type = llvm::cast<llvm::AllocaInst>(slot)->getAllocatedType();
    Value* seen = b.CreateLoad(type, slot);
    if (type->isVectorTy()) seen = b.CreateOrReduce(seen);
    Value* bits = b.CreateAnd(seen, b.getInt32(bit));
    Value*& total = totals[word];
    total = total ? b.CreateOr(total, bits) : bits;
  }
  for (const auto& [key, slot] : magnitudes_) {
    llvm::Type* type = llvm::cast<llvm::AllocaInst>(slot)->getAllocatedType();
    Value* largest = b.CreateLoad(type, slot);
    if (type->isVectorTy()) largest = b.CreateIntMaxReduce(largest, /*IsSigned=*/false);
    Value* bits =
        b.CreateSelect(b.CreateICmpUGE(largest, b.getInt32(kInfinityBits)),
                       b.getInt32(static_cast<unsigned>(FlagBit::NonFinite)), b.getInt32(0));
    Value*& total = totals[key.first];
    total = total ? b.CreateOr(total, bits) : bits;
  }
  auto write = [&](Value* address, Value* bits) {
    frame_.branch(
        b.CreateICmpNE(bits, b.getInt32(0)),
        [&] {
          b.CreateAtomicRMW(llvm::AtomicRMWInst::Or, address, bits, llvm::MaybeAlign(4),
                            llvm::AtomicOrdering::Monotonic);
        },
        [] {});
  };
  for (const auto& [word, bits] : totals) {
    auto position = std::find(words.begin(), words.end(), word) - words.begin();
    write(frame_.flag(static_cast<int>(position)), bits);
  }
  if (range_flag_)
    write(frame_.flag(static_cast<int>(words.size())), b.CreateLoad(b.getInt32Ty(), range_flag_));
}

Value* RegionEmitter::zeroed_slot(llvm::Type* type) {
  llvm::BasicBlock& entry = frame_.function()->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  Value* slot = at_entry.CreateAlloca(type);
  at_entry.CreateStore(llvm::Constant::getNullValue(type), slot);
  return slot;
}

Value* RegionEmitter::check_index(const ir::Op& op, Value* value) {
  llvm::IRBuilderBase& b = builder();
  // As i64: neither attribute need fit the type of the labels.
  auto [label, bad] = outside(op.result().dtype(), value, op.int_attr("size"));
  if (const ir::Attr* ignore = op.attrs().find("ignore_index"))
    bad = b.CreateAnd(bad, b.CreateICmpNE(label, llvm::ConstantInt::getSigned(
                                                     label->getType(), ignore->as<int64_t>())));
  raise_range(bad);
  return value;
}

std::pair<Value*, Value*> RegionEmitter::outside(DType dtype, Value* value, int64_t size) {
  llvm::IRBuilderBase& b = builder();
  llvm::Type* wide = compute_type_of(DType::I64, lanes_of(value));
  Value* index = dtype == DType::U8 ? b.CreateZExt(value, wide) : b.CreateSExt(value, wide);
  Value* bad = b.CreateOr(b.CreateICmpSLT(index, llvm::Constant::getNullValue(wide)),
                          b.CreateICmpSGE(index, llvm::ConstantInt::getSigned(wide, size)));
  return {index, bad};
}

void RegionEmitter::raise_range(Value* bad) {
  llvm::IRBuilderBase& b = builder();
  if (bad->getType()->isVectorTy() && mask_) bad = b.CreateAnd(bad, mask_);
  if (!range_flag_) range_flag_ = zeroed_slot(b.getInt32Ty());
  Value* seen = b.CreateZExt(any_lane(bad), b.getInt32Ty());
  b.CreateStore(b.CreateOr(b.CreateLoad(b.getInt32Ty(), range_flag_), seen), range_flag_);
}

// --- random numbers

Value* RegionEmitter::random(const ir::Op& op, const Coordinates& at) {
  llvm::IRBuilderBase& b = builder();
  const ir::Type& type = op.result().type();
  auto [offset, stride] = linear(type.shape, at);
  bool vector = !uniform(at);
  int width = vector ? lanes_ : 1;
  Value* element = vector ? lane_indices({offset, stride}) : offset;
  if (op.num_operands() > 1) {
    // Element = global sample index * row size + offset within the sample.
    int64_t row = type.rank() == 0 ? 1 : type.elements() / std::max<int64_t>(type.shape[0], 1);
    Value* sample = eval(op.operand(1), origin(op.operand(1).shape()));
    element = b.CreateAdd(element, splat(b.CreateMul(sample, index(row)), width));
  }
  Coordinates first{{index(0), 0}}, second{{index(1), 0}};
  return random_element(op, element, splat(eval(op.operand(0), first), width),
                        splat(eval(op.operand(0), second), width));
}

Value* RegionEmitter::random_element(const ir::Op& op, Value* element, Value* seed, Value* step) {
  llvm::IRBuilderBase& b = builder();
  DType dtype = op.result().dtype();
  int width = lanes_of(element);
  bool wide = dtype == DType::F64, normal = op.kind() == OpKind::RandomNormal;
  VectorEmitter e(plain(b), wide ? 64 : 32, width);
  auto word_of = [&](Value* number, int shift) {
    // Words live in lanes of the emitter's width, zero-extended.
    Value* shifted = b.CreateLShr(number, static_cast<uint64_t>(shift));
    if (!wide) return b.CreateTrunc(shifted, e.int_type());
    return b.CreateAnd(shifted, llvm::ConstantInt::get(shifted->getType(), 0xFFFFFFFFu));
  };
  Value* stream = splat(frame_.integer(slots_.at(&op)), width);
  Value* counter = b.CreateLShr(element, uint64_t{wide ? 1u : 2u});
  std::array<Value*, 4> words = dev_philox(
      e, {word_of(counter, 0), word_of(counter, 32), word_of(stream, 0), word_of(step, 0)},
      {word_of(seed, 0), word_of(seed, 32)});
  Value* one = llvm::ConstantInt::get(element->getType(), 1);
  Value* odd = b.CreateICmpEQ(b.CreateAnd(element, one), one);
  if (wide) {
    if (!normal) {
      Value* high = b.CreateSelect(odd, words[2], words[0]);
      Value* low = b.CreateSelect(odd, words[3], words[1]);
      return dev_uniform53(e, high, low);
    }
    std::array<Value*, 2> pair = dev_normal(e, words);
    return b.CreateSelect(odd, pair[1], pair[0]);
  }
  Value* two = llvm::ConstantInt::get(element->getType(), 2);
  Value* upper = b.CreateICmpEQ(b.CreateAnd(element, two), two);
  Value* first = b.CreateSelect(upper, words[2], words[0]);
  Value* second = b.CreateSelect(upper, words[3], words[1]);
  if (normal) {
    std::array<Value*, 2> pair = dev_normal(e, first, second);
    return round(dtype, b.CreateSelect(odd, pair[1], pair[0]));
  }
  Value* word = b.CreateSelect(odd, second, first);
  if (op.kind() == ir::OpKind::Bernoulli)
    return dev_word_below(e, word, ir::probability_words(op.float_attr("p")));
  int bits = dtype == DType::F16 ? 11 : dtype == DType::BF16 ? 8 : 24;
  return dev_uniform(e, word, bits);
}

}  // namespace mezzo::codegen
