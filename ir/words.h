// SPDX-License-Identifier: Apache-2.0
// Words of messages that depend on what they stand with.
#pragma once

#include <cstdint>
#include <string>

namespace mezzo::ir {

/// `1 result`, `2 results`; `plural` where it is not the noun with an s.
inline std::string counted(int64_t count, const std::string& noun, const std::string& plural = "") {
  return std::to_string(count) + " " + (count == 1 ? noun : plural.empty() ? noun + "s" : plural);
}

/// `a rows`, `an elementwise`: the article by the first letter.
inline std::string with_article(const std::string& word) {
  const bool vowel = std::string("aeiou").find(word.substr(0, 1)) != std::string::npos;
  return (!word.empty() && vowel ? "an " : "a ") + word;
}

}  // namespace mezzo::ir
