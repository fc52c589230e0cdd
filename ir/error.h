// SPDX-License-Identifier: Apache-2.0
// The four classes of error, by whose fault it is. Texts start in lower case, name both values that
// disagree and end without a full stop; `note:` lines follow. A check without a message cannot be
// written.
#pragma once

#include <mezzo/ir/location.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo {

/// Base of every exception that Mezzo throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The program that uses Mezzo asked for something that cannot be. Text: `FILE:LINE: error: OP:
/// WHAT` and, if there is a hint, a line `note: HINT`.
class UserError : public Error {
 public:
  UserError(ir::Location location, const std::string& message, const std::string& hint = "");
  ir::Location location() const { return location_; }
  /// The sentence without place and notes.
  const std::string& message() const { return message_; }
  /// What to do, or "".
  const std::string& hint() const { return hint_; }

 private:
  ir::Location location_;
  std::string message_, hint_;
};

/// A text that cannot be read. Text: `NAME:LINE:COLUMN: error: WHAT`, the line, a caret under the
/// column.
class ParseError : public Error {
 public:
  /// `line` and `column` count from 1; `source_line` is the text of that line.
  ParseError(const std::string& name, int line, int column, const std::string& message,
             const std::string& source_line, const std::string& hint = "");
  int line() const { return line_; }
  int column() const { return column_; }

 private:
  int line_, column_;
};

/// A fault of Mezzo. Text: `internal error after pass 'P': WHAT (FILE:LINE)` and the path of a
/// reproducer, if written.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message, ir::Location ours = ir::Location::here());
};

/// The machine, a driver or a toolkit refused. The text says what was asked, what there is and what
/// to do.
class DeviceError : public Error {
 public:
  using Error::Error;
};

namespace ir {

/// The entry of `known` nearest to `word` (edit distance at most 2 and less than half its length),
/// or "".
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

/// "; did you mean 'x'?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// `1 result`, `3 results`: a count in a sentence; `many` where it is not `one` with an s.
std::string counted(int64_t count, std::string_view one, std::string_view many = "");
inline std::string counted(size_t count, std::string_view one, std::string_view many = "") {
  return counted(static_cast<int64_t>(count), one, many);
}
inline std::string counted(int count, std::string_view one, std::string_view many = "") {
  return counted(int64_t{count}, one, many);
}

/// `a rows kernel`, `an elementwise kernel`: the word with its article.
std::string with_article(std::string_view word);

}  // namespace ir

/// Our own invariant. The message is built only when the check fails.
#define MEZZO_CHECK(condition, message)      \
  do {                                       \
    if (!(condition)) [[unlikely]]           \
      throw ::mezzo::InternalError(message); \
  } while (false)

}  // namespace mezzo
