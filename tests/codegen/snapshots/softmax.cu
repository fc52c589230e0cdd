DEVICE float exp_f32(const float x) {
  const bool t0 = (-0x1.a2p+6f) > x;
  const float t1 = t0 ? (-0x1.a2p+6f) : x;
  const bool t2 = 0x1.64p+6f < t1;
  const float t3 = t2 ? 0x1.64p+6f : t1;
  const float t4 = __fmaf_rn(t3, 0x1.715476p+0f, 0x1.8p+23f);
  const float t5 = t4 - 0x1.8p+23f;
  const float t6 = -t5;
  const float t7 = __fmaf_rn(t6, 0x1.62e43p-1f, t3);
  const float t8 = t6 * (-0x1.05c61p-29f);
  const unsigned int t9 = __float_as_uint(t4);
  const unsigned int t10 = t9 + 0xB4C000FEu;
  const float t11 = t7 + t8;
  const float t12 = __fmaf_rn(0x1.6ab242p-10f, t11, 0x1.122c82p-7f);
  const float t13 = __fmaf_rn(t12, t11, 0x1.55579ep-5f);
  const float t14 = __fmaf_rn(t13, t11, 0x1.5554aap-3f);
  const float t15 = __fmaf_rn(t14, t11, 0x1.fffffep-2f);
  const float t16 = t11 * t11;
  const float t17 = __fmaf_rn(t16, t15, t8);
  const float t18 = t7 + t17;
  const float t19 = 0x1p+0f + t18;
  const unsigned int t20 = t10 >> 1;
  const unsigned int t21 = t10 - t20;
  const unsigned int t22 = t21 << 23;
  const float t23 = __uint_as_float(t22);
  const unsigned int t24 = t20 << 23;
  const float t25 = __uint_as_float(t24);
  const float t26 = t19 * t25;
  const float t27 = t26 * t23;
  return t27;
}

// %0 = kernel @k0 (%x = %x) {family = "rows"} plan {grain = 4, reason = "one warp a row", tasks = 8, threads = 128, vector = 4} : tensor<32x500xf32> {
//   %1 = max %x {axes = [1], keepdims = true} : tensor<32x500xf32> -> tensor<32x1xf32>
//   %2 = sub %x, %1 : (tensor<32x500xf32>, tensor<32x1xf32>) -> tensor<32x500xf32>
//   %3 = exp %2 : tensor<32x500xf32>
//   %4 = sum %3 {axes = [1], keepdims = true} : tensor<32x500xf32> -> tensor<32x1xf32>
//   %5 = div %3, %4 : (tensor<32x500xf32>, tensor<32x1xf32>) -> tensor<32x500xf32>
//   yield %5 : tensor<32x500xf32>
// }
extern "C" __global__ void __launch_bounds__(128, 4) k0(
    const float* __restrict__ p_x,
    float* r0) {
  const u32 t = threadIdx.x % 32;
  const u32 row = (u32)blockIdx.x * 4 + threadIdx.x / 32;
  float a0[4];
  #pragma unroll
  for (u32 j = 0; j < 4; ++j) a0[j] = __uint_as_float(0xFF800000u);
  const u32 row_start = row * 500u;
  float x_x[4][4];
  #pragma unroll
  for (u32 it = 0; it < 4; ++it) {
    const u32 c = (it * 32 + t) * 4;
    if (c < 500u) {
      load_vector<4>(x_x[it], p_x + row_start + c);
    }
  }
  #pragma unroll
  for (u32 it = 0; it < 4; ++it) {
    const u32 c = (it * 32 + t) * 4;
    if (c < 500u) {
      #pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        a0[j] = Maximum::of(a0[j], x_x[it][j]);
      }
    }
  }
  const float v_1 = reduce_warp<Maximum>(fold<Maximum>(a0));
  float a1[4];
  #pragma unroll
  for (u32 j = 0; j < 4; ++j) a1[j] = (-0x0p+0f);
  #pragma unroll
  for (u32 it = 0; it < 4; ++it) {
    const u32 c = (it * 32 + t) * 4;
    if (c < 500u) {
      #pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        const float t_2_0 = x_x[it][j] - v_1;
        const float v_3 = exp_f32(t_2_0);
        a1[j] = Add::of(a1[j], v_3);
      }
    }
  }
  const float v_4 = reduce_warp<Add>(fold<Add>(a1));
  #pragma unroll
  for (u32 it = 0; it < 4; ++it) {
    const u32 c = (it * 32 + t) * 4;
    if (c < 500u) {
      const u32 e = row_start + c;
      float y0[4];
      #pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        const float t_2_1_0 = x_x[it][j] - v_1;
        const float v_3_1 = exp_f32(t_2_1_0);
        const float t_5_0 = __fdiv_rn(v_3_1, v_4);
        y0[j] = t_5_0;
      }
      store_vector<4>(r0 + e, y0);
    }
  }
}
