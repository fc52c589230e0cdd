// SPDX-License-Identifier: Apache-2.0
// The order in which kernels run, and what effects ask of it.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/passes/fuse_groups.h>

#include <algorithm>
#include <set>

namespace mezzo::passes {

using namespace ir;

void FuseGraph::find_windows() {
  // Of each effect the words that it reads; a verdict reads all.
  std::vector<std::set<int64_t>> words(effects_.size());
  std::vector<bool> reads_all(effects_.size());
  for (size_t i = 0; i < effects_.size(); ++i) {
    const Op& effect = *nodes_[static_cast<size_t>(effects_[i])].op;
    reads_all[i] = effect.kind() != OpKind::AllFinite;
    if (effect.attrs().has("words"))
      for (int64_t word : effect.attrs().get_ints("words")) words[i].insert(word);
  }
  for (Node& node : nodes_) {
    const int place = node.effects_before, count = static_cast<int>(effects_.size());
    node.after = -1;
    node.before = count;
    if (node.op->info().has(Trait::Effect)) {
      node.after = place - 1;
      continue;
    }
    const Attr* word = node.op->attrs().find("word");
    const bool index = may_set_range_flag(*node.op);
    if (!word && !index) continue;
    auto judged = [&](int effect) {
      const auto i = static_cast<size_t>(effect);
      return index || reads_all[i] || words[i].contains(node.op->attrs().get_int("word"));
    };
    node.after = place - 1;
    while (node.after >= 0 && !judged(node.after)) --node.after;
    node.before = place;
    while (node.before < count && !judged(node.before)) ++node.before;
  }
}

void FuseGraph::find_judged() {
  const int count = static_cast<int>(effects_.size());
  for (int i = 0; i < size(); ++i) {
    const Node& node = nodes_[static_cast<size_t>(i)];
    if (node.before == count) continue;
    if (node.role != Role::Inlined) {
      judged_by_[node.before].push_back(i);
      continue;
    }
    // Constants have no flags to raise; any other op that is inlined is judged in its readers.
    if (node.op->kind() == OpKind::Constant) continue;
    for (Op* user : node.op->result().users()) {
      Node& reader = nodes_[static_cast<size_t>(node_of(user))];
      if (reader.effects_before <= node.before)
        reader.before = std::min(reader.before, node.before);
    }
  }
}

void FuseGraph::append_judged(int node, int oldest, std::vector<int>& sources) const {
  const Node& each = nodes_[static_cast<size_t>(node)];
  if (!each.op->info().has(Trait::Effect)) return;
  const auto it = judged_by_.find(each.effects_before);
  if (it == judged_by_.end()) return;
  for (int judged : it->second)
    if (judged >= oldest) sources.push_back(judged);
}

FuseGraph::Units FuseGraph::units() const {
  Units out;
  for (int node = 0; node < size(); ++node) {
    const Node& each = nodes_[static_cast<size_t>(node)];
    if (each.role == Role::Inlined) continue;
    if (each.role == Role::Body) {
      out.unit_of[node] = static_cast<int>(out.nodes.size());
      out.nodes.push_back({node});
      continue;
    }
    const Group& group = groups_[static_cast<size_t>(find(each.group))];
    if (group.nodes.front() != node) continue;
    for (int member : group.nodes) out.unit_of[member] = static_cast<int>(out.nodes.size());
    out.nodes.push_back(group.nodes);
  }
  out.readers.resize(out.nodes.size());
  out.waiting.resize(out.nodes.size(), 0);
  auto add_edge = [&](int from, int to) {
    if (from != to && out.readers[static_cast<size_t>(from)].insert(to).second)
      ++out.waiting[static_cast<size_t>(to)];
  };
  // Ops with an effect keep their place, behind all that they judge and before all that they would.
  for (int unit = 0; unit < static_cast<int>(out.nodes.size()); ++unit) {
    const std::vector<int>& members = out.nodes[static_cast<size_t>(unit)];
    std::vector<int> sources;
    for (int node : members) append_sources(node, sources);
    for (int source : sources) add_edge(out.unit_of.at(source), unit);
    for (int node : members) {
      const Node& each = nodes_[static_cast<size_t>(node)];
      if (each.before < static_cast<int>(effects_.size()))
        add_edge(unit, out.unit_of.at(effects_[static_cast<size_t>(each.before)]));
    }
  }
  return out;
}

std::vector<std::set<int>> FuseGraph::later_writers(const Units& units) const {
  std::unordered_map<const ValueDef*, int> writer;  // of each updated parameter
  std::vector<Value> results = function_.results();
  for (int i = 0; i < function_.num_results(); ++i) {
    Value value = results[static_cast<size_t>(i)], updated = function_.updated_parameter(i);
    if (!updated) continue;
    while (!value.is_parameter() && is_view(value.op()->kind())) value = value.op()->operand(0);
    if (value.is_parameter()) continue;
    if (auto unit = units.unit_of.find(node_of(value.op())); unit != units.unit_of.end())
      writer[updated.def()] = unit->second;
  }
  std::vector<std::set<int>> later(units.nodes.size());
  for (size_t unit = 0; unit < units.nodes.size(); ++unit) {
    const Op& first = *nodes_[static_cast<size_t>(units.nodes[unit].front())].op;
    if (first.kind() == OpKind::Return) continue;  // stays the last
    for (int node : closure(units.nodes[unit]))
      for (Value value : nodes_[static_cast<size_t>(node)].op->operands())
        if (auto it = writer.find(value.def());
            it != writer.end() && it->second != static_cast<int>(unit))
          later[unit].insert(it->second);
  }
  return later;
}

/// Kernels and body ops in an order that respects their edges; among the ready ones the oldest
/// first op. What overwrites a parameter is put off until its other readers are done, unless
/// nothing else can run.
std::vector<std::vector<int>> FuseGraph::order_units() const {
  Units graph = units();
  std::vector<std::set<int>> later = later_writers(graph);
  std::vector<int> pending(graph.nodes.size(), 0);  // readers of what each overwrites
  for (const std::set<int>& writers : later)
    for (int writer : writers) ++pending[static_cast<size_t>(writer)];
  std::set<int> ready, put_off;
  auto add = [&](int unit) {
    (pending[static_cast<size_t>(unit)] > 0 ? put_off : ready).insert(unit);
  };
  for (size_t unit = 0; unit < graph.nodes.size(); ++unit)
    if (graph.waiting[unit] == 0) add(static_cast<int>(unit));
  std::vector<std::vector<int>> ordered;
  while (!ready.empty() || !put_off.empty()) {
    std::set<int>& from = ready.empty() ? put_off : ready;
    int unit = *from.begin();
    from.erase(from.begin());
    ordered.push_back(graph.nodes[static_cast<size_t>(unit)]);
    for (int writer : later[static_cast<size_t>(unit)])
      if (--pending[static_cast<size_t>(writer)] == 0 && put_off.erase(writer))
        ready.insert(writer);
    for (int reader : graph.readers[static_cast<size_t>(unit)])
      if (--graph.waiting[static_cast<size_t>(reader)] == 0) add(reader);
  }
  MEZZO_CHECK(ordered.size() == graph.nodes.size(), "fuse made a cycle of kernels");
  return ordered;
}

}  // namespace mezzo::passes
