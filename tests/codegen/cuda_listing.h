// SPDX-License-Identifier: Apache-2.0
// What NVRTC made of kernels, as numbers: registers, spills and shared memory from its log, machine
// instructions from the cubin, widths of global accesses from the PTX.
#pragma once

#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/codegen/cuda/nvrtc.h>

#include <set>
#include <string>
#include <vector>

namespace mezzo::test {

/// A kernel to be compiled and what it must become.
struct CudaKernel {
  std::string name;  // of the case
  codegen::CudaSource source;
  /// Kernel parameters that are loaded 16 bytes at a time, where code is left that reads them.
  std::vector<int> vector_operands = {};
  bool vector_stores = false;  // some store of `storing_launch` writes 16 bytes
  size_t storing_launch = 0;
};

struct KernelListing {
  codegen::KernelResources resources;
  int64_t instructions = 0;           // 16-byte words of machine code
  int loads[5] = {}, stores[5] = {};  // global accesses in the PTX, by log2 of their bytes
  std::set<int> parameters;           // that the code reads; the compiler drops unused ones
  bool local_memory = false;
};

/// One listing a kernel, in the order of `entries`.
std::vector<KernelListing> list_kernels(const codegen::CudaBinary& binary,
                                        const std::vector<std::string>& entries);

/// Sets what a planned kernel must become: vectors of 16 bytes wherever it has elements enough.
CudaKernel emit_for_test(const ir::Op& kernel, const std::string& arch, const std::string& name,
                         const std::string& entry);

/// Numbers of many kernels.
struct ListingSummary {
  std::vector<int> registers;
  std::vector<int64_t> instructions;
  int wide = 0;  // kernels with a load or a store of 16 bytes in their PTX
  int narrow = 0;
  int vector_readers = 0;  // kernels that must load 16 bytes at a time
  int64_t spilled = 0;     // bytes of spills and stack frames, which a check has refused
  double milliseconds = 0;
};

/// Compiles kernels in programs of at most kMaxKernelsPerProgram, checks each (no spills, no local
/// memory, no stack, accesses of 16 bytes where they must be) and adds to the summary.
void check_compiled(const std::vector<CudaKernel>& kernels, const std::string& arch,
                    ListingSummary& summary, bool print = false);
void print_summary(const char* name, const std::string& arch, ListingSummary& summary);

double median(std::vector<double> values);

}  // namespace mezzo::test
