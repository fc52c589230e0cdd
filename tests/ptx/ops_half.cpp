// SPDX-License-Identifier: Apache-2.0
// Arithmetic on f16, bf16 and pairs of them. A pair's register is 64 halves in a row.
#include <cmath>
#include <ptx/halves.h>
#include <ptx/lanes.h>

namespace mezzo::ptx::detail {

namespace {

template <class H>
H from_sum(float exact_enough) {
  // f32 has more than twice the digits, so rounding twice is rounding once for +, - and *.
  return H::nearest(exact_enough);
}

struct Add {
  template <class H>
  static H apply(H a, H b) {
    return from_sum<H>(float(a) + float(b));
  }
};
struct Sub {
  template <class H>
  static H apply(H a, H b) {
    return from_sum<H>(float(a) - float(b));
  }
};
struct Mul {
  template <class H>
  static H apply(H a, H b) {
    return from_sum<H>(float(a) * float(b));
  }
};
struct Fma {
  template <class H>
  static H apply(H a, H b, H c) {
    const double product = double(float(a)) * double(float(b));  // exact
    return H::round(add_to_odd(product, float(c)));
  }
};
template <bool kMax, bool kNan>
struct Extreme {
  template <class H>
  static H apply(H a, H b) {
    const float x = a, y = b;
    if (x != x || y != y) {
      if (kNan || (x != x && y != y)) return H{kNan16};
      return x != x ? b : a;
    }
    if (x == y) return (a.bits >> 15) == (kMax ? 1 : 0) ? b : a;
    return (x < y) == kMax ? b : a;
  }
};
struct Neg {
  template <class H>
  static H apply(H a) {
    return H{static_cast<uint16_t>(a.bits ^ 0x8000)};
  }
};
struct Abs {
  template <class H>
  static H apply(H a) {
    return H{static_cast<uint16_t>(a.bits & 0x7FFF)};
  }
};
struct Ex2 {
  template <class H>
  static H apply(H a) {
    return H::nearest(std::exp2(float(a)));
  }
};
struct Tanh {
  template <class H>
  static H apply(H a) {
    return H::nearest(std::tanh(float(a)));
  }
};

inline F16 flush_half(F16 a) {
  return (a.bits & 0x7C00) ? a : F16{static_cast<uint16_t>(a.bits & 0x8000)};
}
inline Bf16 flush_half(Bf16 a) {
  return (a.bits & 0x7F80) ? a : Bf16{static_cast<uint16_t>(a.bits & 0x8000)};
}

template <class F>
struct Flush {
  template <class... H>
  static auto apply(H... values) {
    return flush_half(F::apply(flush_half(values)...));
  }
};
template <class F>
struct Saturate {
  template <class H, class... More>
  static H apply(H a, More... more) {
    return H::nearest(saturate(float(F::apply(a, more...))));
  }
};
template <class F>
struct Relu {
  template <class H, class... More>
  static H apply(H a, More... more) {
    const H value = F::apply(a, more...);
    const float wide = value;
    if (wide != wide) return H{kNan16};
    return wide > 0 ? value : H{0};
  }
};

template <class F, class H, int kParts, int kOperands>
void half_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  H* const to = warp.lanes<H>(instruction.op[0]);
  const H* const a = warp.lanes<H>(instruction.op[1]);
  const H* const b = warp.lanes<H>(instruction.op[kOperands > 1 ? 2 : 1]);
  const H* const c = warp.lanes<H>(instruction.op[kOperands > 2 ? 3 : 1]);
  alignas(64) H result[kLanes * kParts];
  for (int i = 0; i < kLanes * kParts; ++i) {
    if constexpr (kOperands == 1) result[i] = F::apply(a[i]);
    if constexpr (kOperands == 2) result[i] = F::apply(a[i], b[i]);
    if constexpr (kOperands == 3) result[i] = F::apply(a[i], b[i], c[i]);
  }
  for (int i = 0; i < kLanes * kParts; ++i) {
    if (mask >> (i / kParts) & 1) to[i] = result[i];
  }
}

template <class F, int kOperands>
Execute pick_type(Type type) {
  if (type == kF16) return half_lanes<F, F16, 1, kOperands>;
  if (type == kF16x2) return half_lanes<F, F16, 2, kOperands>;
  if (type == kBf16) return half_lanes<F, Bf16, 1, kOperands>;
  if (type == kBf16x2) return half_lanes<F, Bf16, 2, kOperands>;
  return nullptr;
}

template <int kOperands>
void decode_plain(Decoder& d, Execute execute, Type type) {
  d.expect_operands(kOperands + 1);
  d.finish();
  for (int i = 1; i <= kOperands; ++i) d.instruction.op[i] = d.input(i, type);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(execute);
}

template <class F, int kOperands>
void decode_modified(Decoder& d) {
  d.take("rn");
  const bool ftz = d.take("ftz"), sat = d.take("sat"), relu = d.take("relu");
  const Type type = d.take_type();
  if (sat && relu) d.error_modifiers();
  Execute execute = nullptr;
  if (sat)
    execute = ftz ? pick_type<Saturate<Flush<F>>, kOperands>(type)
                  : pick_type<Saturate<F>, kOperands>(type);
  else if (relu)
    execute =
        ftz ? pick_type<Relu<Flush<F>>, kOperands>(type) : pick_type<Relu<F>, kOperands>(type);
  else
    execute = ftz ? pick_type<Flush<F>, kOperands>(type) : pick_type<F, kOperands>(type);
  decode_plain<kOperands>(d, execute, type);
}

template <class F>
void decode_unary(Decoder& d) {
  const bool ftz = d.take("ftz");
  const Type type = d.take_type();
  decode_plain<1>(d, ftz ? pick_type<Flush<F>, 1>(type) : pick_type<F, 1>(type), type);
}

template <bool kMax>
void decode_extreme_half(Decoder& d) {
  const bool ftz = d.take("ftz"), nan = d.take("NaN");
  const Type type = d.take_type();
  using Quiet = Extreme<kMax, false>;
  using Nan = Extreme<kMax, true>;
  const Execute execute =
      nan ? (ftz ? pick_type<Flush<Nan>, 2>(type) : pick_type<Nan, 2>(type))
          : (ftz ? pick_type<Flush<Quiet>, 2>(type) : pick_type<Quiet, 2>(type));
  decode_plain<2>(d, execute, type);
}

}  // namespace

void decode_half_add(Decoder& d) { decode_modified<Add, 2>(d); }
void decode_half_sub(Decoder& d) { decode_modified<Sub, 2>(d); }
void decode_half_mul(Decoder& d) { decode_modified<Mul, 2>(d); }
void decode_half_fma(Decoder& d) { decode_modified<Fma, 3>(d); }
void decode_half_min(Decoder& d) { decode_extreme_half<false>(d); }
void decode_half_max(Decoder& d) { decode_extreme_half<true>(d); }
void decode_half_neg(Decoder& d) { decode_unary<Neg>(d); }
void decode_half_abs(Decoder& d) { decode_unary<Abs>(d); }
void decode_half_ex2(Decoder& d) { decode_unary<Ex2>(d); }
void decode_half_tanh(Decoder& d) { decode_unary<Tanh>(d); }

}  // namespace mezzo::ptx::detail
