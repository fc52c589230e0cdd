// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic and bit operations, an instruction at a time.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <ptx/micro.h>

namespace mezzo::ptx::test {
namespace {

// 128 bits are an extension of the compilers.
__extension__ using Wide = __int128;

struct IntegerType {
  const char* name;
  int bytes;
  bool is_signed;
};
constexpr IntegerType kTypes[] = {{"u16", 2, false}, {"s16", 2, true},  {"u32", 4, false},
                                  {"s32", 4, true},  {"u64", 8, false}, {"s64", 8, true}};

/// The number that the bits stand for.
Wide number(uint64_t bits, const IntegerType& type) {
  const int unused = 64 - 8 * type.bytes;
  if (type.is_signed) return static_cast<int64_t>(bits << unused) >> unused;
  return bits << unused >> unused;
}

using Exact = std::function<Wide(Wide a, Wide b, Wide c)>;

std::string widths(int result, std::initializer_list<int> inputs) {
  std::string text = std::to_string(result) + ":";
  for (const int bytes : inputs) text += std::to_string(bytes);
  return text;
}

void check_integer(const std::string& name, const IntegerType& type, int inputs,
                   const Exact& exact) {
  const char* registers[] = {"%d, %a", "%d, %a, %b", "%d, %a, %b, %c"};
  std::string signature =
      std::to_string(type.bytes) + ":" +
      std::string(static_cast<size_t>(inputs), static_cast<char>('0' + type.bytes));
  check_op(fmt::format("{}.{} {};", name, type.name, registers[inputs - 1]), signature,
           std::string(static_cast<size_t>(inputs), 'i'), [&](uint64_t a, uint64_t b, uint64_t c) {
             return static_cast<uint64_t>(exact(number(a, type), number(b, type), number(c, type)));
           });
}

TEST_CASE("sums, products, quotients, extremes of every integer type") {
  for (const IntegerType& type : kTypes) {
    const int bits = 8 * type.bytes;
    check_integer("add", type, 2, [](Wide a, Wide b, Wide) { return a + b; });
    check_integer("sub", type, 2, [](Wide a, Wide b, Wide) { return a - b; });
    check_integer("mul.lo", type, 2, [](Wide a, Wide b, Wide) {
      return static_cast<Wide>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    });
    check_integer("mad.lo", type, 3, [](Wide a, Wide b, Wide c) {
      return static_cast<Wide>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) +
                               static_cast<uint64_t>(c));
    });
    // The product of two u64 needs all 128 bits.
    const auto high = [&](Wide a, Wide b) {
      using Unsigned = unsigned long long;
      if (bits < 64 || type.is_signed) return a * b >> bits;
      const Unsigned x = static_cast<Unsigned>(a), y = static_cast<Unsigned>(b);
      const Unsigned x0 = x & 0xFFFFFFFF, x1 = x >> 32, y0 = y & 0xFFFFFFFF, y1 = y >> 32;
      const Unsigned middle = x1 * y0 + (x0 * y0 >> 32);
      const Unsigned other = x0 * y1 + (middle & 0xFFFFFFFF);
      return static_cast<Wide>(x1 * y1 + (middle >> 32) + (other >> 32));
    };
    check_integer("mul.hi", type, 2, [&](Wide a, Wide b, Wide) { return high(a, b); });
    check_integer("mad.hi", type, 3, [&](Wide a, Wide b, Wide c) { return high(a, b) + c; });
    check_integer("div", type, 2, [](Wide a, Wide b, Wide) { return b == 0 ? Wide{-1} : a / b; });
    check_integer("rem", type, 2, [](Wide a, Wide b, Wide) { return b == 0 ? a : a % b; });
    check_integer("min", type, 2, [](Wide a, Wide b, Wide) { return a < b ? a : b; });
    check_integer("max", type, 2, [](Wide a, Wide b, Wide) { return a < b ? b : a; });
    check_integer("sad", type, 3,
                  [](Wide a, Wide b, Wide c) { return c + (a < b ? b - a : a - b); });
    if (type.is_signed) {
      check_integer("neg", type, 1, [](Wide a, Wide, Wide) { return -a; });
      check_integer("abs", type, 1, [](Wide a, Wide, Wide) { return a < 0 ? -a : a; });
    }
  }
}

TEST_CASE("wide products, 24-bit products, clamped sums, dot products") {
  for (const IntegerType& type : kTypes) {
    if (type.bytes == 8) continue;
    const int bytes = type.bytes;
    check_op(fmt::format("mul.wide.{} %d, %a, %b;", type.name), widths(2 * bytes, {bytes, bytes}),
             "ii", [&](uint64_t a, uint64_t b, uint64_t) {
               return static_cast<uint64_t>(number(a, type) * number(b, type));
             });
    check_op(fmt::format("mad.wide.{} %d, %a, %b, %c;", type.name),
             widths(2 * bytes, {bytes, bytes, 2 * bytes}), "iii",
             [&](uint64_t a, uint64_t b, uint64_t c) {
               return static_cast<uint64_t>(number(a, type) * number(b, type)) + c;
             });
  }
  check_op("mul24.lo.u32 %d, %a, %b;", "4:44", "ii",
           [](uint64_t a, uint64_t b, uint64_t) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); });
  check_op("mul24.lo.s32 %d, %a, %b;", "4:44", "ii", [](uint64_t a, uint64_t b, uint64_t) {
    const auto low = [](uint64_t x) { return static_cast<int64_t>(x << 40) >> 40; };
    return static_cast<uint64_t>(low(a) * low(b));
  });
  const auto clamp = [](int64_t x) {
    return static_cast<uint64_t>(std::min<int64_t>(std::max<int64_t>(x, INT32_MIN), INT32_MAX));
  };
  const auto word = [](uint64_t x) { return static_cast<int64_t>(static_cast<int32_t>(x)); };
  check_op("add.sat.s32 %d, %a, %b;", "4:44", "ii",
           [&](uint64_t a, uint64_t b, uint64_t) { return clamp(word(a) + word(b)); });
  check_op("sub.sat.s32 %d, %a, %b;", "4:44", "ii",
           [&](uint64_t a, uint64_t b, uint64_t) { return clamp(word(a) - word(b)); });
  for (const bool sa : {false, true}) {
    for (const bool sb : {false, true}) {
      const auto part = [](uint64_t x, int bits, int index, bool is_signed) -> int64_t {
        const auto field = static_cast<int64_t>(x >> (bits * index) & ((1u << bits) - 1));
        return is_signed && field >> (bits - 1) ? field - (int64_t{1} << bits) : field;
      };
      const std::string types =
          fmt::format(".{}32.{}32 %d, %a, %b, %c;", sa ? 's' : 'u', sb ? 's' : 'u');
      check_op("dp4a" + types, "4:444", "iii", [&](uint64_t a, uint64_t b, uint64_t c) {
        for (int i = 0; i < 4; ++i)
          c += static_cast<uint64_t>(part(a, 8, i, sa) * part(b, 8, i, sb));
        return c;
      });
      for (const int high : {0, 2}) {
        check_op((high ? "dp2a.hi" : "dp2a.lo") + types, "4:444", "iii",
                 [&](uint64_t a, uint64_t b, uint64_t c) {
                   for (int i = 0; i < 2; ++i)
                     c += static_cast<uint64_t>(part(a, 16, i, sa) * part(b, 8, i + high, sb));
                   return c;
                 });
      }
    }
  }
}

TEST_CASE("carries go from one instruction to the next, lane by lane") {
  // a + b and a - b of 64 bits by halves; the third word is the carry or the missing borrow.
  const std::string split =
      "{ .reg .b32 %al, %ah, %bl, %bh, %rl, %rh, %rc; mov.b64 {%al, %ah}, %a; "
      "mov.b64 {%bl, %bh}, %b; ";
  const std::vector<Column> inputs = operands("ii", "88");
  const auto check = [&](const std::string& text, auto&& wanted) {
    const std::vector<Column> got =
        evaluate(split + text + " mov.b64 %d, {%rl, %rh}; }", "8:88", inputs);
    for (size_t e = 0; e < inputs[0].size(); ++e)
      REQUIRE(got[0][e] == wanted(inputs[0][e], inputs[1][e]));
  };
  check("add.cc.u32 %rl, %al, %bl; addc.u32 %rh, %ah, %bh;",
        [](uint64_t a, uint64_t b) { return a + b; });
  check("sub.cc.u32 %rl, %al, %bl; subc.u32 %rh, %ah, %bh;",
        [](uint64_t a, uint64_t b) { return a - b; });
  check("add.cc.u32 %rl, %al, %bl; addc.cc.u32 %rl, %ah, %bh; addc.u32 %rh, 0, 0;",
        [](uint64_t a, uint64_t b) {
          const uint64_t low = (a & 0xFFFFFFFF) + (b & 0xFFFFFFFF);
          const uint64_t high = (a >> 32) + (b >> 32) + (low >> 32);
          return (high & 0xFFFFFFFF) | high >> 32 << 32;
        });
  check("mad.lo.cc.u32 %rl, %al, %bl, %ah; madc.hi.u32 %rh, %al, %bl, %bh;",
        [](uint64_t a, uint64_t b) {
          const uint64_t product = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
          return product + ((a >> 32) | (b >> 32 << 32));
        });
  check("mul.lo.u32 %rl, %al, %bl; mad.hi.cc.u32 %rh, %al, %bl, %ah; madc.lo.u32 %rh, %rh, 1, 0;",
        [](uint64_t a, uint64_t b) {
          const uint64_t product = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
          const uint64_t high = (product >> 32) + (a >> 32);
          return (product & 0xFFFFFFFF) | ((high & 0xFFFFFFFF) + (high >> 32)) << 32;
        });
  check("add.cc.u64 %a, %a, %b; mov.u32 %rl, 0; addc.u32 %rl, 0, 0; mov.u32 %rh, 7;",
        [](uint64_t a, uint64_t b) { return (a + b < a ? 1 : 0) | uint64_t{7} << 32; });
}

TEST_CASE("logic of 16, 32 and 64 bits and of predicates") {
  for (const int bytes : {2, 4, 8}) {
    const std::string type = ".b" + std::to_string(8 * bytes);
    const std::string two = widths(bytes, {bytes, bytes}), one = widths(bytes, {bytes});
    check_op("and" + type + " %d, %a, %b;", two, "ii",
             [](uint64_t a, uint64_t b, uint64_t) { return a & b; });
    check_op("or" + type + " %d, %a, %b;", two, "ii",
             [](uint64_t a, uint64_t b, uint64_t) { return a | b; });
    check_op("xor" + type + " %d, %a, %b;", two, "ii",
             [](uint64_t a, uint64_t b, uint64_t) { return a ^ b; });
    check_op("not" + type + " %d, %a;", one, "i",
             [](uint64_t a, uint64_t, uint64_t) { return ~a; });
    check_op("cnot" + type + " %d, %a;", one, "i",
             [](uint64_t a, uint64_t, uint64_t) -> uint64_t { return a == 0; });
    for (const bool is_signed : {false, true}) {
      const IntegerType as{"", bytes, is_signed};
      check_op(fmt::format("shr.{}{} %d, %a, %b;", is_signed ? 's' : 'u', 8 * bytes),
               widths(bytes, {bytes, 4}), "in", [&](uint64_t a, uint64_t b, uint64_t) {
                 return static_cast<uint64_t>(number(a, as) >> std::min<uint64_t>(b, 100));
               });
    }
    check_op("shl" + type + " %d, %a, %b;", widths(bytes, {bytes, 4}), "in",
             [](uint64_t a, uint64_t b, uint64_t) { return b > 63 ? 0 : a << b; });
  }
  check_op("and.pred %d, %a, %b;", "p:pp", "pp",
           [](uint64_t a, uint64_t b, uint64_t) { return a & b; });
  check_op("or.pred %d, %a, !%b;", "p:pp", "pp",
           [](uint64_t a, uint64_t b, uint64_t) { return a | (b ^ 1); });
  check_op("xor.pred %d, !%a, %b;", "p:pp", "pp",
           [](uint64_t a, uint64_t b, uint64_t) { return a ^ 1 ^ b; });
  check_op("not.pred %d, %a;", "p:p", "p", [](uint64_t a, uint64_t, uint64_t) { return a ^ 1; });
  check_op("mov.pred %d, !%a;", "p:p", "p", [](uint64_t a, uint64_t, uint64_t) { return a ^ 1; });
}

TEST_CASE("lop3 is its table, for every table") {
  for (int table = 0; table < 256; table += table < 16 ? 1 : 13) {
    check_op(fmt::format("lop3.b32 %d, %a, %b, %c, {};", table), "4:444", "iii",
             [&](uint64_t a, uint64_t b, uint64_t c) {
               uint64_t result = 0;
               for (int bit = 0; bit < 32; ++bit) {
                 const uint64_t row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
                 result |= static_cast<uint64_t>(table >> row & 1) << bit;
               }
               return result;
             });
  }
}

TEST_CASE("bit fields, funnel shifts, bytes picked, bits counted") {
  for (const IntegerType& type : kTypes) {
    if (type.bytes == 2) continue;
    const auto bits = static_cast<uint64_t>(8 * type.bytes);
    // Bit by bit, as the manual's own text goes.
    check_op(fmt::format("bfe.{} %d, %a, %b, %c;", type.name),
             widths(type.bytes, {type.bytes, 4, 4}), "inn",
             [&](uint64_t a, uint64_t b, uint64_t c) {
               const uint64_t position = b & 0xFF, length = c & 0xFF;
               const bool sign =
                   type.is_signed && length && (a >> std::min(position + length - 1, bits - 1) & 1);
               uint64_t result = 0;
               for (uint64_t i = 0; i < bits; ++i) {
                 const bool inside = i < length && position + i < bits;
                 result |= static_cast<uint64_t>(inside ? a >> (position + i) & 1 : sign) << i;
               }
               return result;
             });
    check_op(fmt::format("bfind.{} %d, %a;", type.name), widths(4, {type.bytes}), "i",
             [&](uint64_t a, uint64_t, uint64_t) -> uint64_t {
               const Wide value = number(a, type);
               for (int i = static_cast<int>(bits) - 1; i >= 0; --i)
                 if ((value >> i & 1) != (value < 0 ? 1 : 0)) return static_cast<uint64_t>(i);
               return ~uint64_t{0};
             });
    check_op(fmt::format("bfind.shiftamt.{} %d, %a;", type.name), widths(4, {type.bytes}), "i",
             [&](uint64_t a, uint64_t, uint64_t) -> uint64_t {
               const Wide value = number(a, type);
               for (int i = static_cast<int>(bits) - 1; i >= 0; --i)
                 if ((value >> i & 1) != (value < 0 ? 1 : 0))
                   return bits - 1 - static_cast<uint64_t>(i);
               return ~uint64_t{0};
             });
    if (type.is_signed) continue;
    const std::string suffix = ".b" + std::to_string(bits);
    const std::string field = fmt::format(
        "{{ .reg .b32 %len; mov.b32 %len, {}; bfi{} %d, %a, %b, %c, %len; }}", 9, suffix);
    // The fourth operand stays the same in a test; three lengths are enough.
    for (const int length : {0, 9, 64}) {
      std::string text = field;
      text.replace(text.find(" 9;"), 3, " " + std::to_string(length) + ";");
      const std::vector<Column> in =
          operands("iin", std::string(2, static_cast<char>('0' + type.bytes)) + "4");
      const Column got = evaluate(text, widths(type.bytes, {type.bytes, type.bytes, 4}), in).at(0);
      for (size_t e = 0; e < got.size(); ++e) {
        uint64_t wanted = in[1][e];
        for (uint64_t i = 0; i < static_cast<uint64_t>(length); ++i) {
          const uint64_t at = (in[2][e] & 0xFF) + i;
          if (at >= bits) break;
          const uint64_t bit = i < 64 ? in[0][e] >> i & 1 : 0;
          wanted = (wanted & ~(uint64_t{1} << at)) | bit << at;
        }
        REQUIRE(got[e] == wanted);
      }
    }
    check_op("brev" + suffix + " %d, %a;", widths(type.bytes, {type.bytes}), "i",
             [&](uint64_t a, uint64_t, uint64_t) {
               uint64_t result = 0;
               for (uint64_t i = 0; i < bits; ++i) result |= (a >> i & 1) << (bits - 1 - i);
               return result;
             });
    check_op("popc" + suffix + " %d, %a;", widths(4, {type.bytes}), "i",
             [&](uint64_t a, uint64_t, uint64_t) {
               uint64_t count = 0;
               for (; a; a &= a - 1) ++count;
               return count;
             });
    check_op("clz" + suffix + " %d, %a;", widths(4, {type.bytes}), "i",
             [&](uint64_t a, uint64_t, uint64_t) {
               uint64_t count = 0;
               while (count < bits && !(a >> (bits - 1 - count) & 1)) ++count;
               return count;
             });
  }
  for (const bool left : {false, true}) {
    for (const bool wrap : {false, true}) {
      check_op(
          fmt::format("shf.{}.{}.b32 %d, %a, %b, %c;", left ? 'l' : 'r', wrap ? "wrap" : "clamp"),
          "4:444", "iin", [&](uint64_t low, uint64_t high, uint64_t c) {
            const uint64_t by = wrap ? c & 31 : std::min<uint64_t>(c, 32);
            if (left) return by == 0 ? high : high << by | low >> (32 - by);
            return by == 0 ? low : high << (32 - by) | low >> by;
          });
      check_op(fmt::format("bmsk.{}.b32 %d, %a, %b;", wrap ? "wrap" : "clamp"), "4:44", "nn",
               [&](uint64_t a, uint64_t b, uint64_t) {
                 const uint64_t at = wrap ? a & 31 : std::min<uint64_t>(a, 32);
                 const uint64_t wide = wrap ? b & 31 : std::min<uint64_t>(b, 32);
                 uint64_t result = 0;
                 for (uint64_t i = at; i < std::min<uint64_t>(at + wide, 32); ++i)
                   result |= uint64_t{1} << i;
                 return result;
               });
    }
  }
}

TEST_CASE("prmt picks bytes by nibbles and by its modes") {
  const auto byte = [](uint64_t a, uint64_t b, uint64_t index) {
    return (index < 4 ? a >> (8 * index) : b >> (8 * (index - 4))) & 0xFF;
  };
  check_op("prmt.b32 %d, %a, %b, %c;", "4:444", "iii", [&](uint64_t a, uint64_t b, uint64_t c) {
    uint64_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const uint64_t selector = c >> (4 * i) & 15;
      const uint64_t value = byte(a, b, selector & 7);
      result |= (selector & 8 ? (value & 0x80 ? 0xFF : 0) : value) << (8 * i);
    }
    return result;
  });
  // Rows for c = 0, 1, 2, 3, the most significant byte first, as the manual prints them.
  const struct {
    const char* mode;
    const char* rows[4];
  } modes[] = {
      {"f4e", {"3210", "4321", "5432", "6543"}}, {"b4e", {"5670", "6701", "7012", "0123"}},
      {"rc8", {"0000", "1111", "2222", "3333"}}, {"ecl", {"3210", "3211", "3222", "3333"}},
      {"ecr", {"0000", "1110", "2210", "3210"}}, {"rc16", {"1010", "3232", "1010", "3232"}}};
  for (const auto& mode : modes) {
    check_op(fmt::format("prmt.b32.{} %d, %a, %b, %c;", mode.mode), "4:444", "iii",
             [&](uint64_t a, uint64_t b, uint64_t c) {
               uint64_t result = 0;
               for (int i = 0; i < 4; ++i)
                 result |= byte(a, b, static_cast<uint64_t>(mode.rows[c & 3][3 - i] - '0'))
                           << (8 * i);
               return result;
             });
  }
}

}  // namespace
}  // namespace mezzo::ptx::test
