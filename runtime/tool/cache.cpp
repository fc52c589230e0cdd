// SPDX-License-Identifier: Apache-2.0
// `mezzo cache`: what the kernel cache on disk holds, and emptying it.
#include <mezzo/ir/error.h>
#include <mezzo/runtime/kernel_cache.h>
#include <mezzo/runtime/tool/commands.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

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

/// What an entry was made for: its ops and what they give, from the kernel's text at the end of its
/// manifest. Empty where there is none.
std::string ops_of(const std::string& manifest) {
  std::istringstream lines(manifest);
  std::string line, head;
  while (std::getline(lines, line) && line.find(" = kernel @") == std::string::npos) {
  }
  head = line;
  std::vector<std::string> ops;
  while (std::getline(lines, line)) {
    const size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    const std::string rest = line.substr(equals + 3), name = rest.substr(0, rest.find(' '));
    if (std::find(ops.begin(), ops.end(), name) == ops.end()) ops.push_back(name);
  }
  if (ops.empty()) return "";
  constexpr size_t kMost = 8;
  const size_t more = ops.size() - std::min(ops.size(), kMost);
  ops.resize(ops.size() - more);
  std::string text = fmt::format(": {}", fmt::join(ops, ", "));
  if (more > 0) text += fmt::format(" and {} more", more);
  // `... : (tensor<4xf32>) -> tensor<f32> {`, or the one type of operands and result.
  size_t types = head.rfind(" -> ");
  types = types == std::string::npos ? head.rfind(" : ") + 3 : types + 4;
  return text + " -> " + head.substr(types, head.rfind(" {") - types);
}

}  // namespace

int cache_list() {
  debug_options("cache", {});
  runtime::DiskCache cache = open_cache();
  uint64_t bytes = 0;
  std::vector<runtime::DiskCache::Entry> entries = cache.entries();
  for (const runtime::DiskCache::Entry& entry : entries) {
    bytes += entry.bytes;
    fmt::print("{} {:8} B  {}{}\n", entry.key, entry.bytes,
               entry.manifest.substr(0, entry.manifest.find('\n')), ops_of(entry.manifest));
  }
  fmt::print("{}, {} in {}\n", ir::counted(entries.size(), "kernel"),
             ir::counted(static_cast<int64_t>(bytes), "byte"), cache.folder().string());
  return 0;
}

int cache_clear() {
  debug_options("cache", {});
  runtime::DiskCache cache = open_cache();
  fmt::print("{} removed from {}\n", ir::counted(cache.clear(), "kernel"), cache.folder().string());
  return 0;
}

}  // namespace mezzo::tool
