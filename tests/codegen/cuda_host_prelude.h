// SPDX-License-Identifier: Apache-2.0
// What the text of a CUDA kernel needs to be compiled as C++ for this machine: threads of a block
// are fibers, a warp exchanges values through memory, PTX conversions are functions. Included
// before the generated text only.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <ucontext.h>
#include <vector>

#define __CUDA_ARCH__ 900
#define __constant__
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

struct Place {
  unsigned x = 0;
};
inline Place threadIdx, blockIdx;

namespace on_host {

/// One block: every thread runs until it waits for others; a round in which none moves on would be
/// a deadlock on a GPU.
class Block {
 public:
  Block(int threads, const std::function<void()>& body)
      : body_(&body), fibers_(static_cast<size_t>(threads)), slots(static_cast<size_t>(threads)) {
    for (Fiber& fiber : fibers_) {
      fiber.stack.reset(new char[kStackBytes]);  // not zeroed: there are many
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::enter, 0);
    }
  }

  void run() {
    current = this;
    for (bool alive = true; alive;) {
      alive = false;
      moved_ = false;
      for (size_t i = 0; i < fibers_.size(); ++i) {
        if (fibers_[i].done) continue;
        alive = true;
        running_ = i;
        threadIdx.x = static_cast<unsigned>(i);
        swapcontext(&scheduler_, &fibers_[i].context);
      }
      if (alive && !moved_) fail("threads wait for each other");
    }
  }

  /// Waits for `count` threads from `first` on. A thread that has returned never comes.
  void wait(size_t first, size_t count) {
    Fiber& own = fibers_[running_];
    const size_t mine = ++own.arrivals[count == 32];
    moved_ = true;
    for (;;) {
      bool all = true;
      for (size_t i = first; i < first + count; ++i) {
        if (fibers_[i].done && fibers_[i].arrivals[count == 32] < mine)
          fail("a thread has returned that others wait for");
        all &= fibers_[i].arrivals[count == 32] >= mine;
      }
      if (all) break;
      swapcontext(&own.context, &scheduler_);
    }
    moved_ = true;
  }
  void wait_block() { wait(0, fibers_.size()); }
  void wait_warp() { wait(running_ / 32 * 32, 32); }
  size_t thread() const { return running_; }

  static inline Block* current = nullptr;

 private:
  static constexpr size_t kStackBytes = 64 << 10;
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    size_t arrivals[2] = {0, 0};  // at barriers of the block, of the warp
    bool done = false;
  };

  static void enter() {
    Block& block = *current;
    (*block.body_)();
    block.fibers_[block.running_].done = true;
    block.moved_ = true;
  }
  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what);
    std::abort();
  }

  const std::function<void()>* body_;
  std::vector<Fiber> fibers_;
  ucontext_t scheduler_;
  size_t running_ = 0;
  bool moved_ = false;

 public:
  std::vector<uint32_t> slots;  // what each thread shows its warp
};

inline void launch(int64_t blocks, int threads, const std::function<void()>& body) {
  for (int64_t block = 0; block < blocks; ++block) {
    blockIdx.x = static_cast<unsigned>(block);
    Block(threads, body).run();
  }
}

/// A pointer argument of any type.
struct Argument {
  unsigned long long address;
  template <class T>
  operator T*() const {
    return reinterpret_cast<T*>(address);
  }
};

/// The number of a slot in the type that the kernel takes it in.
struct Slot {
  unsigned long long bits;
  template <class T>
  operator T() const {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// Toward zero, saturated; NaN gives 0.
template <class I, class F>
I truncated(F x) {
  if (x != x) return 0;
  if (x >= -static_cast<F>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::max();
  if (x <= static_cast<F>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  return static_cast<I>(x);
}

inline uint16_t f16_bits(float x) {
  if (x != x) return 0x7FFF;
  return bits_as<uint16_t>(static_cast<_Float16>(x));
}
inline uint16_t bf16_bits(float x) {
  const auto bits = bits_as<uint32_t>(x);
  if (x != x) return 0x7FFF;
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace on_host

// PTX instructions, named as they are spelt.
inline float ptx_cvt_f32_f16(uint16_t x) {
  return static_cast<float>(on_host::bits_as<_Float16>(x));
}
inline uint16_t ptx_cvt_rn_f16_f32(float x) { return on_host::f16_bits(x); }
inline uint16_t ptx_cvt_rn_bf16_f32(float x) { return on_host::bf16_bits(x); }
inline uint32_t ptx_cvt_rn_f16x2_f32(float high, float low) {
  return static_cast<uint32_t>(on_host::f16_bits(high)) << 16 | on_host::f16_bits(low);
}
inline uint32_t ptx_cvt_rn_bf16x2_f32(float high, float low) {
  return static_cast<uint32_t>(on_host::bf16_bits(high)) << 16 | on_host::bf16_bits(low);
}

// Functions of CUDA.
inline float __fdiv_rn(float x, float y) { return x / y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline unsigned __float_as_uint(float x) { return on_host::bits_as<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return on_host::bits_as<float>(x); }
inline long long __double_as_longlong(double x) { return on_host::bits_as<long long>(x); }
inline double __longlong_as_double(long long x) { return on_host::bits_as<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
  return __longlong_as_double(static_cast<long long>(
      static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 | static_cast<uint32_t>(low)));
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(static_cast<uint64_t>(x) * y >> 32);
}
inline float __double2float_rz(double x) {
  const float y = static_cast<float>(x);
  return std::fabs(static_cast<double>(y)) > std::fabs(x) ? std::nextafter(y, 0.0f) : y;
}
inline int __float2int_rz(float x) { return on_host::truncated<int>(x); }
inline int __double2int_rz(double x) { return on_host::truncated<int>(x); }
inline long long __float2ll_rz(float x) { return on_host::truncated<long long>(x); }
inline long long __double2ll_rz(double x) { return on_host::truncated<long long>(x); }
inline void atomicOr(unsigned* word, unsigned bits) { *word |= bits; }

inline void __syncthreads() { on_host::Block::current->wait_block(); }
template <class T>
T __shfl_xor_sync(unsigned, T x, int step) {
  on_host::Block& block = *on_host::Block::current;
  block.slots[block.thread()] = on_host::bits_as<uint32_t>(x);
  block.wait_warp();
  const T other = on_host::bits_as<T>(block.slots[block.thread() ^ static_cast<size_t>(step)]);
  block.wait_warp();
  return other;
}
inline unsigned __reduce_or_sync(unsigned, unsigned bits) {
  for (int step = 16; step > 0; step >>= 1) bits |= __shfl_xor_sync(~0u, bits, step);
  return bits;
}
