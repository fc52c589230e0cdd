// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/location.h>

#include <mutex>
#include <unordered_set>

namespace mezzo::ir {

const char* intern(std::string_view text) {
  static std::mutex mutex;
  // Never freed: locations may be read by destructors of other statics.
  static auto* pool = new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  return pool->emplace(text).first->c_str();
}

std::string to_string(Location location) {
  if (!location.known()) return "<unknown>";
  return std::string(location.file) + ":" + std::to_string(location.line);
}

}  // namespace mezzo::ir
