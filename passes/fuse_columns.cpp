// SPDX-License-Identifier: Apache-2.0
// Rows + columns: a reduction over the rows of a value that another kernel has at hand row by row,
// as the gradients of a normalisation's scale and shift, or of a bias behind a loss.
#include <mezzo/ir/sizes.h>
#include <mezzo/passes/fuse_groups.h>

#include <algorithm>
#include <map>
#include <optional>

namespace mezzo::passes {

using namespace ir;

namespace {

/// Groups that share a value with a group of columns and are tried.
constexpr size_t kMostCandidates = 16;

}  // namespace

std::optional<Classified> FuseGraph::classify_group(int group) const {
  const std::vector<int>& nodes = groups_[static_cast<size_t>(group)].nodes;
  return classify(ops_of(closure(nodes)), outputs_of(nodes));
}

std::vector<Value> FuseGraph::values_read(int group, int64_t elements) const {
  std::vector<Value> values;
  std::set<const ValueDef*> seen;
  std::vector<int> work = groups_[static_cast<size_t>(group)].nodes;
  while (!work.empty()) {
    const int node = work.back();
    work.pop_back();
    for (Value value : nodes_[static_cast<size_t>(node)].op->operands()) {
      if (!seen.insert(value.def()).second) continue;
      if (!value.is_parameter()) {
        const Node& source = nodes_[static_cast<size_t>(node_of(value.op()))];
        if (source.role == Role::Inlined) work.push_back(node_of(value.op()));
        const bool outside = group_of(node_of(value.op())) != group;
        if (source.role == Role::Inlined || !outside) continue;
      }
      if (value.type().elements() == elements) values.push_back(value);
    }
  }
  return values;
}

std::unordered_map<const ValueDef*, std::vector<int>> FuseGraph::group_readers() const {
  std::unordered_map<const ValueDef*, std::vector<int>> readers;
  for (const Node& node : nodes_) {
    if (node.group < 0) continue;
    std::vector<const Op*> work{node.op};
    while (!work.empty()) {
      const Op* op = work.back();
      work.pop_back();
      for (Value value : op->operands()) {
        if (!value.is_parameter() &&
            nodes_[static_cast<size_t>(node_of(value.op()))].role == Role::Inlined) {
          work.push_back(value.op());
          continue;
        }
        std::vector<int>& groups = readers[value.def()];
        if (groups.empty() || groups.back() != node.group) groups.push_back(node.group);
      }
    }
  }
  return readers;
}

bool FuseGraph::join_columns() {
  bool any = false;
  const std::unordered_map<const ValueDef*, std::vector<int>> readers = group_readers();
  std::vector<int> groups = live_groups();
  std::ranges::reverse(groups);  // oldest first
  for (int group : groups) {
    const std::optional<Classified> own = classify_group(group);
    if (!own || own->family != Family::Columns) continue;
    // What the columns would not read again.
    std::map<int, int64_t> bytes;
    for (Value value : values_read(group, own->space.elements())) {
      std::set<int> sharers;
      if (!value.is_parameter())
        if (int maker = nodes_[static_cast<size_t>(node_of(value.op()))].group; maker >= 0)
          sharers.insert(find(maker));
      if (auto it = readers.find(value.def()); it != readers.end())
        for (int reader : it->second) sharers.insert(find(reader));
      for (int sharer : sharers)
        if (sharer != group) bytes[sharer] = saturated_sum(bytes[sharer], value.type().bytes());
    }
    std::vector<std::pair<int64_t, int>> candidates;
    for (const auto& [sharer, shared] : bytes) candidates.emplace_back(-shared, sharer);
    std::ranges::sort(candidates);
    if (candidates.size() > kMostCandidates) candidates.resize(kMostCandidates);
    any |= std::ranges::any_of(candidates, [&](const auto& candidate) {
      return try_merge(candidate.second, group, Merge::Columns);
    });
  }
  return any;
}

}  // namespace mezzo::passes
