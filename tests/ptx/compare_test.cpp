// SPDX-License-Identifier: Apache-2.0
// Comparisons, selections, moves and packing, an instruction at a time.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ptx/micro.h>

namespace mezzo::ptx::test {
namespace {

/// -1 less, 0 equal, 1 greater, 2 not ordered.
template <class T>
int order(T a, T b) {
  if (a < b) return -1;
  if (a == b) return 0;
  return a > b ? 1 : 2;
}

struct Comparison {
  const char* name;
  bool less, equal, greater, unordered;
  bool is(int order) const {
    return order < 0 ? less : order == 0 ? equal : order == 1 ? greater : unordered;
  }
};
constexpr Comparison kOrdered[] = {
    {"eq", false, true, false, false}, {"ne", true, false, true, false},
    {"lt", true, false, false, false}, {"le", true, true, false, false},
    {"gt", false, false, true, false}, {"ge", false, true, true, false}};
constexpr Comparison kUnordered[] = {
    {"equ", false, true, false, true}, {"neu", true, false, true, true},
    {"ltu", true, false, false, true}, {"leu", true, true, false, true},
    {"gtu", false, false, true, true}, {"geu", false, true, true, true},
    {"num", true, true, true, false},  {"nan", false, false, false, true}};
constexpr Comparison kUnsigned[] = {{"lo", true, false, false, false},
                                    {"ls", true, true, false, false},
                                    {"hi", false, false, true, false},
                                    {"hs", false, true, true, false}};

using Order = std::function<int(uint64_t a, uint64_t b)>;

struct Compared {
  const char* type;
  char width, kind;
  Order order;
};

uint64_t no_subnormal_f32(uint64_t bits) { return bits & 0x7F800000 ? bits : bits & 0x80000000; }

std::vector<Compared> floats() {
  return {
      {"f32", '4', 'f', [](uint64_t a, uint64_t b) { return order(f32(a), f32(b)); }},
      {"ftz.f32", '4', 'f',
       [](uint64_t a, uint64_t b) {
         return order(f32(no_subnormal_f32(a)), f32(no_subnormal_f32(b)));
       }},
      {"f64", '8', 'd', [](uint64_t a, uint64_t b) { return order(f64(a), f64(b)); }},
      {"f16", '2', 'h',
       [](uint64_t a, uint64_t b) { return order(widen(a, Half::F16), widen(b, Half::F16)); }},
      {"ftz.f16", '2', 'h',
       [](uint64_t a, uint64_t b) {
         const auto in = [](uint64_t x) { return widen(x & 0x7C00 ? x : 0, Half::F16); };
         return order(in(a), in(b));
       }},
      {"bf16", '2', 'b',
       [](uint64_t a, uint64_t b) { return order(widen(a, Half::Bf16), widen(b, Half::Bf16)); }},
  };
}

std::vector<Compared> integers() {
  return {
      {"s16", '2', 'i',
       [](uint64_t a, uint64_t b) {
         return order(static_cast<int16_t>(a), static_cast<int16_t>(b));
       }},
      {"u16", '2', 'i', [](uint64_t a, uint64_t b) { return order(a, b); }},
      {"s32", '4', 'i',
       [](uint64_t a, uint64_t b) {
         return order(static_cast<int32_t>(a), static_cast<int32_t>(b));
       }},
      {"u32", '4', 'i', [](uint64_t a, uint64_t b) { return order(a, b); }},
      {"s64", '8', 'i',
       [](uint64_t a, uint64_t b) {
         return order(static_cast<int64_t>(a), static_cast<int64_t>(b));
       }},
      {"u64", '8', 'i', [](uint64_t a, uint64_t b) { return order(a, b); }},
  };
}

void check_setp(const Compared& type, const Comparison& comparison) {
  check_op(fmt::format("setp.{}.{} %d, %a, %b;", comparison.name, type.type),
           fmt::format("p:{0}{0}", type.width), std::string(2, type.kind),
           [&](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
             return comparison.is(type.order(a, b));
           });
}

TEST_CASE("setp of every type and comparison") {
  for (const Compared& type : floats()) {
    for (const Comparison& comparison : kOrdered) check_setp(type, comparison);
    for (const Comparison& comparison : kUnordered) check_setp(type, comparison);
  }
  for (const Compared& type : integers()) {
    for (const Comparison& comparison : kOrdered) check_setp(type, comparison);
    if (type.type[0] != 'u') continue;
    for (const Comparison& comparison : kUnsigned) check_setp(type, comparison);
  }
  for (const char width : {'2', '4', '8'}) {
    check_op(fmt::format("setp.ne.b{} %d, %a, %b;", 8 * (width - '0')),
             fmt::format("p:{0}{0}", width), "ii",
             [](uint64_t a, uint64_t b, uint64_t) -> uint64_t { return a != b; });
  }
}

TEST_CASE("setp combines with a predicate, and has a second result of the opposite") {
  const std::vector<Column> inputs = operands("iip", "44p");
  const struct {
    const char* name;
    bool (*apply)(bool a, bool b);
  } combinations[] = {{"and", [](bool a, bool b) { return a && b; }},
                      {"or", [](bool a, bool b) { return a || b; }},
                      {"xor", [](bool a, bool b) { return a != b; }}};
  for (const auto& combination : combinations) {
    for (const bool negated : {false, true}) {
      const std::vector<Column> got = evaluate(
          fmt::format("setp.lt.{}.s32 %d|%q, %a, %b, {}%c;", combination.name, negated ? "!" : ""),
          "pp:44p", inputs);
      for (size_t e = 0; e < inputs[0].size(); ++e) {
        const bool less = static_cast<int32_t>(inputs[0][e]) < static_cast<int32_t>(inputs[1][e]);
        const bool other = (inputs[2][e] != 0) != negated;
        REQUIRE(got[0][e] == combination.apply(less, other));
        REQUIRE(got[1][e] == combination.apply(!less, other));
      }
    }
  }
  const std::vector<Column> plain = evaluate("setp.ge.u32 %d|%q, %a, %b;", "pp:44p", inputs);
  for (size_t e = 0; e < inputs[0].size(); ++e) {
    REQUIRE(plain[0][e] == (inputs[0][e] >= inputs[1][e]));
    REQUIRE(plain[1][e] == (inputs[0][e] < inputs[1][e]));
  }
}

TEST_CASE("setp of pairs has a predicate for each half") {
  for (const Half half : {Half::F16, Half::Bf16}) {
    const bool f16 = half == Half::F16;
    const std::vector<Column> inputs = operands(f16 ? "HH" : "BB", "44");
    const std::vector<Column> got = evaluate(
        fmt::format("setp.leu.{}x2 %d|%q, %a, %b;", f16 ? "f16" : "bf16"), "pp:44", inputs);
    for (size_t e = 0; e < inputs[0].size(); ++e) {
      for (int part = 0; part < 2; ++part) {
        const double a = widen(inputs[0][e] >> (16 * part) & 0xFFFF, half);
        const double b = widen(inputs[1][e] >> (16 * part) & 0xFFFF, half);
        REQUIRE(got[static_cast<size_t>(part)][e] == !(a > b));
      }
    }
  }
}

TEST_CASE("set gives all ones or one") {
  check_op("set.lt.u32.s32 %d, %a, %b;", "4:44", "ii", [](uint64_t a, uint64_t b, uint64_t) {
    return static_cast<int32_t>(a) < static_cast<int32_t>(b) ? ~uint64_t{0} : 0;
  });
  check_op("set.gtu.f32.f32 %d, %a, %b;", "4:44", "ff", [](uint64_t a, uint64_t b, uint64_t) {
    return f32(a) <= f32(b) ? uint64_t{0} : 0x3F800000;
  });
  check_op("set.eq.or.u32.u64 %d, %a, %b, %c;", "4:88p", "iip",
           [](uint64_t a, uint64_t b, uint64_t c) { return a == b || c ? ~uint64_t{0} : 0; });
  check_op("set.ge.f16x2.f16x2 %d, %a, %b;", "4:44", "HH", [](uint64_t a, uint64_t b, uint64_t) {
    const auto part = [&](int shift) -> uint64_t {
      return widen(a >> shift & 0xFFFF, Half::F16) >= widen(b >> shift & 0xFFFF, Half::F16) ? 0x3C00
                                                                                            : 0;
    };
    return part(0) | part(16) << 16;
  });
  check_op("set.ne.u32.bf16x2 %d, %a, %b;", "4:44", "BB", [](uint64_t a, uint64_t b, uint64_t) {
    const auto part = [&](int shift) -> uint64_t {
      const int is =
          order(widen(a >> shift & 0xFFFF, Half::Bf16), widen(b >> shift & 0xFFFF, Half::Bf16));
      return is == 1 || is == -1 ? 0xFFFF : 0;
    };
    return part(0) | part(16) << 16;
  });
}

TEST_CASE("selp and slct choose") {
  for (const char width : {'2', '4', '8'}) {
    const int bits = 8 * (width - '0');
    const std::string signature = fmt::format("{0}:{0}{0}p", width);
    check_op(fmt::format("selp.b{} %d, %a, %b, %c;", bits), signature, "iip",
             [](uint64_t a, uint64_t b, uint64_t c) { return c ? a : b; });
    check_op(fmt::format("selp.b{} %d, %a, %b, !%c;", bits), signature, "iip",
             [](uint64_t a, uint64_t b, uint64_t c) { return c ? b : a; });
    check_op(
        fmt::format("slct.b{}.s32 %d, %a, %b, %c;", bits), fmt::format("{0}:{0}{0}4", width), "iii",
        [](uint64_t a, uint64_t b, uint64_t c) { return static_cast<int32_t>(c) >= 0 ? a : b; });
    check_op(fmt::format("slct.b{}.f32 %d, %a, %b, %c;", bits), fmt::format("{0}:{0}{0}4", width),
             "iif", [](uint64_t a, uint64_t b, uint64_t c) { return f32(c) >= 0 ? a : b; });
  }
  check_op(
      "slct.ftz.f32.f32 %d, %a, %b, %c;", "4:444", "fff",
      [](uint64_t a, uint64_t b, uint64_t c) { return f32(no_subnormal_f32(c)) >= 0 ? a : b; });
  check_op("selp.f32 %d, 0f3F800000, 0f00000000, %c;", "4:44p", "iip",
           [](uint64_t, uint64_t, uint64_t c) -> uint64_t { return c ? 0x3F800000 : 0; });
}

TEST_CASE("mov of every width, of constants, in and out of vectors") {
  check_op("mov.b16 %d, %a;", "2:2", "i", [](uint64_t a, uint64_t, uint64_t) { return a; });
  check_op("mov.u32 %d, %a;", "4:4", "i", [](uint64_t a, uint64_t, uint64_t) { return a; });
  check_op("mov.f64 %d, %a;", "8:8", "d", [](uint64_t a, uint64_t, uint64_t) { return a; });
  check_op("mov.s64 %d, -5;", "8:8", "i",
           [](uint64_t, uint64_t, uint64_t) { return static_cast<uint64_t>(-5); });
  check_op("mov.b32 %d, {%a, %b};", "4:22", "ii",
           [](uint64_t a, uint64_t b, uint64_t) { return b << 16 | a; });
  check_op("mov.b64 %d, {%a, %b};", "8:44", "ii",
           [](uint64_t a, uint64_t b, uint64_t) { return b << 32 | a; });
  check_op("mov.b64 %d, {%a, %b, %c, %a};", "8:222", "iii",
           [](uint64_t a, uint64_t b, uint64_t c) { return a << 48 | c << 32 | b << 16 | a; });
  check_op("mov.b64 {_, %d}, %a;", "4:8", "i",
           [](uint64_t a, uint64_t, uint64_t) { return a >> 32; });
  check_op("mov.b32 {%d, _}, %a;", "2:4", "i",
           [](uint64_t a, uint64_t, uint64_t) { return a & 0xFFFF; });
  const std::vector<Column> inputs = operands("i", "8");
  const std::vector<Column> halves = evaluate("mov.b64 {%d, %q}, %a;", "44:8", inputs);
  for (size_t e = 0; e < inputs[0].size(); ++e) {
    REQUIRE(halves[0][e] == (inputs[0][e] & 0xFFFFFFFF));
    REQUIRE(halves[1][e] == inputs[0][e] >> 32);
  }
  const std::vector<Column> two = operands("ii", "88");
  const std::vector<Column> back = evaluate(
      "{ .reg .b128 %x, %y; mov.b128 %x, {%a, %b}; mov.b128 %y, %x; mov.b128 {%d, %q}, %y; }",
      "88:88", two);
  CHECK(back[0] == two[0]);
  CHECK(back[1] == two[1]);
}

}  // namespace
}  // namespace mezzo::ptx::test
