// SPDX-License-Identifier: Apache-2.0
// safetensors files: named arrays, and the data of `resource("name")` beside a module's text.
#pragma once

#include <mezzo/runtime/host_array.h>

#include <filesystem>
#include <map>
#include <string>

namespace mezzo::runtime {

using NamedArrays = std::map<std::string, HostArray>;

/// Reads all arrays of a file: F64, F32, F16, BF16, I64, I32, U8 and BOOL. Throws UserError with
/// the file, what was found and what was expected; a file is right or refused, never read in part.
NamedArrays read_safetensors(const std::filesystem::path& path);

/// Writes the arrays in the order of their names, data aligned to 8 bytes. Throws UserError.
void write_safetensors(const std::filesystem::path& path, const NamedArrays& arrays);

}  // namespace mezzo::runtime
