// SPDX-License-Identifier: Apache-2.0
// Lines, blocks and their indentation.
#include <mezzo/codegen/source_writer.h>

#include <mezzo/ir/error.h>

namespace mezzo::codegen {

namespace {

constexpr int kStep = 2;

}  // namespace

void SourceWriter::line(std::string_view text) {
  if (!text.empty()) text_.append(static_cast<size_t>(indent_), ' ').append(text);
  text_ += '\n';
}

void SourceWriter::open(std::string_view head) {
  line(head.empty() ? "{" : std::string(head) + " {");
  indent_ += kStep;
}

void SourceWriter::close(std::string_view tail) {
  MEZZO_CHECK(indent_ >= kStep, "a block is closed that was never opened");
  indent_ -= kStep;
  line("}" + std::string(tail));
}

}  // namespace mezzo::codegen
