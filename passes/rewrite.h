// SPDX-License-Identifier: Apache-2.0
// Local rewriting: a list of rules, each a function that looks at one op and its neighbours, and a
// driver that applies them until none fires. The driver is a worklist, near-linear in the number of
// ops and without recursion; an op is looked at again only when a neighbour changed.
#pragma once

#include <mezzo/ir/builder.h>
#include <mezzo/ir/graph.h>

#include <span>
#include <unordered_map>
#include <vector>

namespace mezzo::passes {

/// Which ops name which values in their attributes (`grad_of = %h`): uses that the use lists do not
/// show. A pass that replaces or erases values keeps them right through this.
class References {
 public:
  explicit References(ir::Function& function);
  /// True when an attribute names the value.
  bool has(ir::Value value) const { return holders_.contains(value.def()); }
  /// Attributes that name `from` name `to`.
  void replace(ir::Value from, ir::Value to);
  /// Forgets the attributes of an op that is about to be erased.
  void drop(const ir::Op& op);

 private:
  void add(ir::Op& op);
  std::unordered_map<const ir::ValueDef*, std::vector<ir::Op*>> holders_;
};

/// True when nobody reads the results of `op` and it may go: no effect, no terminator, named by no
/// attribute.
bool is_removable(const ir::Op& op, const References& references);

class Rewriter;

/// A rule, named for what it does; true when it replaced or changed its op.
using RewriteRule = bool (*)(ir::Op&, Rewriter&);

/// What a rule may do. Rules never erase: the driver removes what became unused.
class Rewriter {
 public:
  /// New ops go before `op` and stand for it (location, origin, role, scope).
  ir::Builder builder(ir::Op& op) const;
  /// Readers of the only result of `op` read `with` instead, which must have the same type.
  void replace(ir::Op& op, ir::Value with);
  /// Readers of result i of `op` read `with[i]` instead.
  void replace(ir::Op& op, std::span<const ir::Value> with);
  /// Operand `index` of `op` becomes `value`.
  void set_operand(ir::Op& op, int index, ir::Value value);
  /// The derivatives are there already (or none are asked for): rules that a gradient could see may
  /// fire.
  bool differentiated() const { return differentiated_; }

 private:
  friend bool rewrite(ir::Region&, std::span<const RewriteRule>, bool);
  Rewriter(References& references, bool differentiated)
      : references_(references), differentiated_(differentiated) {}
  References& references_;
  bool differentiated_;
  std::vector<ir::Op*> touched_;  // to be looked at again
};

/// Applies `rules` to the ops of `region` (bodies of kernels are left alone) until none fires and
/// removes what nobody reads; true when something changed.
bool rewrite(ir::Region& region, std::span<const RewriteRule> rules, bool differentiated);

}  // namespace mezzo::passes
