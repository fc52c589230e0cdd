// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/memory.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <unistd.h>

namespace mezzo::runtime {

namespace {

std::string gibibytes(double bytes) {
  return fmt::format("{:.1f} GiB", bytes / (int64_t{1} << 30));
}

}  // namespace

int64_t physical_memory() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

void fail_out_of_memory(const std::string& what, double bytes) {
  throw DeviceError(fmt::format(
      "out of memory: {} for {}, this machine has {}\nnote: smaller shapes or a smaller "
      "batch need less",
      gibibytes(bytes), what, gibibytes(static_cast<double>(physical_memory()))));
}

}  // namespace mezzo::runtime
