// SPDX-License-Identifier: Apache-2.0
// First part of every generated CUDA source: element types, conversions, wrapping integers. There
// is no include, so that no header has to be found where the source is compiled.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#define DEVICE static __device__ __forceinline__

// 16-bit floats as stored; arithmetic is in float.
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct bool8 {
  u8 bits;
};

DEVICE float widen(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
DEVICE float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
DEVICE float widen(float x) { return x; }
DEVICE double widen(double x) { return x; }
DEVICE bool widen(bool8 x) { return x.bits != 0; }
DEVICE u8 widen(u8 x) { return x; }
DEVICE i32 widen(i32 x) { return x; }
DEVICE i64 widen(i64 x) { return x; }

DEVICE u16 bits_f16(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

// To nearest even; a NaN becomes the quiet one.
DEVICE u16 bits_bf16(float x) {
#if __CUDA_ARCH__ >= 800
  u16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
#else
  const u32 bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;
  return (u16)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
#endif
}

DEVICE void narrow(f16& to, float x) { to.bits = bits_f16(x); }
DEVICE void narrow(bf16& to, float x) { to.bits = bits_bf16(x); }
DEVICE void narrow(float& to, float x) { to = x; }
DEVICE void narrow(double& to, double x) { to = x; }
DEVICE void narrow(bool8& to, bool x) { to.bits = x; }
DEVICE void narrow(u8& to, u8 x) { to = x; }
DEVICE void narrow(i32& to, i32 x) { to = x; }
DEVICE void narrow(i64& to, i64 x) { to = x; }

DEVICE float round_f16(float x) {
  const f16 y = {bits_f16(x)};
  return widen(y);
}
DEVICE float round_bf16(float x) {
  const bf16 y = {bits_bf16(x)};
  return widen(y);
}

// f64 to f32 by rounding to odd: a second rounding to 16 bits is then as good as one.
DEVICE float round_odd(double x) {
  const float y = __double2float_rz(x);
  if ((double)y == x || x != x) return y;
  return __uint_as_float(__float_as_uint(y) | 1u);
}
DEVICE float round_f16(double x) { return round_f16(round_odd(x)); }
DEVICE float round_bf16(double x) { return round_bf16(round_odd(x)); }

// What is dropped of more than 53 bits is kept as one sticky bit, for the same reason.
DEVICE double shorten(i64 x) {
  const i64 limit = 1ll << 53;
  if (x >= -limit & x <= limit) return (double)x;
  return (double)((x & ~2047ll) | ((x & 2047ll) != 0 ? 2048ll : 0ll));
}
DEVICE float round_f16(i64 x) { return round_f16(shorten(x)); }
DEVICE float round_bf16(i64 x) { return round_bf16(shorten(x)); }

// Toward zero, saturated, NaN gives 0.
DEVICE i32 to_i32(float x) { return x != x ? 0 : __float2int_rz(x); }
DEVICE i32 to_i32(double x) { return x != x ? 0 : __double2int_rz(x); }
DEVICE i64 to_i64(float x) { return x != x ? 0 : __float2ll_rz(x); }
DEVICE i64 to_i64(double x) { return x != x ? 0 : __double2ll_rz(x); }
template <class F>
DEVICE u8 to_u8(F x) {
  const i32 y = to_i32(x);
  return (u8)(y < 0 ? 0 : y > 255 ? 255 : y);
}

// Integers wrap: computed unsigned, where overflow is defined.
DEVICE i32 wrap_add(i32 x, i32 y) { return (i32)((u32)x + (u32)y); }
DEVICE i32 wrap_sub(i32 x, i32 y) { return (i32)((u32)x - (u32)y); }
DEVICE i32 wrap_mul(i32 x, i32 y) { return (i32)((u32)x * (u32)y); }
DEVICE i64 wrap_add(i64 x, i64 y) { return (i64)((u64)x + (u64)y); }
DEVICE i64 wrap_sub(i64 x, i64 y) { return (i64)((u64)x - (u64)y); }
DEVICE i64 wrap_mul(i64 x, i64 y) { return (i64)((u64)x * (u64)y); }
DEVICE u8 wrap_add(u8 x, u8 y) { return (u8)((u32)x + (u32)y); }
DEVICE u8 wrap_sub(u8 x, u8 y) { return (u8)((u32)x - (u32)y); }
DEVICE u8 wrap_mul(u8 x, u8 y) { return (u8)((u32)x * (u32)y); }

// Division that floors; 0 where the divisor is 0, and the lowest integer by -1 wraps.
template <class T>
DEVICE T floor_div(T x, T y) {
  if (y == 0) return 0;
  if (y == -1) return wrap_sub((T)0, x);
  const T whole = x / y;
  return whole * y != x && (x < 0) != (y < 0) ? whole - 1 : whole;
}
template <class T>
DEVICE T floor_mod(T x, T y) {
  return y == 0 ? 0 : wrap_sub(x, wrap_mul(floor_div(x, y), y));
}
DEVICE u8 floor_div(u8 x, u8 y) { return (u8)(y == 0 ? 0 : x / y); }
DEVICE u8 floor_mod(u8 x, u8 y) { return (u8)(y == 0 ? 0 : x % y); }

DEVICE bool nonfinite(float x) { return (__float_as_uint(x) & 0x7F800000u) == 0x7F800000u; }
DEVICE bool nonfinite(double x) {
  return (__double2hiint(x) & 0x7FF00000) == 0x7FF00000;
}
DEVICE bool is_infinite(float x) { return (__float_as_uint(x) & 0x7FFFFFFFu) == 0x7F800000u; }

// Bits without the sign, the upper half of f64: in the order of magnitudes, infinities and NaNs
// above all numbers.
DEVICE u32 magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }
DEVICE u32 magnitude(double x) { return (u32)__double2hiint(x) & 0x7FFFFFFFu; }
enum : u32 { kInfinity = 0x7F800000u, kInfinity64 = 0x7FF00000u };
// The least magnitude that rounding to 16 bits makes infinite.
enum : u32 { kBeyondF16 = 0x477FF000u, kBeyondBF16 = 0x7F7F8000u };

// Twice how far the magnitude is above `beyond`, modulo 2^32. The order of what it yields: what
// overflows, then infinity and NaN, then what fits, which wraps around.
DEVICE u32 excess(float x, u32 beyond) { return 2 * (__float_as_uint(x) - beyond); }
// The flags of numbers that were rounded, of the least excess of them: 1 where some is not finite
// now, 2 where that was finite before.
DEVICE u32 overflow_flags(u32 least, u32 beyond) {
  return (least <= 2 * (0x7FFFFFFFu - beyond) ? 1u : 0u) |
         (least < 2 * (kInfinity - beyond) ? 2u : 0u);
}
