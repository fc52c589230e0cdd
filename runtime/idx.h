// SPDX-License-Identifier: Apache-2.0
// The idx files of MNIST and its relatives, plain or compressed by gzip.
#pragma once

#include <mezzo/runtime/host_array.h>

#include <filesystem>

namespace mezzo::runtime {

/// Reads an idx file; gzip is recognised by its first bytes, not by the name. Elements of 8 and 16
/// signed bits become i32. Throws UserError with the file, what its header says and what was found.
HostArray read_idx(const std::filesystem::path& path);

}  // namespace mezzo::runtime
