// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/error.h>

#include <algorithm>
#include <numeric>

namespace mezzo {

namespace {

std::string note(const std::string& hint) { return hint.empty() ? "" : "\nnote: " + hint; }

/// Bytes of the character of UTF-8 that starts at `at`, or 0 where none does.
size_t character_bytes(const std::string& line, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(line[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const size_t length = lead >= 0xf5   ? 0
                        : lead >= 0xf0 ? 4
                        : lead >= 0xe0 ? 3
                        : lead >= 0xc2 ? 2
                                       : 0;
  if (at + length > line.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  return length;
}

/// The line of a text as a terminal can show it, and the caret under its column. Binary files have
/// lines that are long or no text: of those a part is shown, and '?' for what is not printable.
std::string excerpt(const std::string& line, int column) {
  constexpr size_t kBefore = 100, kShown = 160;
  const size_t caret = column > 0 ? static_cast<size_t>(column - 1) : 0;
  const bool cut = line.size() > kShown;
  const size_t first = cut && caret > kBefore ? caret - kBefore : 0;
  const size_t last = cut ? std::min(line.size(), first + kShown) : line.size();
  std::string shown = first > 0 ? "..." : "", under(shown.size(), ' ');
  for (size_t i = first; i < last;) {
    const size_t length = line[i] == '\t' ? 1 : character_bytes(line, i);
    shown += length > 0 ? line.substr(i, length) : "?";
    i += std::max<size_t>(length, 1);
  }
  // Tabs are kept, so that the caret stands under its column however wide a tab is shown.
  for (size_t i = first; i < caret; ++i) under += i < line.size() && line[i] == '\t' ? '\t' : ' ';
  return shown + (last < line.size() ? "..." : "") + "\n" + under + "^";
}

}  // namespace

UserError::UserError(ir::Location location, const std::string& message, const std::string& hint)
    : Error((location.known() ? ir::to_string(location) + ": error: " : "error: ") + message +
            note(hint)),
      location_(location),
      message_(message),
      hint_(hint) {}

ParseError::ParseError(const std::string& name, int line, int column, const std::string& message,
                       const std::string& source_line, const std::string& hint)
    : Error(name + ":" + std::to_string(line) + ":" + std::to_string(column) +
            ": error: " + message + "\n" + excerpt(source_line, column) + note(hint)),
      line_(line),
      column_(column) {}

InternalError::InternalError(const std::string& message, ir::Location ours)
    : Error(message.starts_with("internal error")
                ? message
                : "internal error: " + message + " (" + ir::to_string(ours) + ")") {}

namespace ir {

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  size_t best = std::min<size_t>(2, word.size() / 2) + 1;
  std::string found;
  for (const std::string& candidate : known) {
    std::vector<size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i + 1;
      for (size_t j = 0; j < candidate.size(); ++j) {
        size_t above = row[j + 1];
        row[j + 1] =
            std::min({above + 1, row[j] + 1, diagonal + (word[i] == candidate[j] ? 0 : 1)});
        diagonal = above;
      }
    }
    if (row.back() < best) {
      best = row.back();
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  std::string found = nearest_word(word, known);
  return found.empty() ? "" : "; did you mean '" + found + "'?";
}

std::string counted(int64_t count, std::string_view one, std::string_view many) {
  std::string out =
      std::to_string(count) + " " + std::string(count == 1 || many.empty() ? one : many);
  return count != 1 && many.empty() ? out + "s" : out;
}

std::string with_article(std::string_view word) {
  const bool vowel =
      !word.empty() && std::string_view("aeiou").find(word[0]) != std::string_view::npos;
  return (vowel ? "an " : "a ") + std::string(word);
}

}  // namespace ir
}  // namespace mezzo
