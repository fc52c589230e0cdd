// SPDX-License-Identifier: Apache-2.0
// What kernels did to memory, added up over all launches of a process and written where
// MEZZO_FAKE_REPORT says when it ends.
#pragma once

#include <map>
#include <ptx/interpreter.h>
#include <string>

namespace mezzo::fakecuda {

class Report {
 public:
  void add(const ptx::Counters& launch);

  /// A paragraph a kernel, by name: launches, warp instructions, barriers; then its accesses in the
  /// order of the PTX, each with how often a warp made it, how many of its lanes took part, and
  /// what it took of the fewest possible 32-byte sectors (global memory) or wavefronts (shared).
  std::string text() const;

 private:
  struct Kernel {
    uint64_t launches = 0, warp_instructions = 0, barriers = 0;
    std::map<int, ptx::LineCounters> lines;  // by number
  };
  std::map<std::string, Kernel> kernels_;
};

}  // namespace mezzo::fakecuda
