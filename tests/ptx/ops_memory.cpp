// SPDX-License-Identifier: Apache-2.0
// ld, st, ldu, prefetch. After the checks an access is a pointer a lane.
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <ptx/memory_operand.h>

namespace mezzo::ptx::detail {

namespace {

/// Checks all lanes and turns their addresses into places of the host.
void locate(Warp& warp, const Instruction& instruction, Mask lanes, Addresses& at, uint32_t bytes,
            Access access, SpaceMasks& spaces) {
  const MemoryMode mode = MemoryMode::unpack(instruction.mode);
  if (mode.fence) warp.block->synchronized = true;
  read_addresses(warp, instruction, instruction.op[1], instruction.address_bytes,
                 instruction.immediate, at);
  spaces = sort_lanes(mode.space, lanes, at);
  if (spaces.global) {
    check_global(warp, instruction, spaces.global, at, bytes, access);
    if (access == Access::Read) {
      const auto distance = reinterpret_cast<uint64_t>(warp.block->launch->memory->host(0));
      if (spaces.global == kAllLanes) {
        for (int lane = 0; lane < kLanes; ++lane) at.of[lane] += distance;
      } else {
        for_lanes(spaces.global, [&](int lane) { at.of[lane] += distance; });
      }
    }
  }
  if (spaces.shared) {
    check_shared(warp, instruction, spaces.shared, at, bytes, access, mode.strong);
    const auto base = reinterpret_cast<uint64_t>(warp.block->shared.data());
    for_lanes(spaces.shared, [&](int lane) { at.of[lane] += base; });
  }
  for_lanes(spaces.local, [&](int lane) {
    at.of[lane] =
        reinterpret_cast<uint64_t>(check_local(warp, instruction, lane, at.of[lane], bytes));
  });
  if (spaces.parameter) {
    if (access != Access::Read)
      fail(warp, instruction, FaultKind::OutOfBounds, first_lane(spaces.parameter),
           "a store to the kernel's parameters");
    const std::byte* place = nullptr;
    for_lanes(spaces.parameter, [&](int lane) {
      if (!mode.uniform || !place)
        place = check_parameter(warp, instruction, lane, at.of[lane], bytes);
      at.of[lane] = reinterpret_cast<uint64_t>(place);
    });
  }
}

template <class T>
T load_unaligned(uint64_t place) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(place), sizeof(T));
  return value;
}

/// M in memory, extended to R in the register.
template <class M, class R>
void load_lanes(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses at;
  SpaceMasks spaces;
  const uint32_t count = instruction.count;
  locate(warp, instruction, lanes, at, sizeof(M) * count, Access::Read, spaces);
  for (uint32_t part = 0; part < count; ++part) {
    R* const to = warp.lanes<R>(count == 1 ? instruction.op[0] : instruction.list[part]);
    const uint64_t step = part * sizeof(M);
    if (lanes == kAllLanes) {
      for (int lane = 0; lane < kLanes; ++lane)
        to[lane] = static_cast<R>(load_unaligned<M>(at.of[lane] + step));
    } else {
      for_lanes(lanes, [&](int lane) {
        to[lane] = static_cast<R>(load_unaligned<M>(at.of[lane] + step));
      });
    }
  }
}

template <class M, class R>
void store_lanes(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses at;
  SpaceMasks spaces;
  const uint32_t count = instruction.count;
  const uint32_t bytes = sizeof(M) * count;
  locate(warp, instruction, lanes, at, bytes, Access::Write, spaces);
  const R* from[8];
  for (uint32_t part = 0; part < count; ++part)
    from[part] = warp.lanes<R>(count == 1 ? instruction.op[0] : instruction.list[part]);
  const bool strong = MemoryMode::unpack(instruction.mode).strong;
  for_lanes(lanes, [&](int lane) {
    alignas(16) M data[8];
    for (uint32_t part = 0; part < count; ++part) data[part] = static_cast<M>(from[part][lane]);
    if (spaces.global >> lane & 1) {
      const Address address = at.of[lane];
      if (!strong)
        note_global_store(warp, instruction, lane, address,
                          reinterpret_cast<const std::byte*>(data), bytes);
      std::memcpy(warp.block->launch->memory->host(address), data, bytes);
    } else {
      std::memcpy(reinterpret_cast<void*>(at.of[lane]), data, bytes);
    }
  });
}

struct Word128 {
  uint64_t words[2];
};

/// `f(M{}, R{})` for the memory type and the width of the register.
template <class F>
Execute pick_widths(Type type, uint32_t register_bytes, F&& f) {
  const auto narrow = [&](auto memory, auto two, auto four, auto eight) -> Execute {
    switch (register_bytes) {
      case 2:
        return f(memory, two);
      case 4:
        return f(memory, four);
      case 8:
        return f(memory, eight);
      default:
        return nullptr;
    }
  };
  const auto wide = [&](auto memory, auto four, auto eight) -> Execute {
    return register_bytes == 4 ? f(memory, four) : register_bytes == 8 ? f(memory, eight) : nullptr;
  };
  const bool sign = type.is_signed();
  switch (type.bytes) {
    case 1:
      return sign ? narrow(int8_t{}, int16_t{}, int32_t{}, int64_t{})
                  : narrow(uint8_t{}, uint16_t{}, uint32_t{}, uint64_t{});
    case 2:
      return sign ? narrow(int16_t{}, int16_t{}, int32_t{}, int64_t{})
                  : narrow(uint16_t{}, uint16_t{}, uint32_t{}, uint64_t{});
    case 4:
      return sign ? wide(int32_t{}, int32_t{}, int64_t{})
                  : wide(uint32_t{}, uint32_t{}, uint64_t{});
    case 8:
      return register_bytes == 8 ? f(uint64_t{}, uint64_t{}) : nullptr;
    case 16:
      return register_bytes == 16 ? f(Word128{}, Word128{}) : nullptr;
    default:
      return nullptr;
  }
}

/// The registers of the data operand: one, or the parts of a vector. Returns their width.
uint32_t decode_data(Decoder& d, const Operand& data, Type type, uint32_t vector, bool load) {
  const bool braces = data.kind == Operand::Kind::Vector;
  const size_t parts = braces ? data.parts.size() : 1;
  if (parts != vector) d.error(fmt::format("{} registers for {} parts", parts, vector));
  uint32_t width = 0;
  std::vector<uint32_t> list;
  for (size_t i = 0; i < parts; ++i) {
    const Operand& part = braces ? data.parts[i] : data;
    const bool named = part.kind == Operand::Kind::Register;
    const uint32_t own = named ? part.bytes : std::max<uint32_t>(type.bytes, 2);
    if (own < type.bytes)
      d.error(fmt::format("'{}' has {} bits where {} are expected", part.text, 8 * own,
                          8 * type.bytes));
    if (i && own != width) d.error("registers of different widths");
    width = own;
    const Type held{type.kind, static_cast<uint8_t>(own), type.parts};
    list.push_back(load ? d.output(part, own) : d.input(part, own == type.bytes ? type : held));
  }
  d.instruction.count = static_cast<uint8_t>(parts);
  if (parts == 1)
    d.instruction.op[0] = list[0];
  else
    d.instruction.list = d.builder().add_list(std::move(list));
  return width;
}

uint32_t take_vector(Decoder& d) {
  const int vector = d.take_one_of({"v2", "v4", "v8"});
  return vector < 0 ? 1 : 2u << vector;
}

template <bool kLoad>
void decode_access(Decoder& d) {
  MemoryMode mode = take_memory_mode(d);
  const uint32_t vector = take_vector(d);
  const Type type = d.take_type();
  if (d.take("unified")) d.error_modifiers();
  d.finish();
  d.expect_operands(2);
  if (type == kPredicate) d.error_modifiers();
  const Operand& address = d.operand(kLoad ? 1 : 0);
  const Operand& data = d.operand(kLoad ? 0 : 1);
  const uint32_t bytes = type.bytes * vector;
  if (bytes > 32) d.error(fmt::format("an access of {} bytes", bytes));
  decode_address(d, address, mode);
  if (!kLoad && mode.space == Space::Parameter) d.error("a store to the kernel's parameters");
  if (kLoad && (mode.space == Space::Generic || mode.space == Space::Shared))
    d.builder().note_shared_width(bytes);
  if (!kLoad) note_width(d, mode, bytes);
  d.instruction.mode = mode.pack();
  const uint32_t width = decode_data(d, data, type, vector, kLoad);
  d.emit(pick_widths(type, width, [](auto memory, auto held) -> Execute {
    using M = decltype(memory);
    using R = decltype(held);
    if constexpr (kLoad)
      return load_lanes<M, R>;
    else
      return store_lanes<M, R>;
  }));
}

void nothing(Warp&, const Instruction&, Mask) {}

/// Hints: nothing happens, addresses may be anything.
void decode_hint(Decoder& d) {
  take_memory_mode(d);
  d.take_one_of({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  d.finish();
  d.expect_operands(1, 2);
  d.emit(nothing);
}

/// Policies are numbers that nobody looks at.
void make_policy(Warp& warp, const Instruction& instruction, Mask lanes) {
  for_lanes(lanes, [&](int lane) { warp.lanes<uint64_t>(instruction.op[0])[lane] = 0; });
}

void decode_createpolicy(Decoder& d) {
  if (!d.take("fractional")) d.error_modifiers();
  d.take_cache_modifiers();
  if (d.take_type() != kB64) d.error_modifiers();
  d.finish();
  d.expect_operands(1, 2);
  d.instruction.op[0] = d.output(0, 8);
  d.emit(make_policy);
}

constexpr Opcode kTable[] = {
    {"ld", decode_access<true>},
    {"ldu", decode_access<true>},
    {"st", decode_access<false>},
    {"prefetch", decode_hint},
    {"prefetchu", decode_hint},
    {"applypriority", decode_hint},
    {"createpolicy", decode_createpolicy},
};

}  // namespace

const std::span<const Opcode> kMemoryOpcodes = kTable;

}  // namespace mezzo::ptx::detail
