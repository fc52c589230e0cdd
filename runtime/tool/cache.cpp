// SPDX-License-Identifier: Apache-2.0
// `mezzo cache`: what the kernel cache on disk holds, and emptying it.
#include <mezzo/ir/error.h>
#include <mezzo/runtime/kernel_cache.h>
#include <mezzo/runtime/tool/commands.h>

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace mezzo::tool {

namespace {

runtime::DiskCache open_cache() {
  std::filesystem::path folder = runtime::default_cache_folder();
  if (folder.empty())
    throw UserError({}, "there is no folder for a cache",
                    "set HOME, XDG_CACHE_HOME or MEZZO_CACHE_DIR");
  // A folder that is not there yet is an empty cache; anything else in its place is a mistake.
  std::error_code error;
  const std::filesystem::directory_iterator files(folder, error);
  if (error && error != std::errc::no_such_file_or_directory)
    throw UserError({},
                    fmt::format("{}: cannot read the cache: {}", folder.string(), error.message()),
                    "MEZZO_CACHE_DIR names another folder");
  return runtime::DiskCache(folder);
}

}  // namespace

int cache_list() {
  debug_options("cache", {});
  runtime::DiskCache cache = open_cache();
  uint64_t bytes = 0;
  std::vector<runtime::DiskCache::Entry> entries = cache.entries();
  for (const runtime::DiskCache::Entry& entry : entries) {
    bytes += entry.bytes;
    fmt::print("{} {:8} B  {}\n", entry.key, entry.bytes,
               entry.manifest.substr(0, entry.manifest.find('\n')));
  }
  fmt::print("{} kernels, {} bytes in {}\n", entries.size(), bytes, cache.folder().string());
  return 0;
}

int cache_clear() {
  debug_options("cache", {});
  runtime::DiskCache cache = open_cache();
  fmt::print("{} kernels removed from {}\n", cache.clear(), cache.folder().string());
  return 0;
}

}  // namespace mezzo::tool
