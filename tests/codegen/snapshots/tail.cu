extern "C" __global__ void __launch_bounds__(256) k0(
    const float* p0,
    const float* __restrict__ p1,
    float* r0) {
  const u32 i = ((u32)blockIdx.x * 256 + threadIdx.x) * 4;
  if (i < 63u) {
    const u32 count = 63u - i < 4u ? 63u - i : 4u;
    float x0[4];
    load_tail<4>(x0, p0 + i, count);
    float y0[4];
    #pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      const u32 e = i + j < 62u ? i + j : 62u;
      const u32 c1 = e % 9u;
      const float v0 = widen(p1[c1]);
      const float v1_0 = x0[j] * v0;
      y0[j] = v1_0;
    }
    store_tail<4>(r0 + i, y0, count);
  }
}
