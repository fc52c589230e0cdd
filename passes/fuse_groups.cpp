// SPDX-License-Identifier: Apache-2.0
// Grouping: which ops are inlined and which groups may merge.
#include <mezzo/passes/fuse_groups.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace mezzo::passes {

using namespace ir;

namespace {

/// Longest row whose columns are added while it is computed: the accumulators of longer ones stay
/// neither in registers nor in a cache of the first level, and few long rows are better cut.
constexpr int64_t kLongestRowWithColumns = 16384;

bool pays_with_columns(const Classified& kernel) {
  int64_t columns = 1;
  for (int64_t dim : kernel.space.dims().last(static_cast<size_t>(kernel.reduced_axes)))
    columns *= dim;
  return kernel.family == Family::RowsColumns && columns <= kLongestRowWithColumns;
}

/// A space that no cache holds wants work for several threads.
constexpr int64_t kCachedElements = 1 << 20;

/// Elementwise kernels have more tasks: a chain takes over from them only what is made of its
/// reductions, and over a large space not where its columns are one task.
bool chains_well(const KernelOps& ops, std::span<const Value> inputs,
                 std::span<const Value> outputs, const Classified& chain) {
  const std::unordered_set<const Op*> made = column_ops(ops);
  for (Value value : outputs)
    if (value.shape() == chain.space && !made.contains(value.op())) return false;
  const Shape columns(chain.space.dims().subspan(static_cast<size_t>(chain.reduced_axes)));
  return columns.elements() * narrowest_bytes(inputs, outputs) >= 2 * kBytesOfChain ||
         chain.space.elements() <= kCachedElements;
}

bool is_empty(const Op& op) { return op.result().type().elements() == 0; }

/// A kernel of nothing computes nothing, not even what flags an overflow.
bool is_lost_in(const Op& op, const Op& reader) {
  return op.num_operands() > 0 && !is_empty(op) && reader.num_results() > 0 && is_empty(reader);
}

bool is_widening_cast(const Op& op) {
  return op.kind() == OpKind::Cast &&
         byte_size(op.result().dtype()) > byte_size(op.operand(0).dtype());
}

}  // namespace

FuseGraph::FuseGraph(Function& function) : function_(function) {
  for (Op& op : function.body()) {
    index_[&op] = size();
    nodes_.push_back({&op, Role::Body, static_cast<int>(effects_.size())});
    nodes_.back().role = role_of(op);
    if (op.info().has(Trait::Effect)) effects_.push_back(size() - 1);
  }
  beside_.resize(nodes_.size());
  std::iota(beside_.begin(), beside_.end(), 0);
  find_windows();
  materialize_inlined();
  find_judged();
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
    case OpKind::Flip:
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

/// An inlined op that something in the body reads must be stored, and one that an effect
/// judges must run before it: it becomes a group of its own. Reshapes stay in the body instead,
/// where they cost nothing.
void FuseGraph::materialize_inlined() {
  std::vector<int> runs(nodes_.size());  // effects before the first kernel that computes it
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    runs[i] = node.effects_before;
    if (node.role == Role::Grouped) materialize_for(static_cast<int>(i));
    if (node.role != Role::Inlined) continue;
    bool stored = false;
    int first = std::numeric_limits<int>::max();
    for (Op* user : node.op->result().users()) {
      const auto reader = static_cast<size_t>(node_of(user));
      stored |= nodes_[reader].role == Role::Body || is_lost_in(*node.op, *user);
      first = std::min(first, runs[reader]);
    }
    const bool late = first > node.before && first < std::numeric_limits<int>::max();
    if (stored || (late && node.op->kind() != OpKind::Constant)) {
      materialize(node);
      if (node.role == Role::Grouped) materialize_for(static_cast<int>(i));
    } else {
      runs[i] = first;
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
    const KernelOps ops = ops_of(closure(alone));
    if (ops.size() <= kMaxKernelOps && classify(ops, outputs_of(alone))) return;
    if (operand.is_parameter()) continue;
    Node& source = nodes_[static_cast<size_t>(node_of(operand.op()))];
    if (source.role == Role::Inlined && source.op->kind() != OpKind::Constant) materialize(source);
  }
}

int FuseGraph::start_group(int node) {
  groups_.emplace_back().nodes.push_back(node);
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
    const Node& each = nodes_[static_cast<size_t>(current)];
    if (each.after >= 0) sources.push_back(effects_[static_cast<size_t>(each.after)]);
    for (Value value : each.op->operands()) {
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
      const int producer = group_of(source);
      if (producer < 0) continue;
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
    for (Value value : op->results()) {
      const bool one = value.visit_users([&](const Op& user) {
        const Node& node = nodes_[static_cast<size_t>(node_of(&user))];
        if (node.role == Role::Inlined) {
          if (seen.insert(&user).second) work.push_back(&user);
          return true;
        }
        if (node.role == Role::Body || node.group < 0) return false;
        const int other = find(node.group);
        if (other != group && reader >= 0 && reader != other) return false;
        if (other != group) reader = other;
        return true;
      });
      if (!one) return -1;
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
        outside = !current.visit_users([&](const Op& user) {
          const int reader = node_of(&user);
          if (nodes_[static_cast<size_t>(reader)].role != Role::Inlined)
            return inside.contains(reader);
          work.push_back(user.result());
          return true;
        });
      }
      if (outside || value.unused()) outputs.push_back(value);
    }
  }
  return outputs;
}

KernelOps FuseGraph::ops_of(const std::vector<int>& nodes) const {
  KernelOps ops;
  for (int node : nodes) ops.push_back(nodes_[static_cast<size_t>(node)].op);
  return ops;
}

int FuseGraph::first_beside(int node) const {
  while (beside_[static_cast<size_t>(node)] != node) {
    int& next = beside_[static_cast<size_t>(node)];
    next = beside_[static_cast<size_t>(next)];
    node = next;
  }
  return node;
}

bool FuseGraph::feeds_product(int producer, int consumer) const {
  std::vector<int> work;
  for (int node : groups_[static_cast<size_t>(consumer)].nodes)
    if (nodes_[static_cast<size_t>(node)].op->kind() == OpKind::Matmul) work.push_back(node);
  std::unordered_set<int> seen;
  while (!work.empty()) {
    const int node = work.back();
    work.pop_back();
    for (Value value : nodes_[static_cast<size_t>(node)].op->operands()) {
      if (value.is_parameter()) continue;
      const int source = node_of(value.op());
      const int group = group_of(source);
      if (group == producer) return true;
      if ((nodes_[static_cast<size_t>(source)].role == Role::Inlined || group == consumer) &&
          seen.insert(source).second)
        work.push_back(source);
    }
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
  auto is_reduction = [](const Op& op) { return ir::is_reduction(op.kind()); };
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
  // What a kernel of nothing reads is computed elsewhere.
  std::vector<int> readers = groups_[static_cast<size_t>(consumer)].nodes;
  while (!readers.empty()) {
    const Op& reader = *nodes_[static_cast<size_t>(readers.back())].op;
    readers.pop_back();
    for (Value value : reader.operands()) {
      if (value.is_parameter()) continue;
      const int source = node_of(value.op());
      if (group_of(source) == producer && is_lost_in(*value.op(), reader)) return false;
      if (nodes_[static_cast<size_t>(source)].role == Role::Inlined) readers.push_back(source);
    }
  }
  // A backward op on a forward value would add an output to the forward kernel; its reader can do
  // it instead.
  if (how == Merge::Forwards && !has(producer, is_reduction) && has(producer, is_forward) &&
      !has(consumer, is_forward))
    return false;
  // What is computed again for the backward pass is not computed where it was first, nor kept
  // there.
  auto is_again = [](const Op& op) {
    return op.attrs().has("checkpoint") && op.attrs().has("replica");
  };
  auto is_first = [&](const Op& op) { return is_forward(op) && !is_again(op); };
  if ((has(producer, is_again) && has(consumer, is_first)) ||
      (has(producer, is_first) && has(consumer, is_again)))
    return false;
  // Updates form segments of their own.
  if (has(producer, is_update) != has(consumer, is_update)) return false;
  // What costs to compute is not repeated while packing an operand of a product, nor for a key and
  // then for the value that it stands for.
  auto is_ordered = [](const Op& op) { return is_order(op.kind()); };
  const bool repeats = has(consumer, is_product)
                           ? how == Merge::Pull || feeds_product(producer, consumer)
                           : has(consumer, is_ordered);
  return !repeats || !has(producer, is_costly);
}

bool FuseGraph::reads_too_much(const std::vector<int>& nodes) const {
  size_t read = 0;  // once for each reader
  for (int node : nodes)
    read += static_cast<size_t>(nodes_[static_cast<size_t>(node)].op->num_operands());
  return read > kMaxKernelInputs && inputs_of(nodes).size() > kMaxKernelInputs;
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
  if (all.size() > kMaxKernelOps || reads_too_much(all)) return false;
  const KernelOps ops = ops_of(all);
  const std::vector<Value> outputs = outputs_of(both);
  const std::optional<Classified> found = classify(ops, outputs);
  if (!found) return false;
  // Rows and columns come together when each has grown as far as it can alone.
  if (found->family == Family::RowsColumns && how != Merge::Columns && !from.has_columns &&
      !to.has_columns)
    return false;
  if (how == Merge::Columns && !pays_with_columns(*found)) return false;
  if (found->chained && !chains_well(ops, inputs_of(all), outputs, *found)) return false;
  // Nor does a chain of columns keep a tensor for the backward pass.
  if (found->chained && how == Merge::Forwards && is_forward(from) && !is_forward(to) &&
      makes_shape(to, found->space))
    return false;
  if (path_between(producer, consumer)) return false;
  if (how == Merge::Columns && path_between(consumer, producer)) return false;
  // The reader's group survives when pulling, else the producer's.
  Group& kept = how == Merge::Pull ? to : from;
  Group& gone = how == Merge::Pull ? from : to;
  gone.parent = how == Merge::Pull ? consumer : producer;
  kept.has_columns |= gone.has_columns || how == Merge::Columns;
  gone.nodes.clear();
  kept.nodes = std::move(both);
  for (int node = first_beside(kept.nodes.back()); node > kept.nodes.front();
       node = first_beside(node))
    beside_[static_cast<size_t>(node)] = node - 1;
  return true;
}

bool FuseGraph::is_forward(const Group& group) const {
  return std::ranges::any_of(group.nodes, [&](int node) {
    const Op& op = *nodes_[static_cast<size_t>(node)].op;
    return op.role() == "forward" && !op.attrs().has("replica");
  });
}

bool FuseGraph::makes_shape(const Group& group, const Shape& shape) const {
  return std::ranges::any_of(group.nodes, [&](int node) {
    return nodes_[static_cast<size_t>(node)].op->result().shape() == shape;
  });
}

bool FuseGraph::is_update(const Group& group) const {
  return std::all_of(group.nodes.begin(), group.nodes.end(), [&](int node) {
    const Op& op = *nodes_[static_cast<size_t>(node)].op;
    return op.role() == "update" && op.result().type().elements() != 1 &&
           !ir::is_reduction(op.kind()) && op.kind() != OpKind::Matmul && !is_scan(op.kind()) &&
           !is_order(op.kind());
  });
}

/// One sweep in topological order: an update joins unless something that has joined stands before
/// it, so no path leads from one segment to another.
void FuseGraph::merge_updates() {
  Units graph = units();
  std::vector<bool> behind(graph.nodes.size(), false);
  std::vector<int> joined, ready;
  for (size_t unit = 0; unit < graph.nodes.size(); ++unit)
    if (graph.waiting[unit] == 0) ready.push_back(static_cast<int>(unit));
  for (size_t next = 0; next < ready.size(); ++next) {
    size_t unit = static_cast<size_t>(ready[next]);
    int group = nodes_[static_cast<size_t>(graph.nodes[unit].front())].group;
    bool joins =
        group >= 0 && !behind[unit] && is_update(groups_[static_cast<size_t>(find(group))]);
    if (joins) joined.push_back(find(group));
    for (int reader : graph.readers[unit]) {
      if (joins || behind[unit]) behind[static_cast<size_t>(reader)] = true;
      if (--graph.waiting[static_cast<size_t>(reader)] == 0) ready.push_back(reader);
    }
  }
  std::ranges::sort(joined);
  const std::span<const int> all(joined);
  for (size_t i = 0; i < all.size(); i += kMaxKernelUpdates)
    merge_segments(all.subspan(i, std::min(kMaxKernelUpdates, all.size() - i)));
}

void FuseGraph::merge_segments(std::span<const int> joined) {
  Group& first = groups_[static_cast<size_t>(joined[0])];
  std::vector<int> all;
  for (int number : joined) {
    Group& group = groups_[static_cast<size_t>(number)];
    all.insert(all.end(), group.nodes.begin(), group.nodes.end());
    first.segments.push_back(std::move(group.nodes));
    group.nodes.clear();
    if (number != joined[0]) group.parent = joined[0];
  }
  std::ranges::sort(all);
  first.nodes = std::move(all);
}

}  // namespace mezzo::passes
