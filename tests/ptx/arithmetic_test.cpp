// SPDX-License-Identifier: Apache-2.0
// f32 and f64 arithmetic and the approximations, an instruction at a time.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cfenv>
#include <ptx/micro.h>

namespace mezzo::ptx::test {
namespace {

struct Mode {
  const char* name;
  int host;
};
constexpr Mode kModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

/// `f` under a rounding of the host; operands and result go through memory.
template <class T, class F>
T rounded(int mode, F&& f, T a, T b, T c = 0) {
  volatile T x = a, y = b, z = c;
  std::fesetround(mode);
  volatile T result = f(x, y, z);
  std::fesetround(FE_TONEAREST);
  return result;
}

float no_subnormal(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

float between_0_and_1(float value) {
  if (!(value > 0)) return 0.0f;
  return value > 1 ? 1.0f : value;
}

template <class F>
void check_f32(const std::string& name, bool modes, size_t operands, F&& f) {
  const std::string inputs(operands, '4'), kinds(operands, 'f');
  const std::string registers = operands == 1   ? "%d, %a"
                                : operands == 2 ? "%d, %a, %b"
                                                : "%d, %a, %b, %c";
  for (const Mode& mode : kModes) {
    if (!modes && mode.host != FE_TONEAREST) continue;
    const std::string rounding = modes ? std::string(".") + mode.name : "";
    for (const bool ftz : {false, true}) {
      for (const bool sat : {false, true}) {
        if (sat && (operands == 1 || name == "div")) continue;
        const std::string text = fmt::format("{}{}{}{}.f32 {};", name, rounding, ftz ? ".ftz" : "",
                                             sat ? ".sat" : "", registers);
        check_op(text, "4:" + inputs, kinds, [&](uint64_t a, uint64_t b, uint64_t c) {
          float x = f32(a), y = f32(b), z = f32(c);
          if (ftz) x = no_subnormal(x), y = no_subnormal(y), z = no_subnormal(z);
          float result = rounded<float>(mode.host, f, x, y, z);
          if (ftz) result = no_subnormal(result);
          return sat ? bits(between_0_and_1(result)) : bits(result);
        });
      }
    }
  }
}

template <class F>
void check_f64(const std::string& name, bool modes, size_t operands, F&& f) {
  const std::string inputs(operands, '8'), kinds(operands, 'd');
  const std::string registers = operands == 1   ? "%d, %a"
                                : operands == 2 ? "%d, %a, %b"
                                                : "%d, %a, %b, %c";
  for (const Mode& mode : kModes) {
    if (!modes && mode.host != FE_TONEAREST) continue;
    const std::string rounding = modes ? std::string(".") + mode.name : "";
    check_op(
        fmt::format("{}{}.f64 {};", name, rounding, registers), "8:" + inputs, kinds,
        [&](uint64_t a, uint64_t b, uint64_t c) {
          return bits(rounded<double>(mode.host, f, f64(a), f64(b), f64(c)));
        },
        Compare::F64);
  }
}

TEST_CASE("sums, products and quotients of f32 and f64 in all roundings") {
  const auto add = [](auto a, auto b, auto) { return a + b; };
  const auto sub = [](auto a, auto b, auto) { return a - b; };
  const auto mul = [](auto a, auto b, auto) { return a * b; };
  const auto div = [](auto a, auto b, auto) { return a / b; };
  const auto fma = [](auto a, auto b, auto c) { return std::fma(a, b, c); };
  const auto rcp = [](auto a, auto, auto) { return static_cast<decltype(a)>(1) / a; };
  const auto sqrt = [](auto a, auto, auto) { return std::sqrt(a); };
  check_f32("add", true, 2, add);
  check_f32("add", false, 2, add);
  check_f32("sub", true, 2, sub);
  check_f32("mul", true, 2, mul);
  check_f32("div", true, 2, div);
  check_f32("fma", true, 3, fma);
  check_f32("rcp", true, 1, rcp);
  check_f32("sqrt", true, 1, sqrt);
  check_f64("add", true, 2, add);
  check_f64("sub", true, 2, sub);
  check_f64("mul", true, 2, mul);
  check_f64("div", true, 2, div);
  check_f64("fma", true, 3, fma);
  check_f64("rcp", true, 1, rcp);
  check_f64("sqrt", true, 1, sqrt);
  check_op("mad.rn.f32 %d, %a, %b, %c;", "4:444", "fff", [](uint64_t a, uint64_t b, uint64_t c) {
    return bits(std::fma(f32(a), f32(b), f32(c)));
  });
}

TEST_CASE("pairs of f32 are two sums") {
  const auto both = [](uint64_t low, uint64_t high) { return high << 32 | low; };
  check_op("add.rn.f32x2 %d, %a, %b;", "8:88", "ww", [&](uint64_t a, uint64_t b, uint64_t) {
    return both(bits(f32(a) + f32(b)), bits(f32(a >> 32) + f32(b >> 32)));
  });
  check_op("mul.rz.ftz.f32x2 %d, %a, %b;", "8:88", "ww", [&](uint64_t a, uint64_t b, uint64_t) {
    const auto part = [](uint64_t x, uint64_t y) {
      return bits(no_subnormal(rounded<float>(
          FE_TOWARDZERO, [](float u, float v, float) { return u * v; }, no_subnormal(f32(x)),
          no_subnormal(f32(y)))));
    };
    return both(part(a, b), part(a >> 32, b >> 32));
  });
  check_op("fma.rn.f32x2 %d, %a, %b, %c;", "8:888", "www", [&](uint64_t a, uint64_t b, uint64_t c) {
    return both(bits(std::fma(f32(a), f32(b), f32(c))),
                bits(std::fma(f32(a >> 32), f32(b >> 32), f32(c >> 32))));
  });
}

/// IEEE minimumNumber with -0 below +0, written by cases.
template <class T>
T extreme(T a, T b, bool most, bool nan) {
  if (std::isnan(a) && std::isnan(b)) return a;
  if (std::isnan(a)) return nan ? a : b;
  if (std::isnan(b)) return nan ? b : a;
  if (a == 0 && b == 0) {
    const bool negative =
        most ? std::signbit(a) && std::signbit(b) : std::signbit(a) || std::signbit(b);
    return negative ? T(-0.0) : T(0.0);
  }
  return most ? (a > b ? a : b) : (a < b ? a : b);
}

TEST_CASE("min and max of f32 and f64, with NaNs, zeros, flushing, signs apart and of three") {
  for (const bool most : {false, true}) {
    const std::string name = most ? "max" : "min";
    for (const bool nan : {false, true}) {
      const std::string mode = nan ? ".NaN" : "";
      check_op(name + mode + ".f32 %d, %a, %b;", "4:44", "ff",
               [&](uint64_t a, uint64_t b, uint64_t) {
                 return bits(extreme(f32(a), f32(b), most, nan));
               });
      check_op(name + ".ftz" + mode + ".f32 %d, %a, %b;", "4:44", "ff",
               [&](uint64_t a, uint64_t b, uint64_t) {
                 return bits(extreme(no_subnormal(f32(a)), no_subnormal(f32(b)), most, nan));
               });
      check_op(name + mode + ".f32 %d, %a, %b, %c;", "4:444", "fff",
               [&](uint64_t a, uint64_t b, uint64_t c) {
                 return bits(extreme(extreme(f32(a), f32(b), most, nan), f32(c), most, nan));
               });
      check_op(name + mode + ".xorsign.abs.f32 %d, %a, %b;", "4:44", "ff",
               [&](uint64_t a, uint64_t b, uint64_t) {
                 const float size = extreme(std::fabs(f32(a)), std::fabs(f32(b)), most, nan);
                 if (std::isnan(size)) return bits(size);
                 const uint64_t sign = (a ^ b) & 0x80000000;
                 return (bits(size) & 0x7FFFFFFF) | sign;
               });
    }
    check_op(
        name + ".f64 %d, %a, %b;", "8:88", "dd",
        [&](uint64_t a, uint64_t b, uint64_t) {
          return bits(extreme(f64(a), f64(b), most, false));
        },
        Compare::F64);
  }
}

TEST_CASE("signs of f32 and f64 are single bits") {
  check_op("neg.f32 %d, %a;", "4:4", "f",
           [](uint64_t a, uint64_t, uint64_t) { return a ^ 0x80000000; });
  check_op("abs.f32 %d, %a;", "4:4", "f",
           [](uint64_t a, uint64_t, uint64_t) { return a & 0x7FFFFFFF; });
  check_op("neg.ftz.f32 %d, %a;", "4:4", "f", [](uint64_t a, uint64_t, uint64_t) {
    return std::bit_cast<uint32_t>(no_subnormal(f32(a))) ^ 0x80000000u;
  });
  check_op("neg.f64 %d, %a;", "8:8", "d",
           [](uint64_t a, uint64_t, uint64_t) { return a ^ uint64_t { 1 } << 63; });
  check_op("abs.f64 %d, %a;", "8:8", "d",
           [](uint64_t a, uint64_t, uint64_t) { return a & ~(uint64_t{1} << 63); });
  check_op("copysign.f32 %d, %a, %b;", "4:44", "ff",
           [](uint64_t a, uint64_t b, uint64_t) { return (a & 0x80000000) | (b & 0x7FFFFFFF); });
  check_op("copysign.f64 %d, %a, %b;", "8:88", "dd", [](uint64_t a, uint64_t b, uint64_t) {
    const uint64_t sign = uint64_t{1} << 63;
    return (a & sign) | (b & ~sign);
  });
}

TEST_CASE("testp tells the classes of f32 and f64 apart") {
  const struct {
    const char* name;
    bool (*is)(int kind);
  } tests[] = {{"finite", [](int k) { return k != FP_NAN && k != FP_INFINITE; }},
               {"infinite", [](int k) { return k == FP_INFINITE; }},
               {"number", [](int k) { return k != FP_NAN; }},
               {"notanumber", [](int k) { return k == FP_NAN; }},
               {"normal", [](int k) { return k == FP_NORMAL; }},
               {"subnormal", [](int k) { return k == FP_SUBNORMAL; }}};
  for (const auto& test : tests) {
    check_op(fmt::format("testp.{}.f32 %d, %a;", test.name), "p:4", "f",
             [&](uint64_t a, uint64_t, uint64_t) -> uint64_t {
               return test.is(std::fpclassify(f32(a)));
             });
    check_op(fmt::format("testp.{}.f64 %d, %a;", test.name), "p:8", "d",
             [&](uint64_t a, uint64_t, uint64_t) -> uint64_t {
               return test.is(std::fpclassify(f64(a)));
             });
  }
}

TEST_CASE("approximations are within a unit of the exact value, and flush where they say so") {
  const struct {
    const char* name;
    double (*exact)(double);
  } functions[] = {{"ex2", [](double x) { return std::exp2(x); }},
                   {"lg2", [](double x) { return std::log2(x); }},
                   {"sin", [](double x) { return std::sin(x); }},
                   {"cos", [](double x) { return std::cos(x); }},
                   {"tanh", [](double x) { return std::tanh(x); }},
                   {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
                   {"rcp", [](double x) { return 1 / x; }},
                   {"sqrt", [](double x) { return std::sqrt(x); }}};
  for (const auto& function : functions) {
    check_op(
        fmt::format("{}.approx.f32 %d, %a;", function.name), "4:4", "f",
        [&](uint64_t a, uint64_t, uint64_t) {
          return bits(static_cast<float>(function.exact(f32(a))));
        },
        Compare::F32, 1);
    if (std::string_view(function.name) == "tanh") continue;
    check_op(
        fmt::format("{}.approx.ftz.f32 %d, %a;", function.name), "4:4", "f",
        [&](uint64_t a, uint64_t, uint64_t) {
          return bits(no_subnormal(static_cast<float>(function.exact(no_subnormal(f32(a))))));
        },
        Compare::F32, 1);
  }
  for (const char* name : {"div.approx.f32 %d, %a, %b;", "div.full.f32 %d, %a, %b;"}) {
    check_op(
        name, "4:44", "ff", [](uint64_t a, uint64_t b, uint64_t) { return bits(f32(a) / f32(b)); },
        Compare::F32, 1);
  }
  check_op(
      "rsqrt.approx.f64 %d, %a;", "8:8", "d",
      [](uint64_t a, uint64_t, uint64_t) { return bits(1 / std::sqrt(f64(a))); }, Compare::F64, 1);
  check_op(
      "rcp.approx.ftz.f64 %d, %a;", "8:8", "d",
      [](uint64_t a, uint64_t, uint64_t) { return bits(1 / f64(a)); }, Compare::F64, 1);
}

TEST_CASE("literals of f32 and f64 are bits, decimal ones are rounded to the type") {
  const auto value = [](const std::string& text, std::string_view signature) {
    return evaluate(text, signature, {}).at(0).at(0);
  };
  CHECK(value("mov.f32 %d, 0f3FC00000;", "4:") == 0x3FC00000);
  CHECK(value("mov.f32 %d, 0fFF800001;", "4:") == 0xFF800001);
  CHECK(value("mov.f32 %d, 1.1;", "4:") == bits(1.1f));
  CHECK(value("mov.f64 %d, 0d3FF8000000000000;", "8:") == bits(1.5));
  CHECK(value("mov.f64 %d, -2.25;", "8:") == bits(-2.25));
}

}  // namespace
}  // namespace mezzo::ptx::test
