// SPDX-License-Identifier: Apache-2.0
// The search goes backwards once for the values that indices depend on, then forwards as the
// interpreter does, through kernels too, over those values alone.
#include <mezzo/ir/index_fault.h>

#include <mezzo/ir/interpreter_ops.h>
#include <mezzo/ir/kernel_region.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace mezzo::ir {

namespace {

/// A loss over class indices, or the check that one became.
bool checks_labels(const Op& op) {
  return op.kind() == OpKind::CrossEntropy || op.kind() == OpKind::CrossEntropyGrad ||
         op.kind() == OpKind::Nll ||
         (op.kind() == OpKind::CheckIndex && op.attrs().has("ignore_index"));
}

/// The operand whose elements `op` checks; none where it checks nothing.
std::optional<Value> checked_operand(const Op& op) {
  if (op.kind() == OpKind::CheckIndex) return op.operand(0);
  if (may_set_range_flag(op) || checks_labels(op)) return op.operand(1);
  return std::nullopt;
}

/// Length of the axis that the op indexes; 0 of a division.
int64_t checked_size(const Op& op) {
  if (op.kind() == OpKind::CheckIndex) return op.int_attr("size");
  if (divides_integers(op)) return 0;
  const Shape& shape = op.operand(0).shape();
  return checks_labels(op) ? shape[shape.rank() - 1] : shape[static_cast<int>(op.int_attr("axis"))];
}

/// Whether every device computes the same bits.
bool is_certain(const Op& op) {
  const auto floats = [](Value value) { return is_float(value.dtype()); };
  return op.info().has(Trait::Exact) || op.kind() == OpKind::Cast ||
         std::ranges::none_of(op.results(), floats);
}

class Search {
 public:
  Search(const Module& module, const Function& function)
      : execution_{module, function, options_, {}, {}, false} {
    options_.resource = [&](const std::string& name, const Type&) {
      return from_bytes(module.resource(name)->type, module.resource(name)->bytes);
    };
    execution_.words.resize(static_cast<size_t>(largest_word(function.body()) + 1));
  }

  std::optional<IndexFault> run(const ParameterReader& read) {
    const Region& body = execution_.function.body();
    want(body);
    for (int i = 0; i < body.num_parameters(); ++i) {
      if (!is_wanted(body.parameter(i))) continue;
      if (std::optional<InterpreterTensor> value = read(i))
        execution_.values[body.parameter(i).def()] = std::move(*value);
    }
    if (!visit(body)) return found_;
    return one_suspect();
  }

 private:
  bool is_wanted(Value value) const { return wanted_.contains(value.def()); }
  bool is_known(Value value) const { return execution_.find(value) != nullptr; }

  void want(const Region& region) {
    for (const Op* op = region.back(); op; op = op->previous()) {
      if (const Region* body = op->body()) {
        for (int i = 0; i < op->num_results(); ++i)
          if (is_wanted(op->result(i))) wanted_.insert(body->terminator()->operand(i).def());
        want(*body);
        for (int i = 0; i < body->num_parameters(); ++i)
          if (is_wanted(body->parameter(i))) wanted_.insert(op->operand(i).def());
        continue;
      }
      if (const std::optional<Value> checked = checked_operand(*op)) wanted_.insert(checked->def());
      const auto results = op->results();
      if (!is_certain(*op) ||
          std::ranges::none_of(results, [&](Value value) { return is_wanted(value); }))
        continue;
      for (Value operand : op->operands()) wanted_.insert(operand.def());
    }
  }

  /// False when a fault was found.
  bool visit(const Region& region) {
    for (const Op& op : region) {
      if (const Region* body = op.body()) {
        hand_over(op.operands(), body->parameters());
        if (!visit(*body)) return false;
        hand_over(body->terminator()->operands(), op.results());
        continue;
      }
      if (!check(op)) return false;
      compute(op);
    }
    return true;
  }

  /// `to[i]` is another name of `from[i]`.
  void hand_over(const auto& from, const auto& to) {
    auto source = from.begin();
    for (Value value : to) {
      if (is_wanted(value) && is_known(*source))
        execution_.values[value.def()] = execution_.get(*source);
      ++source;
    }
  }

  bool check(const Op& op) {
    const std::optional<Value> checked = checked_operand(op);
    if (!checked) return true;
    const int64_t size = checked_size(op);
    if (!is_known(*checked)) {
      suspects_.push_back({&op, std::nullopt, size});
      return true;
    }
    const bool labels = checks_labels(op);
    const bool divides = divides_integers(op);
    for (int64_t index : execution_.get(*checked).integers) {
      if (divides ? index != 0 : index >= 0 && index < size) continue;
      if (labels && index == op.int_attr("ignore_index")) continue;
      found_ = IndexFault{&op, index, size};
      if (divides) found_->index.reset();
      return false;
    }
    return true;
  }

  void compute(const Op& op) {
    const auto results = op.results();
    if (!is_certain(op) ||
        std::ranges::none_of(results, [&](Value value) { return is_wanted(value); }))
      return;
    if (op.kind() == OpKind::Constant && !has_data(op)) return;
    if (std::ranges::all_of(op.operands(), [&](Value value) { return is_known(value); }))
      execution_.run_op(op);
  }

  bool has_data(const Op& constant) const {
    const Attr& value = *constant.attrs().find("value");
    return !value.is<Resource>() || execution_.module.resource(value.as<Resource>().name);
  }

  /// The only op of the program, whatever copies of it there are, that can have raised the flag.
  std::optional<IndexFault> one_suspect() const {
    if (suspects_.empty()) return std::nullopt;
    const IndexFault& first = suspects_.front();
    for (const IndexFault& other : suspects_)
      if (other.text() != first.text() || !(other.location() == first.location()))
        return std::nullopt;
    return first;
  }

  RunOptions options_;
  Execution execution_;
  std::unordered_set<const ValueDef*> wanted_;
  std::vector<IndexFault> suspects_;  // whose indices are not known
  std::optional<IndexFault> found_;
};

}  // namespace

const char* IndexFault::name() const {
  return op->origin().name ? op->origin().name : op->info().name;
}

Location IndexFault::location(const Location& otherwise) const {
  const Location& own = op->origin().location.known() ? op->origin().location : op->location();
  return own.known() ? own : otherwise;
}

std::string IndexFault::text() const {
  const std::string start = std::string(name()) + ": ";
  if (divides_integers(*op)) return start + "an integer is divided by 0";
  const bool labels = checks_labels(*op);
  const std::string what = index ? (labels ? "label " : "index ") + std::to_string(*index)
                                 : std::string(labels ? "a label" : "an index");
  return start + what + " is out of range for " +
         (labels ? counted(size, "class", "classes") : "size " + std::to_string(size));
}

std::string IndexFault::remedy() const {
  if (divides_integers(*op)) return "divisors of floor_div and remainder must not be 0";
  return std::string(checks_labels(*op) ? "labels" : "indices") + " must lie in [0, " +
         std::to_string(size) + "); nothing wraps around";
}

std::optional<IndexFault> find_index_fault(const Module& module, const Function& function,
                                           const ParameterReader& read) {
  return Search(module, function).run(read);
}

}  // namespace mezzo::ir
