// SPDX-License-Identifier: Apache-2.0
// A warp's instructions, lane groups and their coming together again. The group with the lowest
// program counter runs; groups merge where they meet. With hostile divergence the sides of a branch
// stay apart until a `.sync` instruction makes them wait for each other.
#include <fmt/format.h>

#include <algorithm>
#include <ptx/warp.h>

namespace mezzo::ptx::detail {

namespace {

struct Group {
  Mask lanes = 0;
  uint32_t pc = 0;
  uint32_t meets = ~0u;  // the lowest program counter of lanes that are not in the group
};

class Runner {
 public:
  Runner(Warp& warp, uint64_t slice)
      : warp_(warp),
        code_(warp.kernel->code.data()),
        tallies_(warp.block->tallies.empty() ? nullptr : warp.block->tallies.data()),
        hostile_(warp.block->launch->options.hostile_divergence),
        slice_end_(warp.executed + slice) {}

  void run() {
    const uint64_t before = warp_.executed;
    while (choose()) {
      if (!run_group()) break;
    }
    warp_.block->executed += warp_.executed - before;
  }

 private:
  /// The next group to run; false where no lane can go on.
  bool choose() {
    const Mask ready = warp_.alive & ~warp_.parked;
    if (!ready) return false;
    group_ = Group{};
    if (hostile_) {
      int furthest = first_lane(ready);
      for_lanes(ready, [&](int lane) {
        if (warp_.pc[lane] > warp_.pc[furthest]) furthest = lane;
      });
      group_.pc = warp_.pc[furthest];
      for_lanes(ready, [&](int lane) {
        if (warp_.side[lane] == warp_.side[furthest]) group_.lanes |= 1u << lane;
      });
      return true;
    }
    group_.pc = ~0u;
    for_lanes(ready, [&](int lane) { group_.pc = std::min(group_.pc, warp_.pc[lane]); });
    for_lanes(ready, [&](int lane) {
      if (warp_.pc[lane] == group_.pc)
        group_.lanes |= 1u << lane;
      else
        group_.meets = std::min(group_.meets, warp_.pc[lane]);
    });
    return true;
  }

  void place(Mask lanes, uint32_t pc) {
    for_lanes(lanes, [&](int lane) { warp_.pc[lane] = pc; });
  }
  void split(Mask lanes, uint32_t pc) {
    if (!lanes) return;
    const auto side = static_cast<uint8_t>(first_lane(lanes));
    for_lanes(lanes, [&](int lane) {
      warp_.pc[lane] = pc;
      warp_.side[lane] = side;
    });
  }

  /// False when the slice is used up.
  bool run_group() {
    uint32_t pc = group_.pc;
    Mask active = group_.lanes;
    for (;;) {
      const Instruction& instruction = code_[pc];
      const Mask lanes = active & (warp_.predicate(instruction.guard) ^ instruction.guard_flip);
      ++warp_.executed;
      if (tallies_) {
        tallies_[pc].executions += 1;
        tallies_[pc].lanes += static_cast<uint64_t>(__builtin_popcount(lanes));
      }
      switch (instruction.flow) {
        case Flow::Plain:
          if (lanes) instruction.execute(warp_, instruction, lanes);
          ++pc;
          break;
        case Flow::Branch:
          if (lanes == active) {
            pc = instruction.target;
          } else if (!lanes) {
            ++pc;
          } else {
            split(active & ~lanes, pc + 1);
            split(lanes, instruction.target);
            return true;
          }
          if (warp_.executed >= slice_end_) {
            place(active, pc);
            return false;
          }
          break;
        case Flow::BranchTable:
          if (!lanes) {
            ++pc;
            break;
          }
          split(active & ~lanes, pc + 1);
          branch_table(instruction, lanes);
          return true;
        case Flow::Synchronous:
        case Flow::Aligned: {
          if (!lanes) {
            ++pc;
            break;
          }
          const Mask together = lanes | parked_at(pc);
          if (satisfied(instruction, together)) {
            warp_.parked &= ~together;
            instruction.execute(warp_, instruction, together);
            active |= together;
            if (hostile_) split(active, pc + 1);
            ++pc;
            break;
          }
          place(lanes, pc);
          warp_.parked |= lanes;
          split(active & ~lanes, pc + 1);
          return true;
        }
        case Flow::Barrier:
          if (!lanes) {
            ++pc;
            break;
          }
          instruction.execute(warp_, instruction, lanes);
          place(lanes, pc);
          warp_.parked |= lanes;
          warp_.at_barrier |= lanes;
          split(active & ~lanes, pc + 1);
          return true;
        case Flow::Exit:
          warp_.alive &= ~lanes;
          split(active & ~lanes, pc + 1);
          return true;
      }
      if (pc >= group_.meets) {
        place(active, pc);
        return true;
      }
    }
  }

  void branch_table(const Instruction& instruction, Mask lanes) {
    const uint32_t* index = warp_.lanes<uint32_t>(instruction.op[0]);
    while (lanes) {
      const uint32_t value = index[first_lane(lanes)];
      if (value >= instruction.target)
        fail(warp_, instruction, FaultKind::OutOfBounds, first_lane(lanes),
             fmt::format("index {} into a table of {} branch targets", value, instruction.target));
      Mask same = 0;
      for_lanes(lanes, [&](int lane) {
        if (index[lane] == value) same |= 1u << lane;
      });
      split(same, instruction.list[value]);
      lanes &= ~same;
    }
  }

  Mask parked_at(uint32_t pc) const {
    Mask result = 0;
    for_lanes(warp_.parked & ~warp_.at_barrier, [&](int lane) {
      if (warp_.pc[lane] == pc) result |= 1u << lane;
    });
    return result;
  }

  /// Whether all lanes that an instruction wants are there.
  bool satisfied(const Instruction& instruction, Mask lanes) {
    if (instruction.flow == Flow::Aligned) return lanes == kAllLanes;
    const Mask* members = warp_.lanes<Mask>(instruction.op[3]);
    Mask wanted = 0;
    for_lanes(lanes, [&](int lane) {
      if (!(members[lane] >> lane & 1))
        fail(warp_, instruction, FaultKind::DivergedBarrier, lane,
             fmt::format("the lane is not in its own member mask {:#010x}", members[lane]));
      wanted |= members[lane];
    });
    return (wanted & warp_.alive & ~lanes) == 0;
  }

  Warp& warp_;
  const Instruction* const code_;
  Tally* const tallies_;
  const bool hostile_;
  const uint64_t slice_end_;
  Group group_;
};

/// Lanes wait at a `.sync` instruction and no other lane of the warp can come.
[[noreturn]] void fail_waiting(Warp& warp) {
  const Mask waiting = warp.parked & ~warp.at_barrier;
  const int lane = first_lane(waiting);
  const Instruction& instruction = warp.kernel->code[warp.pc[lane]];
  Mask here = 0;
  for_lanes(waiting, [&](int other) {
    if (warp.pc[other] == warp.pc[lane]) here |= 1u << other;
  });
  const Mask wanted =
      instruction.flow == Flow::Aligned ? kAllLanes : warp.lanes<Mask>(instruction.op[3])[lane];
  fail(warp, instruction, FaultKind::DivergedBarrier, lane,
       fmt::format("only lanes {:#010x} come, {:#010x} are wanted", here, wanted));
}

}  // namespace

void run_warp(Warp& warp, uint64_t slice) {
  Runner(warp, slice).run();
  if (!warp.alive || (warp.alive & ~warp.parked)) return;
  if (warp.parked & warp.alive & ~warp.at_barrier) fail_waiting(warp);
}

}  // namespace mezzo::ptx::detail
