// SPDX-License-Identifier: Apache-2.0
// The emitters of the kernel families. Internal to codegen/cuda.
#pragma once

#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/codegen/cuda/region_text.h>
#include <mezzo/ir/plan.h>

#include <optional>

namespace mezzo::codegen {

// Each emits a kernel of its family that stands alone in a function, as emit_cuda_kernel() does.
CudaSource emit_cuda_columns(const ir::Op& kernel, const ir::Plan& plan, const std::string& name);
CudaSource emit_cuda_elementwise(const ir::Op& kernel, const ir::Plan& plan,
                                 const std::string& name);
CudaSource emit_cuda_matmul(const ir::Op& kernel, const ir::Target& target,
                            const std::string& name);
CudaSource emit_cuda_optimizer(const ir::Op& kernel, const ir::Plan& plan, const std::string& name);
CudaSource emit_cuda_rows(const ir::Op& kernel, const ir::Plan& plan, const std::string& name);
CudaSource emit_cuda_scan(const ir::Op& kernel, const ir::Plan& plan, const std::string& name);
CudaSource emit_cuda_sort(const ir::Op& kernel, const ir::Plan& plan, const std::string& name);
CudaSource emit_cuda_rows_columns(const ir::Op& kernel, const ir::Plan& plan,
                                  const std::string& name);
CudaSource emit_cuda_scatter(const ir::Op& kernel, const ir::Plan& plan, const std::string& name);

/// Elementwise and movement kernels that transpose operands, in tiles; nothing where no operand is
/// transposed, or tiles would not help.
std::optional<CudaSource> emit_cuda_tiles(const ir::Op& kernel, const ir::Plan& plan,
                                          const std::string& name);

/// Elements of an elementwise region that a thread writes, as text.
struct ElementRange {
  std::string head;      // opens the code of a vector, whose first element is `i`
  std::string elements;  // how many there are in all
  std::string last;      // the last of them
  bool tail = false;     // the last vector may be short
};
/// The code of a thread, in the entry or function that `region` is writing.
void write_elements(RegionText& region, const ir::Op& kernel, const ElementRange& range);

}  // namespace mezzo::codegen
