// SPDX-License-Identifier: Apache-2.0
// Whether two groups may merge without a cycle: the searches for a path between them.
#include <mezzo/passes/fuse_groups.h>

#include <functional>
#include <queue>
#include <set>

namespace mezzo::passes {

using namespace ir;

namespace {

/// Nodes visited by one search for a path before it gives up.
constexpr int kSearchBudget = 512;
/// Of these the first, before the search turns round.
constexpr int kFirstSearch = 32;
/// Readers visited by the search that has turned round.
constexpr int kReaderBudget = 2048;

}  // namespace

std::optional<bool> FuseGraph::path_behind(int from, int to) const {
  enum class Found : uint8_t { Nothing, Path, TooMuch };
  Found found = Found::Nothing;
  int budget = kReaderBudget;
  std::set<int> seen{from, to};  // groups, and nodes outside of them as -1 - node
  std::vector<int> work = groups_[static_cast<size_t>(from)].nodes, readers;
  // What reads `from` itself, also through inlined ops: these have one operand, so that none is
  // reached a second way.
  bool direct = true;
  auto visit = [&](const Op& user) {
    const int place = node_of(&user);
    const Node& reader = nodes_[static_cast<size_t>(place)];
    if (--budget < 0 || user.info().has(Trait::Effect)) found = Found::TooMuch;
    if (reader.role == Role::Inlined) {
      if (seen.insert(-1 - place).second) work.push_back(place);
    } else if (reader.role == Role::Body || reader.group >= 0) {  // others are behind all groups
      const int group = reader.group < 0 ? -1 - place : group_of(place);
      if (group == to && !direct) found = Found::Path;
      if (seen.insert(group).second) readers.push_back(place);
    }
    return found == Found::Nothing;
  };
  while (!work.empty()) {
    const Node& node = nodes_[static_cast<size_t>(work.back())];
    work.pop_back();
    // What waits for an effect waits for all that the effect judges.
    if (node.before < static_cast<int>(effects_.size())) return std::nullopt;
    for (Value value : node.op->results())
      if (!value.visit_users(visit))
        return found == Found::Path ? std::optional(true) : std::nullopt;
    if (!work.empty() || readers.empty()) continue;
    direct = false;
    const int next = readers.back();
    readers.pop_back();
    const int group = group_of(next);
    if (group < 0)
      work.push_back(next);
    else
      work = groups_[static_cast<size_t>(group)].nodes;
  }
  return false;
}

bool FuseGraph::path_between(int from, int to) const {
  const int oldest = first_beside(groups_[static_cast<size_t>(from)].nodes.front());
  // What stands nearest to `from` comes first: where there is a path it is found soon.
  std::priority_queue<int, std::vector<int>, std::greater<>> work;
  std::set<int> seen;  // groups, and body nodes as -1 - node
  std::vector<int> sources;
  auto reaches_from = [&](int node) {
    sources.clear();
    append_sources(node, sources);
    append_judged(node, oldest, sources);
    bool reached = false;
    for (int source : sources) {
      const int group = group_of(source);
      reached |= group == from;
      if (group >= 0 && (group == from || group == to)) continue;
      // What no group joins to something as new as `from` cannot depend on it.
      const int newest = group < 0 ? source : groups_[static_cast<size_t>(group)].nodes.back();
      if (newest >= oldest && seen.insert(group < 0 ? -1 - source : group).second)
        work.push(source);
    }
    return reached;
  };
  // Edges from `from` itself are those that a merge removes; only paths through others count.
  for (int node : groups_[static_cast<size_t>(to)].nodes) reaches_from(node);
  for (int budget = kSearchBudget; !work.empty(); --budget) {
    if (budget == 0) return true;
    // Much may stand before `to` that has nothing to do with `from`; then little is behind `from`.
    if (budget == kSearchBudget - kFirstSearch)
      if (const std::optional<bool> path = path_behind(from, to)) return *path;
    const int current = work.top();
    work.pop();
    const int group = group_of(current);
    if (group < 0) {
      if (reaches_from(current)) return true;
      continue;
    }
    for (int member : groups_[static_cast<size_t>(group)].nodes)
      if (reaches_from(member)) return true;
  }
  return false;
}

}  // namespace mezzo::passes
