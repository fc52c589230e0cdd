// SPDX-License-Identifier: Apache-2.0
// From a planned kernel to machine code for a CPU. A pure function of region, plan and target:
// names of values and the numbers of flag words, streams and constants never reach the code. No
// LLVM here.
#pragma once

#include <mezzo/codegen/artifact.h>
#include <mezzo/ir/graph.h>
#include <mezzo/ir/target.h>

#include <string>
#include <vector>

namespace mezzo::codegen {

/// Arguments of a kernel (KernelArgs): buffers are the operands, the results and, when
/// `workspace_bytes` is not 0, the workspace; flags are those of `ir::kernel_words(kernel)` and
/// then the index-range flag; integers are the `ir::slot_bits` of `ir::kernel_slots(kernel)`.
struct CpuKernel {
  ObjectCode object;
  std::vector<KernelLaunch> launches;
  int64_t scratch_bytes = 0;    // a thread
  int64_t workspace_bytes = 0;  // shared by all launches
};

/// Function symbols start with `symbol`. Throws InternalError when the region is not one of its
/// family.
CpuKernel compile_cpu_kernel(const ir::Op& kernel, const ir::Target& target,
                             const std::string& symbol);

/// The LLVM text, or the assembly, of the same code.
std::string cpu_kernel_text(const ir::Op& kernel, const ir::Target& target,
                            const std::string& symbol, bool assembly);

}  // namespace mezzo::codegen
