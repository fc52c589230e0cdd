// SPDX-License-Identifier: Apache-2.0
// mov with packing and unpacking, cvta, isspacep, mapping of clocks.
#include <fmt/format.h>

#include <cstring>
#include <ptx/decoder.h>
#include <ptx/lanes.h>

namespace mezzo::ptx::detail {

namespace {

template <class T>
void move_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  const T* from = warp.lanes<T>(instruction.op[1]);
  T* to = warp.lanes<T>(instruction.op[0]);
  if (mask == kAllLanes) {
    std::memmove(to, from, sizeof(T) * kLanes);
    return;
  }
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = (mask >> lane & 1) ? from[lane] : to[lane];
}

void move_predicate(Warp& warp, const Instruction& instruction, Mask mask) {
  warp.set_predicate(instruction.op[0], mask, warp.predicate(instruction.op[1]) ^ instruction.flip);
}

void read_clock(Warp& warp, const Instruction& instruction, Mask mask) {
  for_lanes(mask, [&](int lane) {
    if (instruction.count == 8)
      warp.lanes<uint64_t>(instruction.op[0])[lane] = warp.executed;
    else
      warp.lanes<uint32_t>(instruction.op[0])[lane] = static_cast<uint32_t>(warp.executed);
  });
}

/// A value of `count` parts of `mode` bytes; the parts are in the list. Vector operands only hold
/// registers, so a temporary copy keeps a part that is also the whole from being overwritten.
void unpack_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  const uint32_t part = instruction.mode, count = instruction.count;
  alignas(64) std::byte source[16 * kLanes];
  std::memcpy(source, warp.registers + instruction.op[1], size_t{part} * count * kLanes);
  for (uint32_t i = 0; i < count; ++i) {
    std::byte* const to = warp.registers + instruction.list[i];
    for_lanes(mask, [&](int lane) {
      std::memcpy(to + lane * part, source + (lane * count + i) * part, part);
    });
  }
}

void pack_lanes(Warp& warp, const Instruction& instruction, Mask mask) {
  const uint32_t part = instruction.mode, count = instruction.count;
  alignas(64) std::byte result[16 * kLanes];
  for (uint32_t i = 0; i < count; ++i) {
    const std::byte* const from = warp.registers + instruction.list[i];
    for (int lane = 0; lane < kLanes; ++lane)
      std::memcpy(result + (lane * count + i) * part, from + lane * part, part);
  }
  const uint32_t whole = part * count;
  std::byte* const to = warp.registers + instruction.op[0];
  for_lanes(mask, [&](int lane) { std::memcpy(to + lane * whole, result + lane * whole, whole); });
}

struct Move128 {
  uint64_t words[2];
};

Execute move_of(uint32_t bytes) {
  switch (bytes) {
    case 2:
      return move_lanes<uint16_t>;
    case 4:
      return move_lanes<uint32_t>;
    case 8:
      return move_lanes<uint64_t>;
    case 16:
      return move_lanes<Move128>;
    default:
      return nullptr;
  }
}

void decode_vector_move(Decoder& d, const Operand& vector, Type type, bool unpack) {
  const auto count = static_cast<uint8_t>(vector.parts.size());
  if ((count != 2 && count != 4) || type.bytes / count < 2)
    d.error(fmt::format("{} parts of {} bits", count, 8 * type.bytes));
  const Type part{Kind::Bits, static_cast<uint8_t>(type.bytes / count)};
  std::vector<uint32_t> list;
  for (const Operand& each : vector.parts)
    list.push_back(unpack ? d.output(each, part.bytes) : d.input(each, part));
  d.instruction.list = d.builder().add_list(std::move(list));
  d.instruction.count = count;
  d.instruction.mode = part.bytes;
  if (unpack)
    d.instruction.op[1] = d.input(1, type);
  else
    d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(unpack ? unpack_lanes : pack_lanes);
}

void decode_mov(Decoder& d) {
  const Type type = d.take_type();
  d.expect_operands(2);
  d.finish();
  const Operand &to = d.operand(0), &from = d.operand(1);
  if (type == kPredicate) {
    d.instruction.op[0] = d.predicate_output(to);
    if (from.kind == Operand::Kind::Integer)
      d.instruction.flip = from.bits ? 0 : kAllLanes;  // of the predicate that is always true
    else
      d.instruction.op[1] = d.predicate_input(1, d.instruction.flip);
    return d.emit(move_predicate);
  }
  if (to.kind == Operand::Kind::Vector) return decode_vector_move(d, to, type, true);
  if (from.kind == Operand::Kind::Vector) return decode_vector_move(d, from, type, false);
  if (from.kind == Operand::Kind::Special &&
      (from.special == Special::Clock || from.special == Special::Clock64)) {
    if (from.bytes != type.bytes) d.error("the clock has another width");
    d.instruction.op[0] = d.output(0, type.bytes);
    d.instruction.count = type.bytes;
    return d.emit(read_clock);
  }
  d.instruction.op[1] = d.input(1, type);
  d.instruction.op[0] = d.output(0, type.bytes);
  d.emit(move_of(type.bytes));
}

// ---- address spaces ----

Address window_of(Space space) {
  switch (space) {
    case Space::Shared:
      return kSharedWindow;
    case Space::Local:
      return kLocalWindow;
    case Space::Parameter:
      return kParameterWindow;
    default:
      return 0;
  }
}

void add_window(Warp& warp, const Instruction& instruction, Mask mask) {
  const auto window = static_cast<uint64_t>(instruction.immediate);
  const uint64_t* from = warp.lanes<uint64_t>(instruction.op[1]);
  uint64_t* to = warp.lanes<uint64_t>(instruction.op[0]);
  for_lanes(mask, [&](int lane) { to[lane] = from[lane] + window; });
}

Space take_space(Decoder& d) {
  const int space = d.take_one_of({"global", "const", "shared", "local", "param"});
  if (space < 0) d.error("an address space expected");
  d.take("shared::cta");
  constexpr Space kSpaces[] = {Space::Global, Space::Global, Space::Shared, Space::Local,
                               Space::Parameter};
  return kSpaces[space];
}

void decode_cvta(Decoder& d) {
  const bool to_space = d.take("to");
  const Space space = take_space(d);
  if (d.take_type() != kU64) d.error_modifiers();
  d.expect_operands(2);
  d.finish();
  d.instruction.op[1] = d.input(1, kU64);
  d.instruction.op[0] = d.output(0, 8);
  const Address window = window_of(space);
  d.instruction.immediate = static_cast<int64_t>(to_space ? 0 - window : window);
  d.emit(window ? add_window : move_lanes<uint64_t>);
}

void in_window(Warp& warp, const Instruction& instruction, Mask mask) {
  const auto window = static_cast<uint64_t>(instruction.immediate);
  const uint64_t* from = warp.lanes<uint64_t>(instruction.op[1]);
  Mask result = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t address = from[lane];
    const bool is = window ? address - window < kWindowBytes : address < kSharedWindow;
    result |= Mask{is} << lane;
  }
  warp.set_predicate(instruction.op[0], mask, result);
}

void decode_isspacep(Decoder& d) {
  const Space space = take_space(d);
  d.expect_operands(2);
  d.finish();
  d.instruction.op[1] = d.input(1, kU64);
  d.instruction.op[0] = d.predicate_output(d.operand(0));
  d.instruction.immediate = static_cast<int64_t>(window_of(space));
  d.emit(in_window);
}

constexpr Opcode kTable[] = {
    {"mov", decode_mov},
    {"cvta", decode_cvta},
    {"isspacep", decode_isspacep},
};

}  // namespace

const std::span<const Opcode> kMoveOpcodes = kTable;

}  // namespace mezzo::ptx::detail
