// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, shared by all processes of a user. A cache never fails a compilation:
// what cannot be read is a miss with a reason, what cannot be written is one warning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mezzo::runtime {

/// $MEZZO_CACHE_DIR, else $XDG_CACHE_HOME/mezzo (if absolute), else $HOME/.cache/mezzo; empty when
/// none is set.
std::filesystem::path default_cache_folder();

/// `KEY.bin` holds a checked binary, `KEY.txt` says in words what it is. Thread-safe, and safe
/// among processes.
class DiskCache {
 public:
  static constexpr uint64_t kDefaultMaxBytes = uint64_t{1} << 30;

  struct Entry {
    std::string key;
    uint64_t bytes = 0;  // binary and manifest
    std::filesystem::file_time_type used;
    std::string manifest;
  };

  /// Nothing is touched before the first find or store. An empty `folder` means no cache on disk.
  explicit DiskCache(std::filesystem::path folder, uint64_t max_bytes = kDefaultMaxBytes);

  const std::filesystem::path& folder() const { return folder_; }

  /// The binary stored under `key` (32 lower-case hexadecimal digits), or nothing and why in
  /// `miss_reason`. A damaged entry is a miss with a warning and is removed.
  std::optional<std::vector<std::byte>> find(const std::string& key,
                                             std::string* miss_reason = nullptr);

  /// Stores a binary, replacing what was there; prunes the least recently used entries when the
  /// folder grows beyond its limit. The first failure is a warning with path and reason and ends
  /// further stores.
  void store(const std::string& key, std::span<const std::byte> binary,
             const std::string& manifest);

  /// All entries, the most recently used first.
  std::vector<Entry> entries() const;

  /// Removes all entries, and what unfinished stores left; returns how many entries there were.
  /// Other files stay, also those named by 32 hexadecimal digits. Throws UserError where one cannot
  /// be removed.
  int64_t clear();

 private:
  void disable(const std::string& reason);
  void prune();
  std::filesystem::path binary_path(const std::string& key) const;
  std::filesystem::path manifest_path(const std::string& key) const;

  std::filesystem::path folder_;
  uint64_t max_bytes_;
  mutable std::mutex mutex_;
  bool disabled_ = false;
  // Bytes that this process stored since it last measured the folder; empty before the first time.
  std::optional<uint64_t> stored_since_scan_;
};

}  // namespace mezzo::runtime
