// SPDX-License-Identifier: Apache-2.0
// Kernels of a CUDA device: NVRTC's machine code, loaded by the driver.
#pragma once

#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/runtime/cuda_module.h>
#include <mezzo/runtime/kernel_store.h>

#include <memory>
#include <string>
#include <vector>

namespace mezzo::runtime {

/// Its parameters are those that codegen::CudaSource describes.
struct LoadedCudaKernel : LoadedKernel {
  struct Launch {
    CudaKernel kernel;
    int threads = 0;
    int64_t blocks = 0;
    int64_t shared_bytes = 0;
  };
  std::vector<Launch> launches;
  bool checks_index = false, indirect = false;
};

/// Compiles a source and makes an image of it; `name` stands for it in messages.
KernelImage compile_cuda_image(const codegen::CudaSource& source, const std::string& architecture);
/// `description` names it when it fails: ops and lines of the program.
std::shared_ptr<LoadedCudaKernel> load_cuda_image(const KernelImage& image,
                                                  const std::shared_ptr<CudaContext>& context,
                                                  const std::string& description);

class CudaBackend final : public KernelBackend {
 public:
  explicit CudaBackend(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  std::string device() const override;
  bool usable() const override { return context_->fault().empty(); }
  KernelImage compile(const ir::Op& kernel, const std::string& symbol) const override;
  std::shared_ptr<LoadedKernel> load(const KernelImage& image, const ir::Op& kernel) const override;

 private:
  std::shared_ptr<CudaContext> context_;
};

}  // namespace mezzo::runtime
