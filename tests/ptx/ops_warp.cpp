// SPDX-License-Identifier: Apache-2.0
// Lanes of a warp that look at each other: shuffles, votes, matches, reductions. They order no
// memory accesses.
#include <algorithm>
#include <cmath>
#include <ptx/decoder.h>
#include <ptx/lanes.h>

namespace mezzo::ptx::detail {

namespace {

/// The member mask stands at `index`.
void decode_members(Decoder& d, size_t index) {
  d.instruction.op[3] = d.input(index, kB32);
  d.instruction.flow = Flow::Synchronous;
}

// ---- shfl: op[1] value, op[2] lane or distance, `target` the segment, `flip` the predicate ----

enum Shuffle { kUp, kDown, kButterfly, kIndex };

template <int kMode>
void shuffle(Warp& warp, const Instruction& instruction, Mask mask) {
  const uint32_t* from = warp.lanes<uint32_t>(instruction.op[1]);
  const uint32_t* by = warp.lanes<uint32_t>(instruction.op[2]);
  const uint32_t* segments = warp.lanes<uint32_t>(instruction.target);
  uint32_t* const to = warp.lanes<uint32_t>(instruction.op[0]);
  alignas(64) uint32_t result[kLanes];
  Mask inside = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int distance = static_cast<int>(by[lane] & 31);
    const int clamp = static_cast<int>(segments[lane] & 31);
    const int segment = static_cast<int>(segments[lane] >> 8 & 31);
    const int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int source = 0;
    bool valid = false;
    switch (kMode) {
      case kUp:
        source = lane - distance;
        valid = source >= most;
        break;
      case kDown:
        source = lane + distance;
        valid = source <= most;
        break;
      case kButterfly:
        source = lane ^ distance;
        valid = source <= most;
        break;
      default:
        source = least | (distance & ~segment);
        valid = source <= most;
        break;
    }
    if (!valid) source = lane;
    inside |= Mask{valid} << lane;
    // What a lane gets that does not take part is anything.
    result[lane] = mask >> source & 1 ? from[source] : ~0u;
  }
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = mask >> lane & 1 ? result[lane] : to[lane];
  if (instruction.flip) warp.set_predicate(instruction.flip, mask, inside);
}

void decode_shfl(Decoder& d) {
  if (!d.take("sync")) d.error(".sync expected");
  const int mode = d.take_one_of({"up", "down", "bfly", "idx"});
  if (mode < 0 || d.take_type() != kB32) d.error_modifiers();
  d.finish();
  d.expect_operands(5);
  Instruction& to = d.instruction;
  to.op[1] = d.input(1, kB32);
  to.op[2] = d.input(2, kB32);
  to.target = d.input(3, kB32);
  decode_members(d, 4);
  const Operand& result = d.operand(0);
  const bool pair = result.kind == Operand::Kind::Pair;
  to.op[0] = d.output(pair ? result.parts[0] : result, 4);
  if (pair) to.flip = d.predicate_output(result.parts[1]);
  static constexpr Execute kModes[] = {shuffle<kUp>, shuffle<kDown>, shuffle<kButterfly>,
                                       shuffle<kIndex>};
  d.emit(kModes[mode]);
}

// ---- votes ----

enum Vote { kAll, kAny, kUniform, kBallot };

template <int kMode>
void vote(Warp& warp, const Instruction& instruction, Mask mask) {
  const Mask votes = (warp.predicate(instruction.op[1]) ^ instruction.flip) & mask;
  if constexpr (kMode == kBallot) {
    uint32_t* const to = warp.lanes<uint32_t>(instruction.op[0]);
    for_lanes(mask, [&](int lane) { to[lane] = votes; });
  } else {
    const bool yes = kMode == kAll   ? votes == mask
                     : kMode == kAny ? votes != 0
                                     : votes == 0 || votes == mask;
    warp.set_predicate(instruction.op[0], mask, yes ? kAllLanes : 0);
  }
}

void decode_vote(Decoder& d) {
  if (!d.take("sync")) d.error(".sync expected");
  const int mode = d.take_one_of({"all", "any", "uni", "ballot"});
  const Type type = d.take_type();
  if (mode < 0 || type != (mode == kBallot ? kB32 : kPredicate)) d.error_modifiers();
  d.finish();
  d.expect_operands(3);
  Instruction& to = d.instruction;
  if (d.operand(1).kind == Operand::Kind::Integer)
    to.flip = d.immediate(1) ? 0 : kAllLanes;  // of the predicate that is always true
  else
    to.op[1] = d.predicate_input(1, to.flip);
  decode_members(d, 2);
  to.op[0] = mode == kBallot ? d.output(0, 4) : d.predicate_output(d.operand(0));
  static constexpr Execute kModes[] = {vote<kAll>, vote<kAny>, vote<kUniform>, vote<kBallot>};
  d.emit(kModes[mode]);
}

void active_mask(Warp& warp, const Instruction& instruction, Mask mask) {
  uint32_t* const to = warp.lanes<uint32_t>(instruction.op[0]);
  for_lanes(mask, [&](int lane) { to[lane] = mask; });
}

void decode_activemask(Decoder& d) {
  if (d.take_type() != kB32) d.error_modifiers();
  d.finish();
  d.expect_operands(1);
  d.instruction.op[0] = d.output(0, 4);
  d.emit(active_mask);
}

void elect(Warp& warp, const Instruction& instruction, Mask mask) {
  const int leader = first_lane(mask);
  uint32_t* const to = warp.lanes<uint32_t>(instruction.op[0]);
  for_lanes(mask, [&](int lane) { to[lane] = static_cast<uint32_t>(leader); });
  warp.set_predicate(instruction.flip, mask, Mask{1} << leader);
}

void decode_elect(Decoder& d) {
  if (!d.take("sync")) d.error(".sync expected");
  d.finish();
  d.expect_operands(2);
  const Operand& result = d.operand(0);
  if (result.kind != Operand::Kind::Pair) d.error("d|p expected");
  d.instruction.op[0] = d.output(result.parts[0], 4);
  d.instruction.flip = d.predicate_output(result.parts[1]);
  decode_members(d, 1);
  d.emit(elect);
}

// ---- matches ----

template <class T>
void match_any(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* from = warp.lanes<T>(instruction.op[1]);
  uint32_t result[kLanes];
  for_lanes(mask, [&](int lane) {
    result[lane] = 0;
    for_lanes(mask, [&](int other) { result[lane] |= Mask{from[other] == from[lane]} << other; });
  });
  for_lanes(mask, [&](int lane) { warp.lanes<uint32_t>(instruction.op[0])[lane] = result[lane]; });
}

template <class T>
void match_all(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* from = warp.lanes<T>(instruction.op[1]);
  const T first = from[first_lane(mask)];
  bool same = true;
  for_lanes(mask, [&](int lane) { same &= from[lane] == first; });
  for_lanes(mask,
            [&](int lane) { warp.lanes<uint32_t>(instruction.op[0])[lane] = same ? mask : 0; });
  if (instruction.flip) warp.set_predicate(instruction.flip, mask, same ? kAllLanes : 0);
}

void decode_match(Decoder& d) {
  const bool all = d.take("all");
  if (!all && !d.take("any")) d.error_modifiers();
  if (!d.take("sync")) d.error(".sync expected");
  const Type type = d.take_type();
  d.finish();
  d.expect_operands(3);
  d.instruction.op[1] = d.input(1, type);
  decode_members(d, 2);
  const Operand& result = d.operand(0);
  const bool pair = result.kind == Operand::Kind::Pair;
  if (pair && !all) d.error("no predicate expected");
  d.instruction.op[0] = d.output(pair ? result.parts[0] : result, 4);
  if (pair) d.instruction.flip = d.predicate_output(result.parts[1]);
  d.emit(type == kB32   ? (all ? match_all<uint32_t> : match_any<uint32_t>)
         : type == kB64 ? (all ? match_all<uint64_t> : match_any<uint64_t>)
                        : nullptr);
}

// ---- redux ----

struct Add {
  static uint32_t apply(uint32_t a, uint32_t b) { return a + b; }
};
struct And {
  static uint32_t apply(uint32_t a, uint32_t b) { return a & b; }
};
struct Or {
  static uint32_t apply(uint32_t a, uint32_t b) { return a | b; }
};
struct Xor {
  static uint32_t apply(uint32_t a, uint32_t b) { return a ^ b; }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return std::max(a, b);
  }
};
template <bool kMax, bool kAbs, bool kNan>
struct FloatExtreme {
  static float apply(float a, float b) {
    if (kAbs) a = std::fabs(a), b = std::fabs(b);
    if (kNan && (a != a || b != b)) return canonical(a + b);
    if (a != a) return canonical(b);
    if (b != b) return a;
    const bool first =
        kMax ? a > b || (a == b && !std::signbit(a)) : a < b || (a == b && std::signbit(a));
    return first ? a : b;
  }
};

template <class F, class T>
void reduce(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* from = warp.lanes<T>(instruction.op[1]);
  T result = from[first_lane(mask)];
  // The first lane once more: nothing changes, but for `.abs` and for a NaN of one lane only.
  if constexpr (std::is_same_v<T, float>) result = F::apply(result, result);
  for_lanes(mask & (mask - 1), [&](int lane) { result = F::apply(result, from[lane]); });
  T* const to = warp.lanes<T>(instruction.op[0]);
  for_lanes(mask, [&](int lane) { to[lane] = result; });
}

Execute pick_float_extreme(bool most, bool absolute, bool nan) {
  static constexpr Execute kTable[] = {reduce<FloatExtreme<false, false, false>, float>,
                                       reduce<FloatExtreme<false, false, true>, float>,
                                       reduce<FloatExtreme<false, true, false>, float>,
                                       reduce<FloatExtreme<false, true, true>, float>,
                                       reduce<FloatExtreme<true, false, false>, float>,
                                       reduce<FloatExtreme<true, false, true>, float>,
                                       reduce<FloatExtreme<true, true, false>, float>,
                                       reduce<FloatExtreme<true, true, true>, float>};
  return kTable[(most ? 4 : 0) + (absolute ? 2 : 0) + (nan ? 1 : 0)];
}

void decode_redux(Decoder& d) {
  if (!d.take("sync")) d.error(".sync expected");
  const int operation = d.take_one_of({"add", "min", "max", "and", "or", "xor"});
  const bool absolute = d.take("abs"), nan = d.take("NaN");
  const Type type = d.take_type();
  d.finish();
  d.expect_operands(3);
  d.instruction.op[1] = d.input(1, type);
  decode_members(d, 2);
  d.instruction.op[0] = d.output(0, type.bytes);
  const bool least = operation == 1, most = operation == 2;
  if (type == kF32)
    return d.emit(least || most ? pick_float_extreme(most, absolute, nan) : nullptr);
  if (absolute || nan || type.bytes != 4 || type.is_float()) d.error_modifiers();
  if (type == kB32)
    return d.emit(operation == 3   ? reduce<And, uint32_t>
                  : operation == 4 ? reduce<Or, uint32_t>
                  : operation == 5 ? reduce<Xor, uint32_t>
                                   : nullptr);
  if (operation == 0) return d.emit(reduce<Add, uint32_t>);
  if (!least && !most) d.error_modifiers();
  if (type.is_signed()) return d.emit(least ? reduce<Min, int32_t> : reduce<Max, int32_t>);
  d.emit(least ? reduce<Min, uint32_t> : reduce<Max, uint32_t>);
}

constexpr Opcode kTable[] = {
    {"shfl", decode_shfl},   {"vote", decode_vote},   {"activemask", decode_activemask},
    {"elect", decode_elect}, {"match", decode_match}, {"redux", decode_redux},
};

}  // namespace

const std::span<const Opcode> kWarpOpcodes = kTable;

}  // namespace mezzo::ptx::detail
