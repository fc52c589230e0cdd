// SPDX-License-Identifier: Apache-2.0
// Whole files as bytes, and files that appear complete or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace mezzo::runtime {

/// All bytes of a regular file; throws UserError `PATH: cannot read: REASON`, also for pipes and
/// devices, which may have no end.
std::vector<std::byte> read_file(const std::filesystem::path& path);

enum class Sync { No, Yes };

/// Writes the parts one after the other to a temporary name beside `path`, syncs if asked, and
/// renames; throws UserError `PATH: cannot write: REASON` and leaves what was there before.
void write_file(const std::filesystem::path& path,
                std::initializer_list<std::span<const std::byte>> parts, Sync sync = Sync::No);

/// Where the dumps of one compilation go: `folder` itself for the first of this process,
/// `folder/2`, `folder/3` ... for the next, so that none overwrites another. Empty for an empty
/// name.
std::string dump_folder(const std::string& folder);

}  // namespace mezzo::runtime
