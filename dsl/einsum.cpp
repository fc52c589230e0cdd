// SPDX-License-Identifier: Apache-2.0
// einsum: reads the equation, gives every axis of every operand a label, and takes the operands
// together two at a time.
#include <mezzo/dsl/linear_algebra.h>
#include <mezzo/dsl/movement.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

namespace mezzo {

using ir::Location;

namespace {

/// A letter, or for an axis of `...` its place from the right, below 0.
using Label = int;
using Labels = std::vector<Label>;

std::string label_text(Label label) {
  return label < 0 ? fmt::format("axis {} of '...'", label) : fmt::format("'{}'", char(label));
}

bool contains(const Labels& labels, Label label) { return std::ranges::count(labels, label) > 0; }

/// A tensor whose axes have labels.
struct Term {
  Tensor tensor;
  Labels labels;
};

class Einsum {
 public:
  Einsum(std::string_view equation, const Operands& operands)
      : equation_(equation), location_(operands.location()) {
    detail::Trace::require("einsum", location_);
    read(operands);
  }

  Tensor result() {
    for (size_t i = 0; i < terms_.size(); ++i) terms_[i] = simple(terms_[i], i);
    Term whole = terms_[0];
    for (size_t i = 1; i < terms_.size(); ++i) {
      whole = together(whole, terms_[i], i);
      whole = without_lone(whole, i);
    }
    return arranged(whole, output_).tensor;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const {
    throw UserError(location_, fmt::format("einsum: {} in \"{}\"", what, equation_), hint);
  }
  Operand at(const Tensor& tensor) const { return {tensor, location_}; }

  // --- the equation

  /// The letters of one operand or of the result, with `kDots` for `...`.
  static constexpr Label kDots = 0;
  Labels letters(std::string_view text) const {
    Labels labels;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == ' ') continue;
      if (text.substr(i).starts_with("...")) {
        if (contains(labels, kDots)) fail("'...' stands twice for one operand");
        labels.push_back(kDots);
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
        labels.push_back(c);
      } else {
        fail(fmt::format("'{}' is no label", c),
             "axes are named by letters; operands are parted by ',', the result by '->'");
      }
    }
    return labels;
  }

  void read(const Operands& operands) {
    const size_t arrow = equation_.find("->");
    std::string_view inputs = std::string_view(equation_).substr(0, arrow);
    std::vector<Labels> wanted;
    for (bool more = true; more;) {
      const size_t comma = inputs.find(',');
      wanted.push_back(letters(inputs.substr(0, comma)));
      more = comma != std::string_view::npos;
      if (more) inputs.remove_prefix(comma + 1);
    }
    if (wanted.size() != operands.size())
      fail(fmt::format("{} named, {} given",
                       ir::counted(std::ssize(wanted), "operand is", "operands are"),
                       operands.size()));
    for (size_t i = 0; i < wanted.size(); ++i) add_term(operands[i], wanted[i], i);
    if (arrow == std::string_view::npos)
      make_output();
    else
      read_output(std::string_view(equation_).substr(arrow + 2));
  }

  void add_term(const Operand& operand, const Labels& wanted, size_t number) {
    if (!operand.is_tensor()) fail(fmt::format("operand {} is no tensor", number));
    const bool dots = contains(wanted, kDots);
    const int named = static_cast<int>(wanted.size()) - (dots ? 1 : 0);
    const int rank = operand.rank();
    if (dots ? rank < named : rank != named)
      fail(fmt::format("operand {} of {} has {} for {}", number, to_string(operand.type()),
                       ir::counted(rank, "axis", "axes"), ir::counted(named, "label")));
    const int spread = rank - named;
    dots_ = std::max(dots_, spread);
    Term term{operand.tensor(), {}};
    for (Label label : wanted) {
      if (label != kDots) term.labels.push_back(label);
      for (int i = spread; label == kDots && i > 0; --i) term.labels.push_back(-i);
    }
    for (int axis = 0; axis < rank; ++axis) measure(term, axis, number);
    terms_.push_back(std::move(term));
  }

  /// All axes of a label have its length, or 1.
  void measure(const Term& term, int axis, size_t number) {
    const Label label = term.labels[static_cast<size_t>(axis)];
    const int64_t length = term.tensor.shape()[axis];
    auto [it, fresh] = lengths_.try_emplace(label, length, number);
    auto& [known, from] = it->second;
    if (fresh || known == length || length == 1) return;
    if (known != 1)
      fail(fmt::format("{} has length {} in operand {} and {} in operand {}", label_text(label),
                       known, from, length, number),
           "axes of one label are equal, or have length 1 and broadcast");
    it->second = {length, number};
  }

  /// What stands once, in alphabetical order behind `...`.
  void make_output() {
    std::map<Label, int> times;
    for (const Term& term : terms_)
      for (Label label : term.labels) ++times[label];
    for (const auto& [label, count] : times)
      if (label < 0 || count == 1) output_.push_back(label);
  }

  void read_output(std::string_view text) {
    const Labels wanted = letters(text);
    for (Label label : wanted) {
      if (label == kDots) {
        for (int i = dots_; i > 0; --i) output_.push_back(-i);
        continue;
      }
      if (contains(output_, label))
        fail(fmt::format("{} stands twice in the result", label_text(label)));
      if (!lengths_.contains(label))
        fail(fmt::format("{} of the result is in no operand", label_text(label)));
      output_.push_back(label);
    }
    if (dots_ > 0 && !contains(wanted, kDots))
      fail("the result lacks the '...' of the operands", "axes without a name are not summed over");
  }

  // --- one operand

  /// Needed by the result or by an operand behind number `done`.
  bool is_needed(Label label, size_t done) const {
    if (contains(output_, label)) return true;
    for (size_t i = done + 1; i < terms_.size(); ++i)
      if (contains(terms_[i].labels, label)) return true;
    return false;
  }

  /// Each label once, none that only this operand has and nobody needs.
  Term simple(Term term, size_t number) {
    for (size_t i = 0; i < term.labels.size(); ++i) {
      const auto again = std::ranges::find(term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                           term.labels.end(), term.labels[i]);
      if (again == term.labels.end()) continue;
      const Label label = term.labels[i];
      const int64_t other = again - term.labels.begin();
      // Where one of the two has length 1 it broadcasts along the other.
      const int first = static_cast<int>(i), second = static_cast<int>(other);
      if (term.tensor.shape()[first] != term.tensor.shape()[second]) {
        const int one = term.tensor.shape()[first] == 1 ? first : second;
        term.tensor = squeeze(at(term.tensor), one);
        term.labels.erase(term.labels.begin() + one);
      } else {
        term.tensor = mezzo::diagonal(at(term.tensor), 0, first, second);
        term.labels.erase(again);
        term.labels.erase(term.labels.begin() + first);
        term.labels.push_back(label);
      }
      i = static_cast<size_t>(-1);  // labels have moved: once more from the first
    }
    // What is longer elsewhere has no axis of its own here.
    for (size_t i = term.labels.size(); i-- > 0;) {
      const int axis = static_cast<int>(i);
      const bool broadcasts =
          term.tensor.shape()[axis] == 1 && lengths_.at(term.labels[i]).first != 1;
      if (!broadcasts) continue;
      term.tensor = squeeze(at(term.tensor), axis);
      term.labels.erase(term.labels.begin() + axis);
    }
    Axes lone;
    Labels kept;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      bool elsewhere = contains(output_, term.labels[i]);
      for (size_t other = 0; other < terms_.size(); ++other)
        elsewhere |= other != number && contains(terms_[other].labels, term.labels[i]);
      if (elsewhere)
        kept.push_back(term.labels[i]);
      else
        lone.push_back(static_cast<int64_t>(i));
    }
    if (lone.empty()) return term;
    return {sum(at(term.tensor), lone), kept};
  }

  /// Summed over what was needed by the operands up to number `done` alone.
  Term without_lone(const Term& term, size_t done) {
    Axes lone;
    Labels kept;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (is_needed(term.labels[i], done))
        kept.push_back(term.labels[i]);
      else
        lone.push_back(static_cast<int64_t>(i));
    }
    if (lone.empty()) return term;
    return {sum(at(term.tensor), lone), kept};
  }

  /// The axes in the order of `labels`, of length 1 where the term has none of that name.
  Term arranged(const Term& term, const Labels& labels) {
    Axes perm;
    Dims dims;
    for (Label label : labels) {
      const auto found = std::ranges::find(term.labels, label);
      if (found == term.labels.end()) {
        dims.push_back(1);
        continue;
      }
      perm.push_back(found - term.labels.begin());
      dims.push_back(term.tensor.shape()[static_cast<int>(perm.back())]);
    }
    Tensor tensor = term.tensor;
    if (!std::ranges::is_sorted(perm)) tensor = transpose(at(tensor), perm);
    if (perm.size() != labels.size()) tensor = reshape(at(tensor), dims);
    return {tensor, labels};
  }

  // --- two operands

  Term together(const Term& a, const Term& b, size_t done) {
    Labels batch, summed, left, right;
    for (Label label : a.labels) {
      if (!contains(b.labels, label))
        left.push_back(label);
      else
        (is_needed(label, done) ? batch : summed).push_back(label);
    }
    for (Label label : b.labels)
      if (!contains(a.labels, label)) right.push_back(label);
    const bool floats = ir::is_float(a.tensor.dtype()) && ir::is_float(b.tensor.dtype());
    if (summed.empty() || !floats || (left.empty() && right.empty()))
      return elementwise(a, b, joined({batch, left, right, summed}), summed);
    return product(a, b, batch, summed, left, right);
  }

  static Labels joined(std::initializer_list<Labels> lists) {
    Labels all;
    for (const Labels& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
  }

  Term elementwise(const Term& a, const Term& b, const Labels& labels, const Labels& summed) {
    const Tensor both = mul(at(arranged(a, labels).tensor), at(arranged(b, labels).tensor));
    if (summed.empty()) return {both, labels};
    const size_t kept = labels.size() - summed.size();
    Axes last;
    for (size_t i = kept; i < labels.size(); ++i) last.push_back(static_cast<int64_t>(i));
    return {sum(at(both), last), Labels(labels.begin(), labels.begin() + static_cast<long>(kept))};
  }

  int64_t elements(const Labels& labels) const {
    int64_t count = 1;
    for (Label label : labels) count *= lengths_.at(label).first;
    return count;
  }

  /// [batch, left, summed] times [batch, summed, right].
  Term product(const Term& a, const Term& b, const Labels& batch, const Labels& summed,
               const Labels& left, const Labels& right) {
    auto shaped = [&](const Term& term, const Labels& rows, const Labels& columns) {
      const Tensor tensor = arranged(term, joined({batch, rows, columns})).tensor;
      Dims dims;
      for (Label label : batch) dims.push_back(lengths_.at(label).first);
      dims.push_back(elements(rows));
      dims.push_back(elements(columns));
      return dims == Dims(tensor.shape()) ? tensor : reshape(at(tensor), dims);
    };
    const Tensor made = matmul(at(shaped(a, left, summed)), at(shaped(b, summed, right)));
    const Labels labels = joined({batch, left, right});
    Dims dims;
    for (Label label : labels) dims.push_back(lengths_.at(label).first);
    return {dims == Dims(made.shape()) ? made : reshape(at(made), dims), labels};
  }

  std::string equation_;
  Location location_;
  std::vector<Term> terms_;
  Labels output_;
  int dots_ = 0;                                         // most axes that `...` stands for
  std::map<Label, std::pair<int64_t, size_t>> lengths_;  // and the operand that has it
};

}  // namespace

Tensor einsum(std::string_view equation, Operands operands) {
  return Einsum(equation, operands).result();
}

}  // namespace mezzo
