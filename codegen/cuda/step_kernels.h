// SPDX-License-Identifier: Apache-2.0
// The finite check and the verdict of a training step on the device, so that no host decides
// whether parameters are updated: what the ops `all_finite` and `verdict` of a planned function
// stand for. The scale, its counters and every update follow by ordinary kernels, which read the
// byte and the number that these write.
//
// Both kernels are one text for all programs. What they look at stands in a table in device memory,
// whose address is their only parameter; the host writes it once, and again when an address in it
// has changed. The kernels leave it as they found it. One table serves one launch at a time.
#pragma once

#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/ir/verdict.h>

#include <cstdint>
#include <span>
#include <vector>

namespace mezzo::codegen {

/// Its launches are not a sequence but the two kernels: those of these numbers, each `indirect`.
/// Any number of blocks gives the same answer.
CudaSource cuda_step_kernels();
inline constexpr size_t kAllFiniteLaunch = 0, kVerdictLaunch = 1;

/// A tensor in device memory, aligned to 16 bytes; integers are never looked at.
struct StepTensor {
  ir::Type type;
  uint64_t address = 0;
};

struct FiniteAddresses {
  uint64_t index_flag = 0;  // a u32: some index was out of range
  uint64_t result = 0;      // takes a byte: 1 where the flag is 0 and all tensors are finite
};
/// The table of the finite check. `words`: for each tensor the address of the flag word of the op
/// that computes it, 0 where nobody watches; while that has no NonFinite bit, the tensor is not
/// read.
std::vector<uint64_t> all_finite_table(std::span<const StepTensor> tensors,
                                       std::span<const uint64_t> words,
                                       const FiniteAddresses& addresses);

struct VerdictAddresses {
  uint64_t ok = 0;          // the byte of the finite check
  uint64_t index_flag = 0;  // a u32
  uint64_t words = 0;       // u32 flag words, by number
  uint64_t result = 0;      // takes an i32: what ir::judge says of the step
};
/// The table of the verdict: ir::judge over the words, the loss, the scale and the parameters as
/// they are when the kernel runs. `parameters`: of the function that the table was made of, by
/// index; they are read only where a step went wrong. `loss`: of no elements where there is none.
std::vector<uint64_t> verdict_table(const ir::VerdictTable& table,
                                    std::span<const StepTensor> parameters, const StepTensor& loss,
                                    const VerdictAddresses& addresses);

}  // namespace mezzo::codegen
