// %0 = kernel @k0 (%x = %x, %b = %b) {family = "elementwise"} plan {grain = 1024, threads = 256, vector = 4} : (tensor<7x9xf32>, tensor<9xf32>) -> tensor<7x9xf32> {
//   %1 = mul %x, %b : (tensor<7x9xf32>, tensor<9xf32>) -> tensor<7x9xf32>
//   yield %1 : tensor<7x9xf32>
// }
extern "C" __global__ void __launch_bounds__(256, 2) k0(
    const float* p_x,
    const float* __restrict__ p_b,
    float* r0) {
  const u32 i = ((u32)blockIdx.x * 256 + threadIdx.x) * 4;
  if (i < 63u) {
    const u32 count = 63u - i < 4u ? 63u - i : 4u;
    float x_x[4];
    load_tail<4>(x_x, p_x + i, count);
    float y0[4];
    #pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      const u32 e = i + j < 62u ? i + j : 62u;
      const u32 c1 = e % 9u;
      const float v_b = widen(p_b[c1]);
      const float t_1_0 = x_x[j] * v_b;
      y0[j] = t_1_0;
    }
    store_tail<4>(r0 + i, y0, count);
  }
}
