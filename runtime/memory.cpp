// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/memory.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <iterator>
#include <unistd.h>

namespace mezzo::runtime {

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB"};
  if (bytes < 1024) return ir::counted(static_cast<int64_t>(bytes), "byte");
  size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

int64_t physical_memory() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

void fail_out_of_memory(const std::string& what, double bytes) {
  throw DeviceError(fmt::format(
      "out of memory: {} for {}, this machine has {}\nnote: smaller shapes or a smaller "
      "batch need less",
      bytes_text(bytes), what, bytes_text(static_cast<double>(physical_memory()))));
}

}  // namespace mezzo::runtime
