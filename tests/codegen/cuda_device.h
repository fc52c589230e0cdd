// SPDX-License-Identifier: Apache-2.0
// CUDA text compiled by NVRTC for one architecture and its PTX run by the interpreter of tests/ptx:
// what a GPU would be given, executed where there is none.
#pragma once

#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/ir/interpreter.h>

#include <functional>
#include <memory>
#include <ptx/interpreter.h>
#include <span>
#include <string>
#include <vector>

namespace mezzo::test {

/// Kernels of one NVRTC program, which holds at most kMaxKernelsPerProgram.
class DeviceProgram {
 public:
  /// Compiles the kernels of modules made by `alone` for an architecture, `sm_90`. `edit`: what is
  /// compiled instead of the program.
  DeviceProgram(std::vector<std::unique_ptr<ir::Module>> modules, const std::string& arch,
                const std::function<std::string(const std::string& program)>& edit = {});

  size_t size() const { return modules_.size(); }
  const ir::Module& module(size_t kernel) const { return *modules_[kernel]; }
  const codegen::CudaSource& source(size_t kernel) const { return sources_[kernel]; }
  const std::string& ptx() const { return ptx_; }

  /// Runs all launches of a kernel on fresh memory of any content. Throws ptx::Fault. `counters`
  /// takes those of each launch, if `options` counts. `in_place`: for each result the operand in
  /// whose place it is written; all or none.
  ir::RunResult run(size_t kernel, std::span<const ir::InterpreterTensor> inputs,
                    const ptx::Options& options = {},
                    std::vector<ptx::Counters>* counters = nullptr,
                    std::span<const size_t> in_place = {}) const;
  /// The same of operands in their storage formats, whose NaNs keep their bits.
  ir::RunResult run_bytes(size_t kernel, std::span<const std::vector<std::byte>> inputs,
                          const ptx::Options& options = {},
                          std::vector<ptx::Counters>* counters = nullptr,
                          std::span<const size_t> in_place = {}) const;

 private:
  std::vector<std::unique_ptr<ir::Module>> modules_;
  std::vector<codegen::CudaSource> sources_;
  std::string ptx_;
  mutable ptx::DeviceMemory memory_;
  std::unique_ptr<ptx::Module> loaded_;
};

}  // namespace mezzo::test
