// SPDX-License-Identifier: Apache-2.0
// `mezzo devices`: what this machine can run, and how it treats the 16-bit types.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_driver.h>
#include <mezzo/runtime/machine_text.h>
#include <mezzo/runtime/thread_pool.h>
#include <mezzo/runtime/tool/commands.h>

#include <fmt/format.h>

#include <cstdio>

namespace mezzo::tool {

namespace {

/// Instruction sets that kernels are chosen by, of all that a processor has.
constexpr const char* kTold[] = {"sse4.2",     "avx",      "avx2",     "fma",      "f16c",
                                 "avx512f",    "avx512bw", "avx512dq", "avx512vl", "avx512bf16",
                                 "avx512fp16", "amx-bf16", "amx-tile"};

void print_cpu(const ir::Target& target, int threads) {
  std::string features;
  for (const char* feature : kTold)
    if (target.has(feature)) features += std::string(features.empty() ? "" : " ") + feature;
  fmt::print("cpu\n");
  fmt::print("  threads   {} (MEZZO_THREADS sets another number)\n", threads);
  fmt::print("  features  {}\n", features);
  fmt::print("  vectors   {} registers of {} bytes, {}\n", target.vector_registers,
             target.vector_bytes, target.fma ? "fused multiply-add" : "no fused multiply-add");
  fmt::print("  caches    L1 {} kB, L2 {} kB, L3 {} kB\n", target.l1_bytes >> 10,
             target.l2_bytes >> 10, target.l3_bytes >> 10);
  fmt::print("  f32       native\n");
  fmt::print("  f16       {}; arithmetic in f32\n", runtime::f16_text(target));
  fmt::print("  bf16      {}; arithmetic in f32\n", runtime::bf16_text(target));
  if (target.avx512bf16)
    fmt::print(
        "            note: the unit of AVX512-BF16 flushes subnormal numbers and adds\n"
        "            products in pairs\n");
}

/// Lines of a text after the first stand under it.
std::string indented(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3)
    text.replace(at, 1, "\n  ");
  return text;
}

void print_cuda(const runtime::CudaDeviceFacts& facts) {
  fmt::print("cuda:{}\n", facts.ordinal);
  fmt::print("  name      {}\n", facts.name);
  fmt::print("  target    sm_{}, {} multiprocessors\n", facts.compute_capability,
             facts.multiprocessors);
  fmt::print("  memory    {:.1f} GiB; {} kB of shared memory a block\n",
             static_cast<double>(facts.memory_bytes) / (int64_t{1} << 30),
             facts.shared_bytes_per_block >> 10);
  fmt::print("  driver    of CUDA {}\n", runtime::cuda_version_text(facts.driver_version));
  try {
    const ir::Target target = runtime::cuda_target(facts);
    fmt::print("  f16       {}\n", runtime::f16_text(target));
    fmt::print("  bf16      {}\n", runtime::bf16_text(target));
  } catch (const DeviceError& unknown) {
    fmt::print("  not usable: {}\n", indented(unknown.what()));
  }
}

void print_cuda_devices() {
  std::string reason;
  if (!runtime::cuda_available(&reason)) {
    fmt::print("cuda\n  {}\n", indented(reason));
    return;
  }
  for (int ordinal = 0; ordinal < runtime::cuda_device_count(); ++ordinal)
    print_cuda(runtime::cuda_device_facts(ordinal));
  fmt::print("  compiler  {}\n",
             codegen::nvrtc_available(&reason)
                 ? "NVRTC " + runtime::cuda_version_text(codegen::nvrtc_version())
                 : indented(reason));
}

}  // namespace

int devices() {
  debug_options("devices", {});
  const int threads = runtime::default_threads();  // throws before anything is printed
  print_cpu(codegen::native_target(), threads);
  fmt::print("interp\n  the interpreter: one op after the other, for checking\n");
  print_cuda_devices();
  return 0;
}

}  // namespace mezzo::tool
