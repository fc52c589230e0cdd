// SPDX-License-Identifier: Apache-2.0
#include <support/check_text.h>

#include <support/check_pattern.h>

#include <algorithm>
#include <stdexcept>

namespace mezzo::test {

namespace {

enum class Kind { Plain, Next, Same, Not, Label };

struct Directive {
  Kind kind;
  int line;           // of the specification, from 1
  std::string shown;  // `CHECK-NEXT: P`
  CheckPattern pattern;
};

std::string quoted(std::string_view word) { return "'" + std::string(word) + "'"; }

std::string_view trimmed(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

/// The failure that check_text returns as text.
[[noreturn]] void fail(int line, const std::string& what) {
  throw std::invalid_argument("specification line " + std::to_string(line) + ": " + what);
}

void parse_line(std::string_view line, int number, std::vector<Directive>& out) {
  constexpr std::string_view kWord = "CHECK";
  size_t at = line.find(kWord);
  if (at == std::string_view::npos || (at > 0 && is_word(line[at - 1]))) return;
  size_t end = at;
  while (end < line.size() && is_word(line[end])) ++end;
  if (end == line.size() || line[end] != ':') return;
  std::string_view suffix = line.substr(at + kWord.size(), end - at - kWord.size());
  constexpr std::pair<std::string_view, Kind> kSuffixes[] = {{"", Kind::Plain},
                                                             {"-NEXT", Kind::Next},
                                                             {"-SAME", Kind::Same},
                                                             {"-NOT", Kind::Not},
                                                             {"-LABEL", Kind::Label}};
  for (const auto& [known, kind] : kSuffixes) {
    if (suffix != known) continue;
    try {
      out.push_back({kind, number, std::string(trimmed(line.substr(at))),
                     CheckPattern(trimmed(line.substr(end + 1)))});
    } catch (const std::invalid_argument& error) {
      fail(number, error.what());
    }
    return;
  }
  fail(number, "unknown directive " + quoted(line.substr(at, end - at)) +
                   "; known are CHECK, CHECK-NEXT, CHECK-SAME, CHECK-NOT, CHECK-LABEL");
}

std::vector<Directive> parse(std::string_view spec) {
  std::vector<Directive> out;
  int number = 1;
  for (size_t at = 0; at < spec.size(); ++number) {
    size_t end = std::min(spec.find('\n', at), spec.size());
    parse_line(spec.substr(at, end - at), number, out);
    at = end + 1;
  }
  if (out.empty()) throw std::invalid_argument("the specification has no CHECK line");
  return out;
}

size_t line_end(std::string_view text, size_t at) {
  return std::min(text.find('\n', at), text.size());
}

/// The line of `text` around `from` and up to seven lines after it.
std::string excerpt(std::string_view text, size_t from) {
  if (from >= text.size()) return "(the end of the text)\n";
  size_t begin = from == 0 ? 0 : text.rfind('\n', from - 1) + 1;
  std::string out;
  for (int lines = 0; lines < 8 && begin < text.size(); ++lines) {
    size_t end = line_end(text, begin);
    out.append("  | ").append(text.substr(begin, end - begin)).append("\n");
    begin = end + 1;
  }
  return out;
}

/// Walks the directives over the text.
class Checker {
 public:
  Checker(std::string_view text, std::string_view spec) : text_(text), directives_(parse(spec)) {}

  void run() {
    // Labels first: they bound what the directives between them can match.
    std::vector<CheckPattern::Match> labels;
    size_t from = 0;
    for (const Directive& directive : directives_) {
      if (directive.kind != Kind::Label) continue;
      labels.push_back(find(directive, from, text_.size()));
      from = labels.back().end;
    }
    size_t next_label = 0;
    limit_ = labels.empty() ? text_.size() : labels[0].begin;
    for (const Directive& directive : directives_) {
      if (directive.kind == Kind::Label) {
        reject_between(at_, limit_);
        at_ = labels[next_label++].end;
        limit_ = next_label < labels.size() ? labels[next_label].begin : text_.size();
        matched_ = true;
      } else {
        step(directive);
      }
    }
    reject_between(at_, limit_);
  }

 private:
  void step(const Directive& directive) {
    if (directive.kind == Kind::Not) {
      rejected_.push_back(&directive);
      return;
    }
    size_t from = at_;
    size_t to = limit_;
    if (directive.kind != Kind::Plain) {
      if (!matched_) fail(directive.line, quoted(directive.shown) + " follows no match");
      if (directive.kind == Kind::Next) from = std::min(line_end(text_, at_) + 1, limit_);
      to = std::min(line_end(text_, from), limit_);
    }
    CheckPattern::Match match = find(directive, from, to);
    reject_between(at_, match.begin);
    at_ = match.end;
    matched_ = true;
  }

  CheckPattern::Match find(const Directive& directive, size_t from, size_t to) {
    if (auto match = search(directive, from, to)) return *match;
    fail(directive.line, quoted(directive.shown) + " does not match" + values() +
                             " from here on:\n" + excerpt(text_, from));
  }

  void reject_between(size_t from, size_t to) {
    for (const Directive* directive : rejected_)
      if (auto match = search(*directive, from, to))
        fail(directive->line, quoted(directive->shown) + " matches" + values() + " here:\n" +
                                  excerpt(text_, match->begin));
    rejected_.clear();
  }

  std::optional<CheckPattern::Match> search(const Directive& directive, size_t from, size_t to) {
    try {
      return directive.pattern.search(text_, from, to, captures_);
    } catch (const std::invalid_argument& error) {
      fail(directive.line, error.what());
    }
  }

  std::string values() const {
    std::string out;
    for (const auto& [name, value] : captures_)
      out += (out.empty() ? " (" : ", ") + name + " = " + value;
    return out.empty() ? out : out + ")";
  }

  std::string_view text_;
  std::vector<Directive> directives_;
  std::vector<const Directive*> rejected_;  // CHECK-NOT lines since the last match
  CheckPattern::Captures captures_;
  size_t at_ = 0;
  size_t limit_ = 0;
  bool matched_ = false;
};

}  // namespace

std::string check_text(std::string_view text, std::string_view spec) {
  try {
    Checker(text, spec).run();
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

}  // namespace mezzo::test
