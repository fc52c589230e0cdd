// SPDX-License-Identifier: Apache-2.0
// Cases that cannot run on this machine: `if (!gpu) return skip_case("no CUDA device");`. Every
// such line is listed by name and counted as skipped by `dev test`.
#pragma once

#include <string>

namespace mezzo::test {

/// Prints `skipped: NAME: REASON` for the running case; at most once a case, which then returns.
void skip_case(const std::string& reason);

}  // namespace mezzo::test
