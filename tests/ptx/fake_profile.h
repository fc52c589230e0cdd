// SPDX-License-Identifier: Apache-2.0
// What the fake driver pretends to be, from variables whose names begin with MEZZO_FAKE_. A name or
// word that it does not know is an error, so that a slip in a test is no silent default.
#pragma once

#include <cstdint>
#include <map>
#include <ptx/interpreter.h>
#include <string>

namespace mezzo::fakecuda {

/// Sizes of NVIDIA's tables of technical specifications; few multiprocessors, so that kernels that
/// fill a device stay small.
struct Architecture {
  int compute_capability;
  int shared_kilobytes;          // a block, when a kernel asks for it
  int shared_of_multiprocessor;  // kilobytes
  int threads_of_multiprocessor;
};

struct Profile {
  Architecture architecture = {};
  int driver = 13000;                   // MEZZO_FAKE_DRIVER
  int devices = 1;                      // MEZZO_FAKE_DEVICES
  uint64_t memory = uint64_t{2} << 30;  // MEZZO_FAKE_MEMORY, bytes of each device
  uint64_t oom = 0;                     // MEZZO_FAKE_OOM, the n-th allocation fails; 0: none
  int init = 0;                         // MEZZO_FAKE_INIT, what cuInit returns
  bool pools = true;                    // MEZZO_FAKE_POOLS=0: a device without memory pools
  std::map<std::string, int> failing;   // MEZZO_FAKE_FAIL=cuLaunchKernel=701,...
  ptx::Options options;  // MEZZO_FAKE_ORDER, _SEED, _DIVERGENCE, _MMA, _THREADS, _BUDGET
};

/// Reads `environment`, strings `NAME=VALUE` up to a null pointer. Throws std::invalid_argument.
Profile read_profile(const char* const* environment);

/// Newest PTX that a driver reads, as 10 * major + minor: 90 of CUDA 13.0.
int newest_ptx(int driver);

}  // namespace mezzo::fakecuda
