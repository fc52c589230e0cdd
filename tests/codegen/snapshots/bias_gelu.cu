DEVICE float gelu_f32(const float x) {
  const float t0 = x * x;
  const float t1 = __fmaf_rn((-0x1.fb44f4p-18f), t0, 0x1.daf8eep-14f);
  const float t2 = __fmaf_rn(t1, t0, (-0x1.36eea6p-10f));
  const float t3 = __fmaf_rn(t2, t0, 0x1.46cda8p-7f);
  const float t4 = __fmaf_rn(t3, t0, (-0x1.10583p-4f));
  const float t5 = __fmaf_rn(x, 0x1.988454p-2f, 0x1p-1f);
  const float t6 = 0x1p-1f - t5;
  const float t7 = __fmaf_rn(x, 0x1.988454p-2f, t6);
  const float t8 = __fmaf_rn(t0, t4, (-0x1.857936p-27f));
  const float t9 = __fmaf_rn(x, t8, t7);
  const float t10 = x * t9;
  const float t11 = __fmaf_rn(x, t5, t10);
  const float t12 = fabsf(x);
  const bool t13 = 0x1.d33334p+3f < t12;
  const float t14 = t13 ? 0x1.d33334p+3f : t12;
  const float t15 = t14 + 0x1.bp+1f;
  const float t16 = t15 - 0x1.bp+1f;
  const float t17 = t14 - t16;
  const float t18 = __fdiv_rn(0x1p+0f, t15);
  const float t19 = -t18;
  const float t20 = __fmaf_rn(t19, t15, 0x1p+0f);
  const float t21 = __fmaf_rn(t19, t17, t20);
  const float t22 = t18 * t21;
  const float t23 = __fmaf_rn((-0x1.bp+2f), t18, 0x1p+0f);
  const float t24 = __fmaf_rn((-0x1.bp+2f), t22, t23);
  const float t25 = __fmaf_rn(0x1.6fc20ep-12f, t24, (-0x1.85ef72p-11f));
  const float t26 = __fmaf_rn(t25, t24, (-0x1.2ad13ep-9f));
  const float t27 = __fmaf_rn(t26, t24, 0x1.ff0164p-8f);
  const float t28 = __fmaf_rn(t27, t24, 0x1.1dea28p-7f);
  const float t29 = __fmaf_rn(t28, t24, (-0x1.92f8bep-4f));
  const float t30 = __fmaf_rn(t29, t24, 0x1.2e76eap-2f);
  const float t31 = __fmaf_rn(t30, t24, (-0x1.1b21cep-1f));
  const float t32 = __fmaf_rn(t31, t24, 0x1.7b6eep-1f);
  const float t33 = t22 * t32;
  const float t34 = __fmaf_rn(t18, t32, t33);
  const float t35 = t14 * t14;
  const float t36 = -t35;
  const float t37 = __fmaf_rn(t14, t14, t36);
  const float t38 = t37 * (-0x1p-1f);
  const float t39 = t35 * (-0x1p-1f);
  const float t40 = __fmaf_rn(t39, 0x1.715476p+0f, 0x1.8p+23f);
  const float t41 = t40 - 0x1.8p+23f;
  const float t42 = -t41;
  const float t43 = __fmaf_rn(t42, 0x1.62e43p-1f, t39);
  const float t44 = __fmaf_rn(t42, (-0x1.05c61p-29f), t38);
  const unsigned int t45 = __float_as_uint(t40);
  const unsigned int t46 = t45 + 0xB4C000FEu;
  const float t47 = t43 + t44;
  const float t48 = __fmaf_rn(0x1.6ab242p-10f, t47, 0x1.122c82p-7f);
  const float t49 = __fmaf_rn(t48, t47, 0x1.55579ep-5f);
  const float t50 = __fmaf_rn(t49, t47, 0x1.5554aap-3f);
  const float t51 = __fmaf_rn(t50, t47, 0x1.fffffep-2f);
  const float t52 = t47 * t47;
  const float t53 = __fmaf_rn(t52, t51, t44);
  const float t54 = t43 + t53;
  const float t55 = __fmaf_rn(t34, t54, t34);
  const unsigned int t56 = t46 >> 1;
  const unsigned int t57 = t46 - t56;
  const unsigned int t58 = t57 << 23;
  const float t59 = __uint_as_float(t58);
  const unsigned int t60 = t56 << 23;
  const float t61 = __uint_as_float(t60);
  const float t62 = t55 * t61;
  const float t63 = t62 * t59;
  const float t64 = 0x1p+0f - t63;
  const bool t65 = x < 0x0p+0f;
  const float t66 = t65 ? t63 : t64;
  const float t67 = x * t66;
  const bool t68 = t66 == 0x0p+0f;
  const float t69 = t68 ? (-0x0p+0f) : t67;
  const float t70 = fabsf(x);
  const bool t71 = t70 < 0x1p+0f;
  const float t72 = t71 ? t11 : t69;
  return t72;
}

// %0 = kernel @k0 (%x = %x, %b = %b) {family = "elementwise"} plan {grain = 2048, tasks = 4, threads = 256, vector = 8} : (tensor<64x128xf16>, tensor<128xf16>) -> tensor<64x128xf16> {
//   %1 = cast %x : tensor<64x128xf16> -> tensor<64x128xf32>
//   %2 = cast %b : tensor<128xf16> -> tensor<128xf32>
//   %3 = add %1, %2 : (tensor<64x128xf32>, tensor<128xf32>) -> tensor<64x128xf32>
//   %4 = gelu %3 : tensor<64x128xf32>
//   %5 = cast %4 {word = 0} : tensor<64x128xf32> -> tensor<64x128xf16>
//   yield %5 : tensor<64x128xf16>
// }
extern "C" __global__ void __launch_bounds__(256, 2) k0(
    const f16* p_x,
    const f16* __restrict__ p_b,
    f16* r0,
    u32* w0) {
  u32 flags0 = 0;
  u32 least_f16_0 = ~0u;
  const u32 i = ((u32)blockIdx.x * 256 + threadIdx.x) * 8;
  if (i < 8192u) {
    float x_x[8];
    load_vector<8>(x_x, p_x + i);
    const u32 c1 = i % 128u;
    float x_b[8];
    load_vector<8>(x_b, p_b + c1);
    float y0[8];
    #pragma unroll
    for (u32 j = 0; j < 8; ++j) {
      const float t_3_0 = x_x[j] + x_b[j];
      const float v_4 = gelu_f32(t_3_0);
      const float v_5_r = round_f16(v_4);
      least_f16_0 = min(least_f16_0, excess(v_4, kBeyondF16));
      y0[j] = v_4;
    }
    store_vector<8>(r0 + i, y0);
  }
  flags0 |= overflow_flags(least_f16_0, kBeyondF16);
  or_flags(w0, flags0);
}
