// SPDX-License-Identifier: Apache-2.0
// What the machine can do at most, measured in the same minute: multiply-adds out of the first
// cache, and a copy of memory.
#include <mezzo/codegen/llvm/microkernel.h>
#include <mezzo/codegen/llvm/orc.h>
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/matmul_plan.h>
#include <mezzo/runtime/thread_pool.h>

#include <algorithm>
#include <bench/harness.h>
#include <cstring>

namespace mezzo::bench {

namespace {

constexpr int64_t kSteps = 256;
constexpr int64_t kTiles = 2000;
constexpr int64_t kCopyBytes = 256 << 20;

ir::MatmulSpec peak_spec() {
  ir::Target target = codegen::native_target();
  ir::MatmulSpec spec;
  spec.m = target.vector_registers >= 32 ? 14 : target.fma ? 6 : 4;
  spec.n = 2 * target.lanes(4);
  spec.k = kSteps;
  return ir::plan_matmul(spec, target);
}

/// The compiled loop and the panels that it reads, one set a thread.
struct Peak {
  codegen::Jit jit;
  codegen::LoadedCode code;
  std::vector<runtime::AlignedBuffer> panels;
};

}  // namespace

Row peak_row(int threads) {
  ir::MatmulSpec spec = peak_spec();
  auto peak = std::make_shared<Peak>();
  codegen::ModuleBuilder module("peak", codegen::native_target());
  codegen::emit_microkernel_loop(module, {ir::DType::F32, spec.mr, spec.nr}, kSteps, "peak");
  peak->code = peak->jit.load(codegen::compile_module(std::move(module)));
  for (int i = 0; i < threads; ++i) {
    peak->panels.emplace_back(1 << 16);
    std::memset(peak->panels.back().data(), 0, 1 << 16);
  }
  std::shared_ptr<runtime::ThreadPool> pool = runtime::shared_thread_pool(threads);
  return {"multiply-adds", [peak, pool, threads] {
            const codegen::KernelArgs args;
            auto work = [&](int64_t first, int64_t last, int thread) {
              peak->code.kernel("peak")(&args, first, last,
                                        peak->panels[static_cast<size_t>(thread)].data());
            };
            pool->run(kTiles * threads, work);
          }};
}

double peak_flops(int threads) {
  ir::MatmulSpec spec = peak_spec();
  return 2.0 * static_cast<double>(spec.mr) * spec.nr * kSteps * kTiles * threads;
}

Row copy_row(int threads) {
  auto from = std::make_shared<runtime::AlignedBuffer>(kCopyBytes);
  auto to = std::make_shared<runtime::AlignedBuffer>(kCopyBytes);
  std::memset(from->data(), 1, kCopyBytes);
  std::shared_ptr<runtime::ThreadPool> pool = runtime::shared_thread_pool(threads);
  return {"copy", [from, to, pool] {
            auto work = [&](int64_t first, int64_t last, int) {
              constexpr int64_t kPart = 1 << 20;
              std::memcpy(to->data() + first * kPart, from->data() + first * kPart,
                          static_cast<size_t>((last - first) * kPart));
            };
            pool->run(kCopyBytes >> 20, work);
          }};
}

double copy_bytes() { return 2.0 * kCopyBytes; }

}  // namespace mezzo::bench
