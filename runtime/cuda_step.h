// SPDX-License-Identifier: Apache-2.0
// The finite check and the verdict of a training step on the device: no host decides whether
// parameters are updated.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/runtime/cuda_context.h>
#include <mezzo/runtime/kernel_store.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace mezzo::runtime {

struct RunPlan;
struct RunStep;

class CudaStep {
 public:
  virtual ~CudaStep() = default;

  struct Addresses {
    std::vector<cuda::DevicePointer> buffers;     // by number
    std::vector<cuda::DevicePointer> parameters;  // of the function, by index
    cuda::DevicePointer words = 0;                // and behind them the index-range flag
  };
  /// Before the first launch, and whenever an address has changed.
  virtual void bind(const Addresses& addresses) = 0;
  /// Puts an `all_finite` or a `verdict` of the plan on the stream.
  virtual void launch(const RunStep& step) const = 0;

  /// The code that `make` looks for, for who has it made along with the kernels; none where the
  /// function has neither op.
  static std::vector<HelperCode> helpers(const std::shared_ptr<CudaContext>& context,
                                         const ir::Function& function);
  /// Null where the plan has neither. `function` and `plan` stay alive. `disk`: the code may come
  /// from the cache on disk, and is stored there.
  static std::unique_ptr<CudaStep> make(const std::shared_ptr<CudaContext>& context,
                                        const ir::Function& function, const RunPlan& plan,
                                        bool disk);
};

}  // namespace mezzo::runtime
