// SPDX-License-Identifier: Apache-2.0
// Grouping: which ops are inlined, which groups may merge, and in which order kernels run.
#include <mezzo/passes/fuse_groups.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>

#include <algorithm>
#include <queue>
#include <set>

namespace mezzo::passes {

using namespace ir;

namespace {

/// Nodes visited by one search for a path before it gives up.
constexpr int kSearchBudget = 512;

bool is_widening_cast(const Op& op) {
  return op.kind() == OpKind::Cast &&
         byte_size(op.result().dtype()) > byte_size(op.operand(0).dtype());
}

}  // namespace

FuseGraph::FuseGraph(Function& function) : function_(function) {
  for (Op& op : function.body()) {
    index_[&op] = size();
    nodes_.push_back({&op, Role::Body});
    nodes_.back().role = role_of(op);
  }
  materialize_inlined();
}

FuseGraph::Role FuseGraph::role_of(const Op& op) const {
  switch (op.kind()) {
    case OpKind::AllFinite:
    case OpKind::Verdict:
    case OpKind::Return:
    case OpKind::Kernel:
      return Role::Body;
    case OpKind::Constant:
      return splat_value(op.result()) ? Role::Inlined : Role::Body;
    case OpKind::Reshape:
      return is_unit_reshape(op) ? Role::Inlined : Role::Body;
    case OpKind::Iota:
    case OpKind::BroadcastTo:
    case OpKind::Transpose:
    case OpKind::Slice:
      return Role::Inlined;
    case OpKind::Cast: {
      // A widening cast moves fewer bytes when its readers do it; so does a cast of what no kernel
      // makes.
      if (is_widening_cast(op)) return Role::Inlined;
      Value source = op.operand(0);
      while (!source.is_parameter() &&
             nodes_[static_cast<size_t>(node_of(source.op()))].role == Role::Inlined &&
             source.op()->num_operands() > 0)
        source = source.op()->operand(0);
      bool outside = source.is_parameter() ||
                     nodes_[static_cast<size_t>(node_of(source.op()))].role == Role::Body;
      return outside ? Role::Inlined : Role::Grouped;
    }
    default:
      return Role::Grouped;
  }
}

/// An inlined op that something in the body or a pad reads must be stored: it becomes a group of
/// its own. Reshapes stay in the body instead, where they cost nothing.
void FuseGraph::materialize_inlined() {
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    if (node.role == Role::Grouped) materialize_for(static_cast<int>(i));
    if (node.role != Role::Inlined) continue;
    for (Op* user : node.op->result().users())
      if (user->kind() == OpKind::Pad ||
          nodes_[static_cast<size_t>(node_of(user))].role == Role::Body) {
        materialize(node);
        if (node.role == Role::Grouped) materialize_for(static_cast<int>(i));
        break;
      }
  }
}

void FuseGraph::materialize(Node& node) {
  node.role = node.op->kind() == OpKind::Reshape ? Role::Body : Role::Grouped;
}

/// One op with what is inlined behind it may already be no kernel, say `add` of a value and of the
/// same value with its axes moved: then inlined operands are stored, one by one, until it is.
void FuseGraph::materialize_for(int number) {
  const std::vector<int> alone{number};
  for (Value operand : nodes_[static_cast<size_t>(number)].op->operands()) {
    if (classify(ops_of(closure(alone)), outputs_of(alone))) return;
    if (operand.is_parameter()) continue;
    Node& source = nodes_[static_cast<size_t>(node_of(operand.op()))];
    if (source.role == Role::Inlined && source.op->kind() != OpKind::Constant) materialize(source);
  }
}

int FuseGraph::start_group(int node) {
  groups_.push_back({{node}});
  return nodes_[static_cast<size_t>(node)].group = static_cast<int>(groups_.size()) - 1;
}

int FuseGraph::find(int group) const {
  while (groups_[static_cast<size_t>(group)].parent >= 0)
    group = groups_[static_cast<size_t>(group)].parent;
  return group;
}

std::vector<int> FuseGraph::live_groups() const {
  std::vector<int> out;
  for (int i = static_cast<int>(groups_.size()); i-- > 0;)
    if (alive(i)) out.push_back(i);
  return out;
}

void FuseGraph::append_sources(int node, std::vector<int>& sources) const {
  std::vector<int> work{node};
  while (!work.empty()) {
    int current = work.back();
    work.pop_back();
    for (Value value : nodes_[static_cast<size_t>(current)].op->operands()) {
      if (value.is_parameter()) continue;
      int source = node_of(value.op());
      if (nodes_[static_cast<size_t>(source)].role == Role::Inlined)
        work.push_back(source);
      else
        sources.push_back(source);
    }
  }
}

std::vector<int> FuseGraph::producer_groups(int group) const {
  std::vector<std::pair<int64_t, int>> found;
  std::set<int> seen{group};
  for (int node : groups_[static_cast<size_t>(group)].nodes) {
    std::vector<int> sources;
    append_sources(node, sources);
    for (int source : sources) {
      const Node& from = nodes_[static_cast<size_t>(source)];
      if (from.group < 0) continue;
      int producer = find(from.group);
      if (seen.insert(producer).second)
        found.emplace_back(-from.op->result().type().bytes(), producer);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<int> out;
  for (const auto& [bytes, producer] : found) out.push_back(producer);
  return out;
}

int FuseGraph::only_reader(int group) const {
  int reader = -1;
  std::vector<const Op*> work;
  for (int node : groups_[static_cast<size_t>(group)].nodes)
    work.push_back(nodes_[static_cast<size_t>(node)].op);
  std::set<const Op*> seen;
  while (!work.empty()) {
    const Op* op = work.back();
    work.pop_back();
    for (Value value : op->results())
      for (Op* user : value.users()) {
        const Node& node = nodes_[static_cast<size_t>(node_of(user))];
        if (node.role == Role::Inlined) {
          if (seen.insert(user).second) work.push_back(user);
          continue;
        }
        if (node.role == Role::Body || node.group < 0) return -1;
        int other = find(node.group);
        if (other == group) continue;
        if (reader >= 0 && reader != other) return -1;
        reader = other;
      }
  }
  return reader;
}

std::vector<int> FuseGraph::closure(const std::vector<int>& nodes) const {
  std::set<int> all(nodes.begin(), nodes.end());
  std::vector<int> work = nodes;
  while (!work.empty()) {
    int current = work.back();
    work.pop_back();
    for (Value value : nodes_[static_cast<size_t>(current)].op->operands()) {
      if (value.is_parameter()) continue;
      int source = node_of(value.op());
      if (nodes_[static_cast<size_t>(source)].role == Role::Inlined && all.insert(source).second)
        work.push_back(source);
    }
  }
  return {all.begin(), all.end()};
}

std::vector<Value> FuseGraph::outputs_of(const std::vector<int>& nodes) const {
  std::set<int> inside(nodes.begin(), nodes.end());
  std::vector<Value> outputs;
  for (int node : nodes) {
    for (Value value : nodes_[static_cast<size_t>(node)].op->results()) {
      // Read outside when a reader, followed through inlined ops, is not of the set.
      std::vector<Value> work{value};
      bool outside = false;
      while (!work.empty() && !outside) {
        Value current = work.back();
        work.pop_back();
        for (Op* user : current.users()) {
          int reader = node_of(user);
          if (nodes_[static_cast<size_t>(reader)].role == Role::Inlined)
            work.push_back(user->result());
          else if (!inside.contains(reader))
            outside = true;
        }
      }
      if (outside || value.unused()) outputs.push_back(value);
    }
  }
  return outputs;
}

OpSet FuseGraph::ops_of(const std::vector<int>& nodes) const {
  OpSet ops;
  for (int node : nodes) ops.push_back(nodes_[static_cast<size_t>(node)].op);
  return ops;
}

bool FuseGraph::path_between(int from, int to) const {
  int oldest = groups_[static_cast<size_t>(from)].nodes.front();
  std::vector<int> work;
  for (int node : groups_[static_cast<size_t>(to)].nodes) append_sources(node, work);
  // Edges from `from` itself are those that a merge removes; only paths through others count.
  std::erase_if(work, [&](int source) {
    int group = nodes_[static_cast<size_t>(source)].group;
    return group >= 0 && (find(group) == from || find(group) == to);
  });
  std::set<int> seen;  // groups, and body nodes as -1 - node
  int budget = kSearchBudget;
  while (!work.empty()) {
    int current = work.back();
    work.pop_back();
    const Node& node = nodes_[static_cast<size_t>(current)];
    int group = node.group < 0 ? -1 : find(node.group);
    if (group == from) return true;
    if (group == to || !seen.insert(group < 0 ? -1 - current : group).second) continue;
    if (--budget < 0) return true;
    std::vector<int> alone{current};
    const std::vector<int>& members = group < 0 ? alone : groups_[static_cast<size_t>(group)].nodes;
    // Nothing that is older than `from` as a whole can depend on it.
    if (members.back() < oldest) continue;
    for (int member : members) append_sources(member, work);
  }
  return false;
}

bool FuseGraph::sensible(int producer, int consumer, const std::vector<int>& both,
                         Merge how) const {
  auto has = [&](int group, auto predicate) {
    for (int node : groups_[static_cast<size_t>(group)].nodes)
      if (predicate(*nodes_[static_cast<size_t>(node)].op)) return true;
    return false;
  };
  auto is_product = [](const Op& op) { return op.kind() == OpKind::Matmul; };
  auto is_reduction = [](const Op& op) { return op.info().has(Trait::Reduction); };
  auto is_forward = [](const Op& op) { return op.role() == "forward"; };
  auto is_update = [](const Op& op) { return op.role() == "update"; };
  bool scalar = std::all_of(both.begin(), both.end(), [&](int node) {
    return nodes_[static_cast<size_t>(node)].op->result().type().elements() == 1;
  });
  // Scalars stay among themselves: inside a tensor kernel they would be computed anew for every
  // task. The tail of a reduction to a scalar is the exception.
  auto is_tensor = [](const Op& op) { return op.result().type().elements() != 1; };
  if (!scalar && !has(producer, is_reduction) &&
      (!has(producer, is_tensor) || !has(consumer, is_tensor)))
    return false;
  // A backward op on a forward value would add an output to the forward kernel; its reader can do
  // it instead.
  if (how == Merge::Forwards && !has(producer, is_reduction) && has(producer, is_forward) &&
      !has(consumer, is_forward))
    return false;
  // Updates form segments of their own.
  if (has(producer, is_update) != has(consumer, is_update)) return false;
  // What costs to compute is not repeated while packing an operand of a product.
  if (how == Merge::Pull && has(consumer, is_product) && has(producer, [](const Op& op) {
        return op.info().growth == Growth::Exponential || op.info().growth == Growth::Singular;
      }))
    return false;
  return true;
}

bool FuseGraph::try_merge(int producer, int consumer, Merge how) {
  Group &from = groups_[static_cast<size_t>(producer)],
        &to = groups_[static_cast<size_t>(consumer)];
  if (from.nodes.size() + to.nodes.size() > kMaxKernelOps) return false;
  std::vector<int> both;
  std::merge(from.nodes.begin(), from.nodes.end(), to.nodes.begin(), to.nodes.end(),
             std::back_inserter(both));
  if (!sensible(producer, consumer, both, how)) return false;
  std::vector<int> all = closure(both);
  if (!classify(ops_of(all), outputs_of(both))) return false;
  if (path_between(producer, consumer)) return false;
  // The producer's group survives when growing forwards, the reader's when pulling.
  Group& kept = how == Merge::Forwards ? from : to;
  Group& gone = how == Merge::Forwards ? to : from;
  gone.parent = how == Merge::Forwards ? producer : consumer;
  gone.nodes.clear();
  kept.nodes = std::move(both);
  return true;
}

void FuseGraph::merge_updates() {
  std::vector<int> updates;
  for (int group = 0; group < static_cast<int>(groups_.size()); ++group) {
    if (!alive(group)) continue;
    const Group& members = groups_[static_cast<size_t>(group)];
    bool update = std::all_of(members.nodes.begin(), members.nodes.end(), [&](int node) {
      const Op& op = *nodes_[static_cast<size_t>(node)].op;
      return op.role() == "update" && op.result().type().elements() != 1 &&
             !op.info().has(Trait::Reduction) && op.kind() != OpKind::Matmul;
    });
    if (update) updates.push_back(group);
  }
  if (updates.empty()) return;
  Group& first = groups_[static_cast<size_t>(updates[0])];
  first.optimizer = true;
  for (int group : std::span(updates).subspan(1)) {
    if (path_between(updates[0], group) || path_between(group, updates[0])) continue;
    // A direct edge would make the segments depend on each other.
    std::vector<int> producers = producer_groups(group), reverse = producer_groups(updates[0]);
    if (std::find(producers.begin(), producers.end(), updates[0]) != producers.end() ||
        std::find(reverse.begin(), reverse.end(), group) != reverse.end())
      continue;
    Group& other = groups_[static_cast<size_t>(group)];
    std::vector<int> both;
    std::merge(first.nodes.begin(), first.nodes.end(), other.nodes.begin(), other.nodes.end(),
               std::back_inserter(both));
    first.nodes = std::move(both);
    other.nodes.clear();
    other.parent = updates[0];
  }
}

/// Kernels and body ops in an order that respects their edges; among the ready ones the oldest
/// first op.
std::vector<std::vector<int>> FuseGraph::order_units() const {
  std::vector<std::vector<int>> units;
  std::unordered_map<int, int> unit_of;  // node -> unit
  for (int node = 0; node < size(); ++node) {
    const Node& each = nodes_[static_cast<size_t>(node)];
    if (each.role == Role::Inlined) continue;
    if (each.role == Role::Body) {
      unit_of[node] = static_cast<int>(units.size());
      units.push_back({node});
      continue;
    }
    const Group& group = groups_[static_cast<size_t>(find(each.group))];
    if (group.nodes.front() != node) continue;
    for (int member : group.nodes) unit_of[member] = static_cast<int>(units.size());
    units.push_back(group.nodes);
  }
  std::vector<std::set<int>> readers(units.size());
  std::vector<int> waiting(units.size(), 0);
  for (size_t unit = 0; unit < units.size(); ++unit) {
    std::vector<int> sources;
    for (int node : units[unit]) append_sources(node, sources);
    for (int source : sources) {
      int from = unit_of.at(source);
      if (from != static_cast<int>(unit) &&
          readers[static_cast<size_t>(from)].insert(static_cast<int>(unit)).second)
        ++waiting[unit];
    }
  }
  // Ops with an effect keep their place behind everything that they judge.
  int last_effect = -1;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    const Op& op = *nodes_[static_cast<size_t>(units[unit].front())].op;
    if (!op.info().has(Trait::Effect)) continue;
    if (last_effect >= 0 &&
        readers[static_cast<size_t>(last_effect)].insert(static_cast<int>(unit)).second)
      ++waiting[unit];
    last_effect = static_cast<int>(unit);
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t unit = 0; unit < units.size(); ++unit)
    if (waiting[unit] == 0) ready.push(static_cast<int>(unit));
  std::vector<std::vector<int>> ordered;
  while (!ready.empty()) {
    int unit = ready.top();
    ready.pop();
    ordered.push_back(units[static_cast<size_t>(unit)]);
    for (int reader : readers[static_cast<size_t>(unit)])
      if (--waiting[static_cast<size_t>(reader)] == 0) ready.push(reader);
  }
  MEZZO_CHECK(ordered.size() == units.size(), "fuse made a cycle of kernels");
  return ordered;
}

}  // namespace mezzo::passes
