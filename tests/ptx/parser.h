// SPDX-License-Identifier: Apache-2.0
// Reads PTX: module-level declarations here, bodies of kernels with scopes in body_parser.h.
#pragma once

#include <map>
#include <optional>
#include <ptx/builder.h>
#include <set>

namespace mezzo::ptx::detail {

/// A declared variable: `.align 4 .b8 name[16]`.
struct Declaration {
  std::string_view name;
  Type element;
  uint64_t bytes = 0;  // 0: an array without a size
  uint32_t alignment = 1;
};

/// A function that kernels may call; its body is read again at each call.
struct Function {
  std::vector<Declaration> parameters, results;
  size_t body = 0;  // token behind its `{`; 0 where it has none
};

/// A position in the tokens, and what every part of the grammar needs.
class TokenReader {
 public:
  TokenReader(const std::vector<Token>& tokens, const SourceText& source)
      : tokens_(tokens), source_(source) {}

  const Token& peek(size_t ahead = 0) const;
  Token next();
  bool at(std::string_view text, size_t ahead = 0) const;
  bool take(std::string_view text);
  void expect(std::string_view text);
  Token expect_word();
  size_t position() const { return at_; }
  void go_to(size_t position) { at_ = position; }
  /// To the `}` that belongs to the `{` just read.
  void skip_braces();
  /// What follows on the line of `token`.
  void skip_line(int line);
  [[noreturn]] void error(const std::string& what) const;
  [[noreturn]] void error(int line, const std::string& what) const { source_.error(line, what); }

  /// A literal as an operand of kind Integer, F32 or F64.
  Operand number();
  /// An integer that is not negative.
  uint64_t integer();
  /// `.align 4 .b8 name[16]`, also `.ptr .global .align 16` of parameters.
  Declaration declaration();

 private:
  const std::vector<Token>& tokens_;
  const SourceText& source_;
  size_t at_ = 0;
};

/// What a body can refer to outside of itself.
struct ModuleNames {
  std::map<std::string_view, Operand> variables;   // .global and .const
  std::map<std::string_view, Declaration> shared;  // .shared outside of bodies
  std::map<std::string_view, Function> functions;
  std::map<int, std::string> files;
};

/// Fills in `module`, whose memory is set. Throws ParseError.
void parse_module(std::string_view text, ModuleData& module);

}  // namespace mezzo::ptx::detail
