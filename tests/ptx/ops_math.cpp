// SPDX-License-Identifier: Apache-2.0
// The approximations of the special function unit. They are computed by the host's library, more
// exactly than hardware does, so tests need the tolerances of the PTX manual.
#include <cmath>
#include <ptx/halves.h>
#include <ptx/lanes.h>

namespace mezzo::ptx::detail {

namespace {

struct Ex2 {
  static float apply(float a) { return canonical(std::exp2(a)); }
};
struct Lg2 {
  static float apply(float a) { return canonical(std::log2(a)); }
};
struct Sin {
  static float apply(float a) { return canonical(std::sin(a)); }
};
struct Cos {
  static float apply(float a) { return canonical(std::cos(a)); }
};
struct Tanh {
  static float apply(float a) { return canonical(std::tanh(a)); }
};
struct Rsqrt {
  template <class T>
  static T apply(T a) {
    return canonical(static_cast<T>(1.0 / std::sqrt(static_cast<double>(a))));
  }
};

template <class F>
void decode_approx(Decoder& d) {
  if (!d.take("approx")) d.error(".approx expected");
  const bool ftz = d.take("ftz");
  if (d.take_type() != kF32) d.error_modifiers();
  d.expect_operands(2);
  d.finish();
  d.instruction.op[1] = d.input(1, kF32);
  d.instruction.op[0] = d.output(0, 4);
  d.emit(ftz ? unary<Flushed<F>, float> : unary<F, float>);
}

template <class F, void (*kHalf)(Decoder&)>
void decode_approx_or_half(Decoder& d) {
  if (!is_half(d.peek_type())) return decode_approx<F>(d);
  if (!d.take("approx")) d.error(".approx expected");
  kHalf(d);
}

void decode_rsqrt(Decoder& d) {
  if (d.peek_type() != kF64) return decode_approx<Rsqrt>(d);
  if (!d.take("approx")) d.error(".approx expected");
  d.take("ftz");
  d.take_type();
  d.expect_operands(2);
  d.finish();
  d.instruction.op[1] = d.input(1, kF64);
  d.instruction.op[0] = d.output(0, 8);
  d.emit(unary<Rsqrt, double>);
}

constexpr Opcode kTable[] = {
    {"ex2", decode_approx_or_half<Ex2, decode_half_ex2>},
    {"lg2", decode_approx<Lg2>},
    {"sin", decode_approx<Sin>},
    {"cos", decode_approx<Cos>},
    {"tanh", decode_approx_or_half<Tanh, decode_half_tanh>},
    {"rsqrt", decode_rsqrt},
};

}  // namespace

const std::span<const Opcode> kMathOpcodes = kTable;

}  // namespace mezzo::ptx::detail
