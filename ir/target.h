// SPDX-License-Identifier: Apache-2.0
// Facts of a machine as plain data: what plans are chosen from and what a kernel's key contains.
// There is no thread count here: plans and results do not depend on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::ir {

struct Target {
  enum class Kind : uint8_t { Cpu, Cuda };

  Kind kind = Kind::Cpu;
  /// `x86-64-v3`, `x86-64-v4`, `sm_90`, or `native` facts under the name `host`.
  std::string name;

  // CPU
  /// LLVM feature words, sorted, without sign (`avx2`, `avx512f`, `f16c`, `avx512bf16`, ...).
  std::vector<std::string> features;
  /// Bytes of a vector register that kernels use: 16, 32 or 64.
  int vector_bytes = 16;
  /// Vector registers of the instruction set: 16 or 32.
  int vector_registers = 16;
  bool fma = false;
  bool f16c = false;        // native f16 <-> f32 conversion
  bool avx512bf16 = false;  // vdpbf16ps
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 512 << 10;
  int64_t l3_bytes = 8 << 20;

  // CUDA
  int compute_capability = 0;  // 80, 90 ...
  int64_t shared_bytes = 0;    // a block's limit
  int multiprocessors = 0;

  bool has(const std::string& feature) const;
  /// Lanes of a vector register for elements of `bytes` bytes.
  int lanes(int bytes) const { return vector_bytes / bytes; }
  bool operator==(const Target&) const = default;
};

/// `x86-64-v2`, `x86-64-v3`, `x86-64-v4`, `sm_75` ... `sm_121`; throws UserError naming the known
/// ones. `native` is resolved by codegen, which can ask the machine.
Target target_by_name(const std::string& name);

/// One line that pins the target in keys and texts: equal texts, equal targets.
std::string to_string(const Target& target);

}  // namespace mezzo::ir
