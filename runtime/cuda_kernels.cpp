// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cuda_kernels.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>
#include <mezzo/runtime/cuda_image.h>
#include <mezzo/runtime/launch_text.h>

#include <fmt/format.h>

namespace mezzo::runtime {

namespace {

/// `@k3 of @step, matmul: matmul (net.cpp:12), add (net.cpp:13)`: what a user needs to find the
/// lines behind a fault.
std::string describe(const ir::Op& kernel) {
  constexpr int kMostShown = 4;
  return fmt::format("@{} of @{}, {}: {}", kernel.kernel_name(), kernel.function()->name(),
                     to_string(ir::family_of(kernel)), ops_text(kernel, kMostShown, ", ", true));
}

}  // namespace

KernelImage compile_cuda_image(const codegen::CudaSource& source, const std::string& architecture) {
  const codegen::CudaBinary binary = codegen::compile_cuda(
      codegen::cuda_program(std::span(&source, 1)), architecture, source.name);
  const std::string bytes = cuda_image(binary);
  KernelImage image;
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  image.code.assign(first, first + bytes.size());
  for (const codegen::CudaLaunch& launch : source.launches)
    image.launches.push_back({launch.entry, launch.blocks, launch.threads, launch.shared_bytes});
  image.workspace_bytes = source.workspace_bytes;
  image.checks_index = source.checks_index;
  image.indirect = source.indirect;
  return image;
}

std::shared_ptr<LoadedCudaKernel> load_cuda_image(const KernelImage& image,
                                                  const std::shared_ptr<CudaContext>& context,
                                                  const std::string& description) {
  auto loaded = std::make_shared<LoadedCudaKernel>();
  const std::string code(reinterpret_cast<const char*>(image.code.data()), image.code.size());
  const CudaModule module(context, code, description);
  for (const KernelImage::Launch& launch : image.launches)
    loaded->launches.push_back({module.function(launch.symbol, description, launch.shared_bytes),
                                static_cast<int>(launch.threads), launch.tasks,
                                launch.shared_bytes});
  loaded->checks_index = image.checks_index;
  loaded->indirect = image.indirect;
  return loaded;
}

std::string CudaBackend::device() const {
  return fmt::format("cuda:{}", context_->facts().ordinal);
}

KernelImage CudaBackend::compile(const ir::Op& kernel, const std::string& symbol) const {
  return compile_cuda_image(codegen::emit_cuda_kernel(kernel, context_->target(), symbol),
                            context_->target().name);
}

std::shared_ptr<LoadedKernel> CudaBackend::load(const KernelImage& image,
                                                const ir::Op& kernel) const {
  return load_cuda_image(image, context_, describe(kernel));
}

}  // namespace mezzo::runtime
