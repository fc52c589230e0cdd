// SPDX-License-Identifier: Apache-2.0
// A block: its warps one after another, and the barriers between them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ptx/warp.h>

namespace mezzo::ptx::detail {

namespace {

uint32_t special_value(const Block& block, const Warp& warp, Special special, uint32_t lane) {
  const Launch& launch = *block.launch;
  const Dim3& size = launch.block;
  const uint32_t thread = warp.first_thread + lane;
  switch (special) {
    case Special::TidX:
      return thread % size.x;
    case Special::TidY:
      return thread / size.x % size.y;
    case Special::TidZ:
      return thread / size.x / size.y;
    case Special::NtidX:
      return size.x;
    case Special::NtidY:
      return size.y;
    case Special::NtidZ:
      return size.z;
    case Special::CtaidX:
      return block.id.x;
    case Special::CtaidY:
      return block.id.y;
    case Special::CtaidZ:
      return block.id.z;
    case Special::NctaidX:
      return launch.grid.x;
    case Special::NctaidY:
      return launch.grid.y;
    case Special::NctaidZ:
      return launch.grid.z;
    case Special::LaneId:
      return lane;
    case Special::WarpId:
      return warp.index;
    case Special::NwarpId:
      return static_cast<uint32_t>(block.warps.size());
    case Special::SmId:
      return 0;
    case Special::NsmId:
      return 1;
    case Special::LanemaskEq:
      return 1u << lane;
    case Special::LanemaskLt:
      return (1u << lane) - 1;
    case Special::LanemaskLe:
      return (1u << lane) | ((1u << lane) - 1);
    case Special::LanemaskGe:
      return ~((1u << lane) - 1);
    case Special::LanemaskGt:
      return ~((1u << lane) | ((1u << lane) - 1));
    case Special::DynamicSharedBytes:
      return launch.dynamic_shared;
    case Special::TotalSharedBytes:
      return block.shared.size();
    case Special::One:
      return 1;
    case Special::Zero:
    case Special::Clock:
    case Special::Clock64:
      break;
  }
  return 0;
}

/// Whether the lanes at the barrier are all that there are, so that the warp counts as arrived.
bool arrives(Warp& warp) {
  if (warp.barrier < 0 || warp.arrived || !warp.alive) return false;
  const Mask here = warp.at_barrier & warp.alive;
  if (warp.alive & ~warp.parked) return false;  // stopped by its slice
  const uint32_t pc = warp.pc[first_lane(here)];
  const Instruction& instruction = warp.kernel->code[pc];
  if (here != warp.alive)
    fail(warp, instruction, FaultKind::DivergedBarrier, first_lane(here),
         fmt::format("only lanes {:#010x} of {:#010x} come to the barrier", here, warp.alive));
  for_lanes(here, [&](int lane) {
    const bool aligned = instruction.count != 0;
    if (aligned && warp.pc[lane] != pc)
      fail(warp, instruction, FaultKind::DivergedBarrier, lane,
           "lanes of the warp wait at another barrier instruction");
  });
  return true;
}

uint32_t live_warps(const Block& block) {
  return static_cast<uint32_t>(
      std::count_if(block.warps.begin(), block.warps.end(), [](const Warp& w) { return w.alive; }));
}

/// bar.red writes its result when the barrier opens: 0 popc, 1 and, 2 or; 3 nothing.
void write_reduction(Warp& warp, const Instruction& instruction, const Barrier& barrier) {
  const Mask lanes = warp.at_barrier;
  const bool all = barrier.true_threads == barrier.voters, any = barrier.true_threads != 0;
  switch (instruction.mode) {
    case 0:
      for_lanes(lanes, [&](int lane) {
        warp.lanes<uint32_t>(instruction.op[0])[lane] = barrier.true_threads;
      });
      break;
    case 1:
      warp.set_predicate(instruction.op[0], lanes, all ? kAllLanes : 0);
      break;
    case 2:
      warp.set_predicate(instruction.op[0], lanes, any ? kAllLanes : 0);
      break;
    default:
      break;
  }
}

/// Opens a barrier that enough threads have come to.
bool try_open(Block& block, int number) {
  Barrier& barrier = block.barriers[number];
  if (!barrier.arrived) return false;
  const uint32_t expected = barrier.expected ? barrier.expected : live_warps(block) * kLanes;
  if (barrier.arrived < expected) return false;
  uint32_t waiting = 0;
  for (Warp& warp : block.warps) {
    // One that has exited counts as having come.
    if (!warp.alive && !barrier.expected) block.shared.arrive(warp.index, barrier.published);
    if (warp.barrier == number && warp.arrived) waiting |= 1u << warp.index;
  }
  block.shared.open(waiting, barrier.published);
  for (Warp& warp : block.warps) {
    if (warp.barrier != number || !warp.arrived) continue;
    const Mask lanes = warp.at_barrier;
    write_reduction(warp, warp.kernel->code[warp.pc[first_lane(lanes)]], barrier);
    for_lanes(lanes, [&](int lane) { ++warp.pc[lane]; });
    const auto side = static_cast<uint8_t>(first_lane(lanes));
    for_lanes(lanes, [&](int lane) { warp.side[lane] = side; });
    warp.parked &= ~lanes;
    warp.at_barrier = 0;
    warp.barrier = -1;
    warp.arrived = false;
  }
  barrier = Barrier{};
  ++block.barriers_passed;
  return true;
}

void count_arrival(Block& block, Warp& warp) {
  Barrier& barrier = block.barriers[warp.barrier];
  barrier.arrived += kLanes;
  warp.arrived = true;
  block.shared.arrive(warp.index, barrier.published);
}

[[noreturn]] void fail_stuck(Block& block) {
  for (Warp& warp : block.warps) {
    if (!warp.alive || warp.barrier < 0) continue;
    const Barrier& barrier = block.barriers[warp.barrier];
    const uint32_t expected = barrier.expected ? barrier.expected : live_warps(block) * kLanes;
    fail(warp, warp.kernel->code[warp.pc[first_lane(warp.at_barrier)]], FaultKind::Stuck, -1,
         fmt::format("{} of {} threads come to barrier {} and no warp can go on", barrier.arrived,
                     expected, warp.barrier));
  }
  throw Fault(FaultKind::Stuck, 0, "no warp can go on");
}

}  // namespace

void start_block(Block& block, Launch& launch, uint32_t linear) {
  const KernelData& kernel = *launch.kernel;
  const auto threads = static_cast<uint32_t>(launch.block.volume());
  const uint32_t warps = (threads + kLanes - 1) / kLanes;
  const size_t stride = (kernel.registers.size() + 63) / 64 * 64;
  block.launch = &launch;
  block.linear = linear;
  block.id = {linear % launch.grid.x, linear / launch.grid.x % launch.grid.y,
              linear / launch.grid.x / launch.grid.y};
  block.synchronized = false;
  block.barriers.fill(Barrier{});
  if (block.warps.size() != warps) {
    block.warps.resize(warps);
    block.registers.resize(stride * warps + 64);
    block.shared.resize(kernel.shared_bytes(launch.dynamic_shared), kernel.shared_unit, warps,
                        kernel.partial_barriers);
  }
  block.shared.reset();
  auto* base = block.registers.data();
  base += (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64;
  for (uint32_t i = 0; i < warps; ++i) {
    Warp& warp = block.warps[i];
    warp.registers = base + i * stride;
    std::memcpy(warp.registers, kernel.registers.data(), kernel.registers.size());
    warp.block = &block;
    warp.kernel = &kernel;
    warp.index = i;
    warp.first_thread = i * kLanes;
    const uint32_t count = std::min<uint32_t>(kLanes, threads - i * kLanes);
    warp.full = warp.alive = count == kLanes ? kAllLanes : (1u << count) - 1;
    warp.parked = warp.at_barrier = 0;
    warp.barrier = -1;
    warp.arrived = false;
    warp.pc.fill(0);
    warp.side.fill(0);
    warp.executed = 0;
    warp.copies.clear();
    warp.committed_groups.fill(0);
    warp.local.assign(size_t{kernel.local_bytes} * kLanes, std::byte{0xFF});
    for (const auto& [special, at] : kernel.specials) {
      uint32_t* const lanes = warp.lanes<uint32_t>(at);
      for (uint32_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] = special_value(block, warp, special, lane);
    }
  }
}

bool step_block(Block& block, const std::vector<uint32_t>& order, uint64_t slice) {
  bool moved = false;
  for (const uint32_t index : order) {
    Warp& warp = block.warps[index];
    if (!(warp.alive & ~warp.parked)) continue;
    moved = true;
    run_warp(warp, slice);
    if (arrives(warp)) {
      const int number = warp.barrier;
      count_arrival(block, warp);
      try_open(block, number);
    }
  }
  // A barrier of the whole block may wait for warps that have exited meanwhile.
  for (int number = 0; number < 16; ++number) moved |= try_open(block, number);
  const bool alive = live_warps(block) != 0;
  if (alive && !moved) fail_stuck(block);
  return alive;
}

}  // namespace mezzo::ptx::detail
