// SPDX-License-Identifier: Apache-2.0
// The state of `fuse` on one function: nodes (ops in program order), groups (would-be kernels) and
// the moves on them.
#pragma once

#include <mezzo/ir/kernel_rules.h>
#include <mezzo/ir/sizes.h>

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace mezzo::passes {

/// Most ops of one kernel, optimizer kernels apart: keeps emitted code, register pressure and the
/// cost of `classify` bounded.
inline constexpr size_t kMaxKernelOps = 64;
/// Kernels are not merged into one that reads more values than this, which is what the longest sum
/// reads; a concat of more operands is a kernel as it is.
inline constexpr size_t kMaxKernelInputs = ir::kTermsOfSum;
/// Most update segments of an optimizer kernel. Compilers take more than linear time for functions
/// with more and more loops; and the kernels of a deep network's equal layers are equal.
inline constexpr size_t kMaxKernelUpdates = 128;

class FuseGraph {
 public:
  explicit FuseGraph(ir::Function& function);

  /// Columns: reductions over columns into the rows that they share values with.
  enum class Merge { Forwards, Pull, Columns };

  int size() const { return static_cast<int>(nodes_.size()); }
  /// Becomes part of a kernel on its own right: not inlined into readers, not left in the body.
  bool groupable(int node) const { return nodes_[static_cast<size_t>(node)].role == Role::Grouped; }
  int start_group(int node);
  std::vector<int> live_groups() const;
  bool alive(int group) const { return find(group) == group; }
  int find(int group) const;

  /// Groups whose results this group reads, directly or through inlined ops; most bytes first.
  std::vector<int> producer_groups(int group) const;
  /// The only group that reads results of `group`, or -1 when there are several readers or one
  /// outside of groups.
  int only_reader(int group) const;
  /// Merges `producer` into `consumer` when it is legal, sensible and acyclic. In a merge of
  /// columns the producer is the rows, which need not be read by the columns.
  bool try_merge(int producer, int consumer, Merge how);
  /// Columns groups become part of a rows group that makes or reads a value of their space, the one
  /// that shares the most bytes. Whether any did.
  bool join_columns();
  /// Kernels of many update segments each.
  void merge_updates();
  /// Rewrites the function into kernels. False when there was nothing to do.
  bool build();

 private:
  enum class Role { Grouped, Inlined, Body };
  struct Node {
    ir::Op* op;
    Role role;
    int effects_before = 0;  // ops with an effect that stand before it
    int after = -1;          // the last of them that must run first, by number; -1: none
    int before = 0;          // the first of the others that must wait for it; their count: none
    int group = -1;
  };
  struct Group {
    std::vector<int> nodes;                  // sorted
    int parent = -1;                         // merged into
    bool has_columns = false;                // rows and columns
    std::vector<std::vector<int>> segments;  // of an optimizer kernel: the groups that it was
  };

  Role role_of(const ir::Op& op) const;
  /// What an effect judges by flags runs before it, what stands behind it and would be judged runs
  /// after it.
  void find_windows();
  /// The same of what is inlined, for its readers; then the nodes that each effect waits for.
  void find_judged();
  int node_of(const ir::Op* op) const { return index_.at(op); }
  /// The group that holds the node, or -1.
  int group_of(int node) const {
    const int started = nodes_[static_cast<size_t>(node)].group;
    return started < 0 ? -1 : find(started);
  }
  /// Nodes of the group plus the inlined ops behind their operands, in program order.
  std::vector<int> closure(const std::vector<int>& nodes) const;
  std::vector<ir::Value> outputs_of(const std::vector<int>& nodes) const;
  /// What a kernel of these nodes reads, in the order in which it is first read.
  std::vector<ir::Value> inputs_of(std::span<const int> nodes) const;
  ir::KernelOps ops_of(const std::vector<int>& nodes) const;
  /// Grouped or body nodes that `node` reads, through inlined ones, and effects that it waits for.
  void append_sources(int node, std::vector<int>& sources) const;
  /// Where the node is an effect, what it judges by flags, as far as that is not older than
  /// `oldest`.
  void append_judged(int node, int oldest, std::vector<int>& sources) const;
  /// The first of the nodes around this one that groups hold together: no group has a node before
  /// it and one from it on.
  int first_beside(int node) const;
  /// Whether a node outside of both groups lies on a path from `from` to `to`; true when the search
  /// gives up.
  bool path_between(int from, int to) const;
  /// The same in the other direction; none when the search gives up.
  std::optional<bool> path_behind(int from, int to) const;
  /// A product of `consumer` reads a value of `producer`, directly or through what is packed with
  /// it.
  bool feeds_product(int producer, int consumer) const;
  bool sensible(int producer, int consumer, const std::vector<int>& both, Merge how) const;
  bool reads_too_much(const std::vector<int>& nodes) const;
  std::optional<ir::Classified> classify_group(int group) const;
  /// Values with `elements` elements that a group reads, directly or through inlined ops.
  std::vector<ir::Value> values_read(int group, int64_t elements) const;
  /// For each value the groups that read it, as they were started.
  std::unordered_map<const ir::ValueDef*, std::vector<int>> group_readers() const;
  /// The would-be kernels and body ops with the edges between them.
  struct Units {
    std::vector<std::vector<int>> nodes;   // of each unit
    std::unordered_map<int, int> unit_of;  // node -> unit
    std::vector<std::set<int>> readers;
    std::vector<int> waiting;  // units that each reads
  };
  Units units() const;
  /// For each unit the writers of parameters that it reads: they had better run after it.
  std::vector<std::set<int>> later_writers(const Units& units) const;
  std::vector<std::vector<int>> order_units() const;
  struct Prepared {
    /// With inlined ops, in program order; an optimizer kernel has one set a segment.
    std::vector<std::vector<int>> segments;
    std::vector<ir::Value> outputs;
    ir::Family family = ir::Family::Elementwise;
  };
  Prepared prepare(const std::vector<int>& nodes) const;
  bool is_update(const Group& group) const;
  /// Some op of it is of the forward pass, and not computed again for the backward pass.
  bool is_forward(const Group& group) const;
  /// Some op of it has a result of that shape.
  bool makes_shape(const Group& group, const ir::Shape& shape) const;
  /// One kernel of these groups.
  void merge_segments(std::span<const int> joined);
  /// Whether every segment would get its own copy of it.
  bool is_private(int node) const;
  void build_kernel(const Prepared& prepared, ir::Op* place, const std::string& name);
  void materialize_inlined();
  void materialize_for(int number);
  static void materialize(Node& node);

  ir::Function& function_;
  std::vector<Node> nodes_;
  std::vector<Group> groups_;
  /// Of each node itself, or an older one where a group spans the place before it; shortened by
  /// reading.
  mutable std::vector<int> beside_;
  std::unordered_map<const ir::Op*, int> index_;
  std::vector<int> effects_;                             // nodes
  std::unordered_map<int, std::vector<int>> judged_by_;  // nodes that each effect waits for
  std::unordered_map<const ir::Op*, int> copies_;  // inlined op -> kernels that hold it so far
};

}  // namespace mezzo::passes
