// SPDX-License-Identifier: Apache-2.0
// Writes source text with indentation: what every back end that prints a language uses.
#pragma once

#include <string>
#include <string_view>

namespace mezzo::codegen {

class SourceWriter {
 public:
  /// Lines start after `indent` blanks.
  explicit SourceWriter(int indent = 0) : indent_(indent) {}

  /// One line; an empty one stays without blanks.
  void line(std::string_view text);
  /// `head {` and one step further in.
  void open(std::string_view head);
  /// One step back and `}`, then `tail` on the same line.
  void close(std::string_view tail = "");
  /// Text of whole lines that are indented already.
  void append(std::string_view lines) { text_ += lines; }

  int indent() const { return indent_; }
  /// What was written, for appending by others at `indent()`.
  std::string& text() { return text_; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int indent_;
};

}  // namespace mezzo::codegen
