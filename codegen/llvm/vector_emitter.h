// SPDX-License-Identifier: Apache-2.0
// The emitter of device functions that writes LLVM IR on fixed vectors or scalars. Only for
// codegen/llvm/*.cpp (and its test). fma, sqrt and the roundings are intrinsics that are single
// instructions with FMA3 and SSE4.1; nothing becomes a library call on a vector, no instruction has
// fast-math flags.
#pragma once

#include <mezzo/codegen/scalar_emitter.h>

#include <llvm/ADT/APInt.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <array>

namespace mezzo::codegen {

class VectorEmitter {
 public:
  using F = llvm::Value*;
  using I = llvm::Value*;
  using B = llvm::Value*;

  /// Emits at the insertion point of `builder` for values `<lanes x float>` (width 32) or
  /// `<lanes x double>` (64); lanes = 1 means plain scalars.
  VectorEmitter(llvm::IRBuilder<>& builder, int width, int lanes)
      : builder_(builder),
        width_(width),
        float_(vector(width == 32 ? builder.getFloatTy() : builder.getDoubleTy(), lanes)),
        int_(vector(builder.getIntNTy(static_cast<unsigned>(width)), lanes)),
        wide_(vector(builder.getInt64Ty(), lanes)) {}

  int width() const { return width_; }
  llvm::Type* float_type() const { return float_; }
  llvm::Type* int_type() const { return int_; }

  F constant(double value) { return llvm::ConstantFP::get(float_, value); }
  I iconstant(int64_t value) {
    const llvm::APInt bits(64, static_cast<uint64_t>(value));
    return llvm::ConstantInt::get(int_, bits.trunc(static_cast<unsigned>(width_)));
  }

  F add(F x, F y) {
    return exact([&] { return builder_.CreateFAdd(x, y); });
  }
  F sub(F x, F y) {
    return exact([&] { return builder_.CreateFSub(x, y); });
  }
  F mul(F x, F y) {
    return exact([&] { return builder_.CreateFMul(x, y); });
  }
  F div(F x, F y) {
    return exact([&] { return builder_.CreateFDiv(x, y); });
  }
  F fma(F x, F y, F z) { return intrinsic(llvm::Intrinsic::fma, {x, y, z}); }
  F neg(F x) {
    return exact([&] { return builder_.CreateFNeg(x); });
  }
  F abs(F x) { return intrinsic(llvm::Intrinsic::fabs, {x}); }
  F sqrt(F x) { return intrinsic(llvm::Intrinsic::sqrt, {x}); }
  F floor(F x) { return intrinsic(llvm::Intrinsic::floor, {x}); }
  F ceil(F x) { return intrinsic(llvm::Intrinsic::ceil, {x}); }
  F trunc(F x) { return intrinsic(llvm::Intrinsic::trunc, {x}); }
  F round_even(F x) { return intrinsic(llvm::Intrinsic::roundeven, {x}); }

  B lt(F x, F y) { return compare(llvm::CmpInst::FCMP_OLT, x, y); }
  B le(F x, F y) { return compare(llvm::CmpInst::FCMP_OLE, x, y); }
  B gt(F x, F y) { return compare(llvm::CmpInst::FCMP_OGT, x, y); }
  B ge(F x, F y) { return compare(llvm::CmpInst::FCMP_OGE, x, y); }
  B eq(F x, F y) { return compare(llvm::CmpInst::FCMP_OEQ, x, y); }
  B ne(F x, F y) { return compare(llvm::CmpInst::FCMP_UNE, x, y); }
  B band(B x, B y) { return builder_.CreateAnd(x, y); }
  B bor(B x, B y) { return builder_.CreateOr(x, y); }
  B bnot(B x) { return builder_.CreateNot(x); }
  F select(B b, F x, F y) {
    return exact([&] { return builder_.CreateSelect(b, x, y); });
  }

  I to_bits(F x) { return builder_.CreateBitCast(x, int_); }
  F from_bits(I i) { return builder_.CreateBitCast(i, float_); }
  I iadd(I i, I j) { return builder_.CreateAdd(i, j); }
  I isub(I i, I j) { return builder_.CreateSub(i, j); }
  I iand(I i, I j) { return builder_.CreateAnd(i, j); }
  I ior(I i, I j) { return builder_.CreateOr(i, j); }
  I ixor(I i, I j) { return builder_.CreateXor(i, j); }
  I ishl(I i, int bits) { return builder_.CreateShl(i, static_cast<uint64_t>(bits)); }
  I ilshr(I i, int bits) { return builder_.CreateLShr(i, static_cast<uint64_t>(bits)); }
  I umul32_low(I i, I j) {
    llvm::Value* product = builder_.CreateMul(i, j);
    return width_ == 32 ? product : iand(product, iconstant(INT64_C(0xFFFFFFFF)));
  }
  I umul32_high(I i, I j) {
    llvm::Value* product =
        builder_.CreateMul(builder_.CreateZExt(i, wide_), builder_.CreateZExt(j, wide_));
    return builder_.CreateTrunc(builder_.CreateLShr(product, uint64_t{32}), int_);
  }

  template <size_t N, class Make>
  std::array<F, N> rare(B b, const std::array<F, N>& values, Make make) {
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    llvm::Function* function = before->getParent();
    auto* somewhere = llvm::BasicBlock::Create(builder_.getContext(), "rare", function);
    auto* after = llvm::BasicBlock::Create(builder_.getContext(), "common", function);
    llvm::Value* any = b->getType()->isVectorTy() ? builder_.CreateOrReduce(b) : b;
    // Lanes behind the end of a tensor may hold anything, which must not decide a branch.
    builder_.CreateCondBr(builder_.CreateFreeze(any), somewhere, after);
    builder_.SetInsertPoint(somewhere);
    const std::array<F, N> made = make();
    std::array<F, N> chosen, results;
    for (size_t i = 0; i < N; ++i) chosen[i] = select(b, made[i], values[i]);
    builder_.CreateBr(after);
    llvm::BasicBlock* end = builder_.GetInsertBlock();
    builder_.SetInsertPoint(after);
    for (size_t i = 0; i < N; ++i) {
      llvm::PHINode* joined = builder_.CreatePHI(float_, 2);
      joined->addIncoming(values[i], before);
      joined->addIncoming(chosen[i], end);
      results[i] = joined;
    }
    return results;
  }

 private:
  static llvm::Type* vector(llvm::Type* element, int lanes) {
    if (lanes == 1) return element;
    return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
  }

  /// Makes an instruction without fast-math flags, whatever the builder's are.
  template <class Make>
  llvm::Value* exact(Make make) {
    llvm::IRBuilderBase::FastMathFlagGuard guard(builder_);
    builder_.clearFastMathFlags();
    return make();
  }

  llvm::Value* compare(llvm::CmpInst::Predicate predicate, llvm::Value* x, llvm::Value* y) {
    return exact([&] { return builder_.CreateFCmp(predicate, x, y); });
  }

  llvm::Value* intrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value*> operands) {
    return exact([&] { return builder_.CreateIntrinsic(id, {float_}, operands); });
  }

  llvm::IRBuilder<>& builder_;
  int width_;
  llvm::Type* float_;
  llvm::Type* int_;
  llvm::Type* wide_;
};

static_assert(ScalarEmitter<VectorEmitter>);

}  // namespace mezzo::codegen
