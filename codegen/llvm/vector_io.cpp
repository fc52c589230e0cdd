// SPDX-License-Identifier: Apache-2.0
// Conversions to bf16 are integer code: the native instruction flushes subnormals and fptrunc
// becomes a call a lane.
#include <mezzo/codegen/llvm/vector_io.h>

#include <mezzo/ir/error.h>

#include <llvm/IR/IRBuilder.h>

namespace mezzo::codegen {
namespace {

using llvm::Value;

int lanes_of(Value* value) {
  return static_cast<int>(llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements());
}

Value* splat(llvm::Type* vector, uint64_t bits) { return llvm::ConstantInt::get(vector, bits); }

/// A vector type of `element` with the lanes of `like`.
llvm::Type* shaped(llvm::Type* element, Value* like) {
  return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_of(like)));
}

/// f64 → f32 toward odd: any value that is not exact gets an odd last bit, so that a further
/// rounding to a much shorter format is the rounding of the exact value.
Value* round_to_odd(llvm::IRBuilderBase& b, Value* value) {
  llvm::Type* f32 = shaped(b.getFloatTy(), value);
  llvm::Type* i32 = shaped(b.getInt32Ty(), value);
  Value* nearest = b.CreateFPTrunc(value, f32);
  Value* back = b.CreateFPExt(nearest, value->getType());
  Value* magnitude = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
  Value* away = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back), magnitude);
  Value* inexact = b.CreateFCmpONE(back, value);
  Value* bits = b.CreateBitCast(nearest, i32);
  bits = b.CreateSub(bits, b.CreateZExt(away, i32));
  return b.CreateBitCast(b.CreateOr(bits, b.CreateZExt(inexact, i32)), f32);
}

Value* f32_to_bf16(llvm::IRBuilderBase& b, Value* value) {
  llvm::Type* i32 = shaped(b.getInt32Ty(), value);
  Value* bits = b.CreateBitCast(value, i32);
  Value* high = b.CreateLShr(bits, splat(i32, 16));
  Value* odd = b.CreateAnd(high, splat(i32, 1));
  Value* rounded = b.CreateAdd(b.CreateAdd(bits, splat(i32, 0x7FFF)), odd);
  rounded = b.CreateLShr(rounded, splat(i32, 16));
  // A NaN keeps its sign and upper payload and becomes quiet.
  Value* quiet = b.CreateOr(high, splat(i32, 0x40));
  Value* result = b.CreateSelect(b.CreateFCmpUNO(value, value), quiet, rounded);
  return b.CreateTrunc(result, shaped(b.getInt16Ty(), value));
}

}  // namespace

llvm::Type* compute_type(llvm::IRBuilderBase& b, ir::DType type) {
  return type == ir::DType::F64 ? b.getDoubleTy() : b.getFloatTy();
}

llvm::Type* storage_type(llvm::IRBuilderBase& b, ir::DType type) {
  switch (type) {
    case ir::DType::F64:
      return b.getDoubleTy();
    case ir::DType::F32:
      return b.getFloatTy();
    case ir::DType::F16:
      return b.getHalfTy();
    case ir::DType::BF16:
      return b.getInt16Ty();
    default:
      throw InternalError(std::string("vector of float elements asked for ") + to_string(type));
  }
}

Value* load_raw(llvm::IRBuilderBase& b, ir::DType type, Value* base, Value* index, int lanes,
                Value* mask) {
  llvm::Type* element = storage_type(b, type);
  auto* vector = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
  const llvm::Align align(static_cast<uint64_t>(ir::byte_size(type)));
  Value* address = b.CreateGEP(element, base, index);
  if (!mask) return b.CreateAlignedLoad(vector, address, align);
  return b.CreateMaskedLoad(vector, address, align, mask, llvm::Constant::getNullValue(vector));
}

Value* load_vector(llvm::IRBuilderBase& b, ir::DType type, Value* base, Value* index, int lanes,
                   Value* mask) {
  return widen(b, type, load_raw(b, type, base, index, lanes, mask));
}

Value* widen(llvm::IRBuilderBase& b, ir::DType type, Value* raw) {
  if (type == ir::DType::F16) {
    // Without the fence LLVM narrows comparisons of widened values to f16, one lane at a time.
    llvm::Type* f32 = shaped(b.getFloatTy(), raw);
    return b.CreateArithmeticFence(b.CreateFPExt(raw, f32), f32);
  }
  if (type == ir::DType::BF16) {
    llvm::Type* i32 = shaped(b.getInt32Ty(), raw);
    Value* bits = b.CreateShl(b.CreateZExt(raw, i32), splat(i32, 16));
    return b.CreateBitCast(bits, shaped(b.getFloatTy(), raw));
  }
  return raw;
}

Value* narrow(llvm::IRBuilderBase& b, ir::DType type, Value* value) {
  const bool wide = value->getType()->getScalarType()->isDoubleTy();
  switch (type) {
    case ir::DType::F64:
      return wide ? value : b.CreateFPExt(value, shaped(b.getDoubleTy(), value));
    case ir::DType::F32:
      return wide ? b.CreateFPTrunc(value, shaped(b.getFloatTy(), value)) : value;
    case ir::DType::F16:
      // Toward odd first: no target but AVX512-FP16 converts f64 to f16 at once.
      return b.CreateFPTrunc(wide ? round_to_odd(b, value) : value, shaped(b.getHalfTy(), value));
    case ir::DType::BF16:
      return f32_to_bf16(b, wide ? round_to_odd(b, value) : value);
    default:
      throw InternalError(std::string("a float vector cannot be stored as ") + to_string(type));
  }
}

void store_vector(llvm::IRBuilderBase& b, ir::DType type, Value* base, Value* index, Value* value,
                  Value* mask) {
  Value* raw = narrow(b, type, value);
  const llvm::Align align(static_cast<uint64_t>(ir::byte_size(type)));
  Value* address = b.CreateGEP(storage_type(b, type), base, index);
  if (mask) {
    b.CreateMaskedStore(raw, address, align, mask);
  } else {
    b.CreateAlignedStore(raw, address, align);
  }
}

std::vector<Value*> transpose(llvm::IRBuilderBase& b, std::vector<Value*> rows) {
  const int size = static_cast<int>(rows.size());
  MEZZO_CHECK(size == lanes_of(rows[0]) && (size == 2 || size == 4 || size == 8),
              "no transposition of " + std::to_string(size) + " vectors");
  // Each stage swaps one bit of the row number with the same bit of the lane number.
  for (int distance = 1; distance < size; distance *= 2) {
    llvm::SmallVector<int> low, high;
    for (int lane = 0; lane < size; ++lane) {
      const int from = (lane & ~distance) + ((lane & distance) ? size : 0);
      low.push_back(from);
      high.push_back(from + distance);
    }
    for (int row = 0; row < size; ++row) {
      if (row & distance) continue;
      Value*& first = rows[static_cast<size_t>(row)];
      Value*& second = rows[static_cast<size_t>(row + distance)];
      Value* upper = b.CreateShuffleVector(first, second, high);
      first = b.CreateShuffleVector(first, second, low);
      second = upper;
    }
  }
  return rows;
}

}  // namespace mezzo::codegen
