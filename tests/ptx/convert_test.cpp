// SPDX-License-Identifier: Apache-2.0
// cvt between all types, an instruction at a time.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cfenv>
#include <ptx/micro.h>

namespace mezzo::ptx::test {
namespace {

struct Integer {
  const char* name;
  int bits;
  bool is_signed;
};
constexpr Integer kIntegers[] = {{"u8", 8, false},   {"s8", 8, true},    {"u16", 16, false},
                                 {"s16", 16, true},  {"u32", 32, false}, {"s32", 32, true},
                                 {"u64", 64, false}, {"s64", 64, true}};

/// Bytes of the register that holds it: there is none of 8 bits.
char width_of(int bits) { return static_cast<char>('0' + std::max(bits, 16) / 8); }

/// Long doubles hold 64-bit integers and all floats exactly.
long double number(uint64_t bits, const Integer& type) {
  bits <<= 64 - type.bits;
  if (type.is_signed)
    return static_cast<long double>(static_cast<int64_t>(bits) >> (64 - type.bits));
  return static_cast<long double>(bits >> (64 - type.bits));
}
long double least(const Integer& type) {
  return type.is_signed ? -std::ldexp(1.0L, type.bits - 1) : 0;
}
long double most(const Integer& type) {
  return std::ldexp(1.0L, type.bits - (type.is_signed ? 1 : 0)) - 1;
}

/// The bits of a whole number in range, extended to 64 bits as the type is.
uint64_t integer_bits(long double value) {
  return value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value))
                   : static_cast<uint64_t>(value);
}

TEST_CASE("cvt between integers extends, cuts and clamps") {
  for (const Integer& from : kIntegers) {
    for (const Integer& to : kIntegers) {
      const std::string types = fmt::format("{}.{} %d, %a;", to.name, from.name);
      const std::string signature = fmt::format("{}:{}", width_of(to.bits), width_of(from.bits));
      check_op("cvt." + types, signature, "i", [&](uint64_t a, uint64_t, uint64_t) {
        // Cut to the type, then extended to the register.
        return integer_bits(number(integer_bits(number(a, from)), to));
      });
      // PTX has no clamp where nothing can be out of range.
      if (least(to) <= least(from) && most(from) <= most(to)) continue;
      check_op("cvt.sat." + types, signature, "i", [&](uint64_t a, uint64_t, uint64_t) {
        return integer_bits(std::clamp(number(a, from), least(to), most(to)));
      });
    }
  }
  check_op("cvt.u64.u8 %d, %a;", "8:4", "i",
           [](uint64_t a, uint64_t, uint64_t) { return a & 0xFF; });
  check_op("cvt.s8.s32 %d, %a;", "4:4", "i", [](uint64_t a, uint64_t, uint64_t) {
    return static_cast<uint64_t>(static_cast<int8_t>(a));
  });
}

struct Whole {
  const char* name;
  long double (*to)(long double);
};
long double even(long double x) { return std::nearbyint(x); }
constexpr Whole kWhole[] = {{"rni", even},
                            {"rzi", [](long double x) { return std::trunc(x); }},
                            {"rmi", [](long double x) { return std::floor(x); }},
                            {"rpi", [](long double x) { return std::ceil(x); }}};

struct Float {
  const char* name;
  char width, kind;
  double (*value)(uint64_t bits);
};
constexpr Float kFloats[] = {
    {"f32", '4', 'f', [](uint64_t x) -> double { return f32(x); }},
    {"f64", '8', 'd', [](uint64_t x) { return f64(x); }},
    {"f16", '2', 'h', [](uint64_t x) { return widen(x, Half::F16); }},
    {"bf16", '2', 'b', [](uint64_t x) { return widen(x, Half::Bf16); }},
};

/// PTX has no conversion between bytes and bf16.
bool converts(const Integer& integer, const Float& real) {
  return integer.bits > 8 || real.kind != 'b';
}

TEST_CASE("cvt from floats to integers rounds and clamps, NaN becomes 0") {
  for (const Float& from : kFloats) {
    for (const Integer& to : kIntegers) {
      if (!converts(to, from)) continue;
      for (const Whole& whole : kWhole) {
        check_op(fmt::format("cvt.{}.{}.{} %d, %a;", whole.name, to.name, from.name),
                 fmt::format("{}:{}", width_of(to.bits), from.width), std::string(1, from.kind),
                 [&](uint64_t a, uint64_t, uint64_t) -> uint64_t {
                   const long double value = from.value(a);
                   if (std::isnan(value)) return 0;
                   return integer_bits(std::clamp(whole.to(value), least(to), most(to)));
                 });
      }
    }
  }
  check_op(
      "cvt.rzi.ftz.u32.f32 %d, %a;", "4:4", "f", [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
        const double value = f32(a);
        return std::isnan(value) ? 0
                                 : integer_bits(std::clamp(std::trunc(value), 0.0, 4294967295.0));
      });
  check_op("cvt.rpi.ftz.s32.f32 %d, %a;", "4:4", "f",
           [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
             const double value = std::fpclassify(f32(a)) == FP_SUBNORMAL ? 0 : f32(a);
             return std::isnan(value)
                        ? 0
                        : integer_bits(std::clamp(std::ceil(value), -2147483648.0, 2147483647.0));
           });
}

struct Direction {
  const char* name;
  int host;
  Toward toward;
};
constexpr Direction kDirections[] = {{"rn", FE_TONEAREST, Toward::Nearest},
                                     {"rz", FE_TOWARDZERO, Toward::Zero},
                                     {"rm", FE_DOWNWARD, Toward::Down},
                                     {"rp", FE_UPWARD, Toward::Up}};

template <class T>
uint64_t rounded(long double value, int mode) {
  volatile long double from = value;
  std::fesetround(mode);
  volatile T result = static_cast<T>(from);
  std::fesetround(FE_TONEAREST);
  return bits(static_cast<T>(result));
}

uint64_t to_float(const Float& type, long double value, const Direction& direction) {
  switch (type.kind) {
    case 'f':
      return rounded<float>(value, direction.host);
    case 'd':
      return rounded<double>(value, direction.host);
    default:
      return narrow(value, type.kind == 'h' ? Half::F16 : Half::Bf16, direction.toward);
  }
}

TEST_CASE("cvt from integers to floats is rounded once in every direction") {
  for (const Integer& from : kIntegers) {
    for (const Float& to : kFloats) {
      if (!converts(from, to)) continue;
      for (const Direction& direction : kDirections) {
        check_op(fmt::format("cvt.{}.{}.{} %d, %a;", direction.name, to.name, from.name),
                 fmt::format("{}:{}", to.width, width_of(from.bits)), "i",
                 [&](uint64_t a, uint64_t, uint64_t) {
                   return to_float(to, number(a, from), direction);
                 });
      }
    }
  }
}

TEST_CASE("cvt between floats") {
  for (const Float& from : kFloats) {
    for (const Float& to : kFloats) {
      if (&from == &to) continue;
      const bool wider = to.width > from.width;
      const Compare compare = to.kind == 'd' ? Compare::F64 : Compare::Bits;
      for (const Direction& direction : kDirections) {
        if (wider && direction.host != FE_TONEAREST) continue;
        check_op(
            fmt::format("cvt{}.{}.{} %d, %a;", wider ? "" : std::string(".") + direction.name,
                        to.name, from.name),
            fmt::format("{}:{}", to.width, from.width), std::string(1, from.kind),
            [&](uint64_t a, uint64_t, uint64_t) { return to_float(to, from.value(a), direction); },
            compare);
      }
    }
  }
}

TEST_CASE("cvt of a float to whole numbers of its type, saturated, flushed, without negatives") {
  const Float& single = kFloats[0];
  for (const Whole& whole : kWhole) {
    check_op(
        fmt::format("cvt.{}.f32.f32 %d, %a;", whole.name), "4:4", "f",
        [&](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(whole.to(f32(a)))); });
    check_op(fmt::format("cvt.{}.ftz.sat.f32.f32 %d, %a;", whole.name), "4:4", "f",
             [&](uint64_t a, uint64_t, uint64_t) -> uint64_t {
               const float in = std::fpclassify(f32(a)) == FP_SUBNORMAL ? 0 : f32(a);
               const auto result = static_cast<float>(whole.to(in));
               return !(result > 0) ? 0 : bits(std::min(result, 1.0f));
             });
    check_op(
        fmt::format("cvt.{}.f64.f64 %d, %a;", whole.name), "8:8", "d",
        [&](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<double>(whole.to(f64(a)))); },
        Compare::F64);
    check_op(fmt::format("cvt.{}.f16.f16 %d, %a;", whole.name), "2:2", "h",
             [&](uint64_t a, uint64_t, uint64_t) {
               return narrow(whole.to(widen(a, Half::F16)), Half::F16);
             });
  }
  check_op("cvt.sat.f32.f32 %d, %a;", "4:4", "f", [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
    return !(f32(a) > 0) ? 0 : bits(std::min(f32(a), 1.0f));
  });
  check_op("cvt.ftz.f32.f16 %d, %a;", "4:2", "h", [&](uint64_t a, uint64_t, uint64_t) {
    return to_float(single, widen(a, Half::F16), kDirections[0]);
  });
  check_op("cvt.rn.relu.f16.f32 %d, %a;", "2:4", "f",
           [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
             if (f32(a) <= 0) return 0;
             return narrow(f32(a), Half::F16);
           });
  check_op("cvt.rz.relu.bf16.f32 %d, %a;", "2:4", "f",
           [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
             if (f32(a) <= 0) return 0;
             return narrow(f32(a), Half::Bf16, Toward::Zero);
           });
  check_op("cvt.rn.sat.f16.f32 %d, %a;", "2:4", "f",
           [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
             return !(f32(a) > 0) ? 0 : narrow(std::min(f32(a), 1.0f), Half::F16);
           });
}

TEST_CASE("cvt packs two f32, the first one above") {
  for (const Half half : {Half::F16, Half::Bf16}) {
    const std::string type = half == Half::F16 ? "f16x2" : "bf16x2";
    check_op(fmt::format("cvt.rn.{}.f32 %d, %a, %b;", type), "4:44", "ff",
             [&](uint64_t a, uint64_t b, uint64_t) {
               return narrow(f32(a), half) << 16 | narrow(f32(b), half);
             });
    check_op(fmt::format("cvt.rz.{}.f32 %d, %a, %b;", type), "4:44", "ff",
             [&](uint64_t a, uint64_t b, uint64_t) {
               return narrow(f32(a), half, Toward::Zero) << 16 | narrow(f32(b), half, Toward::Zero);
             });
    check_op(fmt::format("cvt.rn.relu.{}.f32 %d, %a, %b;", type), "4:44", "ff",
             [&](uint64_t a, uint64_t b, uint64_t) {
               const auto part = [&](uint64_t x) { return f32(x) <= 0 ? 0 : narrow(f32(x), half); };
               return part(a) << 16 | part(b);
             });
  }
}

TEST_CASE("cvt to tf32 keeps ten bits of fraction") {
  const auto round = [](uint64_t a, auto&& choose) -> uint64_t {
    const float value = f32(a);
    if (std::isnan(value)) return 0x7FFFFFFF;
    if (std::isinf(value)) return a;
    const uint64_t low = a & ~uint64_t{0x1FFF}, high = low + 0x2000, rest = a & 0x1FFF;
    return rest != 0 && choose(rest, low) ? high : low;
  };
  check_op("cvt.rna.tf32.f32 %d, %a;", "4:4", "f", [&](uint64_t a, uint64_t, uint64_t) {
    return round(a, [](uint64_t rest, uint64_t) { return rest >= 0x1000; });
  });
  check_op("cvt.rn.tf32.f32 %d, %a;", "4:4", "f", [&](uint64_t a, uint64_t, uint64_t) {
    return round(a, [](uint64_t rest, uint64_t low) {
      return rest > 0x1000 || (rest == 0x1000 && (low & 0x2000));
    });
  });
  check_op("cvt.rz.tf32.f32 %d, %a;", "4:4", "f", [&](uint64_t a, uint64_t, uint64_t) {
    return round(a, [](uint64_t, uint64_t) { return false; });
  });
}

}  // namespace
}  // namespace mezzo::ptx::test
