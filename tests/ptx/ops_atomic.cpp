// SPDX-License-Identifier: Apache-2.0
// atom and red. Each lane's operation is atomic on the host, so blocks on several host threads may
// meet; lanes of a warp go one after another, ascending.
#include <cstring>
#include <ptx/half.h>
#include <ptx/lanes.h>
#include <ptx/memory_operand.h>

namespace mezzo::ptx::detail {

namespace {

struct Add {
  template <class T>
  static T apply(T old, T value, T) {
    return static_cast<T>(old + value);
  }
};
/// In device memory f32 sums flush subnormal numbers, in shared memory they do not.
struct AddFlushed {
  static float apply(float old, float value, float) { return flush(flush(old) + flush(value)); }
};
struct Min {
  template <class T>
  static T apply(T old, T value, T) {
    return value < old ? value : old;
  }
};
struct Max {
  template <class T>
  static T apply(T old, T value, T) {
    return old < value ? value : old;
  }
};
struct And {
  template <class T>
  static T apply(T old, T value, T) {
    return old & value;
  }
};
struct Or {
  template <class T>
  static T apply(T old, T value, T) {
    return old | value;
  }
};
struct Xor {
  template <class T>
  static T apply(T old, T value, T) {
    return old ^ value;
  }
};
struct Exchange {
  template <class T>
  static T apply(T, T value, T) {
    return value;
  }
};
struct CompareAndSwap {
  template <class T>
  static T apply(T old, T expected, T value) {
    return old == expected ? value : old;
  }
};
struct Increment {
  static uint32_t apply(uint32_t old, uint32_t limit, uint32_t) {
    return old >= limit ? 0 : old + 1;
  }
};
struct Decrement {
  static uint32_t apply(uint32_t old, uint32_t limit, uint32_t) {
    return old == 0 || old > limit ? limit : old - 1;
  }
};
template <class H>
struct AddHalf {
  static H apply(H old, H value, H) { return H::nearest(float(old) + float(value)); }
};

template <class H>
struct Pair {
  H low, high;
};
template <class H>
struct AddPair {
  static Pair<H> apply(Pair<H> old, Pair<H> value, Pair<H>) {
    return {AddHalf<H>::apply(old.low, value.low, H{}),
            AddHalf<H>::apply(old.high, value.high, H{})};
  }
};

template <size_t kBytes>
struct BitsOf;
template <>
struct BitsOf<2> {
  using Type = uint16_t;
};
template <>
struct BitsOf<4> {
  using Type = uint32_t;
};
template <>
struct BitsOf<8> {
  using Type = uint64_t;
};

/// Replaces what is at `place` and returns what was there.
template <class F, class T>
T update(void* place, T value, T other) {
  using Bits = typename BitsOf<sizeof(T)>::Type;
  auto* const at = static_cast<Bits*>(place);
  Bits old = __atomic_load_n(at, __ATOMIC_RELAXED);
  for (;;) {
    const Bits next = std::bit_cast<Bits>(F::apply(std::bit_cast<T>(old), value, other));
    if (__atomic_compare_exchange_n(at, &old, next, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return std::bit_cast<T>(old);
  }
}

/// op[2] and op[3] are the operands; op[0] 0: no result (offset 0 is no register).
template <class T, class FShared, class FGlobal>
void atomic_lanes(Warp& warp, const Instruction& instruction, Mask lanes) {
  const MemoryMode mode = MemoryMode::unpack(instruction.mode);
  Block& block = *warp.block;
  Addresses at;
  read_addresses(warp, instruction, instruction.op[1], instruction.address_bytes,
                 instruction.immediate, at);
  const SpaceMasks spaces = sort_lanes(mode.space, lanes, at);
  if (spaces.local | spaces.parameter)
    fail(warp, instruction, FaultKind::OutOfBounds, first_lane(spaces.local | spaces.parameter),
         "an atomic access to memory of the thread");
  if (spaces.global) {
    check_global(warp, instruction, spaces.global, at, sizeof(T), Access::Atomic);
    block.synchronized |= mode.fence;
  }
  if (spaces.shared)
    check_shared(warp, instruction, spaces.shared, at, sizeof(T), Access::Atomic, true);
  const T* const value = warp.lanes<T>(instruction.op[2]);
  const T* const other = warp.lanes<T>(instruction.op[3] ? instruction.op[3] : instruction.op[2]);
  alignas(64) T results[kLanes];
  for_lanes(lanes, [&](int lane) {
    results[lane] =
        spaces.global >> lane & 1
            ? update<FGlobal>(block.launch->memory->host(at.of[lane]), value[lane], other[lane])
            : update<FShared>(block.shared.data() + at.of[lane], value[lane], other[lane]);
  });
  if (!instruction.op[0]) return;
  T* const to = warp.lanes<T>(instruction.op[0]);
  for_lanes(lanes, [&](int lane) { to[lane] = results[lane]; });
}

template <class T, class F>
constexpr Execute atomic = atomic_lanes<T, F, F>;

template <class F>
Execute pick_bits(Type type) {
  if (type.is_float()) return nullptr;
  return type.bytes == 4 ? atomic<uint32_t, F> : type.bytes == 8 ? atomic<uint64_t, F> : nullptr;
}

template <class F>
Execute pick_ordered(Type type) {
  if (type.is_float() || type.kind == Kind::Bits) return nullptr;
  if (type.bytes == 4) return type.is_signed() ? atomic<int32_t, F> : atomic<uint32_t, F>;
  if (type.bytes == 8) return type.is_signed() ? atomic<int64_t, F> : atomic<uint64_t, F>;
  return nullptr;
}

Execute pick_add(Type type) {
  if (type == kF32) return atomic_lanes<float, Add, AddFlushed>;
  if (type == kF64) return atomic<double, Add>;
  if (type == kF16) return atomic<F16, AddHalf<F16>>;
  if (type == kBf16) return atomic<Bf16, AddHalf<Bf16>>;
  if (type == kF16x2) return atomic<Pair<F16>, AddPair<F16>>;
  if (type == kBf16x2) return atomic<Pair<Bf16>, AddPair<Bf16>>;
  return pick_bits<Add>(type);
}

enum Operation { kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange, kCas, kInc, kDec };

Execute pick(int operation, Type type) {
  switch (operation) {
    case kAdd:
      return pick_add(type);
    case kMin:
      return pick_ordered<Min>(type);
    case kMax:
      return pick_ordered<Max>(type);
    case kAnd:
      return pick_bits<And>(type);
    case kOr:
      return pick_bits<Or>(type);
    case kXor:
      return pick_bits<Xor>(type);
    case kExchange:
      return pick_bits<Exchange>(type);
    case kCas:
      return type == kB16 ? atomic<uint16_t, CompareAndSwap> : pick_bits<CompareAndSwap>(type);
    case kInc:
      return type == kU32 ? atomic<uint32_t, Increment> : nullptr;
    case kDec:
      return type == kU32 ? atomic<uint32_t, Decrement> : nullptr;
    default:
      return nullptr;
  }
}

template <bool kResult>
void decode_atomic(Decoder& d) {
  const int operation =
      d.take_one_of({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  d.take("noftz");
  MemoryMode mode = take_memory_mode(d);
  const Type type = d.take_type();
  d.finish();
  const size_t first = kResult ? 1 : 0;
  d.expect_operands(first + (operation == kCas ? 3 : 2));
  decode_address(d, d.operand(first), mode);
  note_width(d, mode, type.bytes);
  d.instruction.mode = mode.pack();
  d.instruction.op[2] = d.input(first + 1, type);
  if (operation == kCas) d.instruction.op[3] = d.input(first + 2, type);
  if (kResult) d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(pick(operation, type));
}

constexpr Opcode kTable[] = {
    {"atom", decode_atomic<true>},
    {"red", decode_atomic<false>},
};

}  // namespace

const std::span<const Opcode> kAtomicOpcodes = kTable;

}  // namespace mezzo::ptx::detail
