// SPDX-License-Identifier: Apache-2.0
#include <gpu/report.h>

namespace mezzo::gpu {

namespace {

constexpr int kMostPrinted = 40;

}  // namespace

void Report::fail(const std::string& what) {
  ++failures_;
  if (failures_ <= kMostPrinted) line("FAILED: {}", what);
  if (failures_ == kMostPrinted) line("further failures stand in the result file alone");
}

}  // namespace mezzo::gpu
