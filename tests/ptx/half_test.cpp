// SPDX-License-Identifier: Apache-2.0
// f16, bf16 and pairs of them, an instruction at a time, against values looked up by halving.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ptx/micro.h>

namespace mezzo::ptx::test {
namespace {

struct Type {
  Half half;
  const char* name;
  char kind, pair_kind;
};
constexpr Type kTypes[] = {{Half::F16, "f16", 'h', 'H'}, {Half::Bf16, "bf16", 'b', 'B'}};

using Exact = std::function<long double(double a, double b, double c)>;

uint64_t no_subnormal(uint64_t bits, Half half) {
  return bits & (half == Half::F16 ? 0x7C00 : 0x7F80) ? bits : bits & 0x8000;
}

struct Variant {
  bool ftz = false, sat = false, relu = false;
  std::string text() const {
    return std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : "") + (relu ? ".relu" : "");
  }
};

/// One value through `exact`, rounded once.
uint64_t one(const Exact& exact, const Type& type, const Variant& variant, uint64_t a, uint64_t b,
             uint64_t c) {
  const auto in = [&](uint64_t bits) {
    bits &= 0xFFFF;
    return widen(variant.ftz ? no_subnormal(bits, type.half) : bits, type.half);
  };
  uint64_t result = narrow(exact(in(a), in(b), in(c)), type.half);
  if (variant.ftz) result = no_subnormal(result, type.half);
  const double value = widen(result, type.half);
  if (variant.sat) return !(value > 0) ? 0 : value > 1 ? narrow(1, type.half) : result;
  if (variant.relu && !std::isnan(value) && !(value > 0)) return 0;
  return result;
}

/// The instruction on single values and on pairs.
void check_half(const std::string& name, int inputs, const Type& type, const Variant& variant,
                const Exact& exact) {
  const char* registers[] = {"%d, %a", "%d, %a, %b", "%d, %a, %b, %c"};
  const auto count = static_cast<size_t>(inputs);
  check_op(fmt::format("{}{}.{} {};", name, variant.text(), type.name, registers[inputs - 1]),
           "2:" + std::string(count, '2'), std::string(count, type.kind),
           [&](uint64_t a, uint64_t b, uint64_t c) { return one(exact, type, variant, a, b, c); });
  check_op(fmt::format("{}{}.{}x2 {};", name, variant.text(), type.name, registers[inputs - 1]),
           "4:" + std::string(count, '4'), std::string(count, type.pair_kind),
           [&](uint64_t a, uint64_t b, uint64_t c) {
             return one(exact, type, variant, a, b, c) |
                    one(exact, type, variant, a >> 16, b >> 16, c >> 16) << 16;
           });
}

std::vector<Variant> variants_of(const Type& type, bool relu) {
  std::vector<Variant> variants = {{}};
  if (type.half == Half::F16) {
    variants.push_back({true, false, false});
    variants.push_back({false, true, false});
    variants.push_back({true, true, false});
  }
  if (relu) variants.push_back({false, false, true});
  return variants;
}

TEST_CASE("sums and products of halves are rounded once") {
  for (const Type& type : kTypes) {
    for (const Variant& variant : variants_of(type, false)) {
      check_half("add", 2, type, variant,
                 [](double a, double b, double) { return static_cast<long double>(a) + b; });
      check_half("sub.rn", 2, type, variant,
                 [](double a, double b, double) { return static_cast<long double>(a) - b; });
      check_half("mul", 2, type, variant,
                 [](double a, double b, double) { return static_cast<long double>(a) * b; });
    }
    for (const Variant& variant : variants_of(type, true)) {
      // 64 bits hold the product and what the sum is judged by: the sign of what is cut off.
      check_half("fma.rn", 3, type, variant, [](double a, double b, double c) -> long double {
        const long double product = static_cast<long double>(a) * b;
        const long double sum = product + c;
        if (!std::isfinite(sum)) return sum;
        const long double part = sum - product;
        const long double rest = (product - (sum - part)) + (c - part);
        if (rest == 0) return sum;
        return std::nextafter(sum, rest > 0 ? static_cast<long double>(INFINITY)
                                            : -static_cast<long double>(INFINITY));
      });
    }
  }
}

TEST_CASE("a fused sum of f16 is rounded once, ties to even") {
  const auto fma = [](uint64_t a, uint64_t b, uint64_t c) {
    return evaluate("fma.rn.f16 %d, %a, %b, %c;", "2:222", {{a}, {b}, {c}}).at(0).at(0);
  };
  CHECK(fma(0x3C01, 0x3C01, 0x0000) == 0x3C02);  // 1 + 2^-9 + 2^-20
  CHECK(fma(0x6400, 0x3C00, 0x3800) == 0x6400);  // 1024.5 lies in the middle, 1024 is even
  CHECK(fma(0x6401, 0x3C00, 0x3800) == 0x6402);  // 1025.5
  CHECK(fma(0x7801, 0x3C00, 0x4C00) == 0x7802);  // 32800 + 16
  // 2^-24 beside a tie: f32 could not hold 1024.5 + 2^-24.
  CHECK(fma(0x6400, 0x3C00, 0x3801) == 0x6401);
  CHECK(fma(0x0001, 0x3C00, 0x6400) == 0x6400);
  // What is left of a product of 22 bits when its leading 1 is gone.
  CHECK(fma(0x3C01, 0x3BFF, 0xBC00) == narrow((1 + 0x1p-10L) * (1 - 0x1p-11L) - 1, Half::F16));
}

TEST_CASE("min, max, neg and abs of halves") {
  const auto extreme = [](uint64_t a, uint64_t b, Half half, bool most, bool nan) -> uint64_t {
    const double x = widen(a & 0xFFFF, half), y = widen(b & 0xFFFF, half);
    if (std::isnan(x) && std::isnan(y)) return 0x7FFF;
    if (std::isnan(x) || std::isnan(y)) return nan ? 0x7FFF : (std::isnan(x) ? b : a) & 0xFFFF;
    if (x == 0 && y == 0) return most ? a & b & 0x8000 : (a | b) & 0x8000;
    return ((most ? x > y : x < y) ? a : b) & 0xFFFF;
  };
  for (const Type& type : kTypes) {
    for (const bool most : {false, true}) {
      for (const bool nan : {false, true}) {
        const std::string name =
            fmt::format("{}{}.{}", most ? "max" : "min", nan ? ".NaN" : "", type.name);
        check_op(
            name + " %d, %a, %b;", "2:22", std::string(2, type.kind),
            [&](uint64_t a, uint64_t b, uint64_t) { return extreme(a, b, type.half, most, nan); });
        check_op(name + "x2 %d, %a, %b;", "4:44", std::string(2, type.pair_kind),
                 [&](uint64_t a, uint64_t b, uint64_t) {
                   return extreme(a, b, type.half, most, nan) |
                          extreme(a >> 16, b >> 16, type.half, most, nan) << 16;
                 });
      }
    }
    check_op(fmt::format("neg.{} %d, %a;", type.name), "2:2", std::string(1, type.kind),
             [](uint64_t a, uint64_t, uint64_t) { return a ^ 0x8000; });
    check_op(fmt::format("neg.{}x2 %d, %a;", type.name), "4:4", std::string(1, type.pair_kind),
             [](uint64_t a, uint64_t, uint64_t) { return a ^ 0x80008000; });
    check_op(fmt::format("abs.{} %d, %a;", type.name), "2:2", std::string(1, type.kind),
             [](uint64_t a, uint64_t, uint64_t) { return a & 0x7FFF; });
    check_op(fmt::format("abs.{}x2 %d, %a;", type.name), "4:4", std::string(1, type.pair_kind),
             [](uint64_t a, uint64_t, uint64_t) { return a & 0x7FFF7FFF; });
  }
}

TEST_CASE("ex2 and tanh of halves are the nearest values") {
  for (const Type& type : kTypes) {
    const bool bf16 = type.half == Half::Bf16;
    const auto ex2 = [&](uint64_t a) {
      uint64_t in = a & 0xFFFF;
      if (bf16) in = no_subnormal(in, type.half);
      const uint64_t result =
          narrow(std::exp2(static_cast<long double>(widen(in, type.half))), type.half);
      return bf16 ? no_subnormal(result, type.half) : result;
    };
    const std::string name = bf16 ? "ex2.approx.ftz.bf16" : "ex2.approx.f16";
    check_op(name + " %d, %a;", "2:2", std::string(1, type.kind),
             [&](uint64_t a, uint64_t, uint64_t) { return ex2(a); });
    check_op(name + "x2 %d, %a;", "4:4", std::string(1, type.pair_kind),
             [&](uint64_t a, uint64_t, uint64_t) { return ex2(a) | ex2(a >> 16) << 16; });
    check_op(fmt::format("tanh.approx.{} %d, %a;", type.name), "2:2", std::string(1, type.kind),
             [&](uint64_t a, uint64_t, uint64_t) {
               return narrow(std::tanh(static_cast<long double>(widen(a, type.half))), type.half);
             });
  }
}

}  // namespace
}  // namespace mezzo::ptx::test
