// SPDX-License-Identifier: Apache-2.0
// cvt. Registers may be wider than the types. The pairs that kernels are full of have loops of
// their own, everything else goes lane by lane through 64-bit integers or f64.
#include <fmt/format.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <ptx/halves.h>
#include <ptx/integers.h>
#include <ptx/lanes.h>

namespace mezzo::ptx::detail {

namespace {

enum class Round : uint8_t { None, Nearest, Zero, Down, Up, Int, IntZero, IntDown, IntUp };

struct Plan {
  Type to, from;
  uint8_t to_register = 0, from_register = 0;  // bytes
  Round round = Round::None;
  bool ftz = false, sat = false, relu = false, finite = false;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Rounding rounding_of(Round round) {
  switch (round) {
    case Round::Zero:
      return Rounding::Zero;
    case Round::Down:
      return Rounding::Down;
    case Round::Up:
      return Rounding::Up;
    default:
      return Rounding::Nearest;
  }
}

double to_integer(double value, Round round) {
  switch (round) {
    case Round::Int:
      return std::nearbyint(value);
    case Round::IntZero:
      return std::trunc(value);
    case Round::IntDown:
      return std::floor(value);
    case Round::IntUp:
      return std::ceil(value);
    default:
      return value;
  }
}

double read_float(uint64_t bits, Type type) {
  if (type == kF64) return std::bit_cast<double>(bits);
  if (type == kF32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const auto half = static_cast<uint16_t>(bits);
  return type.kind == Kind::BFloat ? Bf16::widen(half) : F16::widen(half);
}

/// `exact` may carry the sticky bit of add_to_odd; f32 and f64 are then not asked for.
uint64_t write_float(double exact, Type type, Rounding rounding) {
  if (type == kF64) return std::bit_cast<uint64_t>(exact);
  if (type == kF32) {
    if (std::isnan(exact)) return kNanF32;
    const double near = overflow_to(round_to(exact, 24, -149, rounding),
                                    std::numeric_limits<float>::max(), rounding);
    return std::bit_cast<uint32_t>(static_cast<float>(near));
  }
  return type.kind == Kind::BFloat ? Bf16::round(exact, rounding).bits
                                   : F16::round(exact, rounding).bits;
}

double largest(Type type) {
  if (type == kF64) return std::numeric_limits<double>::max();
  if (type == kF32) return std::numeric_limits<float>::max();
  return type.kind == Kind::BFloat ? 0x1.FEp127 : 65504.0;
}

uint64_t float_to_float(double value, const Plan& plan) {
  value = to_integer(value, plan.round);
  if (plan.sat) value = value > 0 ? std::min(value, 1.0) : 0.0;
  if (plan.relu && !(value > 0) && !std::isnan(value)) value = 0.0;
  if (plan.finite && !std::isnan(value))
    value = std::clamp(value, -largest(plan.to), largest(plan.to));
  uint64_t bits = write_float(value, plan.to, rounding_of(plan.round));
  if (plan.ftz && plan.to == kF32)
    bits = std::bit_cast<uint32_t>(flush(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  return bits;
}

uint64_t float_to_int(double value, const Plan& plan) {
  if (std::isnan(value)) return 0;
  const double whole = to_integer(value, plan.round);
  const int bits = 8 * plan.to.bytes;
  if (plan.to.is_signed()) {
    const double limit = std::ldexp(1.0, bits - 1);
    if (whole >= limit) return (uint64_t{1} << (bits - 1)) - 1;
    if (whole <= -limit) return uint64_t{1} << (bits - 1);
    return static_cast<uint64_t>(static_cast<int64_t>(whole));
  }
  if (whole <= 0) return 0;
  if (whole >= std::ldexp(1.0, bits)) return ~uint64_t{0} >> (64 - bits);
  return static_cast<uint64_t>(whole);
}

/// An integer of 64 bits as a sum of two f64, exactly.
double int_to_odd(uint64_t bits, bool is_signed) {
  const double high = is_signed ? static_cast<double>(static_cast<int64_t>(bits) >> 32)
                                : static_cast<double>(bits >> 32);
  return add_to_odd(high * 0x1p32, static_cast<double>(bits & 0xFFFFFFFF));
}

uint64_t int_to_float(uint64_t bits, const Plan& plan) {
  const bool is_signed = plan.from.is_signed();
  if (plan.to == kF64) {
    // The host rounds; only 64-bit integers need it.
    static constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(kModes[static_cast<int>(rounding_of(plan.round))]);
    volatile uint64_t source = bits;
    volatile double value =
        is_signed ? static_cast<double>(static_cast<int64_t>(source)) : static_cast<double>(source);
    std::fesetround(FE_TONEAREST);
    return std::bit_cast<uint64_t>(static_cast<double>(value));
  }
  return write_float(int_to_odd(bits, is_signed), plan.to, rounding_of(plan.round));
}

uint64_t int_to_int(uint64_t bits, const Plan& plan) {
  if (!plan.sat) return bits;
  const int width = 8 * plan.to.bytes;
  const bool negative = plan.from.is_signed() && static_cast<int64_t>(bits) < 0;
  if (plan.to.is_signed()) {
    const uint64_t most = (uint64_t{1} << (width - 1)) - 1;
    if (negative) {
      const auto least = -static_cast<int64_t>(most) - 1;
      return static_cast<uint64_t>(std::max(static_cast<int64_t>(bits), least));
    }
    return std::min(bits, most);
  }
  if (negative) return 0;
  return std::min(bits, ~uint64_t{0} >> (64 - width));
}

uint64_t extend(uint64_t bits, Type type) {
  const int unused = 64 - 8 * type.bytes;
  bits <<= unused;
  return type.is_signed() ? static_cast<uint64_t>(static_cast<int64_t>(bits) >> unused)
                          : bits >> unused;
}

uint64_t read_register(Warp& warp, uint32_t at, uint8_t bytes, int lane) {
  if (bytes == 8) return warp.lanes<uint64_t>(at)[lane];
  return bytes == 4 ? warp.lanes<uint32_t>(at)[lane] : warp.lanes<uint16_t>(at)[lane];
}

void write_register(Warp& warp, uint32_t at, uint8_t bytes, int lane, uint64_t bits) {
  if (bytes == 8)
    warp.lanes<uint64_t>(at)[lane] = bits;
  else if (bytes == 4)
    warp.lanes<uint32_t>(at)[lane] = static_cast<uint32_t>(bits);
  else
    warp.lanes<uint16_t>(at)[lane] = static_cast<uint16_t>(bits);
}

static_assert(sizeof(Plan) <= 16);

void convert_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  Plan plan;
  std::memcpy(static_cast<void*>(&plan), instruction.list, sizeof(plan));
  for_lanes(mask, [&](int lane) {
    const uint64_t raw = read_register(warp, instruction.op[1], plan.from_register, lane);
    uint64_t result = 0;
    if (plan.from.is_float()) {
      double value = read_float(raw, plan.from);
      if (plan.ftz && plan.from == kF32) value = flush(static_cast<float>(value));
      result = plan.to.is_float() ? float_to_float(value, plan) : float_to_int(value, plan);
    } else {
      const uint64_t value = extend(raw, plan.from);
      result = plan.to.is_float() ? int_to_float(value, plan) : int_to_int(value, plan);
    }
    if (!plan.to.is_float()) result = extend(result, plan.to);
    write_register(warp, instruction.op[0], plan.to_register, lane, result);
  });
}

// ---- loops of their own ----

template <class D>
struct Cast {
  template <class S>
  static D apply(S value) {
    return static_cast<D>(value);
  }
};
struct ToF16 {
  static F16 apply(float value) { return F16::nearest(value); }
};
struct ToBf16 {
  static Bf16 apply(float value) { return Bf16::nearest(value); }
};
template <class H>
struct Widen {
  static float apply(H value) { return canonical(float(value)); }
};
struct ToF32 {
  static float apply(double value) { return canonical(static_cast<float>(value)); }
};
template <class H>
struct Pack {
  static uint32_t apply(float high, float low) {
    return uint32_t{H::nearest(high).bits} << 16 | H::nearest(low).bits;
  }
};
template <Round kRound, class D>
struct ToInt {
  static D apply(float value) {
    constexpr double kLeast = std::numeric_limits<D>::min(), kMost = std::numeric_limits<D>::max();
    const double wide = to_integer(value, kRound);
    const double inside = wide > kMost ? kMost : wide < kLeast ? kLeast : wide == wide ? wide : 0.0;
    return static_cast<D>(static_cast<int64_t>(inside));
  }
};

template <Round kRound, bool kFtz, bool kSat>
struct F32ToF32 {
  static float apply(float value) {
    value = kFtz ? flush(value) : value;
    if constexpr (kRound == Round::Int) value = std::nearbyint(value);
    if constexpr (kRound == Round::IntZero) value = std::trunc(value);
    if constexpr (kRound == Round::IntDown) value = std::floor(value);
    if constexpr (kRound == Round::IntUp) value = std::ceil(value);
    return kSat ? saturate(value) : canonical(value);
  }
};
/// To 11 bits of significand, ties away from zero or to even, or cut.
template <Round kRound>
struct ToTf32 {
  static uint32_t apply(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7F800000u) == 0x7F800000u) return value != value ? kNanF32 : bits;
    const uint32_t up = kRound == Round::None      ? 0x1000u
                        : kRound == Round::Nearest ? 0xFFFu + (bits >> 13 & 1)
                                                   : 0u;
    return (bits + up) & 0xFFFFE000u;
  }
};

template <Round kRound>
Execute f32_loop(bool ftz, bool sat) {
  if (ftz)
    return sat ? unary<F32ToF32<kRound, true, true>, float>
               : unary<F32ToF32<kRound, true, false>, float>;
  return sat ? unary<F32ToF32<kRound, false, true>, float>
             : unary<F32ToF32<kRound, false, false>, float>;
}

Execute f32_loop(const Plan& plan) {
  switch (plan.round) {
    case Round::None:
      return f32_loop<Round::None>(plan.ftz, plan.sat);
    case Round::Int:
      return f32_loop<Round::Int>(plan.ftz, plan.sat);
    case Round::IntZero:
      return f32_loop<Round::IntZero>(plan.ftz, plan.sat);
    case Round::IntDown:
      return f32_loop<Round::IntDown>(plan.ftz, plan.sat);
    case Round::IntUp:
      return f32_loop<Round::IntUp>(plan.ftz, plan.sat);
    default:
      return nullptr;
  }
}

template <class D>
Execute integer_loop(Type from) {
  return pick_integer(from, [](auto s) -> Execute { return apply_lanes<Cast<D>, D, decltype(s)>; });
}

template <class D>
Execute to_int_loop(Round round) {
  switch (round) {
    case Round::Int:
      return apply_lanes<ToInt<Round::Int, D>, D, float>;
    case Round::IntZero:
      return apply_lanes<ToInt<Round::IntZero, D>, D, float>;
    case Round::IntDown:
      return apply_lanes<ToInt<Round::IntDown, D>, D, float>;
    case Round::IntUp:
      return apply_lanes<ToInt<Round::IntUp, D>, D, float>;
    default:
      return nullptr;
  }
}

/// Nothing where the pair has no loop.
Execute loop_for(const Plan& plan) {
  const Type to = plan.to, from = plan.from;
  if (to == kF32 && from == kF32 && !plan.relu && !plan.finite) return f32_loop(plan);
  if (plan.ftz || plan.sat || plan.relu || plan.finite) return nullptr;
  if (plan.to_register != to.bytes || plan.from_register != from.bytes) return nullptr;
  const bool nearest = plan.round == Round::Nearest, plain = plan.round == Round::None;
  if (!to.is_float() && !from.is_float()) {
    switch (to.bytes) {
      case 2:
        return integer_loop<uint16_t>(from);
      case 4:
        return integer_loop<uint32_t>(from);
      default:
        return integer_loop<uint64_t>(from);
    }
  }
  if (to == kF16 && from == kF32 && nearest) return apply_lanes<ToF16, F16, float>;
  if (to == kBf16 && from == kF32 && nearest) return apply_lanes<ToBf16, Bf16, float>;
  if (to == kF32 && from == kF16 && plain) return apply_lanes<Widen<F16>, float, F16>;
  if (to == kF32 && from == kBf16 && plain) return apply_lanes<Widen<Bf16>, float, Bf16>;
  if (to == kF64 && from == kF32 && plain) return apply_lanes<Cast<double>, double, float>;
  if (to == kF32 && from == kF64 && nearest) return apply_lanes<ToF32, float, double>;
  if (to == kF32 && nearest && !from.is_float() && from.bytes == 4)
    return from.is_signed() ? apply_lanes<Cast<float>, float, int32_t>
                            : apply_lanes<Cast<float>, float, uint32_t>;
  if (from == kF32 && to.bytes == 4 && !to.is_float())
    return to.is_signed() ? to_int_loop<int32_t>(plan.round) : to_int_loop<uint32_t>(plan.round);
  return nullptr;
}

// ---- decoding ----

void pack_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  Plan plan;
  std::memcpy(static_cast<void*>(&plan), instruction.list, sizeof(plan));
  for_lanes(mask, [&](int lane) {
    const uint64_t high = float_to_float(warp.lanes<float>(instruction.op[1])[lane], plan);
    const uint64_t low = float_to_float(warp.lanes<float>(instruction.op[2])[lane], plan);
    warp.lanes<uint32_t>(instruction.op[0])[lane] = static_cast<uint32_t>(high << 16 | low);
  });
}

void keep_plan(Decoder& d, const Plan& plan) {
  std::vector<uint32_t> words(sizeof(Plan) / 4 + 1);
  std::memcpy(words.data(), &plan, sizeof(plan));
  d.instruction.list = d.builder().add_list(std::move(words));
}

void decode_pack(Decoder& d, Plan plan) {
  if (plan.from != kF32 || plan.to.parts != 2 || plan.sat || plan.ftz) d.error_modifiers();
  if (plan.round != Round::Nearest && plan.round != Round::Zero) d.error_modifiers();
  d.finish();
  d.instruction.op[1] = d.input(1, kF32);
  d.instruction.op[2] = d.input(2, kF32);
  d.instruction.op[0] = d.output(0, 4);
  if (plan.round == Round::Nearest && !plan.relu && !plan.finite)
    return d.emit(plan.to == kF16x2 ? apply_lanes<Pack<F16>, uint32_t, float, float>
                                    : apply_lanes<Pack<Bf16>, uint32_t, float, float>);
  plan.to = plan.to == kF16x2 ? kF16 : kBf16;
  keep_plan(d, plan);
  d.emit(pack_lanes);
}

/// Width of the register that stands at an operand, or of the type for a constant.
uint8_t register_bytes(Decoder& d, size_t index, Type type) {
  const Operand& operand = d.operand(index);
  if (operand.kind == Operand::Kind::Register || operand.kind == Operand::Kind::Special) {
    if (operand.bytes < type.bytes || (type.is_float() && operand.bytes != type.bytes))
      d.error(fmt::format("'{}' has {} bits where {} are expected", operand.text, 8 * operand.bytes,
                          8 * type.bytes));
    return operand.bytes;
  }
  return std::max<uint8_t>(type.bytes, 2);
}

/// The result is f32 bits in a register of 32 bits.
void decode_to_tf32(Decoder& d) {
  const int round = d.take_one_of({"rna", "rn", "rz"});
  if (round < 0 || d.take_type() != kF32) d.error_modifiers();
  d.expect_operands(2);
  d.finish();
  d.instruction.op[1] = d.input(1, kF32);
  d.instruction.op[0] = d.output(0, 4);
  static constexpr Execute kRounds[] = {apply_lanes<ToTf32<Round::None>, uint32_t, float>,
                                        apply_lanes<ToTf32<Round::Nearest>, uint32_t, float>,
                                        apply_lanes<ToTf32<Round::Zero>, uint32_t, float>};
  d.emit(kRounds[round]);
}

void decode_cvt(Decoder& d) {
  if (d.take("tf32")) return decode_to_tf32(d);
  Plan plan;
  const int round = d.take_one_of({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"});
  plan.round = static_cast<Round>(round + 1);
  plan.ftz = d.take("ftz");
  plan.sat = d.take("sat");
  plan.relu = d.take("relu");
  plan.finite = d.take("satfinite");
  plan.from = d.take_type();
  plan.to = d.take_type();
  d.expect_operands(2, 3);
  if (d.count() == 3) return decode_pack(d, plan);
  d.finish();
  if (plan.from.parts == 2 || plan.to.parts == 2 || plan.from == kPredicate ||
      plan.to == kPredicate || plan.from.bytes > 8 || plan.to.bytes > 8)
    d.error_modifiers();
  if (plan.from.is_float() && !plan.to.is_float() && plan.round < Round::Int)
    d.error("a rounding to integers expected: .rni, .rzi, .rmi or .rpi");
  if (!plan.from.is_float() && plan.to.is_float() && plan.round == Round::None)
    d.error("a rounding expected: .rn, .rz, .rm or .rp");
  plan.from_register = register_bytes(d, 1, plan.from);
  plan.to_register = register_bytes(d, 0, plan.to);
  const Type source{plan.from.kind, plan.from_register};
  d.instruction.op[1] = d.input(1, source);
  d.instruction.op[0] = d.output(0, plan.to_register);
  if (const Execute loop = loop_for(plan)) return d.emit(loop);
  keep_plan(d, plan);
  d.emit(convert_lanes);
}

constexpr Opcode kTable[] = {{"cvt", decode_cvt}};

}  // namespace

const std::span<const Opcode> kConvertOpcodes = kTable;

}  // namespace mezzo::ptx::detail
