// SPDX-License-Identifier: Apache-2.0
// A launch of the fake driver: checked when it is asked for, run when its turn comes.
#pragma once

#include <cstdint>
#include <functional>
#include <ptx/fake_objects.h>

namespace mezzo::fakecuda {

struct LaunchRequest {
  runtime::cuda::Function function = nullptr;
  ptx::Dim3 grid, block;
  uint32_t shared_bytes = 0;
  void** parameters = nullptr;  // copied now
  void** extra = nullptr;
};

/// What runs the kernel, in `run`; or what a driver refuses with.
runtime::cuda::Result prepare_launch(runtime::cuda::ContextObject& context,
                                     const LaunchRequest& request, std::function<void()>& run);

}  // namespace mezzo::fakecuda
