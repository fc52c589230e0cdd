// SPDX-License-Identifier: Apache-2.0
// Faults and their texts.
#include <fmt/format.h>

#include <ptx/warp.h>
#include <utility>

namespace mezzo::ptx {

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::OutOfBounds:
      return "out of bounds";
    case FaultKind::Misaligned:
      return "misaligned";
    case FaultKind::SharedRace:
      return "race in shared memory";
    case FaultKind::GlobalRace:
      return "race between blocks";
    case FaultKind::DivergedBarrier:
      return "diverged barrier";
    case FaultKind::Uninitialized:
      return "uninitialized";
    case FaultKind::LaunchLimits:
      return "launch limits";
    case FaultKind::Trap:
      return "trap";
    case FaultKind::Stuck:
      return "stuck";
  }
  return "fault";
}

Fault::Fault(FaultKind kind, int line, std::string text)
    : std::runtime_error(fmt::format("{}: {}", to_string(kind), text)), kind(kind), line(line) {}

namespace detail {

void fail(const Warp& warp, const Instruction& instruction, FaultKind kind, int lane,
          const std::string& what) {
  const KernelData& kernel = *warp.kernel;
  const Block& block = *warp.block;
  const SourceLine& source = kernel.sources[index_of(warp, instruction)];
  const Dim3 size = block.launch->block;
  std::string who = fmt::format("warp {}", warp.index);
  if (lane >= 0) {
    const uint32_t thread = warp.first_thread + static_cast<uint32_t>(lane);
    who = fmt::format("thread ({},{},{})", thread % size.x, thread / size.x % size.y,
                      thread / size.x / size.y);
  }
  const std::string at = source.location.empty() ? "" : fmt::format(" ({})", source.location);
  throw Fault(
      kind, source.line,
      fmt::format("kernel '{}', ptx line {}{} `{}`, block ({},{},{}), {}: {}", kernel.name,
                  source.line, at, source.text, block.id.x, block.id.y, block.id.z, who, what));
}

}  // namespace detail
}  // namespace mezzo::ptx
