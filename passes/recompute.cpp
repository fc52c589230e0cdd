// SPDX-License-Identifier: Apache-2.0
// Lets the backward pass read what is in memory anyway instead of keeping more.
//
// clang-format off
//   before                                               after
//     %a = mul %x, %c : tensor<4xf32>                      %a = mul %x, %c : tensor<4xf32>
//     %y = relu %p : tensor<4xf32>                         %y = relu %p : tensor<4xf32>
//     %m = gt %p, %zero {role = "backward"} : ...          %m = gt %y, %zero {role = "backward"} : ...
//     %g = mul %a, %dy {role = "backward"} : ...           %0 = mul %x, %c {replica = 1} : tensor<4xf32>
//                                                          %g = mul %0, %dy {role = "backward"} : ...
// clang-format on
//
// Three rules. (1) relu(p) > 0 exactly when p > 0, NaN included, so the mask of relu reads the
// output, which the next layer keeps, where it stands before the mask, and p need not be stored.
// (2) An exact elementwise op on parameters, inputs and constants alone is cloned for its backward
// readers: its operands live through the whole step, so the clone moves no byte more than a stored
// copy. (3) What the ops of a `checkpoint` region make and only they and the backward pass read is
// not kept: clones of the ops behind it stand before the first backward op that reads any of it.
// What the region gives to the rest of the forward pass, and what it was given, is kept.
//
//   before                                               after
//     %h = tanh %x {checkpoint = 1} : ...                  %h = tanh %x {checkpoint = 1} : ...
//     %y = tanh %h {checkpoint = 1} : ...                  %y = tanh %h {checkpoint = 1} : ...
//     ...                                                  ...
//     %s = square %h {role = "backward"} : ...             %0 = tanh %x {checkpoint = 1, replica =
//     1} : ...
//                                                          %s = square %0 {role = "backward"} : ...
//
// This is the only pass that clones; clones repeat the rounding of the original.
#include <mezzo/ir/builder.h>
#include <mezzo/passes/pass.h>

#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace mezzo::passes {

using namespace ir;

namespace {

bool is_backward(const Op& op) { return op.role() == "backward"; }

/// Where the ops of a function stand before the pass adds any.
using Order = std::unordered_map<const Op*, size_t>;

Order order_of(const Function& function) {
  Order order;
  for (const Op& op : function.body()) order.emplace(&op, order.size());
  return order;
}

/// gt(p, 0) with a relu(p) before it.
bool read_relu_output(Op& op, const Order& order) {
  if (op.kind() != OpKind::Gt || !is_backward(op)) return false;
  std::optional<double> zero = splat_value(op.operand(1));
  Value input = op.operand(0);
  if (!zero || *zero != 0) return false;
  for (Op* user : input.users())
    if (user->kind() == OpKind::Relu && !is_backward(*user)) {
      auto relu = order.find(user);  // a clone has no number; it stands for backward readers alone
      if (relu == order.end() || relu->second > order.at(&op)) continue;
      op.set_operand(0, user->result());
      return true;
    }
  return false;
}

bool lives_through_the_step(Value value) {
  while (!value.is_parameter() && is_view(value.op()->kind())) value = value.op()->operand(0);
  return value.is_parameter() || value.is(OpKind::Constant);
}

bool is_cheap(const Op& op) {
  if (!is_elementwise(op.kind()) || !op.info().has(Trait::Exact) || is_backward(op)) return false;
  if (op.attrs().has("replica")) return false;
  for (Value operand : op.operands())
    if (!lives_through_the_step(operand)) return false;
  return true;
}

bool clone_for_backward(Op& op, const Order& order) {
  if (!is_cheap(op)) return false;
  std::vector<Use*> backward;
  bool forward = false;
  for (Use* use = op.result().def()->uses; use; use = use->next) {
    if (is_backward(*use->user))
      backward.push_back(use);
    else
      forward = true;
  }
  if (backward.empty() || !forward) return false;
  Op* place = backward.front()->user;  // the first backward reader
  for (Use* use : backward)
    if (order.at(use->user) < order.at(place)) place = use->user;
  ValueMap map;
  Op* copy = clone_op(op, *op.region(), place, map);
  copy->attrs().set("replica", 1);
  for (Use* use : backward) use->user->set_operand(use->index, copy->result());
  return true;
}

// --- checkpoint regions

/// The ops of one region in program order.
class CheckpointRegion {
 public:
  void add(Op& op) { ops_.push_back(&op); }

  bool recompute(const Order& order) {
    find_dropped();
    Op* place = nullptr;
    for (Op* op : ops_) {
      if (!dropped_.contains(op)) continue;
      for (Op* user : op->result().users())
        if (is_backward(*user) && (!place || order.at(user) < order.at(place))) place = user;
    }
    if (!place) return false;
    ValueMap map;
    for (Op* op : behind_backward()) {
      // Operands that are kept stand for themselves.
      for (Value operand : op->operands()) map.try_emplace(operand.def(), operand);
      clone_op(*op, *op->region(), place, map)->attrs().set("replica", 1);
    }
    for (Op* op : ops_) {
      auto copy = map.find(op->result().def());
      if (!dropped_.contains(op) || copy == map.end() || copy->second == op->result()) continue;
      for (Op* user : op->result().users())
        if (is_backward(*user))
          for (int i = 0; i < user->num_operands(); ++i)
            if (user->operand(i) == op->result()) user->set_operand(i, copy->second);
    }
    return true;
  }

 private:
  /// What only this region and the backward pass read; a constant is in no memory.
  void find_dropped() {
    const std::unordered_set<const Op*> inside(ops_.begin(), ops_.end());
    for (Op* op : ops_) {
      if (op->kind() == OpKind::Constant || op->num_results() != 1) continue;
      const bool stays_inside = op->result().visit_users(
          [&](const Op& user) { return inside.contains(&user) || is_backward(user); });
      if (stays_inside) dropped_.insert(op);
    }
  }

  /// The dropped ops that backward ops read, and those of them that these need, in program order.
  std::vector<Op*> behind_backward() const {
    std::unordered_set<const Op*> needed;
    for (auto it = ops_.rbegin(); it != ops_.rend(); ++it) {
      if (!dropped_.contains(*it)) continue;
      const bool nobody = (*it)->result().visit_users(
          [&](const Op& user) { return !is_backward(user) && !needed.contains(&user); });
      if (!nobody) needed.insert(*it);
    }
    std::vector<Op*> out;
    for (Op* op : ops_)
      if (needed.contains(op)) out.push_back(op);
    return out;
  }

  std::vector<Op*> ops_;
  std::unordered_set<const Op*> dropped_;
};

bool recompute_regions(Function& function, const Order& order) {
  std::map<int64_t, CheckpointRegion> regions;
  for (Op& op : function.body())
    if (op.attrs().has("checkpoint") && op.role() == "forward" && order.contains(&op))
      regions[op.attrs().get_int("checkpoint")].add(op);
  bool changed = false;
  for (auto& [number, region] : regions) changed |= region.recompute(order);
  return changed;
}

}  // namespace

bool recompute(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& function : module.functions()) {
    Order order = order_of(*function);
    for (Op& op : function->body()) {
      if (!order.contains(&op)) continue;
      changed |= read_relu_output(op, order);
      changed |= clone_for_backward(op, order);
    }
    changed |= recompute_regions(*function, order);
  }
  return changed;
}

}  // namespace mezzo::passes
