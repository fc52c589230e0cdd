// SPDX-License-Identifier: Apache-2.0
#include <support/check_pattern.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace mezzo::test {

namespace {

std::bitset<256> only(char c) {
  std::bitset<256> set;
  set.set(static_cast<unsigned char>(c));
  return set;
}

std::bitset<256> parse_class(std::string_view text, size_t& at) {
  std::bitset<256> set;
  size_t start = at++;
  bool negated = at < text.size() && text[at] == '^';
  if (negated) ++at;
  while (at < text.size() && text[at] != ']') {
    if (text[at] == '\\' && at + 1 < text.size()) ++at;
    auto low = static_cast<unsigned char>(text[at++]);
    auto high = low;
    if (at + 1 < text.size() && text[at] == '-' && text[at + 1] != ']') {
      high = static_cast<unsigned char>(text[at + 1]);
      at += 2;
    }
    for (unsigned c = low; c <= high; ++c) set.set(c);
  }
  if (at == text.size())
    throw std::invalid_argument("no ']' after '" + std::string(text.substr(start)) + "'");
  ++at;
  return negated ? ~set : set;
}

}  // namespace

void CheckPattern::append(const Piece& piece) {
  for (Sequence& sequence : alternatives_) sequence.push_back(piece);
}

void CheckPattern::append_literal(char c) {
  Piece piece;
  piece.set = only(c);
  if (c == ' ' || c == '\t') {
    piece.set = only(' ') | only('\t');
    piece.most = std::numeric_limits<size_t>::max();
    const Sequence& last = alternatives_.back();
    if (!last.empty() && last.back().set == piece.set) return;  // a run of spaces is one piece
  }
  append(piece);
}

CheckPattern::Sequence CheckPattern::parse_branch(std::string_view expression, size_t& at) {
  Sequence branch;
  while (at < expression.size() && expression[at] != '|') {
    Piece piece;
    char c = expression[at];
    if (c == '[') {
      piece.set = parse_class(expression, at);
    } else if (c == '.') {
      piece.set.set();
      ++at;
    } else if (c == '\\' && at + 1 < expression.size()) {
      piece.set = only(expression[at + 1]);
      at += 2;
    } else if (std::string_view("*+?(){}^$\\").find(c) != std::string_view::npos) {
      throw std::invalid_argument(std::string("'") + c + "' in '" + std::string(expression) +
                                  "' has no meaning; write '\\" + c + "'");
    } else {
      piece.set = only(c);
      ++at;
    }
    piece.set.reset('\n');
    if (at < expression.size() &&
        std::string_view("*+?").find(expression[at]) != std::string_view::npos) {
      piece.least = expression[at] == '+' ? 1 : 0;
      piece.most = expression[at] == '?' ? 1 : std::numeric_limits<size_t>::max();
      ++at;
    }
    branch.push_back(piece);
  }
  return branch;
}

void CheckPattern::append_expression(std::string_view expression) {
  // Every branch continues every alternative so far; patterns are short.
  std::vector<Sequence> longer;
  for (size_t at = 0;; ++at) {
    Sequence branch = parse_branch(expression, at);
    for (Sequence sequence : alternatives_) {
      sequence.insert(sequence.end(), branch.begin(), branch.end());
      longer.push_back(std::move(sequence));
    }
    if (at >= expression.size()) break;
  }
  alternatives_ = std::move(longer);
}

CheckPattern::CheckPattern(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    bool expression = text.substr(at).starts_with("{{");
    if (!expression && !text.substr(at).starts_with("[[")) {
      append_literal(text[at++]);
      continue;
    }
    size_t end = text.find(expression ? "}}" : "]]", at + 2);
    // `]]]` closes a class and then the capture.
    while (end != std::string_view::npos && !expression && text.substr(end).starts_with("]]]"))
      ++end;
    if (end == std::string_view::npos)
      throw std::invalid_argument("'" + std::string(text.substr(at)) + "' is not closed");
    std::string_view inside = text.substr(at + 2, end - at - 2);
    at = end + 2;
    if (expression) {
      append_expression(inside);
      continue;
    }
    size_t colon = inside.find(':');
    Piece piece;
    piece.name = inside.substr(0, colon);
    if (piece.name.empty()) throw std::invalid_argument("a capture without a name");
    if (colon == std::string_view::npos) {
      piece.kind = Piece::Kind::Reference;
      append(piece);
      continue;
    }
    piece.kind = Piece::Kind::Open;
    append(piece);
    append_expression(inside.substr(colon + 1));
    piece.kind = Piece::Kind::Close;
    append(piece);
  }
  for (const Sequence& sequence : alternatives_)
    if (sequence.empty()) throw std::invalid_argument("an empty pattern matches everything");
}

/// One attempt: pieces are tried in order, the longest run of characters first.
struct CheckPattern::Run {
  std::string_view text;
  size_t limit;
  const Captures& known;
  Captures captured = {};
  std::map<std::string, size_t> open = {};

  std::optional<size_t> match(const Sequence& sequence, size_t index, size_t at) {
    if (index == sequence.size()) return at;
    const Piece& piece = sequence[index];
    switch (piece.kind) {
      case Piece::Kind::Open:
        open[piece.name] = at;
        return match(sequence, index + 1, at);
      case Piece::Kind::Close:
        captured[piece.name] = text.substr(open.at(piece.name), at - open.at(piece.name));
        return match(sequence, index + 1, at);
      case Piece::Kind::Reference: {
        const std::string& value = value_of(piece.name);
        if (!text.substr(at, limit - at).starts_with(value)) return std::nullopt;
        return match(sequence, index + 1, at + value.size());
      }
      case Piece::Kind::Characters:
        break;
    }
    size_t count = 0;
    while (count < piece.most && at + count < limit &&
           piece.set[static_cast<unsigned char>(text[at + count])])
      ++count;
    for (size_t n = count + 1; n-- > piece.least;)
      if (auto end = match(sequence, index + 1, at + n)) return end;
    return std::nullopt;
  }

  const std::string& value_of(const std::string& name) const {
    if (auto found = captured.find(name); found != captured.end()) return found->second;
    if (auto found = known.find(name); found != known.end()) return found->second;
    throw std::invalid_argument("'" + name + "' was not captured before");
  }
};

std::optional<CheckPattern::Match> CheckPattern::search(std::string_view text, size_t from,
                                                        size_t to, Captures& captures) const {
  for (size_t begin = from; begin < to; ++begin) {
    for (const Sequence& sequence : alternatives_) {
      Run run{.text = text, .limit = to, .known = captures};
      if (auto end = run.match(sequence, 0, begin)) {
        for (const auto& [name, value] : run.captured) captures[name] = value;
        return Match{begin, *end};
      }
    }
  }
  return std::nullopt;
}

}  // namespace mezzo::test
