// SPDX-License-Identifier: Apache-2.0
// What the LLVM emitters share: a module with its context, the frame of a kernel function (argument
// record, loops, masks). Internal to codegen/llvm; LLVM types appear as forward declarations only,
// so that this header costs nothing.
#pragma once

#include <mezzo/codegen/artifact.h>
#include <mezzo/ir/target.h>

#include <functional>
#include <memory>
#include <string>

namespace llvm {
class Function;
class IRBuilderBase;
class LLVMContext;
class Module;
class Type;
class Value;
}  // namespace llvm

namespace mezzo::codegen {

/// Owns an LLVM module and its context; functions get the target's attributes.
class ModuleBuilder {
 public:
  ModuleBuilder(const std::string& name, const ir::Target& target);
  ~ModuleBuilder();
  ModuleBuilder(ModuleBuilder&&) noexcept;
  ModuleBuilder& operator=(ModuleBuilder&&) noexcept;

  llvm::Module& module() const { return *module_; }
  llvm::LLVMContext& context() const { return *context_; }
  const ir::Target& target() const { return target_; }

  /// A new function with target features and vector width set; `internal` functions are not visible
  /// outside.
  llvm::Function* create_function(const std::string& name, llvm::Type* function_type,
                                  bool internal);

 private:
  std::unique_ptr<llvm::LLVMContext> context_;
  std::unique_ptr<llvm::Module> module_;
  ir::Target target_;
};

/// `+avx2,+fma,...`: the target's features as LLVM reads them.
std::string feature_string(const ir::Target& target);

/// A kernel function under construction: `void name(const KernelArgs*, i64 first, i64 last, void*
/// scratch)`. Pointers from the argument record are loaded once, in the entry block. The function
/// returns when the frame closes.
class KernelFrame {
 public:
  KernelFrame(ModuleBuilder& module, const std::string& name);
  ~KernelFrame();
  KernelFrame(const KernelFrame&) = delete;
  KernelFrame& operator=(const KernelFrame&) = delete;

  llvm::IRBuilderBase& builder();
  ModuleBuilder& module();
  const ir::Target& target();
  llvm::Function* function();

  llvm::Value* first_task();
  llvm::Value* last_task();
  llvm::Value* scratch();
  /// Base pointer of buffer `index`, of flag word `index`; value of a runtime slot (i64).
  llvm::Value* buffer(int index);
  llvm::Value* flag(int index);
  llvm::Value* integer(int index);

  /// `for (i = begin; i < end; i += step) body(i)` on i64.
  void loop(llvm::Value* begin, llvm::Value* end, int64_t step,
            const std::function<void(llvm::Value*)>& body);
  /// `if (condition) then() else otherwise()`.
  void branch(llvm::Value* condition, const std::function<void()>& then,
              const std::function<void()>& otherwise);
  /// Mask of `lanes` lanes of which the first `count` (i64, any value) are on.
  llvm::Value* lane_mask(llvm::Value* count, int lanes);

  /// A place on the stack, made where the function begins, so that mem2reg finds it.
  llvm::Value* slot(llvm::Type* type);

  /// Ends the function with a return; further emission is an error.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mezzo::codegen
