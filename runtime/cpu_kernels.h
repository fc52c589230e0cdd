// SPDX-License-Identifier: Apache-2.0
// Kernels of this processor: LLVM's object code in the process.
#pragma once

#include <mezzo/codegen/llvm/orc.h>
#include <mezzo/ir/target.h>
#include <mezzo/runtime/kernel_store.h>

#include <vector>

namespace mezzo::runtime {

struct LoadedCpuKernel : LoadedKernel {
  std::vector<codegen::KernelFunction> functions;  // by launch
  int64_t scratch_bytes = 0;                       // a thread
  codegen::LoadedCode code;
};

class CpuBackend final : public KernelBackend {
 public:
  explicit CpuBackend(ir::Target target) : target_(std::move(target)) {}
  std::string device() const override { return "cpu"; }
  KernelImage compile(const ir::Op& kernel, const std::string& symbol) const override;
  std::shared_ptr<LoadedKernel> load(const KernelImage& image, const ir::Op& kernel) const override;

 private:
  ir::Target target_;
};

}  // namespace mezzo::runtime
