// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cpu_kernels.h>

#include <mezzo/codegen/llvm/emit_kernel.h>

namespace mezzo::runtime {

namespace {

codegen::Jit& jit() {
  // Never freed: the destructor of a static of the program may compile and run.
  static auto* instance = new codegen::Jit;
  return *instance;
}

}  // namespace

KernelImage CpuBackend::compile(const ir::Op& kernel, const std::string& symbol) const {
  codegen::CpuKernel made = codegen::compile_cpu_kernel(kernel, target_, symbol);
  KernelImage image;
  image.code = std::move(made.object.bytes);
  for (codegen::KernelLaunch& launch : made.launches)
    image.launches.push_back({.symbol = std::move(launch.symbol), .tasks = launch.tasks});
  image.scratch_bytes = made.scratch_bytes;
  image.workspace_bytes = made.workspace_bytes;
  return image;
}

std::shared_ptr<LoadedKernel> CpuBackend::load(const KernelImage& image, const ir::Op&) const {
  auto kernel = std::make_shared<LoadedCpuKernel>();
  kernel->scratch_bytes = image.scratch_bytes;
  kernel->code = jit().load({image.code});
  for (const KernelImage::Launch& launch : image.launches)
    kernel->functions.push_back(kernel->code.kernel(launch.symbol));
  return kernel;
}

}  // namespace mezzo::runtime
