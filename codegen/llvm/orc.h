// SPDX-License-Identifier: Apache-2.0
// From an LLVM module to machine code and from machine code to a callable address. The only file
// that knows LLVM's pass builder, target machine and JIT; nothing of LLVM is in this header.
#pragma once

#include <mezzo/codegen/artifact.h>
#include <mezzo/ir/target.h>

#include <memory>
#include <string>

namespace mezzo::codegen {

class ModuleBuilder;

struct CompileOptions {
  /// Runs the light pipeline; off, the code is what the emitter wrote.
  bool optimize = true;
  /// Checks every access by AddressSanitizer, whose runtime must be in the process; always on in a
  /// sanitized build.
  bool sanitize_address = false;
};

/// True when this library was built with AddressSanitizer, whose runtime then checks compiled
/// kernels too.
bool sanitized_build();

/// Verifies, optimises and compiles the module, which is used up; throws InternalError with the
/// verifier's text.
ObjectCode compile_module(ModuleBuilder module, const CompileOptions& options = {});

/// The module as LLVM text, as written or after the pipeline.
std::string llvm_text(const ModuleBuilder& module);
std::string optimized_llvm_text(ModuleBuilder module, const CompileOptions& options = {});
/// The module's assembly in AT&T notation.
std::string assembly_text(ModuleBuilder module, const CompileOptions& options = {});

/// Code of one object in memory; unloaded when the last copy of the handle dies.
class LoadedCode {
 public:
  LoadedCode() = default;
  /// Address of a function of the object; throws InternalError when there is none.
  void* find(const std::string& symbol) const;
  KernelFunction kernel(const std::string& symbol) const {
    return reinterpret_cast<KernelFunction>(find(symbol));
  }
  explicit operator bool() const { return state_ != nullptr; }

 private:
  friend class Jit;
  struct State;
  std::shared_ptr<State> state_;
};

/// Loads objects into this process, each with names of its own. Safe to use from several threads;
/// handles may outlive it.
class Jit {
 public:
  Jit();
  ~Jit();
  Jit(Jit&&) noexcept;
  Jit& operator=(Jit&&) noexcept;

  /// Throws InternalError when the object is malformed or names a function that kernels cannot
  /// call.
  LoadedCode load(const ObjectCode& object);

 private:
  friend class LoadedCode;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mezzo::codegen
