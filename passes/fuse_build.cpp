// SPDX-License-Identifier: Apache-2.0
// The last step of `fuse`: groups become kernel ops with regions.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/passes/fuse_groups.h>

#include <set>

namespace mezzo::passes {

using namespace ir;

FuseGraph::Prepared FuseGraph::prepare(const std::vector<int>& nodes) const {
  Prepared out{{}, outputs_of(nodes), Family::Optimizer};
  const Group& group = groups_[static_cast<size_t>(group_of(nodes.front()))];
  std::set<int> shared;  // copied once, for every segment
  for (const std::vector<int>& segment : group.segments) {
    out.segments.push_back(closure(segment));
    std::erase_if(out.segments.back(),
                  [&](int node) { return !is_private(node) && !shared.insert(node).second; });
  }
  if (!out.segments.empty()) return out;
  out.segments.push_back(closure(nodes));
  std::optional<Classified> classified = classify(ops_of(out.segments[0]), out.outputs);
  MEZZO_CHECK(classified,
              "a group that no family takes, at '" +
                  std::string(nodes_[static_cast<size_t>(nodes.front())].op->info().name) + "'");
  out.family = classified->family;
  return out;
}

/// What is inlined is made anew in each segment, which runs along axes of its own. Constants have
/// none, nor have scalars, unless they are read off a larger value.
bool FuseGraph::is_private(int node) const {
  const Node* each = &nodes_[static_cast<size_t>(node)];
  while (each->role == Role::Inlined && each->op->kind() != OpKind::Constant) {
    if (each->op->result().type().elements() != 1) return true;
    if (each->op->num_operands() == 0 || each->op->operand(0).is_parameter()) return false;
    each = &nodes_[static_cast<size_t>(node_of(each->op->operand(0).op()))];
  }
  return false;
}

std::vector<Value> FuseGraph::inputs_of(std::span<const int> nodes) const {
  std::set<const Op*> inside;
  for (int node : nodes) inside.insert(nodes_[static_cast<size_t>(node)].op);
  std::vector<Value> inputs;
  std::set<const ValueDef*> seen;
  for (int node : nodes)
    for (Value value : nodes_[static_cast<size_t>(node)].op->operands())
      if ((value.is_parameter() || !inside.contains(value.op())) && seen.insert(value.def()).second)
        inputs.push_back(value);
  return inputs;
}

void FuseGraph::build_kernel(const Prepared& prepared, Op* place, const std::string& name) {
  const auto& [segments, outputs, family] = prepared;
  std::set<int> nodes;
  for (const std::vector<int>& segment : segments) nodes.insert(segment.begin(), segment.end());
  const std::vector<int> all(nodes.begin(), nodes.end());
  const std::vector<Value> inputs = inputs_of(all);
  std::vector<Type> types;
  for (Value value : outputs) types.push_back(value.type());
  Module& module = *function_.module();
  const Op& anchor = *nodes_[static_cast<size_t>(*all.rbegin())].op;
  Attrs attrs{{"family", to_string(family)}};
  Op* kernel = module.make_op(OpKind::Kernel, inputs, types, std::move(attrs), anchor.location());
  kernel->set_origin(anchor.origin());
  kernel->set_kernel_name(name);
  Module::insert_before(place, kernel);
  Region* body = module.make_body(kernel);
  ValueMap map;
  for (Value value : inputs) map[value.def()] = body->add_parameter(value.type(), value.name());
  for (const std::vector<int>& segment : segments)
    for (int node : segment) {
      Op* op = nodes_[static_cast<size_t>(node)].op;
      Op* copy = clone_op(*op, *body, nullptr, map);
      if (nodes_[static_cast<size_t>(node)].role == Role::Inlined && op->num_operands() > 0)
        if (int replica = copies_[op]++; replica > 0) copy->attrs().set("replica", replica);
    }
  std::vector<Value> yields;
  for (Value value : outputs) yields.push_back(map.at(value.def()));
  Module::append(*body, module.make_op(OpKind::Yield, yields, {}, {}, anchor.location()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value result = kernel->result(static_cast<int>(i));
    result.set_name(outputs[i].name());
    outputs[i].replace_all_uses_with(result);
  }
}

bool FuseGraph::build() {
  std::vector<std::vector<int>> units = order_units();
  bool any = false;
  for (const Node& node : nodes_) any |= node.role == Role::Grouped;
  if (!any) return false;
  // Read off the graph before it is taken apart.
  std::vector<Prepared> prepared;
  for (const std::vector<int>& unit : units)
    prepared.push_back(
        nodes_[static_cast<size_t>(unit.front())].role == Role::Body ? Prepared{} : prepare(unit));
  // The return keeps its place at the end; everything else is laid out before it in the new order.
  Op* end = function_.body().terminator();
  int number = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    const Node& first = nodes_[static_cast<size_t>(units[i].front())];
    if (first.role == Role::Body) {
      if (first.op != end) first.op->move_before(end);
    } else {
      build_kernel(prepared[i], end, "k" + std::to_string(number++));
    }
  }
  // What stands in kernels now has no readers left outside; erase from the last to the first.
  for (size_t i = nodes_.size(); i-- > 0;)
    if (nodes_[i].role != Role::Body) nodes_[i].op->erase();
  return true;
}

}  // namespace mezzo::passes
