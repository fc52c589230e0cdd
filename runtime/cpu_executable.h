// SPDX-License-Identifier: Apache-2.0
// An executable of CPU kernels.
#pragma once

#include <mezzo/runtime/executable.h>

#include <memory>
#include <vector>

namespace mezzo::runtime {

class ThreadPool;
struct LoadedKernel;

/// Of a planned function of `module`; `kernels` are those of its kernel ops, in order.
std::unique_ptr<Executable> make_cpu_executable(
    std::unique_ptr<ir::Module> module, const ir::Function& function,
    std::vector<std::shared_ptr<const LoadedKernel>> kernels, std::shared_ptr<ThreadPool> pool,
    const RunLog& log);

}  // namespace mezzo::runtime
