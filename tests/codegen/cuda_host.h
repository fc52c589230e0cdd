// SPDX-License-Identifier: Apache-2.0
// CUDA text compiled as C++ for this machine and run, so that what kernels compute is tested where
// there is no GPU. PTX conversions are replaced by functions of cuda_host_prelude.h; indices,
// vectors, tails, folds, shuffles and device functions are those of the text.
#pragma once

#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/ir/interpreter.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mezzo::test {

/// The text with every `asm("op %0, %1;" : "=r"(y) : "f"(x))` as `y = ptx_op(x)`.
std::string without_asm(const std::string& text);

class HostProgram {
 public:
  /// Compiles all kernels (of modules made by `alone`) with the C++ compiler of the build.
  explicit HostProgram(std::vector<std::unique_ptr<ir::Module>> modules);
  ~HostProgram();
  HostProgram(const HostProgram&) = delete;
  HostProgram& operator=(const HostProgram&) = delete;

  size_t size() const { return modules_.size(); }
  const ir::Module& module(size_t kernel) const { return *modules_[kernel]; }
  const codegen::CudaSource& source(size_t kernel) const { return sources_[kernel]; }
  /// Runs a kernel. Memory ends at a page that cannot be touched; throws std::runtime_error when a
  /// byte behind a result is written. `in_place`: for each result the operand in whose place it is
  /// written, all or none.
  ir::RunResult run(size_t kernel, std::span<const ir::InterpreterTensor> inputs,
                    std::span<const size_t> in_place = {}) const;

 private:
  std::vector<std::unique_ptr<ir::Module>> modules_;
  std::vector<codegen::CudaSource> sources_;
  void* library_ = nullptr;
};

}  // namespace mezzo::test
