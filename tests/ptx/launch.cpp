// SPDX-License-Identifier: Apache-2.0
// A launch: limits, the order of the blocks, host threads, counters.
#include <ptx/launch.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

namespace mezzo::ptx::detail {

namespace {

constexpr uint64_t kSlice = uint64_t{1} << 20;  // so that warps that spin let others run
constexpr uint64_t kShortSlice = 256;           // of round-robin
constexpr size_t kResidentBlocks = 256;         // of round-robin

/// The most shared memory of a block by architecture, bytes.
uint32_t shared_limit(int target) {
  switch (target) {
    case 70:
      return 96 << 10;
    case 75:
      return 64 << 10;
    case 80:
    case 87:
      return 163 << 10;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 << 10;
    default:
      return 227 << 10;
  }
}

void check_limits(const ModuleData& module, const Launch& launch) {
  const KernelData& kernel = *launch.kernel;
  const auto fault = [&](const std::string& what) {
    throw Fault(FaultKind::LaunchLimits, 0, fmt::format("kernel '{}': {}", kernel.name, what));
  };
  const Dim3 grid = launch.grid, block = launch.block;
  if (block.volume() == 0 || block.x > 1024 || block.y > 1024 || block.z > 64 ||
      block.volume() > 1024)
    fault(fmt::format("block of {}x{}x{} threads, at most 1024x1024x64 and 1024 together", block.x,
                      block.y, block.z));
  if (grid.volume() == 0 || grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535)
    fault(fmt::format("grid of {}x{}x{} blocks, at most 2147483647x65535x65535", grid.x, grid.y,
                      grid.z));
  if (grid.volume() > 0xFFFFFFF0)
    fault(fmt::format("grid of {} blocks, the interpreter takes 2^32", grid.volume()));
  if (block.volume() > kernel.max_threads)
    fault(fmt::format("block of {} threads, the kernel was compiled for {}", block.volume(),
                      kernel.max_threads));
  const Dim3 wanted = kernel.required;
  if (wanted.x && (wanted.x != block.x || wanted.y != block.y || wanted.z != block.z))
    fault(fmt::format("block of {}x{}x{} threads, the kernel requires {}x{}x{}", block.x, block.y,
                      block.z, wanted.x, wanted.y, wanted.z));
  const uint64_t shared = uint64_t{kernel.shared_bytes(0)} + launch.dynamic_shared;
  if (shared > shared_limit(module.target))
    fault(fmt::format("{} bytes of shared memory, sm_{} has {} for a block", shared, module.target,
                      shared_limit(module.target)));
  if (launch.parameters.size() != kernel.parameter_bytes)
    fault(fmt::format("{} bytes of parameters, the kernel has {}", launch.parameters.size(),
                      kernel.parameter_bytes));
}

/// Which block comes at which place; empty: as numbered.
std::vector<uint32_t> permutation(const Options& options, uint32_t blocks) {
  std::vector<uint32_t> order;
  if (options.order == BlockOrder::Random) {
    order.resize(blocks);
    std::iota(order.begin(), order.end(), 0u);
    std::mt19937_64 engine(options.seed);
    std::shuffle(order.begin(), order.end(), engine);
  }
  return order;
}

std::vector<uint32_t> warp_order(const Options& options, uint32_t warps, uint32_t block) {
  std::vector<uint32_t> order(warps);
  std::iota(order.begin(), order.end(), 0u);
  if (options.order == BlockOrder::Reversed) std::reverse(order.begin(), order.end());
  if (options.order == BlockOrder::Random) {
    std::mt19937_64 engine(options.seed + block);
    std::shuffle(order.begin(), order.end(), engine);
  }
  return order;
}

/// What all host threads of a launch share.
struct Progress {
  std::atomic<uint32_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  uint64_t failed_block = ~uint64_t{0};
  std::exception_ptr failure;
  uint64_t barriers = 0;
  std::vector<Tally> tallies;
};

void check_budget(Launch& launch, Block& block) {
  const uint64_t all = launch.executed.fetch_add(block.executed) + block.executed;
  block.executed = 0;
  if (launch.options.budget && all > launch.options.budget)
    throw Fault(FaultKind::Stuck, 0,
                fmt::format("kernel '{}': the budget of {} warp instructions is used up, block "
                            "({},{},{}) still runs",
                            launch.kernel->name, launch.options.budget, block.id.x, block.id.y,
                            block.id.z));
}

void gather(Progress& progress, const Block& block) {
  const std::lock_guard lock(progress.mutex);
  progress.barriers += block.barriers_passed;
  if (block.tallies.empty()) return;
  progress.tallies.resize(block.tallies.size());
  for (size_t i = 0; i < block.tallies.size(); ++i) {
    Tally& to = progress.tallies[i];
    const Tally& from = block.tallies[i];
    to.executions += from.executions;
    to.lanes += from.lanes;
    to.sectors += from.sectors;
    to.ideal_sectors += from.ideal_sectors;
    to.wavefronts += from.wavefronts;
    to.ideal_wavefronts += from.ideal_wavefronts;
  }
}

uint64_t slice_of(const Options& options, uint64_t slice) {
  return options.budget ? std::min(slice, std::max<uint64_t>(options.budget / 4, 1)) : slice;
}

/// Runs blocks until none is left.
void work(Launch& launch, Progress& progress, const std::vector<uint32_t>& places,
          uint32_t blocks) {
  Block block;
  if (launch.options.count) block.tallies.resize(launch.kernel->code.size());
  const auto warps = static_cast<uint32_t>((launch.block.volume() + kLanes - 1) / kLanes);
  const uint64_t slice = slice_of(launch.options, kSlice);
  while (!progress.stop) {
    const uint32_t place = progress.next++;
    if (place >= blocks) break;
    const uint32_t linear = !places.empty()                                ? places[place]
                            : launch.options.order == BlockOrder::Reversed ? blocks - 1 - place
                                                                           : place;
    try {
      start_block(block, launch, linear);
      const std::vector<uint32_t> order = warp_order(launch.options, warps, linear);
      while (step_block(block, order, slice)) check_budget(launch, block);
      check_budget(launch, block);
    } catch (...) {
      const std::lock_guard lock(progress.mutex);
      progress.stop = true;
      if (place < progress.failed_block) {
        progress.failed_block = place;
        progress.failure = std::current_exception();
      }
      return;
    }
  }
  gather(progress, block);
}

/// All blocks, or many, at once, a few instructions of each in turn: kernels may wait for others.
void work_in_turn(Launch& launch, Progress& progress, uint32_t blocks) {
  std::deque<Block> resident;
  const auto warps = static_cast<uint32_t>((launch.block.volume() + kLanes - 1) / kLanes);
  const std::vector<uint32_t> order = warp_order(launch.options, warps, 0);
  const uint64_t slice = slice_of(launch.options, kShortSlice);
  uint32_t next = 0;
  const auto start = [&](Block& block) {
    if (launch.options.count && block.tallies.empty())
      block.tallies.resize(launch.kernel->code.size());
    start_block(block, launch, next++);
  };
  while (next < blocks && resident.size() < kResidentBlocks) start(resident.emplace_back());
  std::vector<Block*> running;
  for (Block& block : resident) running.push_back(&block);
  while (!running.empty()) {
    for (size_t i = 0; i < running.size();) {
      Block& block = *running[i];
      const bool alive = step_block(block, order, slice);
      check_budget(launch, block);
      if (alive) {
        ++i;
      } else if (next < blocks) {
        start(block);
      } else {
        gather(progress, block);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
}

Counters counters_of(const Launch& launch, const Progress& progress) {
  const KernelData& kernel = *launch.kernel;
  Counters counters;
  counters.kernel = kernel.name;
  counters.warp_instructions = launch.executed;
  counters.barriers = progress.barriers;
  for (size_t i = 0; i < progress.tallies.size(); ++i) {
    const Tally& from = progress.tallies[i];
    if (!from.executions || kernel.sources[i].line == 0) continue;
    LineCounters line;
    line.line = kernel.sources[i].line;
    line.text = kernel.sources[i].text;
    line.executions = from.executions;
    line.lanes = from.lanes;
    line.sectors = from.sectors;
    line.ideal_sectors = from.ideal_sectors;
    line.wavefronts = from.wavefronts;
    line.ideal_wavefronts = from.ideal_wavefronts;
    counters.lines.push_back(std::move(line));
  }
  std::stable_sort(counters.lines.begin(), counters.lines.end(),
                   [](const LineCounters& a, const LineCounters& b) { return a.line < b.line; });
  return counters;
}

}  // namespace

Counters run_launch(const ModuleData& module, Launch& launch) {
  check_limits(module, launch);
  const auto blocks = static_cast<uint32_t>(launch.grid.volume());
  const DeviceMemory::Writers writers = launch.memory->writers(blocks);
  launch.writers = writers.table;
  launch.writers_begin = writers.begin;
  launch.owner_base = writers.first_number;
  Progress progress;
  if (launch.options.order == BlockOrder::RoundRobin) {
    work_in_turn(launch, progress, blocks);
  } else {
    const std::vector<uint32_t> places = permutation(launch.options, blocks);
    const int wanted = launch.options.count ? 1 : std::max(1, launch.options.threads);
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(blocks, wanted));
    std::vector<std::thread> threads;
    for (uint32_t i = 1; i < count; ++i)
      threads.emplace_back([&] { work(launch, progress, places, blocks); });
    work(launch, progress, places, blocks);
    for (std::thread& thread : threads) thread.join();
    if (progress.failure) std::rethrow_exception(progress.failure);
  }
  return counters_of(launch, progress);
}

}  // namespace mezzo::ptx::detail
