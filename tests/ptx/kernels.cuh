// SPDX-License-Identifier: Apache-2.0
// CUDA kernels for the interpreter's tests, with faults that macros put in. NVRTC compiles them at
// run time, so there is no #include.
typedef unsigned short u16;
typedef unsigned int u32;

__device__ inline float to_float(u16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}

__device__ inline u16 to_half(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

// y = gelu(x) in f16, eight elements a thread.
extern "C" __global__ void __launch_bounds__(128) gelu(const u16* x, u16* y, int n) {
  const int first = (blockIdx.x * 128 + threadIdx.x) * 8 + GELU_SHIFT;
  if (first >= n) return;
  union { uint4 words; u16 halves[8]; } in, out;
#ifdef NO_TAIL
  const bool whole = true;
#else
  const bool whole = first + 8 <= n;
#endif
  if (whole) in.words = *(const uint4*)(x + first);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (!whole) in.halves[i] = first + i < n ? x[first + i] : (u16)0;
    const float v = to_float(in.halves[i]);
    out.halves[i] = to_half(0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))));
  }
  if (whole) {
    *(uint4*)(y + first) = out.words;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (first + i < n) y[first + i] = out.halves[i];
  }
}

__device__ inline float block_fold(float v, bool largest, float* parts) {
  for (int step = 16; step; step /= 2) {
    const float other = __shfl_xor_sync(0xFFFFFFFFu, v, step);
    v = largest ? fmaxf(v, other) : v + other;
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
#ifndef NO_FOLD_BARRIER
  __syncthreads();
#endif
  v = parts[0];
  for (int i = 1; i < blockDim.x / 32; ++i) v = largest ? fmaxf(v, parts[i]) : v + parts[i];
  return v;
}

// A block a row.
extern "C" __global__ void __launch_bounds__(128) softmax(const float* x, float* y, int n) {
  __shared__ float parts[2][4];
  const float* row = x + (long long)blockIdx.x * n;
  float most = -3e38f, sum = 0;
  for (int i = threadIdx.x; i < n; i += 128) most = fmaxf(most, row[i]);
  most = block_fold(most, true, parts[0]);
  for (int i = threadIdx.x; i < n; i += 128) sum += __expf(row[i] - most);
  sum = block_fold(sum, false, parts[1]);
  for (int i = threadIdx.x; i < n; i += 128)
    y[(long long)blockIdx.x * n + i] = __expf(row[i] - most) / sum;
}

// C = A B, tiles of 64x64 by four warps of 32x32, K in steps of 32 with two stages. Rows of A have
// 40 halves in shared memory, those of B 72.
__device__ inline u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ inline void copy16(u16* to, const u16* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
#else
  *(uint4*)to = *(const uint4*)from;
#endif
}

__device__ inline void commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::);
#endif
}

__device__ inline void wait(bool last) {
#if __CUDA_ARCH__ >= 800
  if (last)
    asm volatile("cp.async.wait_group 0;" ::);
  else
    asm volatile("cp.async.wait_group %0;" ::"n"(1 + EXTRA_WAIT));
#endif
}

__device__ inline void load_left(u32 (&to)[4], const u16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

__device__ inline void load_right(u32 (&first)[2], u32 (&second)[2], const u16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(first[0]), "=r"(first[1]), "=r"(second[0]), "=r"(second[1])
               : "r"(shared_address(row)));
}

__device__ inline void product(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

struct Stage {
  u16 a[64][40];
  u16 b[32][72];
};

__device__ inline void fill(Stage& stage, const u16* a, const u16* b, int n, int k, int step) {
  const int t = threadIdx.x;
  for (int i = t; i < 256; i += 128)
    copy16(&stage.a[i / 4][i % 4 * 8],
           a + (long long)(blockIdx.y * 64 + i / 4) * k + step * 32 + i % 4 * 8);
  for (int i = t; i < 256; i += 128)
    copy16(&stage.b[i / 8][i % 8 * 8],
           b + (long long)(step * 32 + i / 8) * n + blockIdx.x * 64 + i % 8 * 8);
  commit();
}

extern "C" __global__ void __launch_bounds__(128) gemm(const u16* a, const u16* b,
                                                                  float* c, int n, int k) {
  __shared__ __align__(16) Stage stages[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp / 2 * 32, column = warp % 2 * 32;
#ifdef NO_ZERO
  volatile __shared__ float start;
  float sums[2][4][4];
  for (int i = 0; i < 32; ++i) sums[i / 16][i / 4 % 4][i % 4] = start;
#else
  float sums[2][4][4] = {};
#endif
  const int steps = k / 32;
  fill(stages[0], a, b, n, k, 0);
  for (int step = 0; step < steps; ++step) {
    Stage& stage = stages[step % 2];
    const bool last = step + 1 == steps;
    if (!last) fill(stages[(step + 1) % 2], a, b, n, k, step + 1);
    wait(last);
    __syncthreads();
    for (int deep = 0; deep < 32; deep += 16) {
      u32 left[2][4], right[4][2];
      for (int i = 0; i < 2; ++i)
        load_left(left[i], &stage.a[row + 16 * i + lane % 16][deep + lane / 16 * 8]);
      for (int j = 0; j < 4; j += 2)
        load_right(right[j], right[j + 1],
                   &stage.b[deep + lane % 16][column + 8 * j + lane / 16 * 8]);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
          product(sums[i][j], left[i], right[j][0], right[j][1 - SWAPPED]);
    }
#ifndef NO_STAGE_BARRIER
    __syncthreads();
#endif
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int h = 0; h < 2; ++h) {
        const long long at = (long long)(blockIdx.y * 64 + row + 16 * i + lane / 4 + 8 * h) * n +
                             blockIdx.x * 64 + column + 8 * j + lane % 4 * 2;
        *(float2*)(c + at) = make_float2(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
      }
}
