// SPDX-License-Identifier: Apache-2.0
// All accumulators live in registers (mr·nr/lanes of them) through the loop over k, which takes
// four steps at a time: each step loads nr/lanes vectors of B, broadcasts mr elements of A, and
// multiplies and adds.
#include <mezzo/codegen/llvm/microkernel.h>

#include <mezzo/ir/error.h>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

namespace mezzo::codegen {
namespace {

using llvm::Value;

constexpr int kUnroll = 4;

class Emitter {
 public:
  Emitter(ModuleBuilder& module, const MicrokernelSpec& spec)
      : target_(module.target()), spec_(spec), b_(module.context()) {
    const bool wide = spec.type == ir::DType::F64;
    element_ = wide ? b_.getDoubleTy() : b_.getFloatTy();
    lanes_ = target_.lanes(wide ? 8 : 4);
    vectors_ = spec.nr / lanes_;
    MEZZO_CHECK(spec.nr % lanes_ == 0 && vectors_ > 0,
                "a tile of " + std::to_string(spec.nr) + " columns does not divide into vectors");
    vector_ = llvm::FixedVectorType::get(element_, static_cast<unsigned>(lanes_));
    llvm::Type* pointer = b_.getPtrTy();
    llvm::Type* index = b_.getInt64Ty();
    auto* type = llvm::FunctionType::get(
        b_.getVoidTy(), {pointer, pointer, index, pointer, index, index}, /*isVarArg=*/false);
    function_ = module.create_function(microkernel_name(spec), type, /*internal=*/true);
    function_->addFnAttr(llvm::Attribute::NoInline);
    for (unsigned pointer_argument : {0u, 1u, 3u}) {
      function_->addParamAttr(pointer_argument, llvm::Attribute::NoAlias);
    }
  }

  llvm::Function* emit() {
    auto* entry = block("entry");
    b_.SetInsertPoint(entry);
    std::vector<Value*> zero(static_cast<size_t>(spec_.mr * vectors_),
                             llvm::Constant::getNullValue(vector_));
    Value* whole = b_.CreateAnd(function_->getArg(2), ~static_cast<uint64_t>(kUnroll - 1));
    State state{function_->getArg(0), function_->getArg(1), zero};
    state = loop(state, b_.getInt64(0), whole, kUnroll);
    state = loop(state, whole, function_->getArg(2), 1);
    finish(state);
    return function_;
  }

 private:
  struct State {
    Value* a;
    Value* b;
    std::vector<Value*> acc;
  };

  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(b_.getContext(), name, function_);
  }

  /// Steps [begin, end) of k, `steps` at a time.
  State loop(const State& in, Value* begin, Value* end, int steps) {
    llvm::BasicBlock* before = b_.GetInsertBlock();
    auto* head = block("k");
    auto* after = block("done");
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), head, after);
    b_.SetInsertPoint(head);
    llvm::PHINode* index = phi(b_.getInt64Ty(), begin, before);
    llvm::PHINode* a = phi(b_.getPtrTy(), in.a, before);
    llvm::PHINode* b = phi(b_.getPtrTy(), in.b, before);
    State state{a, b, {}};
    std::vector<llvm::PHINode*> carried;
    for (Value* value : in.acc) {
      carried.push_back(phi(vector_, value, before));
      state.acc.push_back(carried.back());
    }
    for (int s = 0; s < steps; ++s) step(state, s);
    // Pairs of bf16 take four bytes, as an f32 does.
    Value* next_a = b_.CreateConstGEP1_64(element_, a, static_cast<uint64_t>(steps * spec_.mr));
    Value* next_b = b_.CreateConstGEP1_64(element_, b, static_cast<uint64_t>(steps * spec_.nr));
    Value* next = b_.CreateNSWAdd(index, b_.getInt64(static_cast<uint64_t>(steps)));
    index->addIncoming(next, head);
    a->addIncoming(next_a, head);
    b->addIncoming(next_b, head);
    for (size_t i = 0; i < carried.size(); ++i) carried[i]->addIncoming(state.acc[i], head);
    b_.CreateCondBr(b_.CreateICmpSLT(next, end), head, after);

    b_.SetInsertPoint(after);
    State out{join(in.a, before, next_a, head), join(in.b, before, next_b, head), {}};
    for (size_t i = 0; i < in.acc.size(); ++i) {
      out.acc.push_back(join(in.acc[i], before, state.acc[i], head));
    }
    return out;
  }

  llvm::PHINode* phi(llvm::Type* type, Value* start, llvm::BasicBlock* before) {
    llvm::PHINode* node = b_.CreatePHI(type, 2);
    node->addIncoming(start, before);
    return node;
  }

  Value* join(Value* skipped, llvm::BasicBlock* before, Value* looped, llvm::BasicBlock* head) {
    llvm::PHINode* node = phi(skipped->getType(), skipped, before);
    node->addIncoming(looped, head);
    return node;
  }

  void step(State& state, int s) {
    const llvm::Align align(static_cast<uint64_t>(element_->getScalarSizeInBits() / 8));
    std::vector<Value*> columns;
    for (int v = 0; v < vectors_; ++v) {
      const auto offset = static_cast<uint64_t>(s * spec_.nr + v * lanes_);
      columns.push_back(
          b_.CreateAlignedLoad(vector_, b_.CreateConstGEP1_64(element_, state.b, offset), align));
    }
    for (int r = 0; r < spec_.mr; ++r) {
      const auto offset = static_cast<uint64_t>(s * spec_.mr + r);
      Value* one =
          b_.CreateAlignedLoad(element_, b_.CreateConstGEP1_64(element_, state.a, offset), align);
      Value* row = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), one);
      for (int v = 0; v < vectors_; ++v) {
        Value*& acc = state.acc[static_cast<size_t>(r * vectors_ + v)];
        acc = multiply_add(row, columns[static_cast<size_t>(v)], acc);
      }
    }
  }

  Value* multiply_add(Value* x, Value* y, Value* acc) {
    if (spec_.type == ir::DType::BF16) {
      auto* pairs = llvm::FixedVectorType::get(b_.getBFloatTy(), static_cast<unsigned>(2 * lanes_));
      const auto dot = lanes_ == 16  ? llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512
                       : lanes_ == 8 ? llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256
                                     : llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128;
      return b_.CreateIntrinsic(dot, {},
                                {acc, b_.CreateBitCast(x, pairs), b_.CreateBitCast(y, pairs)});
    }
    // llvm.fma without the instruction would be a call a lane.
    if (!target_.fma) return b_.CreateFAdd(acc, b_.CreateFMul(x, y));
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {vector_}, {x, y, acc});
  }

  void finish(const State& state) {
    auto* add = block("add");
    auto* set = block("set");
    b_.CreateCondBr(b_.CreateIsNull(function_->getArg(5)), set, add);
    for (bool accumulate : {false, true}) {
      b_.SetInsertPoint(accumulate ? add : set);
      const llvm::Align align(static_cast<uint64_t>(element_->getScalarSizeInBits() / 8));
      for (int r = 0; r < spec_.mr; ++r) {
        Value* row =
            b_.CreateGEP(element_, function_->getArg(3),
                         b_.CreateMul(function_->getArg(4), b_.getInt64(static_cast<uint64_t>(r))));
        for (int v = 0; v < vectors_; ++v) {
          Value* address = b_.CreateConstGEP1_64(element_, row, static_cast<uint64_t>(v * lanes_));
          Value* sum = state.acc[static_cast<size_t>(r * vectors_ + v)];
          if (accumulate) {
            sum = b_.CreateFAdd(b_.CreateAlignedLoad(vector_, address, align), sum);
          }
          b_.CreateAlignedStore(sum, address, align);
        }
      }
      b_.CreateRetVoid();
    }
  }

  const ir::Target& target_;
  const MicrokernelSpec spec_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  llvm::Type* element_ = nullptr;
  llvm::Type* vector_ = nullptr;
  int lanes_ = 0, vectors_ = 0;
};

}  // namespace

std::string microkernel_name(const MicrokernelSpec& spec) {
  return std::string("mezzo_mk_") + ir::to_string(spec.type) + "_" + std::to_string(spec.mr) + "x" +
         std::to_string(spec.nr);
}

llvm::Function* emit_microkernel(ModuleBuilder& module, const MicrokernelSpec& spec) {
  if (llvm::Function* known = module.module().getFunction(microkernel_name(spec))) return known;
  return Emitter(module, spec).emit();
}

void emit_microkernel_loop(ModuleBuilder& module, const MicrokernelSpec& spec, int64_t k,
                           const std::string& name) {
  llvm::Function* microkernel = emit_microkernel(module, spec);
  KernelFrame frame(module, name);
  auto& b = frame.builder();
  const int64_t bytes = spec.type == ir::DType::F64 ? 8 : 4;
  auto constant = [&](int64_t value) { return b.getInt64(static_cast<uint64_t>(value)); };
  auto at = [&](int64_t offset) {
    return b.CreateGEP(b.getInt8Ty(), frame.scratch(), constant(offset));
  };
  const int64_t b_offset = (spec.mr * k * bytes + 63) / 64 * 64;
  const int64_t c_offset = b_offset + (spec.nr * k * bytes + 63) / 64 * 64;
  frame.loop(frame.first_task(), frame.last_task(), 1, [&](Value*) {
    b.CreateCall(
        microkernel->getFunctionType(), microkernel,
        {frame.scratch(), at(b_offset), constant(k), at(c_offset), constant(spec.nr), constant(0)});
  });
}

}  // namespace mezzo::codegen
