// SPDX-License-Identifier: Apache-2.0
// GFLOP/s of compiled matrix products as a share of the fused multiply-add rate that this machine
// shows in the same run. Usage: matmul_core_bench [seconds a row].
#include <mezzo/codegen/llvm/microkernel.h>
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/dtype.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <codegen/matmul_runner.h>
#include <cstdlib>
#include <cstring>
#include <random>
#include <time.h>

using namespace mezzo;
using namespace mezzo::codegen;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Processor time of the calling thread: other programs on the machine do not count.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Best time of one call, by processor time or, for several threads, by the clock on the wall.
template <typename Work>
double best_seconds(double budget, bool wall, Work work) {
  work();
  double best = 1e30;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    const double processor_start = thread_seconds();
    work();
    best = std::min(best, wall ? seconds_since(start) : thread_seconds() - processor_start);
  } while (seconds_since(begin) < budget);
  return best;
}

/// The product of one row panel by one column panel, both in L1: multiply-adds and nothing else.
double peak_gflops(const ir::Target& target) {
  MatmulSpec spec;
  spec.n = 2 * target.lanes(4), spec.k = 256;
  spec.m = target.vector_registers >= 32 ? 14 : target.fma ? 6 : 4;
  spec = plan_matmul(spec, target);
  ModuleBuilder module("peak", target);
  // A kernel without packing: the microkernel over the same panels, `last_task` times.
  emit_microkernel_loop(module, {ir::DType::F32, spec.mr, spec.nr}, 256, "peak");
  Jit jit;
  const LoadedCode code = jit.load(compile_module(std::move(module)));
  auto memory = testing::aligned_memory(1 << 16);
  std::memset(memory.get(), 0, 1 << 16);
  const int64_t rounds = 1000;
  const KernelArgs args;
  const double seconds =
      best_seconds(0.3, false, [&] { code.kernel("peak")(&args, 0, rounds, memory.get()); });
  return 2e-9 * static_cast<double>(spec.mr * spec.nr * 256 * rounds) / seconds;
}

void bench(Jit& jit, const ir::Target& target, double peak, double budget, MatmulSpec spec) {
  spec = plan_matmul(spec, target);
  const auto compile_start = Clock::now();
  testing::MatmulRunner runner(jit, spec, target);
  const double compile = seconds_since(compile_start);
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  auto fill = [&](int64_t elements, ir::DType type) {
    auto memory = testing::aligned_memory(elements * ir::byte_size(type));
    for (int64_t i = 0; i < elements; ++i) {
      const float value = uniform(engine);
      const uint16_t half = type == ir::DType::F16 ? ir::f32_to_f16(value) : ir::f32_to_bf16(value);
      char* to = static_cast<char*>(memory.get()) + i * ir::byte_size(type);
      if (type == ir::DType::F32) std::memcpy(to, &value, 4);
      if (ir::is_16bit(type)) std::memcpy(to, &half, 2);
    }
    return memory;
  };
  auto a = fill(spec.m * spec.k, spec.a_type);
  auto b = fill(spec.k * spec.n, spec.b_type);
  auto c = testing::aligned_memory(spec.m * spec.n * ir::byte_size(spec.c_type));
  const double work = 2e-9 * static_cast<double>(spec.m * spec.n * spec.k);
  auto rate = [&](int64_t threads) {
    return work / best_seconds(budget, threads > 1, [&] {
             runner.run(a.get(), b.get(), c.get(), threads, threads > 1);
           });
  };
  const double one = rate(1), two = rate(2);
  fmt::print(
      "{:>5}x{:<5}x{:<5} {}{} {:<4} {:7.1f} GFLOP/s {:5.1f} %   2 threads {:5.2f}x   "
      "compile {:5.1f} ms   {}\n",
      spec.m, spec.n, spec.k, spec.trans_a ? 'T' : 'N', spec.trans_b ? 'T' : 'N',
      ir::to_string(spec.a_type), one, 100 * one / peak, two / one, 1e3 * compile,
      codegen::to_string(spec));
}

}  // namespace

int main(int count, char** words) {
  const double budget = count > 1 ? std::atof(words[1]) : 0.3;
  const ir::Target target = native_target();
  const double peak = peak_gflops(target);
  fmt::print("{}\npeak of one thread {:.1f} GFLOP/s f32\n", ir::to_string(target), peak);
  Jit jit;
  auto row = [&](int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b,
                 ir::DType type = ir::DType::F32) {
    MatmulSpec spec;
    spec.m = m, spec.n = n, spec.k = k;
    spec.trans_a = trans_a, spec.trans_b = trans_b;
    spec.a_type = spec.b_type = type;
    bench(jit, target, peak, budget, spec);
  };
  for (int64_t size : {64, 256, 512, 1024, 2048}) row(size, size, size, false, false);
  row(512, 512, 512, false, true);
  row(512, 512, 512, true, false);
  row(128, 256, 784, false, false);
  row(784, 256, 128, true, false);
  row(128, 784, 256, false, true);
  row(256, 10, 4096, true, false);
  for (ir::DType type : {ir::DType::F16, ir::DType::BF16}) {
    row(512, 512, 512, false, false, type);
    row(128, 256, 784, false, false, type);
    row(784, 256, 128, true, false, type);
  }
}
