// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic: sums, products, quotients, carry chains.
#include <algorithm>
#include <limits>
#include <ptx/decoder.h>
#include <ptx/integers.h>
#include <ptx/lanes.h>
#include <type_traits>

namespace mezzo::ptx::detail {

namespace {

/// Signed overflow wraps.
template <class T>
using Wrap = std::make_unsigned_t<T>;

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(Wrap<T>(a) + Wrap<T>(b));
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(Wrap<T>(a) - Wrap<T>(b));
  }
};
template <bool kSubtract>
struct Clamped {  // add.sat.s32, sub.sat.s32
  static int32_t apply(int32_t a, int32_t b) {
    const int64_t exact = kSubtract ? int64_t{a} - b : int64_t{a} + b;
    return static_cast<int32_t>(std::clamp<int64_t>(exact, INT32_MIN, INT32_MAX));
  }
};
struct MulLow {
  template <class T>
  static T apply(T a, T b) {
    using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, Wrap<T>>;
    return static_cast<T>(Wide(a) * Wide(b));
  }
};
struct MulHigh {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>((Double<T>(a) * Double<T>(b)) >> (8 * sizeof(T)));
  }
};
template <class T>
struct MulWide {
  static Double<T> apply(T a, T b) { return static_cast<Double<T>>(Double<T>(a) * Double<T>(b)); }
};
struct MulLow24 {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(narrow(a) * narrow(b));
  }
  static int64_t narrow(int32_t a) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8;
  }
  static uint64_t narrow(uint32_t a) { return a & 0xFFFFFF; }
};
struct MadLow {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply(MulLow::apply(a, b), c);
  }
};
struct MadHigh {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply(MulHigh::apply(a, b), c);
  }
};
template <class T>
struct MadWide {
  static Double<T> apply(T a, T b, Double<T> c) { return Add::apply(MulWide<T>::apply(a, b), c); }
};
/// Division by zero gives all ones, as the hardware's sequence does; the least number by -1 wraps.
struct Div {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Sub::apply(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct Neg {
  template <class T>
  static T apply(T a) {
    return Sub::apply(T{0}, a);
  }
};
struct Abs {
  template <class T>
  static T apply(T a) {
    return a < 0 ? Neg::apply(a) : a;
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};
struct Sad {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply(c, a < b ? Sub::apply(b, a) : Sub::apply(a, b));
  }
};

/// Sums of products of bytes, or of halves of `a` with bytes of `b`, whose upper two may be meant.
template <class A, class B>
struct Dot4 {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; ++i)
      c += static_cast<uint32_t>(static_cast<A>(a >> (8 * i)) * static_cast<B>(b >> (8 * i)));
    return c;
  }
};
template <class A, class B, bool kHigh>
struct Dot2 {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 2; ++i)
      c += static_cast<uint32_t>(static_cast<A>(a >> (16 * i)) *
                                 static_cast<B>(b >> (8 * i + (kHigh ? 16 : 0))));
    return c;
  }
};

// ---- decoding ----

void two_operands(Decoder& d, Type type, Execute execute) {
  d.expect_operands(3);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[2] = d.input(2, type);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(execute);
}

void three_operands(Decoder& d, Type type, Type last, Execute execute) {
  d.expect_operands(4);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[2] = d.input(2, type);
  d.instruction.op[3] = d.input(3, last);
  d.instruction.op[0] = d.output(0, last.bytes);
  d.emit(execute);
}

void wide_operands(Decoder& d, Type type, Execute execute) {
  d.expect_operands(3);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[2] = d.input(2, type);
  d.instruction.op[0] = d.output(0, 2u * type.bytes);
  d.emit(execute);
}

template <class F>
Execute pick_binary(Type type) {
  return pick_integer(type, [](auto t) { return binary<F, decltype(t)>; });
}
template <class F>
Execute pick_ternary(Type type) {
  return pick_integer(type, [](auto t) { return ternary<F, decltype(t)>; });
}

template <class F>
void decode_binary(Decoder& d) {
  const Type type = d.take_type();
  two_operands(d, type, pick_binary<F>(type));
}

/// Those of carry chains keep the carry in a predicate of the warp.
template <bool kSubtract, bool kIn, bool kOut, class T>
void carry_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* a = warp.lanes<T>(instruction.op[1]);
  const T* b = warp.lanes<T>(instruction.op[2]);
  T* to = warp.lanes<T>(instruction.op[0]);
  const Mask in = kIn ? warp.predicate(instruction.target) : 0;
  Mask out = 0;
  for_lanes(mask, [&](int lane) {
    // A borrow is kept as a missing carry: a - b - borrow = a + ~b + carry.
    const T right = kSubtract ? static_cast<T>(~b[lane]) : b[lane];
    const unsigned carry = kIn ? in >> lane & 1 : (kSubtract ? 1 : 0);
    const Double<T> sum = Double<T>(a[lane]) + right + carry;
    to[lane] = static_cast<T>(sum);
    out |= static_cast<Mask>(sum >> (8 * sizeof(T))) << lane;
  });
  if (kOut) warp.set_predicate(instruction.target, mask, out);
}

template <bool kSubtract, class T>
Execute pick_carry(bool in, bool out) {
  if (in)
    return out ? carry_lanes<kSubtract, true, true, T> : carry_lanes<kSubtract, true, false, T>;
  return carry_lanes<kSubtract, false, true, T>;
}

template <bool kSubtract>
void decode_carry(Decoder& d, bool in) {
  const bool out = d.take("cc");
  const Type type = d.take_type();
  if (type.bytes < 4 || type.is_float()) d.error("carries of 32 or 64 bits only");
  d.instruction.target = d.builder().carry();
  two_operands(d, type,
               type.bytes == 4 ? pick_carry<kSubtract, uint32_t>(in, out)
                               : pick_carry<kSubtract, uint64_t>(in, out));
}

template <bool kSubtract, bool kHigh, bool kIn, bool kOut, class T>
void mad_carry_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* a = warp.lanes<T>(instruction.op[1]);
  const T* b = warp.lanes<T>(instruction.op[2]);
  const T* c = warp.lanes<T>(instruction.op[3]);
  T* to = warp.lanes<T>(instruction.op[0]);
  const Mask in = kIn ? warp.predicate(instruction.target) : 0;
  Mask out = 0;
  for_lanes(mask, [&](int lane) {
    const T product = kHigh ? MulHigh::apply(a[lane], b[lane]) : MulLow::apply(a[lane], b[lane]);
    using U = Wrap<T>;
    const Double<U> sum = Double<U>(U(product)) + U(c[lane]) + (kIn ? in >> lane & 1 : 0);
    to[lane] = static_cast<T>(sum);
    out |= static_cast<Mask>(sum >> (8 * sizeof(T))) << lane;
  });
  if (kOut) warp.set_predicate(instruction.target, mask, out);
}

template <bool kHigh>
Execute pick_mad_carry(Type type, bool in, bool out) {
  return pick_wide_integer(type, [&](auto t) -> Execute {
    using T = decltype(t);
    if (in)
      return out ? mad_carry_lanes<false, kHigh, true, true, T>
                 : mad_carry_lanes<false, kHigh, true, false, T>;
    return mad_carry_lanes<false, kHigh, false, true, T>;
  });
}

void decode_mad_carry(Decoder& d, bool in) {
  const bool out = d.take("cc"), high = d.take("hi");
  if (!high && !d.take("lo")) d.error_modifiers();
  const Type type = d.take_type();
  d.instruction.target = d.builder().carry();
  three_operands(d, type, type,
                 high ? pick_mad_carry<true>(type, in, out) : pick_mad_carry<false>(type, in, out));
}

template <bool kSubtract>
void decode_sum(Decoder& d) {
  if (d.take("cc")) {
    const Type type = d.take_type();
    d.instruction.target = d.builder().carry();
    return two_operands(d, type,
                        type.bytes == 8   ? pick_carry<kSubtract, uint64_t>(false, true)
                        : type.bytes == 4 ? pick_carry<kSubtract, uint32_t>(false, true)
                                          : nullptr);
  }
  const bool clamped = d.take("sat");
  const Type type = d.take_type();
  if (clamped)
    return two_operands(
        d, type, type == Type{Kind::Signed, 4} ? binary<Clamped<kSubtract>, int32_t> : nullptr);
  using F = std::conditional_t<kSubtract, Sub, Add>;
  two_operands(d, type, pick_binary<F>(type));
}

}  // namespace

void decode_integer_add(Decoder& d) { decode_sum<false>(d); }
void decode_integer_sub(Decoder& d) { decode_sum<true>(d); }

void decode_integer_mul(Decoder& d) {
  const int part = d.take_one_of({"lo", "hi", "wide"});
  const Type type = d.take_type();
  if (part == 2)
    return wide_operands(d, type, pick_narrow_integer(type, [](auto t) -> Execute {
                           using T = decltype(t);
                           return apply_lanes<MulWide<T>, Double<T>, T, T>;
                         }));
  two_operands(d, type,
               part == 0   ? pick_binary<MulLow>(type)
               : part == 1 ? pick_binary<MulHigh>(type)
                           : nullptr);
}

void decode_integer_mad(Decoder& d) {
  if (d.take("cc")) {
    const bool high = d.take("hi");
    if (!high && !d.take("lo")) d.error_modifiers();
    const Type type = d.take_type();
    d.instruction.target = d.builder().carry();
    return three_operands(
        d, type, type,
        high ? pick_mad_carry<true>(type, false, true) : pick_mad_carry<false>(type, false, true));
  }
  const int part = d.take_one_of({"lo", "hi", "wide"});
  const Type type = d.take_type();
  if (part == 2) {
    const Type wide{type.kind, static_cast<uint8_t>(2 * type.bytes)};
    return three_operands(d, type, wide, pick_narrow_integer(type, [](auto t) -> Execute {
                            using T = decltype(t);
                            return apply_lanes<MadWide<T>, Double<T>, T, T, Double<T>>;
                          }));
  }
  three_operands(d, type, type,
                 part == 0   ? pick_ternary<MadLow>(type)
                 : part == 1 ? pick_ternary<MadHigh>(type)
                             : nullptr);
}

void decode_integer_div(Decoder& d) { decode_binary<Div>(d); }
void decode_integer_min(Decoder& d) { decode_binary<Min>(d); }
void decode_integer_max(Decoder& d) { decode_binary<Max>(d); }

namespace {

template <class F>
void decode_signed_unary(Decoder& d) {
  const Type type = d.take_type();
  d.expect_operands(2);
  d.finish();
  if (type.kind != Kind::Signed) d.error("a signed type expected");
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(pick_integer(type, [](auto t) { return unary<F, decltype(t)>; }));
}

void decode_mul24(Decoder& d) {
  if (!d.take("lo")) d.error_modifiers();
  const Type type = d.take_type();
  two_operands(d, type,
               type == kU32                    ? binary<MulLow24, uint32_t>
               : type == Type{Kind::Signed, 4} ? binary<MulLow24, int32_t>
                                               : nullptr);
}

void decode_sad(Decoder& d) {
  const Type type = d.take_type();
  three_operands(d, type, type, pick_ternary<Sad>(type));
}

/// The types of the parts come as those of a and b.
template <bool kFour>
void decode_dot(Decoder& d) {
  const int half = kFour ? 0 : d.take_one_of({"lo", "hi"});
  if (half < 0) d.error_modifiers();
  const Type b = d.take_type(), a = d.take_type();
  const auto is_word = [](Type type) {
    return type.bytes == 4 && (type.kind == Kind::Unsigned || type.kind == Kind::Signed);
  };
  if (!is_word(a) || !is_word(b)) d.error_modifiers();
  const auto pick = [&](auto signed_a, auto unsigned_a) -> Execute {
    using S = decltype(signed_a);
    using U = decltype(unsigned_a);
    const auto of = [&](auto left) -> Execute {
      using A = decltype(left);
      if (kFour)
        return b.is_signed() ? ternary<Dot4<A, int8_t>, uint32_t>
                             : ternary<Dot4<A, uint8_t>, uint32_t>;
      if (half == 0)
        return b.is_signed() ? ternary<Dot2<A, int8_t, false>, uint32_t>
                             : ternary<Dot2<A, uint8_t, false>, uint32_t>;
      return b.is_signed() ? ternary<Dot2<A, int8_t, true>, uint32_t>
                           : ternary<Dot2<A, uint8_t, true>, uint32_t>;
    };
    return a.is_signed() ? of(S{}) : of(U{});
  };
  three_operands(d, kB32, kB32, kFour ? pick(int8_t{}, uint8_t{}) : pick(int16_t{}, uint16_t{}));
}

constexpr Opcode kTable[] = {
    {"addc", [](Decoder& d) { decode_carry<false>(d, true); }},
    {"subc", [](Decoder& d) { decode_carry<true>(d, true); }},
    {"madc", [](Decoder& d) { decode_mad_carry(d, true); }},
    {"dp2a", decode_dot<false>},
    {"dp4a", decode_dot<true>},
    {"mul24", decode_mul24},
    {"rem", decode_binary<Rem>},
    {"sad", decode_sad},
};

}  // namespace

void decode_integer_neg(Decoder& d) { decode_signed_unary<Neg>(d); }
void decode_integer_abs(Decoder& d) { decode_signed_unary<Abs>(d); }

const std::span<const Opcode> kIntegerOpcodes = kTable;

}  // namespace mezzo::ptx::detail
