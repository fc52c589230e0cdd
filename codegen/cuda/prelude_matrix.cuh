// SPDX-License-Identifier: Apache-2.0
// Part of every generated CUDA source that holds a matrix product: shared memory that the launch
// sizes, asynchronous copies, and the fragments of tensor cores. Addresses are bytes of shared
// memory.

extern __shared__ Words4 dynamic_shared[];

DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// A number that no compiler knows, who would unroll whole loops of so many tiles: grids have one
// axis, so that the others are 1.
DEVICE u32 opaque(u32 x) { return x * gridDim.y; }

#if __CUDA_ARCH__ >= 800
// 16 bytes of global memory; zeros, and nothing is read, where the source is not `there`.
DEVICE void copy_async(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
DEVICE void copy_async(u32 to, const void* from, bool there) {
  const u32 bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All copies but those of the last `Groups` commits of this thread have landed.
template <int Groups>
DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
}
#endif

// 16 bytes in registers; zeros where they are not `there`.
DEVICE void load_piece(u32 (&words)[4], const void* from, bool there) {
  Words4 q = {0, 0, 0, 0};
  if (there) q = *static_cast<const Words4*>(from);
  words[0] = q.x;
  words[1] = q.y;
  words[2] = q.z;
  words[3] = q.w;
}
template <int N>
DEVICE void store_piece(u32 to, const u32 (&words)[N]) {
  if constexpr (N == 4)
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  else
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(words[0]), "r"(words[1])
                 : "memory");
}

// Four 8x8 matrices of 16-bit elements; `at` is a row of 16 bytes, those of lanes 8i to 8i+7 are the
// rows of matrix i.
DEVICE void load_matrices(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}
DEVICE void load_transposed(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}

// A 16x8 tile of sums += a 16x16 tile times a 16x8 tile.
DEVICE void multiply_add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, f16) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}
#if __CUDA_ARCH__ >= 800
DEVICE void multiply_add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// All products of one step of 16 along k.
template <class T, int M, int N>
DEVICE void multiply_tiles(float (&sums)[M][2 * N][4], const u32 (&a)[M][4], const u32 (&b)[N][4]) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int j = 0; j < 2 * N; ++j)
      multiply_add(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1], T{});
}

DEVICE float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }
DEVICE double fused(double x, double y, double z) { return __fma_rn(x, y, z); }

template <class C>
DEVICE void load_four(C* x, const C* from) {
  C four[4];
  load_vector(four, from);
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = four[i];
}

// All products of one k: 8x8 or 4x4 results a thread.
template <class C, int N>
DEVICE void multiply_outer(C (&sums)[N][N], const C (&a)[N], const C (&b)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j) sums[i][j] = fused(a[i], b[j], sums[i][j]);
}
template <class C, int N>
DEVICE void add_sums(C (&totals)[N][N], C (&sums)[N][N]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j) {
      totals[i][j] += sums[i][j];
      sums[i][j] = 0;
    }
}

DEVICE void set_sum(float& to, float from) { to = from; }
DEVICE void set_sum(double& to, double from) { to = from; }
template <class C, int N>
DEVICE void set_sum(C (&to)[N], const C (&from)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) set_sum(to[i], from[i]);
}
// The sums of each part in the place of the part before.
template <class Part, int N>
DEVICE void next_part(Part (&sums)[N]) {
#pragma unroll
  for (int i = 0; i + 1 < N; ++i) set_sum(sums[i], sums[i + 1]);
}

// Where a warp keeps the sum of a row and a column of its tile of W columns while it turns them
// from the order of fragments into rows: groups of four change places so that neither the stores
// nor the loads of 4 or 8 columns a lane meet in a bank.
template <int W, int Stride>
DEVICE u32 turned(u32 row, u32 column) {
  const u32 group = column / 4;
  const u32 swap = W == 64                ? group >> 3 & 1
                   : W == 16              ? group >> 1 & 1
                   : Stride == W + 8 ? row & 1
                                          : 0;
  return row * Stride + (group ^ swap) * 4 + column % 4;
}
DEVICE void store_pair(float* to, float x, float y) {
  const u32 words[2] = {__float_as_uint(x), __float_as_uint(y)};
  store_words(to, words);
}
template <class C>
DEVICE void store_four(C* to, const C* x) {
  const C four[4] = {x[0], x[1], x[2], x[3]};
  store_vector(to, four);
}
template <int W, int Stride, int V, class C>
DEVICE void load_turned(C (&x)[V], const C* sums, u32 row, u32 column) {
  if constexpr (V <= 4) {
    load_vector(x, sums + turned<W, Stride>(row, column));
  } else {
#pragma unroll
    for (int j = 0; j < V; j += 4)
      load_four(x + j, sums + turned<W, Stride>(row, column + j));
  }
}
