// SPDX-License-Identifier: Apache-2.0
// Reads what a driver reads of a cubin, an ELF file whose size nobody tells, and the PTX that Mezzo
// puts behind it.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace mezzo::fakecuda {

struct KernelFacts {
  int registers = 32;   // a thread; a guess where there is only PTX
  int local_bytes = 0;  // a thread
};

struct Cubin {
  int architecture = 0;  // 90 of sm_90
  int abi = 0;           // 8 of CUDA 13
  size_t bytes = 0;
  std::map<std::string, KernelFacts> kernels;
};

bool is_elf(const void* image);

/// Throws std::invalid_argument where headers contradict each other.
Cubin read_cubin(const void* image);

/// The PTX behind a cubin of `bytes` bytes; "" where there is none.
std::string ptx_behind(const void* image, size_t bytes);

}  // namespace mezzo::fakecuda
