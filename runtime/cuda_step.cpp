// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cuda_step.h>

#include <mezzo/ir/error.h>
#include <mezzo/runtime/run_plan.h>

namespace mezzo::runtime {

std::unique_ptr<CudaStep> CudaStep::make(const std::shared_ptr<CudaContext>&,
                                         const ir::Function& function, const RunPlan& plan) {
  for (const RunStep& step : plan.steps)
    if (step.kernel < 0)
      throw UserError(step.op->location(),
                      "not supported yet: the training step @" + function.name() + " on a GPU",
                      "train on the CPU");
  return nullptr;
}

}  // namespace mezzo::runtime
