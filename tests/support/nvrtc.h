// SPDX-License-Identifier: Apache-2.0
// Cases that compile for a GPU: `if (lacks_nvrtc()) return;`.
#pragma once

#include <mezzo/codegen/cuda/nvrtc.h>
#include <support/skip.h>

#include <string>

namespace mezzo::test {

/// True where NVRTC is not there: the running case is then skipped, with the reason.
inline bool lacks_nvrtc() {
  std::string reason;
  if (codegen::nvrtc_available(&reason)) return false;
  skip_case(reason);
  return true;
}

}  // namespace mezzo::test
