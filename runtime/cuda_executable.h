// SPDX-License-Identifier: Apache-2.0
// An executable of CUDA kernels: everything between the copies in and out is one recorded graph,
// launched with one call.
#pragma once

#include <mezzo/runtime/executable.h>

#include <memory>
#include <span>

namespace mezzo::runtime {

class CudaContext;
struct StoredKernel;

/// Of a planned function of `module`; `kernels` are those of its kernel ops, in order, from the
/// CudaBackend of that context. `disk`: helpers may come from the cache on disk too.
std::unique_ptr<Executable> make_cuda_executable(std::unique_ptr<ir::Module> module,
                                                 const ir::Function& function,
                                                 std::span<const StoredKernel> kernels,
                                                 std::shared_ptr<CudaContext> context,
                                                 const RunLog& log, bool disk);

}  // namespace mezzo::runtime
