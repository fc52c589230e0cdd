// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/error.h>

#include <algorithm>
#include <numeric>

namespace mezzo {

namespace {

std::string note(const std::string& hint) { return hint.empty() ? "" : "\nnote: " + hint; }

std::string caret_line(const std::string& source_line, int column) {
  // Tabs are kept, so that the caret stands under its column however wide a tab is shown.
  std::string out;
  for (int i = 0; i + 1 < column; ++i)
    out += i < static_cast<int>(source_line.size()) && source_line[static_cast<size_t>(i)] == '\t'
               ? '\t'
               : ' ';
  return out + "^";
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
    : Error(name + ":" + std::to_string(line) + ":" + std::to_string(column) + ": error: " +
            message + "\n" + source_line + "\n" + caret_line(source_line, column) + note(hint)),
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

}  // namespace ir
}  // namespace mezzo
