// SPDX-License-Identifier: Apache-2.0
// An executable of CPU kernels.
#pragma once

#include <mezzo/runtime/executable.h>

#include <memory>
#include <span>

namespace mezzo::runtime {

class ThreadPool;
struct StoredKernel;

/// Of a planned function of `module`; `kernels` are those of its kernel ops, in order,
/// from the CpuBackend.
std::unique_ptr<Executable> make_cpu_executable(std::unique_ptr<ir::Module> module,
                                                const ir::Function& function,
                                                std::span<const StoredKernel> kernels,
                                                std::shared_ptr<ThreadPool> pool,
                                                const RunLog& log);

}  // namespace mezzo::runtime
