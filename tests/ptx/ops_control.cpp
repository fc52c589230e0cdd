// SPDX-License-Identifier: Apache-2.0
// Branches, ends, traps, barriers of a block and fences. What a branch does is with the warp's
// runner, what a barrier does when all have come is with the block.
#include <fmt/format.h>

#include <ptx/decoder.h>
#include <ptx/warp.h>

namespace mezzo::ptx::detail {

namespace {

void nothing(Warp&, const Instruction&, Mask) {}

void decode_bra(Decoder& d) {
  d.take("uni");
  d.finish();
  d.expect_operands(0);  // the label is with the parser
  d.instruction.flow = Flow::Branch;
  d.emit(nothing);
}

void decode_brx(Decoder& d) {
  if (!d.take("idx")) d.error_modifiers();
  d.take("uni");
  d.finish();
  d.expect_operands(1);
  d.instruction.op[0] = d.input(0, kU32);
  d.instruction.flow = Flow::BranchTable;
  d.emit(nothing);
}

void decode_exit(Decoder& d) {
  d.take("uni");
  d.finish();
  d.expect_operands(0);
  d.instruction.flow = Flow::Exit;
  d.emit(nothing);
}

void trap(Warp& warp, const Instruction& instruction, Mask lanes) {
  fail(warp, instruction, FaultKind::Trap, first_lane(lanes), "the kernel trapped");
}

void decode_trap(Decoder& d) {
  d.finish();
  d.expect_operands(0);
  d.emit(trap);
}

void decode_nanosleep(Decoder& d) {
  if (d.take_type() != kU32) d.error_modifiers();
  d.finish();
  d.expect_operands(1);
  d.input(0, kU32);
  d.emit(nothing);
}

// ---- barriers: op[1] the number, op[2] the threads or 0, op[3] the predicate of bar.red ----

enum Reduction : uint8_t { kPopc, kAnd, kOr, kNone };

/// The barrier that all lanes name, and the threads it waits for (0: all of the block).
Barrier& barrier_of(Warp& warp, const Instruction& instruction, Mask lanes, uint32_t& number) {
  const int first = first_lane(lanes);
  const uint32_t* numbers = warp.lanes<uint32_t>(instruction.op[1]);
  const uint32_t* counts = instruction.op[2] ? warp.lanes<uint32_t>(instruction.op[2]) : nullptr;
  number = numbers[first];
  const uint32_t count = counts ? counts[first] : 0;
  for_lanes(lanes, [&](int lane) {
    if (numbers[lane] != number || (counts && counts[lane] != count))
      fail(warp, instruction, FaultKind::DivergedBarrier, lane,
           "lanes of the warp name different barriers or thread counts");
  });
  Block& block = *warp.block;
  if (number >= block.barriers.size())
    fail(warp, instruction, FaultKind::OutOfBounds, first,
         fmt::format("barrier {}, a block has {}", number, block.barriers.size()));
  if (counts && (count == 0 || count % kLanes || count > block.warps.size() * kLanes))
    fail(warp, instruction, FaultKind::DivergedBarrier, first,
         fmt::format("a barrier of {} threads; whole warps of the block are needed", count));
  if (warp.barrier >= 0 && static_cast<uint32_t>(warp.barrier) != number)
    fail(warp, instruction, FaultKind::DivergedBarrier, first,
         fmt::format("lanes of the warp wait at barriers {} and {}", warp.barrier, number));
  Barrier& barrier = block.barriers[number];
  const bool used = barrier.arrived || barrier.voters || barrier.named;
  if (used && barrier.expected != count)
    fail(warp, instruction, FaultKind::DivergedBarrier, first,
         fmt::format("waits for {} threads, others for {}", count, barrier.expected));
  barrier.expected = count;
  barrier.named = true;
  return barrier;
}

void wait(Warp& warp, const Instruction& instruction, Mask lanes) {
  uint32_t number = 0;
  Barrier& barrier = barrier_of(warp, instruction, lanes, number);
  warp.barrier = static_cast<int>(number);
  if (instruction.mode == kNone) return;
  const Mask votes = (warp.predicate(instruction.op[3]) ^ instruction.flip) & lanes;
  barrier.voters += static_cast<uint32_t>(__builtin_popcount(lanes));
  barrier.true_threads += static_cast<uint32_t>(__builtin_popcount(votes));
}

/// bar.arrive: the warp counts and goes on.
void arrive(Warp& warp, const Instruction& instruction, Mask lanes) {
  uint32_t number = 0;
  Barrier& barrier = barrier_of(warp, instruction, lanes, number);
  barrier.arrived += kLanes;
  warp.block->shared.arrive(warp.index, barrier.published);
}

void order_warp(Warp& warp, const Instruction&, Mask) { warp.block->shared.order_warp(warp.index); }

void decode_warp_barrier(Decoder& d) {
  if (!d.take("sync")) d.error_modifiers();
  d.finish();
  d.expect_operands(1);
  d.instruction.op[3] = d.input(0, kB32);
  d.instruction.flow = Flow::Synchronous;
  d.emit(order_warp);
}

void decode_barrier(Decoder& d) {
  if (d.take("warp")) return decode_warp_barrier(d);
  d.take("cta");
  const bool aligned = d.name() == "bar" || d.take("aligned");
  const int kind = d.take_one_of({"sync", "arrive", "red"});
  if (kind < 0) d.error_modifiers();
  Instruction& to = d.instruction;
  to.count = aligned ? 1 : 0;
  to.mode = kNone;
  size_t first = 0, last = d.count();
  if (kind == 2) {
    to.mode = static_cast<uint8_t>(d.take_one_of({"popc", "and", "or"}));
    const Type type = d.take_type();
    if (to.mode > kOr || type != (to.mode == kPopc ? kU32 : kPredicate)) d.error_modifiers();
    d.expect_operands(3, 4);
    first = 1;
    --last;
    to.op[3] = d.predicate_input(last, to.flip);
    to.op[0] = to.mode == kPopc ? d.output(0, 4) : d.predicate_output(d.operand(0));
  } else {
    d.expect_operands(kind == 1 ? 2 : 1, 2);
  }
  d.finish();
  to.op[1] = d.input(first, kU32);
  to.op[2] = last - first == 2 ? d.input(first + 1, kU32) : 0;
  if (to.op[2]) d.builder().data().partial_barriers = true;
  if (kind == 1) {
    to.flow = Flow::Synchronous;
    to.op[3] = d.builder().constant(kAllLanes, 4);
    return d.emit(arrive);
  }
  to.flow = Flow::Barrier;
  d.emit(wait);
}

// ---- fences: they order accesses to device memory with other blocks' ----

void fence(Warp& warp, const Instruction&, Mask) { warp.block->synchronized = true; }

void decode_membar(Decoder& d) {
  const int scope = d.take_one_of({"cta", "gl", "sys"});
  if (scope < 0) d.error_modifiers();
  d.finish();
  d.expect_operands(0);
  d.emit(scope == 0 ? nothing : fence);
}

void decode_fence(Decoder& d) {
  d.take_one_of({"sc", "acq_rel", "acquire", "release"});
  const int scope = d.take_one_of({"cta", "cluster", "gpu", "sys"});
  if (scope < 0) d.error_modifiers();
  d.finish();
  d.expect_operands(0);
  d.emit(scope == 0 ? nothing : fence);
}

constexpr Opcode kTable[] = {
    {"bra", decode_bra},     {"brx", decode_brx},         {"exit", decode_exit},
    {"ret", decode_exit},  // of a kernel; those of functions are branches
    {"trap", decode_trap},   {"brkpt", decode_trap},      {"nanosleep", decode_nanosleep},
    {"bar", decode_barrier}, {"barrier", decode_barrier}, {"membar", decode_membar},
    {"fence", decode_fence},
};

}  // namespace

const std::span<const Opcode> kControlOpcodes = kTable;

}  // namespace mezzo::ptx::detail
