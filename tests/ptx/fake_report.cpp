// SPDX-License-Identifier: Apache-2.0
#include <ptx/fake_report.h>

#include <fmt/format.h>

namespace mezzo::fakecuda {

namespace {

/// `sectors 256 of 64 (4.00 times)`: taken, and the fewest possible.
std::string taken_text(const char* what, uint64_t taken, uint64_t fewest) {
  return fmt::format("{} {} of {} ({:.2f} times)", what, taken, fewest,
                     static_cast<double>(taken) / static_cast<double>(fewest));
}

}  // namespace

void Report::add(const ptx::Counters& launch) {
  Kernel& kernel = kernels_[launch.kernel];
  ++kernel.launches;
  kernel.warp_instructions += launch.warp_instructions;
  kernel.barriers += launch.barriers;
  for (const ptx::LineCounters& line : launch.lines) {
    ptx::LineCounters& sum = kernel.lines[line.line];
    sum.text = line.text;
    sum.executions += line.executions;
    sum.lanes += line.lanes;
    sum.sectors += line.sectors;
    sum.ideal_sectors += line.ideal_sectors;
    sum.wavefronts += line.wavefronts;
    sum.ideal_wavefronts += line.ideal_wavefronts;
  }
}

std::string Report::text() const {
  std::string text;
  for (const auto& [name, kernel] : kernels_) {
    text += fmt::format("kernel {}: launches {}, warp instructions {}, barriers {}\n", name,
                        kernel.launches, kernel.warp_instructions, kernel.barriers);
    for (const auto& [number, line] : kernel.lines) {
      if (line.ideal_sectors == 0 && line.ideal_wavefronts == 0) continue;
      text += fmt::format("  line {} `{}`: {} times, lanes {:.1f} of 32", number, line.text,
                          line.executions,
                          static_cast<double>(line.lanes) / static_cast<double>(line.executions));
      if (line.ideal_sectors > 0)
        text += ", " + taken_text("sectors", line.sectors, line.ideal_sectors);
      if (line.ideal_wavefronts > 0)
        text += ", " + taken_text("wavefronts", line.wavefronts, line.ideal_wavefronts);
      text += "\n";
    }
  }
  return text;
}

}  // namespace mezzo::fakecuda
