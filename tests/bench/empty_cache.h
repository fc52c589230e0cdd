// SPDX-License-Identifier: Apache-2.0
// What a program takes that has never been compiled on this machine.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace mezzo::bench {

/// A folder for compiled kernels that is gone at the end, and MEZZO_CACHE_DIR as it was.
class EmptyCache {
 public:
  EmptyCache() {
    std::string name = (std::filesystem::temp_directory_path() / "mezzo-bench-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
    folder_ = name;
    if (const char* old = std::getenv("MEZZO_CACHE_DIR")) old_ = old;
    setenv("MEZZO_CACHE_DIR", folder_.c_str(), 1);
  }
  ~EmptyCache() {
    if (old_.empty())
      unsetenv("MEZZO_CACHE_DIR");
    else
      setenv("MEZZO_CACHE_DIR", old_.c_str(), 1);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  EmptyCache(const EmptyCache&) = delete;
  EmptyCache& operator=(const EmptyCache&) = delete;

 private:
  std::filesystem::path folder_;
  std::string old_;
};

}  // namespace mezzo::bench
