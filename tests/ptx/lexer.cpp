// SPDX-License-Identifier: Apache-2.0
// The words of PTX. Comments vanish here; line directives end with their line and are cut by the
// parser, which sees the lines of the tokens.
#include <ptx/lexer.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace mezzo::ptx::detail {

namespace {

bool begins_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

bool in_word(char c) { return begins_word(c) || std::isdigit(static_cast<unsigned char>(c)); }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text), source_(text) {}

  std::vector<Token> run() {
    for (;;) {
      skip_blanks();
      if (at_ >= text_.size()) break;
      const size_t begin = at_;
      const char c = text_[at_];
      if (std::isdigit(static_cast<unsigned char>(c))) {
        while (at_ < text_.size() && in_word(text_[at_]) && text_[at_] != '$' && text_[at_] != '%')
          ++at_;
        add(Token::Kind::Number, begin, at_);
      } else if (begins_word(c)) {
        while (at_ < text_.size() && (in_word(text_[at_]) || text_.substr(at_, 2) == "::"))
          at_ += text_[at_] == ':' ? 2 : 1;
        add(Token::Kind::Word, begin, at_);
      } else if (c == '"') {
        const size_t end = text_.find('"', at_ + 1);
        if (end == std::string_view::npos) source_.error(line_, "a string without its end");
        add(Token::Kind::String, begin + 1, end);
        line_ += static_cast<int>(std::count(text_.begin() + begin, text_.begin() + end, '\n'));
        at_ = end + 1;
      } else {
        ++at_;
        add(Token::Kind::Punctuation, begin, at_);
      }
    }
    add(Token::Kind::End, text_.size(), text_.size());
    return std::move(tokens_);
  }

 private:
  void add(Token::Kind kind, size_t begin, size_t end) {
    tokens_.push_back({kind, text_.substr(begin, end - begin), line_});
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (std::isspace(static_cast<unsigned char>(c)) || c == '\0') {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.substr(at_, 2) == "/*") {
        const size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) source_.error(line_, "a comment without its end");
        line_ += static_cast<int>(std::count(text_.begin() + at_, text_.begin() + end, '\n'));
        at_ = end + 2;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  SourceText source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) { return Lexer(text).run(); }

SourceText::SourceText(std::string_view text) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines_.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::string SourceText::line(int line) const {
  if (line < 1 || line > static_cast<int>(lines_.size())) return {};
  std::string_view text = lines_[line - 1];
  const auto blank = [](char c) {
    return std::isspace(static_cast<unsigned char>(c)) || c == '\0';
  };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  std::string result(text);
  std::replace(result.begin(), result.end(), '\t', ' ');
  return result;
}

void SourceText::error(int line, const std::string& what) const {
  throw ParseError(fmt::format("ptx line {}: {} in `{}`", line, what, this->line(line)));
}

}  // namespace mezzo::ptx::detail
