// SPDX-License-Identifier: Apache-2.0
#include <mezzo/passes/rewrite.h>

#include <mezzo/ir/error.h>

#include <algorithm>
#include <unordered_set>

namespace mezzo::passes {

using ir::Op;
using ir::Value;

// --- references in attributes

References::References(ir::Function& function) {
  for (Op& op : function.body()) {
    add(op);
    if (op.body())
      for (Op& inner : *op.body()) add(inner);
  }
}

void References::add(Op& op) {
  for (const auto& [name, attr] : op.attrs())
    if (attr.is<ir::ValueRef>()) holders_[attr.as<ir::ValueRef>().value].push_back(&op);
}

void References::replace(Value from, Value to) {
  auto it = holders_.find(from.def());
  if (it == holders_.end()) return;
  std::vector<Op*> holders = std::move(it->second);
  holders_.erase(it);
  for (Op* op : holders)
    for (auto& [name, attr] : op->attrs())
      if (attr == ir::Attr(ir::ValueRef{from.def()})) attr = ir::Attr(ir::ValueRef{to.def()});
  std::vector<Op*>& list = holders_[to.def()];
  list.insert(list.end(), holders.begin(), holders.end());
}

void References::drop(const Op& op) {
  for (const auto& [name, attr] : op.attrs()) {
    if (!attr.is<ir::ValueRef>()) continue;
    auto it = holders_.find(attr.as<ir::ValueRef>().value);
    if (it == holders_.end()) continue;
    std::erase(it->second, &op);
    if (it->second.empty()) holders_.erase(it);
  }
}

bool is_removable(const Op& op, const References& references) {
  if (op.info().has(ir::Trait::Effect) || op.info().has(ir::Trait::Terminator)) return false;
  for (int i = 0; i < op.num_results(); ++i)
    if (!op.result(i).unused() || references.has(op.result(i))) return false;
  return true;
}

// --- rules

ir::Builder Rewriter::builder(Op& op) const {
  ir::Builder builder(&op);
  builder.derive_from(&op);
  return builder;
}

void Rewriter::replace(Op& op, Value with) { replace(op, std::span<const Value>(&with, 1)); }

void Rewriter::replace(Op& op, std::span<const Value> with) {
  MEZZO_CHECK(static_cast<int>(with.size()) == op.num_results(), "one value a result");
  for (int i = 0; i < op.num_results(); ++i) {
    Value old = op.result(i), now = with[static_cast<size_t>(i)];
    MEZZO_CHECK(old.type() == now.type(), std::string("a rule replaced '") + op.info().name +
                                              "' of type " + to_string(old.type()) +
                                              " by a value of type " + to_string(now.type()));
    // The user's name of the value outlives the op.
    if (now.name().empty() && now.op()) now.set_name(old.name());
    references_.replace(old, now);
    for (Op* user : old.users()) touched_.push_back(user);
    old.replace_all_uses_with(now);
  }
}

void Rewriter::set_operand(Op& op, int index, Value value) {
  if (Op* maker = op.operand(index).op()) touched_.push_back(maker);
  op.set_operand(index, value);
}

// --- the driver

namespace {

/// Ops to look at, each at most once at a time; erased ops are forgotten.
class Worklist {
 public:
  void push(Op* op) {
    if (op && queued_.insert(op).second) stack_.push_back(op);
  }
  Op* pop() {
    while (!stack_.empty()) {
      Op* op = stack_.back();
      stack_.pop_back();
      if (queued_.erase(op)) return op;
    }
    return nullptr;
  }
  void forget(Op* op) { queued_.erase(op); }

 private:
  std::vector<Op*> stack_;
  std::unordered_set<Op*> queued_;
};

}  // namespace

bool rewrite(ir::Region& region, std::span<const RewriteRule> rules, bool differentiated) {
  References references(*region.function());
  Rewriter rewriter(references, differentiated);
  Worklist worklist;
  // The stack gives the first op first, so that operands are simple before their readers are seen.
  for (Op* op = region.back(); op; op = op->previous()) worklist.push(op);
  bool changed = false;
  while (Op* op = worklist.pop()) {
    if (op->region() != &region) continue;
    if (is_removable(*op, references)) {
      for (Value operand : op->operands()) worklist.push(operand.op());
      worklist.forget(op);
      references.drop(*op);
      op->erase();
      changed = true;
      continue;
    }
    Op* before = op->previous();
    bool fired = std::any_of(rules.begin(), rules.end(),
                             [&](RewriteRule rule) { return rule(*op, rewriter); });
    if (!fired) continue;
    changed = true;
    for (Op* touched : rewriter.touched_) worklist.push(touched);
    rewriter.touched_.clear();
    for (int i = 0; i < op->num_results(); ++i)
      for (Op* user : op->result(i).users()) worklist.push(user);
    worklist.push(op);
    for (Op* made = op->previous(); made != before; made = made->previous()) worklist.push(made);
  }
  return changed;
}

}  // namespace mezzo::passes
