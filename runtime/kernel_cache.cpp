// SPDX-License-Identifier: Apache-2.0
// An entry is a 32-byte front (magic, size, checksum over key and binary) and the binary. It is
// written under a temporary name, synced and renamed, so that readers see all of it or nothing;
// what a crash or a bad disk leaves is caught by the checksum. The time of last use is the file's
// time of modification, which find() renews.
#include <mezzo/runtime/kernel_cache.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/hash128.h>
#include <mezzo/runtime/files.h>
#include <mezzo/runtime/log.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace mezzo::runtime {
namespace {

namespace fs = std::filesystem;

struct Front {
  char magic[8];
  uint64_t size;
  uint64_t check_high, check_low;
};
constexpr char kMagic[8] = {'m', 'e', 'z', 'z', 'o', 'k', 'c', '1'};

// A temporary file of this age was left by a process that died.
constexpr std::chrono::hours kAbandoned{1};

ir::Digest checksum(const std::string& key, std::span<const std::byte> binary) {
  return ir::Hash128().update(key).update(binary).digest();
}

bool is_key(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void check_key(const std::string& key) {
  MEZZO_CHECK(is_key(key), "the cache key '" + key + "' is not 32 hexadecimal digits");
}

// What is wrong with the bytes of an entry, or "".
std::string damage(const std::string& key, std::span<const std::byte> bytes) {
  Front front;
  if (bytes.size() < sizeof front)
    return "it has " + std::to_string(bytes.size()) + " bytes, its front alone has " +
           std::to_string(sizeof front);
  std::memcpy(&front, bytes.data(), sizeof front);
  if (std::memcmp(front.magic, kMagic, sizeof kMagic) != 0) return "it is not a cache entry";
  const std::span<const std::byte> binary = bytes.subspan(sizeof front);
  if (front.size != binary.size())
    return "it should have " + std::to_string(front.size) + " bytes, found " +
           std::to_string(binary.size());
  if (checksum(key, binary) != ir::Digest{front.check_high, front.check_low})
    return "its checksum is wrong";
  return "";
}

enum class Kind { Foreign, Binary, Words, Temporary };

// Whether the file is there with the front of a cache entry.
bool has_magic(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  char magic[sizeof kMagic];
  return file.read(magic, sizeof magic) && std::memcmp(magic, kMagic, sizeof kMagic) == 0;
}

// `-PID-N`, as write_file names what is not complete yet.
bool is_temporary_ending(std::string_view text) {
  const auto number = [&text] {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(digits);
    return digits > 0;
  };
  const auto dash = [&text] {
    const bool there = text.starts_with('-');
    if (there) text.remove_prefix(1);
    return there;
  };
  return dash() && number() && dash() && number() && text.empty();
}

// What a file is to this cache. Someone may have pointed it at a folder with other files, some of
// them named by hashes too: only what this cache writes is its own.
Kind kind_of(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string key = name.substr(0, 32);
  if (!is_key(key) || name.size() < 36) return Kind::Foreign;
  const std::string ending = name.substr(32, 4);
  if (ending != ".bin" && ending != ".txt") return Kind::Foreign;
  constexpr std::string_view kTemporary = ".tmp";
  std::string_view rest = std::string_view(name).substr(36);
  if (rest.starts_with(kTemporary))
    return is_temporary_ending(rest.substr(kTemporary.size())) ? Kind::Temporary : Kind::Foreign;
  if (!rest.empty()) return Kind::Foreign;
  if (ending == ".bin") return has_magic(path) ? Kind::Binary : Kind::Foreign;
  // Words alone are left where a store ended early; beside a foreign binary they are foreign too.
  const fs::path binary = path.parent_path() / (key + ".bin");
  std::error_code error;
  return !fs::exists(binary, error) || has_magic(binary) ? Kind::Words : Kind::Foreign;
}

// Calls `visit` for each file of the folder; a file that another process removes meanwhile is
// passed over.
template <typename Visit>
void for_each_file(const fs::path& folder, Visit visit) {
  std::error_code error;
  fs::directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const uint64_t bytes = it->file_size(gone);
    if (gone) continue;
    const fs::file_time_type time = it->last_write_time(gone);
    if (!gone) visit(it->path(), bytes, time);
  }
}

}  // namespace

fs::path default_cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value != nullptr ? value : "");
  };
  if (fs::path folder = variable("MEZZO_CACHE_DIR"); !folder.empty()) return folder;
  // By the XDG specification a relative path is to be ignored.
  if (fs::path folder = variable("XDG_CACHE_HOME"); folder.is_absolute()) return folder / "mezzo";
  if (fs::path home = variable("HOME"); !home.empty()) return home / ".cache" / "mezzo";
  return {};
}

DiskCache::DiskCache(fs::path folder, uint64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes), disabled_(folder_.empty()) {}

fs::path DiskCache::binary_path(const std::string& key) const { return folder_ / (key + ".bin"); }
fs::path DiskCache::manifest_path(const std::string& key) const { return folder_ / (key + ".txt"); }

void DiskCache::disable(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(disabled_, true)) return;
  }
  log_warning("kernels are not kept on disk: " + reason +
              "; set MEZZO_CACHE_DIR to a folder that can be written");
}

std::optional<std::vector<std::byte>> DiskCache::find(const std::string& key,
                                                      std::string* miss_reason) {
  check_key(key);
  const auto miss = [miss_reason](const std::string& reason) {
    if (miss_reason != nullptr) *miss_reason = reason;
    return std::nullopt;
  };
  if (folder_.empty()) return miss("there is no cache folder");
  const fs::path path = binary_path(key);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return miss("not in the disk cache");

  std::vector<std::byte> bytes;
  try {
    bytes = read_file(path);
  } catch (const UserError& unreadable) {
    // Gone since the look above is a plain miss; anything else ends the use of this folder.
    if (!fs::exists(path, error) && !error) return miss("not in the disk cache");
    disable(unreadable.message());
    return miss(unreadable.message());
  }
  if (const std::string what = damage(key, bytes); !what.empty()) {
    log_warning("the cache entry " + path.string() + " is damaged (" + what +
                "); it is compiled again");
    fs::remove(path, error);
    return miss("the entry was damaged: " + what);
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  bytes.erase(bytes.begin(), bytes.begin() + sizeof(Front));
  return bytes;
}

void DiskCache::store(const std::string& key, std::span<const std::byte> binary,
                      const std::string& manifest) {
  check_key(key);
  {
    std::lock_guard lock(mutex_);
    if (disabled_) return;
  }
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!error && !fs::is_directory(folder_, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) return disable(folder_.string() + ": " + error.message());

  const ir::Digest check = checksum(key, binary);
  Front front{{}, binary.size(), check.high, check.low};
  std::memcpy(front.magic, kMagic, sizeof kMagic);
  try {
    // The words first: where there is a binary, there is what explains it.
    write_file(manifest_path(key), {std::as_bytes(std::span<const char>(manifest))});
    write_file(binary_path(key), {std::as_bytes(std::span<const Front, 1>(&front, 1)), binary},
               Sync::Yes);
  } catch (const UserError& failure) {
    return disable(failure.message());
  }

  // The folder is measured at the first store and each time this process has added a sixteenth of
  // the limit.
  {
    std::lock_guard lock(mutex_);
    const uint64_t added = sizeof front + binary.size() + manifest.size();
    const bool first = !stored_since_scan_.has_value();
    stored_since_scan_ = stored_since_scan_.value_or(0) + added;
    if (!first && *stored_since_scan_ <= max_bytes_ / 16) return;
    stored_since_scan_ = 0;
  }
  prune();
}

void DiskCache::prune() {
  struct File {
    fs::path path;
    uint64_t bytes;
    fs::file_time_type used;
  };
  std::vector<File> binaries;
  uint64_t total = 0;
  std::error_code ignored;
  const auto now = fs::file_time_type::clock::now();
  for_each_file(folder_, [&](const fs::path& path, uint64_t bytes, fs::file_time_type time) {
    const Kind kind = kind_of(path);
    if (kind == Kind::Temporary && now - time > kAbandoned) fs::remove(path, ignored);
    if (kind != Kind::Binary && kind != Kind::Words) return;
    total += bytes;
    if (kind == Kind::Binary) binaries.push_back({path, bytes, time});
  });
  if (total <= max_bytes_) return;
  // Some room is made beyond the limit, so that the next store does not prune again.
  const uint64_t goal = max_bytes_ - max_bytes_ / 8;
  std::sort(binaries.begin(), binaries.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : binaries) {
    if (total <= goal) break;
    fs::path manifest = file.path;
    manifest.replace_extension(".txt");
    const uint64_t words = fs::file_size(manifest, ignored);
    total -= std::min(total, file.bytes + (ignored ? 0 : words));
    fs::remove(file.path, ignored);
    fs::remove(manifest, ignored);
  }
}

std::vector<DiskCache::Entry> DiskCache::entries() const {
  std::vector<Entry> found;
  for_each_file(folder_, [&](const fs::path& path, uint64_t bytes, fs::file_time_type time) {
    if (kind_of(path) != Kind::Binary) return;
    Entry entry{path.stem().string(), bytes, time, ""};
    try {
      const std::vector<std::byte> words = read_file(manifest_path(entry.key));
      entry.manifest.assign(reinterpret_cast<const char*>(words.data()), words.size());
      entry.bytes += words.size();
    } catch (const UserError&) {
      // Listed without words: the binary is what counts.
    }
    found.push_back(std::move(entry));
  });
  std::sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) {
    return a.used != b.used ? a.used > b.used : a.key < b.key;
  });
  return found;
}

int64_t DiskCache::clear() {
  int64_t count = 0;
  std::vector<std::pair<fs::path, Kind>> own;
  for_each_file(folder_, [&](const fs::path& path, uint64_t, fs::file_time_type) {
    const Kind kind = kind_of(path);
    if (kind != Kind::Foreign) own.emplace_back(path, kind);
  });
  std::error_code failed;
  for (const auto& [path, kind] : own) {
    std::error_code error;
    if (fs::remove(path, error) && kind == Kind::Binary) ++count;
    if (error) failed = error;
  }
  if (failed)
    throw UserError(
        {}, fmt::format("{}: cannot remove all kernels: {}", folder_.string(), failed.message()),
        fmt::format("{} removed", ir::counted(count, "kernel")));
  return count;
}

}  // namespace mezzo::runtime
