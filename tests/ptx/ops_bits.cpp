// SPDX-License-Identifier: Apache-2.0
// Logic, shifts and what looks at or moves single bits and bytes.
#include <fmt/format.h>

#include <algorithm>
#include <ptx/integers.h>
#include <ptx/lanes.h>

namespace mezzo::ptx::detail {

namespace {

struct And {
  template <class T>
  static T apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(~a);
  }
};
struct LogicalNot {
  template <class T>
  static T apply(T a) {
    return a == 0 ? 1 : 0;
  }
};
struct ShiftLeft {
  template <class T>
  static T apply(T a, uint32_t by) {
    return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << by);
  }
};
struct ShiftRight {
  template <class T>
  static T apply(T a, uint32_t by) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> std::min(by, kBits - 1));
    return by >= kBits ? T{0} : static_cast<T>(a >> by);
  }
};
template <bool kLeft, bool kWrap>
struct Funnel {
  static uint32_t apply(uint32_t low, uint32_t high, uint32_t by) {
    const uint32_t shift = kWrap ? by & 31 : std::min(by, 32u);
    const uint64_t both = uint64_t{high} << 32 | low;
    return static_cast<uint32_t>(kLeft ? (both << shift) >> 32 : both >> shift);
  }
};
struct ExtractBits {
  template <class T>
  static T apply(T a, uint32_t position, uint32_t length) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    using U = std::make_unsigned_t<T>;
    const uint32_t pos = position & 0xFF, len = length & 0xFF;
    if (len == 0) return 0;
    const uint32_t top = std::min(pos + len - 1, kBits - 1);
    const bool sign = std::is_signed_v<T> && (static_cast<U>(a) >> top & 1);
    const U shifted = pos >= kBits ? U{0} : static_cast<U>(static_cast<U>(a) >> pos);
    const uint32_t kept = pos >= kBits ? 0 : std::min(len, kBits - pos);
    const U mask = kept >= kBits ? ~U{0} : static_cast<U>((U{1} << kept) - 1);
    return static_cast<T>((shifted & mask) | (sign ? static_cast<U>(~mask) : U{0}));
  }
};
struct InsertBits {
  template <class T>
  static T apply(T field, T into, uint32_t position, uint32_t length) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const uint32_t pos = position & 0xFF, len = length & 0xFF;
    if (pos >= kBits || len == 0) return into;
    const T ones = len >= kBits ? ~T{0} : (T{1} << len) - 1;
    const T mask = ones << pos;
    return (into & ~mask) | ((field << pos) & mask);
  }
};
struct Reverse {
  template <class T>
  static T apply(T a) {
    T result = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) result |= ((a >> i) & 1) << (8 * sizeof(T) - 1 - i);
    return result;
  }
};
struct Popcount {
  template <class T>
  static uint32_t apply(T a) {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct LeadingZeros {
  template <class T>
  static uint32_t apply(T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
template <bool kShiftAmount>
struct FindTop {
  template <class T>
  static uint32_t apply(T a) {
    using U = std::make_unsigned_t<T>;
    const U bits = a < 0 ? static_cast<U>(~a) : static_cast<U>(a);
    if (bits == 0) return ~0u;
    const auto zeros = static_cast<uint32_t>(std::countl_zero(bits));
    return kShiftAmount ? zeros : 8 * sizeof(T) - 1 - zeros;
  }
};
struct BitMask {
  template <bool kClamp>
  struct Of {
    static uint32_t apply(uint32_t position, uint32_t width) {
      const uint32_t pos = kClamp ? std::min(position, 32u) : position & 31;
      const uint32_t wide = kClamp ? std::min(width, 32u) : width & 31;
      const uint64_t ones = ((uint64_t{1} << wide) - 1) << pos;
      return static_cast<uint32_t>(ones);
    }
  };
};

/// prmt: each of four nibbles picks one of eight bytes; its top bit asks for the sign instead.
struct Permute {
  static uint32_t pick(uint32_t a, uint32_t b, const uint32_t (&selectors)[4], bool signs) {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      uint32_t byte = (bytes >> (8 * (selectors[i] & 7))) & 0xFF;
      if (signs && (selectors[i] & 8)) byte = byte & 0x80 ? 0xFF : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t selectors[4] = {c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15};
    return pick(a, b, selectors, true);
  }
};
enum PermuteMode { kForward4, kBackward4, kReplicate8, kEdgeLeft, kEdgeRight, kReplicate16 };
template <int kMode>
struct PermuteAs {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = c & 3;
    uint32_t s[4] = {};
    for (uint32_t i = 0; i < 4; ++i) {
      switch (kMode) {
        case kForward4:
          s[i] = n + i;
          break;
        case kBackward4:
          s[i] = (n - i) & 7;
          break;
        case kReplicate8:
          s[i] = n;
          break;
        case kEdgeLeft:
          s[i] = std::max(i, n);
          break;
        case kEdgeRight:
          s[i] = std::min(i, n);
          break;
        case kReplicate16:
          s[i] = 2 * (n & 1) + (i & 1);
          break;
      }
    }
    return Permute::pick(a, b, s, false);
  }
};

// ---- decoding ----

template <int kOperation>
void predicate_logic(Warp& warp, const Instruction& instruction, Mask mask) {
  const Mask a = warp.predicate(instruction.op[1]) ^ instruction.flip;
  const Mask b = kOperation == 3 ? 0 : warp.predicate(instruction.op[2]) ^ instruction.target;
  const Mask value = kOperation == 0   ? a & b
                     : kOperation == 1 ? a | b
                     : kOperation == 2 ? a ^ b
                                       : ~a;
  warp.set_predicate(instruction.op[0], mask, value);
}

template <int kOperation, class F>
void decode_logic(Decoder& d) {
  const Type type = d.take_type();
  constexpr bool kUnary = kOperation == 3;
  d.expect_operands(kUnary ? 2 : 3);
  d.finish();
  Instruction& to = d.instruction;
  if (type == kPredicate) {
    to.op[1] = d.predicate_input(1, to.flip);
    if constexpr (!kUnary) to.op[2] = d.predicate_input(2, to.target);
    to.op[0] = d.predicate_output(d.operand(0));
    return d.emit(predicate_logic<kOperation>);
  }
  to.op[1] = d.input(1, type);
  if constexpr (!kUnary) to.op[2] = d.input(2, type);
  to.op[0] = d.output(0, type.bytes);
  d.emit(pick_integer({Kind::Bits, type.bytes}, [](auto t) {
    if constexpr (kUnary)
      return unary<F, decltype(t)>;
    else
      return binary<F, decltype(t)>;
  }));
}

void decode_cnot(Decoder& d) {
  const Type type = d.take_type();
  d.expect_operands(2);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(pick_integer(type, [](auto t) { return unary<LogicalNot, decltype(t)>; }));
}

template <class F>
void decode_shift(Decoder& d) {
  const Type type = d.take_type();
  d.expect_operands(3);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[2] = d.input(2, kU32);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(pick_integer(type, [](auto t) -> Execute {
    using T = decltype(t);
    return apply_lanes<F, T, T, uint32_t>;
  }));
}

void decode_funnel(Decoder& d) {
  const bool left = d.take("l"), wrap = d.take("wrap");
  if (!left && !d.take("r")) d.error_modifiers();
  if (!wrap && !d.take("clamp")) d.error_modifiers();
  if (d.take_type() != kB32) d.error_modifiers();
  d.expect_operands(4);
  d.finish();
  for (int i = 1; i <= 3; ++i) d.instruction.op[i] = d.input(i, kB32);
  d.instruction.op[0] = d.output(0, 4);
  d.emit(
      left ? (wrap ? ternary<Funnel<true, true>, uint32_t> : ternary<Funnel<true, false>, uint32_t>)
           : (wrap ? ternary<Funnel<false, true>, uint32_t>
                   : ternary<Funnel<false, false>, uint32_t>));
}

void decode_bfe(Decoder& d) {
  const Type type = d.take_type();
  d.expect_operands(4);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[2] = d.input(2, kU32);
  d.instruction.op[3] = d.input(3, kU32);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(pick_wide_integer(type, [](auto t) -> Execute {
    using T = decltype(t);
    return apply_lanes<ExtractBits, T, T, uint32_t, uint32_t>;
  }));
}

template <class T>
void insert_bits(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* field = warp.lanes<T>(instruction.op[1]);
  const T* into = warp.lanes<T>(instruction.op[2]);
  const uint32_t* position = warp.lanes<uint32_t>(instruction.op[3]);
  const uint32_t* length = warp.lanes<uint32_t>(instruction.target);
  T* to = warp.lanes<T>(instruction.op[0]);
  for_lanes(mask, [&](int lane) {
    to[lane] = InsertBits::apply(field[lane], into[lane], position[lane], length[lane]);
  });
}

void decode_bfi(Decoder& d) {
  const Type type = d.take_type();
  d.expect_operands(5);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[2] = d.input(2, type);
  d.instruction.op[3] = d.input(3, kU32);
  d.instruction.target = d.input(4, kU32);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(type == kB32 ? insert_bits<uint32_t> : type == kB64 ? insert_bits<uint64_t> : nullptr);
}

/// One operand of 32 or 64 bits, a count of 32 bits.
template <class F, bool kSigned>
void decode_count(Decoder& d) {
  const Type type = d.take_type();
  d.expect_operands(2);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[0] = d.output(0, 4);
  d.emit(pick_wide_integer(kSigned ? type : Type{Kind::Bits, type.bytes}, [](auto t) -> Execute {
    using T = decltype(t);
    if constexpr (kSigned || std::is_unsigned_v<T>) return apply_lanes<F, uint32_t, T>;
    return nullptr;
  }));
}

void decode_bfind(Decoder& d) {
  if (d.take("shiftamt"))
    decode_count<FindTop<true>, true>(d);
  else
    decode_count<FindTop<false>, true>(d);
}

void decode_brev(Decoder& d) {
  const Type type = d.take_type();
  d.expect_operands(2);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(type == kB32   ? unary<Reverse, uint32_t>
         : type == kB64 ? unary<Reverse, uint64_t>
                        : nullptr);
}

void decode_prmt(Decoder& d) {
  if (d.take_type() != kB32) d.error_modifiers();
  const int mode = d.take_one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  d.expect_operands(4);
  d.finish();
  for (int i = 1; i <= 3; ++i) d.instruction.op[i] = d.input(i, kB32);
  d.instruction.op[0] = d.output(0, 4);
  static constexpr Execute kModes[] = {
      ternary<PermuteAs<kForward4>, uint32_t>,   ternary<PermuteAs<kBackward4>, uint32_t>,
      ternary<PermuteAs<kReplicate8>, uint32_t>, ternary<PermuteAs<kEdgeLeft>, uint32_t>,
      ternary<PermuteAs<kEdgeRight>, uint32_t>,  ternary<PermuteAs<kReplicate16>, uint32_t>};
  d.emit(mode < 0 ? ternary<Permute, uint32_t> : kModes[mode]);
}

void lop3_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  const uint32_t* a = warp.lanes<uint32_t>(instruction.op[1]);
  const uint32_t* b = warp.lanes<uint32_t>(instruction.op[2]);
  const uint32_t* c = warp.lanes<uint32_t>(instruction.op[3]);
  uint32_t* to = warp.lanes<uint32_t>(instruction.op[0]);
  alignas(64) uint32_t result[kLanes] = {};
  for (uint32_t row = 0; row < 8; ++row) {
    if (!(instruction.target >> row & 1)) continue;
    const uint32_t not_a = row & 4 ? 0 : ~0u, not_b = row & 2 ? 0 : ~0u, not_c = row & 1 ? 0 : ~0u;
    for (int lane = 0; lane < kLanes; ++lane)
      result[lane] |= (a[lane] ^ not_a) & (b[lane] ^ not_b) & (c[lane] ^ not_c);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if (mask >> lane & 1) to[lane] = result[lane];
  }
}

void decode_lop3(Decoder& d) {
  if (d.take_type() != kB32) d.error_modifiers();
  d.expect_operands(5);
  d.finish();
  for (int i = 1; i <= 3; ++i) d.instruction.op[i] = d.input(i, kB32);
  const uint64_t table = d.immediate(4);
  if (table > 255) d.error(fmt::format("a table of 8 bits expected, got {}", table));
  d.instruction.target = static_cast<uint32_t>(table);
  d.instruction.op[0] = d.output(0, 4);
  d.emit(lop3_lanes);
}

void decode_bmsk(Decoder& d) {
  const bool clamp = d.take("clamp");
  if (!clamp && !d.take("wrap")) d.error_modifiers();
  if (d.take_type() != kB32) d.error_modifiers();
  d.expect_operands(3);
  d.finish();
  d.instruction.op[1] = d.input(1, kB32);
  d.instruction.op[2] = d.input(2, kB32);
  d.instruction.op[0] = d.output(0, 4);
  d.emit(clamp ? binary<BitMask::Of<true>, uint32_t> : binary<BitMask::Of<false>, uint32_t>);
}

constexpr Opcode kTable[] = {
    {"and", decode_logic<0, And>},
    {"or", decode_logic<1, Or>},
    {"xor", decode_logic<2, Xor>},
    {"not", decode_logic<3, Not>},
    {"cnot", decode_cnot},
    {"shl", decode_shift<ShiftLeft>},
    {"shr", decode_shift<ShiftRight>},
    {"shf", decode_funnel},
    {"bfe", decode_bfe},
    {"bfi", decode_bfi},
    {"bfind", decode_bfind},
    {"bmsk", decode_bmsk},
    {"brev", decode_brev},
    {"clz", decode_count<LeadingZeros, false>},
    {"popc", decode_count<Popcount, false>},
    {"lop3", decode_lop3},
    {"prmt", decode_prmt},
};

}  // namespace

const std::span<const Opcode> kBitOpcodes = kTable;

}  // namespace mezzo::ptx::detail
