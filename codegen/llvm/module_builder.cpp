// SPDX-License-Identifier: Apache-2.0
// Modules and kernel frames: structured control flow over IRBuilder.
#include <mezzo/codegen/llvm/module_builder.h>

#include <mezzo/ir/error.h>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>

namespace mezzo::codegen {

std::string feature_string(const ir::Target& target) {
  std::string text;
  for (const std::string& feature : target.features) {
    text += (text.empty() ? "+" : ",+") + feature;
  }
  return text;
}

ModuleBuilder::ModuleBuilder(const std::string& name, const ir::Target& target)
    : context_(std::make_unique<llvm::LLVMContext>()),
      module_(std::make_unique<llvm::Module>(name, *context_)),
      target_(target) {}
ModuleBuilder::~ModuleBuilder() = default;
ModuleBuilder::ModuleBuilder(ModuleBuilder&&) noexcept = default;

ModuleBuilder& ModuleBuilder::operator=(ModuleBuilder&& other) noexcept {
  // The module must go before its context.
  module_ = std::move(other.module_);
  context_ = std::move(other.context_);
  target_ = std::move(other.target_);
  return *this;
}

llvm::Function* ModuleBuilder::create_function(const std::string& name, llvm::Type* function_type,
                                               bool internal) {
  MEZZO_CHECK(module_->getFunction(name) == nullptr, "function '" + name + "' exists already");
  auto* function = llvm::Function::Create(
      llvm::cast<llvm::FunctionType>(function_type),
      internal ? llvm::Function::InternalLinkage : llvm::Function::ExternalLinkage, name, *module_);
  function->setDoesNotThrow();
  function->addFnAttr("target-cpu", "x86-64");
  function->addFnAttr("target-features", feature_string(target_));
  const std::string width = std::to_string(target_.vector_bytes * 8);
  function->addFnAttr("prefer-vector-width", width);
  function->addFnAttr("min-legal-vector-width", width);
  return function;
}

struct KernelFrame::State {
  State(ModuleBuilder& owner, const std::string& name)
      : module(owner), builder(owner.context()), entry_builder(owner.context()) {
    llvm::Type* pointer = builder.getPtrTy();
    llvm::Type* index = builder.getInt64Ty();
    auto* type = llvm::FunctionType::get(builder.getVoidTy(), {pointer, index, index, pointer},
                                         /*isVarArg=*/false);
    function = owner.create_function(name, type, /*internal=*/false);
    auto* entry = llvm::BasicBlock::Create(owner.context(), "entry", function);
    auto* body = llvm::BasicBlock::Create(owner.context(), "body", function);
    entry_builder.SetInsertPoint(entry);
    llvm::Instruction* jump = entry_builder.CreateBr(body);
    entry_builder.SetInsertPoint(jump);
    builder.SetInsertPoint(body);
    function->getArg(3)->addAttr(
        llvm::Attribute::getWithAlignment(owner.context(), llvm::Align(64)));
  }

  /// Member `field` of the argument record, element `slot`, loaded in the entry block.
  llvm::Value* slot(int field, int slot_index, llvm::Type* type) {
    llvm::Value*& known = slots[{field, slot_index}];
    if (known) return known;
    llvm::Type* pointer = builder.getPtrTy();
    llvm::Value*& table = tables[field];
    if (!table) {
      llvm::Value* address =
          entry_builder.CreateConstInBoundsGEP1_64(pointer, function->getArg(0), field);
      table = entry_builder.CreateLoad(pointer, address);
    }
    known = entry_builder.CreateLoad(
        type, entry_builder.CreateConstInBoundsGEP1_64(type, table, slot_index));
    return known;
  }

  ModuleBuilder& module;
  llvm::IRBuilder<> builder;
  llvm::IRBuilder<> entry_builder;
  llvm::Function* function = nullptr;
  std::map<int, llvm::Value*> tables;
  std::map<std::pair<int, int>, llvm::Value*> slots;
  bool closed = false;
};

KernelFrame::KernelFrame(ModuleBuilder& module, const std::string& name)
    : state_(std::make_unique<State>(module, name)) {}
KernelFrame::~KernelFrame() { close(); }

llvm::IRBuilderBase& KernelFrame::builder() { return state_->builder; }
ModuleBuilder& KernelFrame::module() { return state_->module; }
const ir::Target& KernelFrame::target() { return state_->module.target(); }
llvm::Function* KernelFrame::function() { return state_->function; }
llvm::Value* KernelFrame::first_task() { return state_->function->getArg(1); }
llvm::Value* KernelFrame::last_task() { return state_->function->getArg(2); }
llvm::Value* KernelFrame::scratch() { return state_->function->getArg(3); }

llvm::Value* KernelFrame::buffer(int index) {
  return state_->slot(0, index, state_->builder.getPtrTy());
}
llvm::Value* KernelFrame::flag(int index) {
  return state_->slot(1, index, state_->builder.getPtrTy());
}
llvm::Value* KernelFrame::integer(int index) {
  return state_->slot(2, index, state_->builder.getInt64Ty());
}

void KernelFrame::loop(llvm::Value* begin, llvm::Value* end, int64_t step,
                       const std::function<void(llvm::Value*)>& body) {
  auto& b = state_->builder;
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(b.getContext(), "loop", state_->function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "after", state_->function);
  b.CreateCondBr(b.CreateICmpSLT(begin, end), head, after);
  b.SetInsertPoint(head);
  llvm::PHINode* index = b.CreatePHI(b.getInt64Ty(), 2, "i");
  index->addIncoming(begin, before);
  body(index);
  llvm::Value* next = b.CreateNSWAdd(index, b.getInt64(static_cast<uint64_t>(step)));
  index->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), head, after);
  after->moveAfter(b.GetInsertBlock());
  b.SetInsertPoint(after);
}

llvm::Value* KernelFrame::slot(llvm::Type* type) {
  llvm::BasicBlock& entry = state_->function->getEntryBlock();
  return llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(type);
}

void KernelFrame::branch(llvm::Value* condition, const std::function<void()>& then,
                         const std::function<void()>& otherwise) {
  auto& b = state_->builder;
  auto* yes = llvm::BasicBlock::Create(b.getContext(), "then", state_->function);
  auto* no = llvm::BasicBlock::Create(b.getContext(), "else", state_->function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "join", state_->function);
  b.CreateCondBr(condition, yes, no);
  b.SetInsertPoint(yes);
  then();
  b.CreateBr(after);
  b.SetInsertPoint(no);
  otherwise();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

llvm::Value* KernelFrame::lane_mask(llvm::Value* count, int lanes) {
  auto& b = state_->builder;
  // 32-bit lanes: the compare is then the mask register of a 32-bit masked move.
  llvm::Value* clamped = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, count,
                                                 b.getInt64(static_cast<uint64_t>(lanes)));
  clamped = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, clamped, b.getInt64(0));
  llvm::SmallVector<llvm::Constant*> steps;
  for (int lane = 0; lane < lanes; ++lane) steps.push_back(b.getInt32(static_cast<uint32_t>(lane)));
  llvm::Value* limit =
      b.CreateVectorSplat(static_cast<unsigned>(lanes), b.CreateTrunc(clamped, b.getInt32Ty()));
  return b.CreateICmpSLT(llvm::ConstantVector::get(steps), limit, "mask");
}

void KernelFrame::close() {
  if (state_->closed) return;
  state_->builder.CreateRetVoid();
  state_->closed = true;
}

}  // namespace mezzo::codegen
