// SPDX-License-Identifier: Apache-2.0
// Comparisons and selections: setp, set, selp, slct.
#include <ptx/halves.h>
#include <ptx/integers.h>
#include <ptx/lanes.h>

namespace mezzo::ptx::detail {

namespace {

enum Comparison { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

template <int kComparison, class T>
Mask compare(const T* a, const T* b) {
  // Bytes first, so that the comparison vectorises.
  alignas(64) uint32_t result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const T x = a[lane], y = b[lane];
    bool is = false;
    switch (kComparison) {
      case kEq:
        is = x == y;
        break;
      case kNe:
        is = (x < y) | (x > y);
        break;
      case kLt:
        is = x < y;
        break;
      case kLe:
        is = x <= y;
        break;
      case kGt:
        is = x > y;
        break;
      case kGe:
        is = x >= y;
        break;
      case kEqu:
        is = !((x < y) | (x > y));
        break;
      case kNeu:
        is = !(x == y);
        break;
      case kLtu:
        is = !(x >= y);
        break;
      case kLeu:
        is = !(x > y);
        break;
      case kGtu:
        is = !(x <= y);
        break;
      case kGeu:
        is = !(x < y);
        break;
      case kNum:
        is = (x == x) & (y == y);
        break;
      case kNan:
        is = (x != x) | (y != y);
        break;
    }
    result[lane] = is ? 1u : 0u;
  }
  Mask mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) mask |= result[lane] << lane;
  return mask;
}

/// f32 from what is in a register.
template <class H>
struct Widened {
  alignas(64) float lanes[kLanes];
  Widened(const H* from, int stride, int part) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = from[lane * stride + part];
  }
};

/// The masks of all lanes: one, or two for a pair.
template <int kComparison, class T, int kParts, bool kFtz>
void compare_parts(Warp& warp, const Instruction& instruction, Mask (&result)[2]) {
  if constexpr (std::is_class_v<T>) {
    for (int part = 0; part < kParts; ++part) {
      Widened<T> a(warp.lanes<T>(instruction.op[1]), kParts, part);
      Widened<T> b(warp.lanes<T>(instruction.op[2]), kParts, part);
      if constexpr (kFtz) {
        const float least = std::is_same_v<T, F16> ? 0x1p-14f : 0x1p-126f;
        for (float* lanes : {a.lanes, b.lanes}) {
          for (int lane = 0; lane < kLanes; ++lane)
            lanes[lane] = std::fabs(lanes[lane]) < least ? 0.0f : lanes[lane];
        }
      }
      result[part] = compare<kComparison>(a.lanes, b.lanes);
    }
  } else if constexpr (kFtz) {
    alignas(64) T a[kLanes], b[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      a[lane] = flush(warp.lanes<T>(instruction.op[1])[lane]);
      b[lane] = flush(warp.lanes<T>(instruction.op[2])[lane]);
    }
    result[0] = compare<kComparison>(a, b);
  } else {
    result[0] =
        compare<kComparison>(warp.lanes<T>(instruction.op[1]), warp.lanes<T>(instruction.op[2]));
  }
}

/// mode: 0 none, 1 and, 2 or, 3 xor with the predicate in op[3].
Mask combine(Warp& warp, const Instruction& instruction, Mask value, bool inverted) {
  if (instruction.mode == 0) return inverted ? ~value : value;
  const Mask other = warp.predicate(instruction.op[3]) ^ instruction.flip;
  const Mask own = inverted ? ~value : value;
  return instruction.mode == 1 ? own & other : instruction.mode == 2 ? own | other : own ^ other;
}

template <int kComparison, class T, int kParts, bool kFtz>
void setp_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  Mask result[2];
  compare_parts<kComparison, T, kParts, kFtz>(warp, instruction, result);
  // The second predicate is the opposite, or of a pair the upper half.
  const Mask first = combine(warp, instruction, result[0], false);
  const Mask second = kParts == 2
                          ? combine(warp, instruction, result[1], false)
                          : (instruction.target ? combine(warp, instruction, result[0], true) : 0);
  warp.set_predicate(instruction.op[0], mask, first);
  if (instruction.target) warp.set_predicate(instruction.target, mask, second);
}

/// set: all ones or 1.0. `count` bytes of the result; immediate: the value of true.
template <int kComparison, class T, int kParts, bool kFtz>
void set_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  Mask result[2] = {};
  compare_parts<kComparison, T, kParts, kFtz>(warp, instruction, result);
  const Mask low = combine(warp, instruction, result[0], false);
  const Mask high = kParts == 2 ? combine(warp, instruction, result[1], false) : 0;
  const auto yes = static_cast<uint32_t>(instruction.immediate);
  for_lanes(mask, [&](int lane) {
    const bool is = low >> lane & 1;
    if (instruction.count == 2) {
      warp.lanes<uint16_t>(instruction.op[0])[lane] = static_cast<uint16_t>(is ? yes : 0);
    } else if (kParts == 2) {
      const bool upper = high >> lane & 1;
      warp.lanes<uint32_t>(instruction.op[0])[lane] = (is ? yes : 0) | (upper ? yes << 16 : 0);
    } else {
      warp.lanes<uint32_t>(instruction.op[0])[lane] = is ? yes : 0;
    }
  });
}

template <bool kSet, class T, int kParts, bool kFtz, int... kComparisons>
Execute pick_comparison(int comparison, std::integer_sequence<int, kComparisons...>) {
  static constexpr Execute kTable[] = {(kSet ? set_lanes<kComparisons, T, kParts, kFtz>
                                             : setp_lanes<kComparisons, T, kParts, kFtz>)...};
  return kTable[comparison];
}

template <bool kSet>
Execute pick_compare(Type type, int comparison, bool ftz) {
  using All = std::make_integer_sequence<int, 14>;
  using Integers = std::make_integer_sequence<int, 6>;
  if (type == kF32)
    return ftz ? pick_comparison<kSet, float, 1, true>(comparison, All{})
               : pick_comparison<kSet, float, 1, false>(comparison, All{});
  if (type == kF64) return pick_comparison<kSet, double, 1, false>(comparison, All{});
  if (type == kF16)
    return ftz ? pick_comparison<kSet, F16, 1, true>(comparison, All{})
               : pick_comparison<kSet, F16, 1, false>(comparison, All{});
  if (type == kF16x2)
    return ftz ? pick_comparison<kSet, F16, 2, true>(comparison, All{})
               : pick_comparison<kSet, F16, 2, false>(comparison, All{});
  if (type == kBf16) return pick_comparison<kSet, Bf16, 1, false>(comparison, All{});
  if (type == kBf16x2) return pick_comparison<kSet, Bf16, 2, false>(comparison, All{});
  if (comparison > kGe) return nullptr;
  return pick_integer(type, [&](auto t) {
    return pick_comparison<kSet, decltype(t), 1, false>(comparison, Integers{});
  });
}

int take_comparison(Decoder& d) {
  const int signed_or_float = d.take_one_of(
      {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (signed_or_float >= 0) return signed_or_float;
  const int unsigned_order = d.take_one_of({"lo", "ls", "hi", "hs"});
  if (unsigned_order < 0) d.error("a comparison expected");
  return kLt + unsigned_order;
}

void take_combination(Decoder& d) {
  d.instruction.mode = static_cast<uint8_t>(d.take_one_of({"and", "or", "xor"}) + 1);
  const bool combined = d.instruction.mode != 0;
  d.expect_operands(combined ? 4 : 3);
  if (combined) d.instruction.op[3] = d.predicate_input(3, d.instruction.flip);
}

void decode_setp(Decoder& d) {
  const int comparison = take_comparison(d);
  const bool ftz = d.take("ftz");
  const Type type = d.take_type();
  take_combination(d);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[2] = d.input(2, type);
  const Operand& to = d.operand(0);
  if (to.kind == Operand::Kind::Pair) {
    d.instruction.op[0] = d.predicate_output(to.parts[0]);
    d.instruction.target = d.predicate_output(to.parts[1]);
  } else {
    if (type.parts == 2) d.error("two predicates expected for a pair");
    d.instruction.op[0] = d.predicate_output(to);
  }
  d.emit(pick_compare<false>(type, comparison, ftz));
}

void decode_set(Decoder& d) {
  const int comparison = take_comparison(d);
  const bool ftz = d.take("ftz");
  const Type type = d.take_type();
  const Type result = d.take_type();
  take_combination(d);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[2] = d.input(2, type);
  d.instruction.op[0] = d.output(0, result.bytes);
  d.instruction.count = result.bytes;
  const bool pairs = result.parts == 2;
  if (result.bytes > 4 || (type.parts == 2) != (pairs || (result.bytes == 4 && type.parts == 2)))
    d.error_modifiers();
  int64_t yes = type.parts == 2 ? 0xFFFF : 0xFFFFFFFF;
  if (result == kF32) yes = 0x3F800000;
  if (result == kF16 || result == kF16x2) yes = 0x3C00;
  if (result == kBf16 || result == kBf16x2) yes = 0x3F80;
  d.instruction.immediate = yes;
  d.emit(pick_compare<true>(type, comparison, ftz));
}

template <class T>
void selp_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* a = warp.lanes<T>(instruction.op[1]);
  const T* b = warp.lanes<T>(instruction.op[2]);
  T* to = warp.lanes<T>(instruction.op[0]);
  const Mask choose = warp.predicate(instruction.op[3]) ^ instruction.flip;
#pragma GCC ivdep
  for (int lane = 0; lane < kLanes; ++lane) {
    const T value = (choose >> lane & 1) ? a[lane] : b[lane];
    to[lane] = (mask >> lane & 1) ? value : to[lane];
  }
}

Execute by_size(Type type, Execute two, Execute four, Execute eight) {
  return type.bytes == 2 ? two : type.bytes == 4 ? four : type.bytes == 8 ? eight : nullptr;
}

void decode_selp(Decoder& d) {
  const Type type = d.take_type();
  d.expect_operands(4);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[2] = d.input(2, type);
  d.instruction.op[3] = d.predicate_input(3, d.instruction.flip);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(by_size(type, selp_lanes<uint16_t>, selp_lanes<uint32_t>, selp_lanes<uint64_t>));
}

/// slct: a where the third operand is not negative; a NaN takes b, -0 takes a.
template <class C, bool kFtz>
struct Select {
  template <class T>
  static T apply(T a, T b, C c) {
    return c >= C(0) || (kFtz && flush(static_cast<float>(c)) == 0.0f) ? a : b;
  }
};

template <class C, bool kFtz>
Execute pick_slct(Type type) {
  return by_size(type, apply_lanes<Select<C, kFtz>, uint16_t, uint16_t, uint16_t, C>,
                 apply_lanes<Select<C, kFtz>, uint32_t, uint32_t, uint32_t, C>,
                 apply_lanes<Select<C, kFtz>, uint64_t, uint64_t, uint64_t, C>);
}

void decode_slct(Decoder& d) {
  const bool ftz = d.take("ftz");
  const Type by = d.take_type(), type = d.take_type();
  d.expect_operands(4);
  d.finish();
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[2] = d.input(2, type);
  d.instruction.op[3] = d.input(3, by);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(by == kF32 ? (ftz ? pick_slct<float, true>(type) : pick_slct<float, false>(type))
         : by == Type{Kind::Signed, 4} ? pick_slct<int32_t, false>(type)
                                       : nullptr);
}

constexpr Opcode kTable[] = {
    {"setp", decode_setp},
    {"set", decode_set},
    {"selp", decode_selp},
    {"slct", decode_slct},
};

}  // namespace

const std::span<const Opcode> kCompareOpcodes = kTable;

}  // namespace mezzo::ptx::detail
