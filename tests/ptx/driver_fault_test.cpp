// SPDX-License-Identifier: Apache-2.0
// Faults planted in CUDA C++ kernels: what each becomes for a program, and the text that names the
// instruction.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <support/skip.h>

#include <cstdint>
#include <cstdlib>
#include <ptx/driver_support.h>
#include <string>

namespace mezzo::test {
namespace {

using namespace runtime::cuda;

/// What came of one block of 64 threads of `body`, over `out`, 64 numbers.
struct Outcome {
  Result code = Success;
  std::string fault;
};

Outcome run(const std::string& body) {
  const codegen::CudaBinary binary = codegen::compile_cuda(
      "extern \"C\" __global__ void seeded(float* out) {\n"
      "  const int t = threadIdx.x;\n" +
          body + "}\n",
      "sm_80");
  const FakeContext context;
  const Function seeded = context.kernel(binary.ptx.c_str(), "seeded");
  const Stream stream = context.stream();
  DevicePointer out = context.allocate(256);
  void* parameters[] = {&out};
  CHECK(fake().cuLaunchKernel(seeded, 1, 1, 1, 64, 1, 1, 0, stream, parameters, nullptr) ==
        Success);
  const Result code = fake().cuStreamSynchronize(stream);
  CHECK(fake().cuStreamSynchronize(stream) == code);  // and so from then on
  return {code, fake().last_fault()};
}

#define MEZZO_FAULT_CASE(function, name, body, result, ...)             \
  static void function();                                               \
  TEST_CASE(name) {                                                     \
    std::string reason;                                                 \
    if (!codegen::nvrtc_available(&reason)) return skip_case(reason);   \
    if (in_own_process(name, {"MEZZO_FAKE_BUDGET=100000"})) function(); \
  }                                                                     \
  static void function() {                                              \
    const Outcome outcome = run(body);                                  \
    CHECK(outcome.code == result);                                      \
    if (result == Success)                                              \
      CHECK(outcome.fault == "");                                       \
    else                                                                \
      check_parts(outcome.fault, {__VA_ARGS__});                        \
  }
#define FAULT_CASE(...) MEZZO_FAULT_CASE(DOCTEST_ANONYMOUS(fault_case_), __VA_ARGS__)

FAULT_CASE("a kernel without a fault has none",
           "__shared__ float s[64]; s[t] = t; __syncthreads(); out[t] = s[63 - t];\n", Success, "")
FAULT_CASE("a store behind the end", "out[t + 1] = 1;\n", IllegalAddress, "out of bounds",
           "st.global", "thread (63,0,0)")
FAULT_CASE("a vector that is not aligned",
           "if (t < 8) *(float4*)(out + 4 * t + 2) = float4{1, 2, 3, 4};\n", MisalignedAddress,
           "misaligned", "st.global.v4")
FAULT_CASE("a barrier that is missing before memory is used again",
           "__shared__ float s[64]; s[t] = t; __syncthreads(); s[t] = s[63 - t]; out[t] = s[t];\n",
           LaunchFailed, "race in shared memory", "shared.f32")
FAULT_CASE("a barrier that is missing before memory is read",
           "__shared__ float s[64]; s[t] = t; out[t] = s[63 - t];\n", LaunchFailed, "uninitialized",
           "ld.shared")
FAULT_CASE("shared memory that nobody has written",
           "__shared__ float s[64]; if (t < 32) s[t] = t; __syncthreads(); out[t] = s[t];\n",
           LaunchFailed, "uninitialized", "ld.shared")
FAULT_CASE("a barrier that half of a warp reaches",
           "if (t % 2) { __syncthreads(); out[t] = 1; } __syncthreads(); out[t] += 1;\n",
           LaunchFailed, "diverged barrier", "bar")
FAULT_CASE("a shuffle that names lanes that are not there",
           "if (t % 2) out[t] = __shfl_xor_sync(0xffffffffu, out[t], 1);\n", LaunchFailed,
           "diverged barrier", "shfl.sync")
FAULT_CASE("a trap", "out[t] = 1; if (t == 40) __trap();\n", LaunchFailed, "trap",
           "thread (40,0,0)")
FAULT_CASE("a loop without end", "volatile float* v = out; while (v[0] != 5) {}\n", LaunchTimeout,
           "stuck", "the budget of 100000 warp instructions is used up")

/// The number of the block that came last, of 8.
uint32_t last_block() {
  const codegen::CudaBinary binary = codegen::compile_cuda(
      "extern \"C\" __global__ void last(unsigned* out) { atomicExch(out, blockIdx.x); }\n",
      "sm_80");
  const FakeContext context;
  const Function last = context.kernel(binary.ptx.c_str(), "last");
  DevicePointer out = context.allocate(4);
  void* parameters[] = {&out};
  CHECK(fake().cuLaunchKernel(last, 8, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) == Success);
  uint32_t value = 99;
  CHECK(fake().cuMemcpyDtoH_v2(&value, out, 4) == Success);
  return value;
}

TEST_CASE("blocks run in the order that is asked for") {
  std::string reason;
  if (!codegen::nvrtc_available(&reason)) return skip_case(reason);
  constexpr const char* kName = "blocks run in the order that is asked for";
  if (!in_own_process(kName, {"MEZZO_FAKE_ORDER=forward", "MEZZO_TEST_LAST=7"}) &&
      !in_own_process(kName, {"MEZZO_FAKE_ORDER=reversed", "MEZZO_TEST_LAST=0"}))
    return;
  CHECK(std::to_string(last_block()) == std::getenv("MEZZO_TEST_LAST"));
}

}  // namespace
}  // namespace mezzo::test
