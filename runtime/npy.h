// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files, versions 1 to 3.
#pragma once

#include <mezzo/runtime/host_array.h>

#include <filesystem>

namespace mezzo::runtime {

/// Reads f8, f4, f2, i8, i4, u1 and b1 of either byte order; Fortran order becomes row-major.
/// Throws UserError with the file, what was found and what was expected.
HostArray read_npy(const std::filesystem::path& path);

/// Writes version 1, little endian, row-major. NumPy has no bf16: it is written as f4, which holds
/// every value.
void write_npy(const std::filesystem::path& path, const HostArray& array);

}  // namespace mezzo::runtime
