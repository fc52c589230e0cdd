// SPDX-License-Identifier: Apache-2.0
// Opcodes that exist for integers and floats, and f32 and f64 arithmetic with exact results:
// everything here is rounded once, in the direction that the instruction names.
#include <algorithm>
#include <cmath>
#include <ptx/halves.h>
#include <ptx/integers.h>
#include <ptx/lanes.h>

namespace mezzo::ptx::detail {

namespace {

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return canonical(a + b);
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return canonical(a - b);
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) {
    return canonical(a * b);
  }
};
struct Fma {
  template <class T>
  static T apply(T a, T b, T c) {
    return canonical(std::fma(a, b, c));
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) {
    return canonical(a / b);
  }
};
struct Rcp {
  template <class T>
  static T apply(T a) {
    return canonical(T(1) / a);
  }
};
struct Sqrt {
  template <class T>
  static T apply(T a) {
    return canonical(std::sqrt(a));
  }
};
/// Three operands, of which those that are numbers count.
template <class F>
struct OfThree {
  template <class T>
  static T apply(T a, T b, T c) {
    return F::apply(F::apply(a, b), c);
  }
};
/// Of an operand that is not a number the other one is taken; -0 is below +0.
template <bool kMax, bool kNan, bool kAbs = false>
struct Extreme {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (kAbs) {
      const T sign = std::copysign(T(1), a) * std::copysign(T(1), b);
      const T size = Extreme<kMax, kNan>::apply(std::fabs(a), std::fabs(b));
      return size == size ? std::copysign(size, sign) : size;
    }
    const bool a_first =
        kMax ? (a > b || (a == b && !std::signbit(a))) : (a < b || (a == b && std::signbit(a)));
    T result = a_first ? a : b;
    if constexpr (kNan) {
      result = a != a ? a : result;
      result = b != b ? b : result;
    } else {
      result = a != a ? b : result;
      result = b != b ? a : result;
    }
    return canonical(result);
  }
};
struct Neg {
  template <class T>
  static T apply(T a) {
    return -a;
  }
};
struct Abs {
  template <class T>
  static T apply(T a) {
    return std::fabs(a);
  }
};
struct CopySign {
  template <class T>
  static T apply(T a, T b) {
    return std::copysign(b, a);
  }
};

// ---- decoding ----

struct Options {
  int rounding = 0;  // rn rz rm rp
  bool ftz = false, sat = false;
  Type type;
};

constexpr int kHostModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

Options take_options(Decoder& d, bool rounding_needed) {
  Options result;
  const int mode = d.take_one_of({"rn", "rz", "rm", "rp"});
  if (rounding_needed && mode < 0) d.error("a rounding expected: .rn, .rz, .rm or .rp");
  result.rounding = std::max(mode, 0);
  result.ftz = d.take("ftz");
  result.sat = d.take("sat");
  result.type = d.take_type();
  if (result.ftz && result.type != kF32 && result.type != kF32x2) d.error_modifiers();
  if (result.sat && result.type != kF32) d.error_modifiers();
  return result;
}

template <class F, class T, class... A>
Execute pick_rounded(int rounding) {
  static constexpr Execute kTable[] = {
      apply_lanes<F, T, A...>, apply_rounded<kHostModes[1], F, T, A...>,
      apply_rounded<kHostModes[2], F, T, A...>, apply_rounded<kHostModes[3], F, T, A...>};
  return kTable[rounding];
}

template <class F, class T, class... A>
Execute pick_modified(const Options& options) {
  const int r = options.rounding;
  if constexpr (std::is_same_v<T, double>) return pick_rounded<F, T, A...>(r);
  if (options.sat)
    return options.ftz ? pick_rounded<Saturated<Flushed<F>>, T, A...>(r)
                       : pick_rounded<Saturated<F>, T, A...>(r);
  return options.ftz ? pick_rounded<Flushed<F>, T, A...>(r) : pick_rounded<F, T, A...>(r);
}

template <class F, int kOperands>
Execute pick(const Options& options) {
  const auto of = [&](auto t) {
    using T = decltype(t);
    if constexpr (kOperands == 1) return pick_modified<F, T, T>(options);
    if constexpr (kOperands == 2) return pick_modified<F, T, T, T>(options);
    if constexpr (kOperands == 3) return pick_modified<F, T, T, T, T>(options);
  };
  if (options.type == kF32) return of(float{});
  if (options.type == kF64) return of(double{});
  return nullptr;
}

void operands(Decoder& d, Type type, size_t count, Execute execute) {
  d.expect_operands(count + 1);
  d.finish();
  for (size_t i = 1; i <= count; ++i) d.instruction.op[i] = d.input(i, type);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(execute);
}

#if defined(__x86_64__)
/// Sums of products for hosts that have an instruction for them; the library's function would be
/// called for each lane.
template <class T, bool kFtz>
__attribute__((target("avx2,fma"))) void fused_lanes(Warp& warp, const Instruction& instruction,
                                                     Mask mask) {
  const T* const a = warp.lanes<T>(instruction.op[1]);
  const T* const b = warp.lanes<T>(instruction.op[2]);
  const T* const c = warp.lanes<T>(instruction.op[3]);
  T* const to = warp.lanes<T>(instruction.op[0]);
  alignas(64) T result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const T x = kFtz ? flush(a[lane]) : a[lane], y = kFtz ? flush(b[lane]) : b[lane];
    const T sum = canonical(std::fma(x, y, kFtz ? flush(c[lane]) : c[lane]));
    result[lane] = kFtz ? flush(sum) : sum;
  }
  if (mask == kAllLanes) {
    std::copy(result, result + kLanes, to);
  } else {
    for (int lane = 0; lane < kLanes; ++lane) to[lane] = mask >> lane & 1 ? result[lane] : to[lane];
  }
}

/// Nothing where it does not apply.
Execute pick_fused(const Options& options) {
  if (options.rounding != 0 || options.sat) return nullptr;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return nullptr;
  if (options.type == kF64) return fused_lanes<double, false>;
  if (options.type != kF32) return nullptr;
  return options.ftz ? fused_lanes<float, true> : fused_lanes<float, false>;
}
#else
Execute pick_fused(const Options&) { return nullptr; }
#endif

void decode_fused(Decoder& d) {
  const Options options = take_options(d, true);
  const Execute fast = pick_fused(options);
  operands(d, options.type, 3, fast ? fast : pick<Fma, 3>(options));
}

/// f32x2: a register is 64 floats in a row.
template <class F, int kRounding, class... A>
void pair_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    const auto from =
        std::make_tuple(static_cast<const float*>(warp.lanes<float>(instruction.op[I + 1]))...);
    alignas(64) float result[2 * kLanes];
    std::fesetround(kRounding);
    asm volatile("" ::: "memory");
    for (int i = 0; i < 2 * kLanes; ++i) result[i] = F::apply(std::get<I>(from)[i]...);
    asm volatile("" ::: "memory");
    std::fesetround(FE_TONEAREST);
    float* const to = warp.lanes<float>(instruction.op[0]);
    for (int i = 0; i < 2 * kLanes; ++i) to[i] = mask >> (i / 2) & 1 ? result[i] : to[i];
  }(std::index_sequence_for<A...>{});
}

template <class F, class... A>
Execute pick_pair(int rounding) {
  static constexpr Execute kTable[] = {
      pair_lanes<F, kHostModes[0], A...>, pair_lanes<F, kHostModes[1], A...>,
      pair_lanes<F, kHostModes[2], A...>, pair_lanes<F, kHostModes[3], A...>};
  return kTable[rounding];
}

template <class F, class... A>
void decode_pair(Decoder& d, bool rounding_needed) {
  const Options options = take_options(d, rounding_needed);
  operands(d, options.type, sizeof...(A),
           options.ftz ? pick_pair<Flushed<F>, A...>(options.rounding)
                       : pick_pair<F, A...>(options.rounding));
}

template <class F, int kOperands>
void decode_float(Decoder& d, bool rounding_needed = false) {
  const Options options = take_options(d, rounding_needed);
  operands(d, options.type, kOperands, pick<F, kOperands>(options));
}

template <class F, void (*kInteger)(Decoder&), void (*kHalf)(Decoder&)>
void decode_sum(Decoder& d) {
  const Type type = d.peek_type();
  if (!type.is_float()) return kInteger(d);
  if (is_half(type)) return kHalf(d);
  if (type == kF32x2) return decode_pair<F, float, float>(d, false);
  decode_float<F, 2>(d);
}

void decode_fma(Decoder& d) {
  if (is_half(d.peek_type())) return decode_half_fma(d);
  if (d.peek_type() == kF32x2) return decode_pair<Fma, float, float, float>(d, true);
  decode_fused(d);
}

void decode_mad(Decoder& d) {
  if (!d.peek_type().is_float()) return decode_integer_mad(d);
  decode_fused(d);
}

/// `.approx` and `.full` are computed as exactly as `.rn`; hardware is up to 2 ULP off.
void decode_div(Decoder& d) {
  if (!d.peek_type().is_float()) return decode_integer_div(d);
  const bool approx = d.take("approx") || d.take("full");
  decode_float<Div, 2>(d, !approx);
}

template <class F>
void decode_root(Decoder& d) {
  const bool approx = d.take("approx");
  if (approx && d.peek_type() == kF64) d.take("ftz");
  decode_float<F, 1>(d, !approx);
}

template <bool kMax>
void decode_extreme(Decoder& d) {
  if (!d.peek_type().is_float()) return kMax ? decode_integer_max(d) : decode_integer_min(d);
  if (is_half(d.peek_type())) return kMax ? decode_half_max(d) : decode_half_min(d);
  const bool nan = d.take("NaN"), absolute = d.take("abs");
  if (absolute != d.take("xorsign")) d.error_modifiers();
  if (absolute)
    return nan ? decode_float<Extreme<kMax, true, true>, 2>(d)
               : decode_float<Extreme<kMax, false, true>, 2>(d);
  if (d.count() == 4)
    return nan ? decode_float<OfThree<Extreme<kMax, true>>, 3>(d)
               : decode_float<OfThree<Extreme<kMax, false>>, 3>(d);
  nan ? decode_float<Extreme<kMax, true>, 2>(d) : decode_float<Extreme<kMax, false>, 2>(d);
}

template <class F, void (*kInteger)(Decoder&), void (*kHalf)(Decoder&)>
void decode_sign(Decoder& d) {
  const Type type = d.peek_type();
  if (!type.is_float()) return kInteger(d);
  if (is_half(type)) return kHalf(d);
  decode_float<F, 1>(d);
}

void decode_copysign(Decoder& d) { decode_float<CopySign, 2>(d); }

template <int kTest, class T>
void test_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* from = warp.lanes<T>(instruction.op[1]);
  Mask result = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int kind = std::fpclassify(from[lane]);
    const bool is = kTest == 0   ? kind != FP_NAN && kind != FP_INFINITE
                    : kTest == 1 ? kind == FP_INFINITE
                    : kTest == 2 ? kind != FP_NAN
                    : kTest == 3 ? kind == FP_NAN
                    : kTest == 4 ? kind == FP_NORMAL
                                 : kind == FP_SUBNORMAL;
    result |= Mask{is} << lane;
  }
  warp.set_predicate(instruction.op[0], mask, result);
}

template <class T>
Execute pick_test(int test) {
  static constexpr Execute kTests[] = {test_lanes<0, T>, test_lanes<1, T>, test_lanes<2, T>,
                                       test_lanes<3, T>, test_lanes<4, T>, test_lanes<5, T>};
  return test < 0 ? nullptr : kTests[test];
}

void decode_testp(Decoder& d) {
  const int test =
      d.take_one_of({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  const Type type = d.take_type();
  d.expect_operands(2);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[0] = d.predicate_output(d.operand(0));
  d.emit(type == kF32 ? pick_test<float>(test) : type == kF64 ? pick_test<double>(test) : nullptr);
}

constexpr Opcode kTable[] = {
    {"add", decode_sum<Add, decode_integer_add, decode_half_add>},
    {"sub", decode_sum<Sub, decode_integer_sub, decode_half_sub>},
    {"mul", decode_sum<Mul, decode_integer_mul, decode_half_mul>},
    {"fma", decode_fma},
    {"mad", decode_mad},
    {"div", decode_div},
    {"rcp", decode_root<Rcp>},
    {"sqrt", decode_root<Sqrt>},
    {"min", decode_extreme<false>},
    {"max", decode_extreme<true>},
    {"neg", decode_sign<Neg, decode_integer_neg, decode_half_neg>},
    {"abs", decode_sign<Abs, decode_integer_abs, decode_half_abs>},
    {"copysign", decode_copysign},
    {"testp", decode_testp},
};

}  // namespace

const std::span<const Opcode> kArithmeticOpcodes = kTable;

}  // namespace mezzo::ptx::detail
