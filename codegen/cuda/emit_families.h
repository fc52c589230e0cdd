// SPDX-License-Identifier: Apache-2.0
// The emitters of the kernel families. Internal to codegen/cuda.
#pragma once

#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/ir/plan.h>

namespace mezzo::codegen {

CudaSource emit_cuda_elementwise(const ir::Op& kernel, const ir::Plan& plan,
                                 const std::string& name);
CudaSource emit_cuda_matmul(const ir::Op& kernel, const ir::Target& target,
                            const std::string& name);
CudaSource emit_cuda_rows(const ir::Op& kernel, const ir::Plan& plan, const std::string& name);

}  // namespace mezzo::codegen
