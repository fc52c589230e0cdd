// SPDX-License-Identifier: Apache-2.0
// What a kernel's region says about its own iteration: the space, the reduced axes, the segments of
// an optimizer. Read by planning and by every back end alike.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/plan.h>

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace mezzo::ir {

/// Reductions that kernels know: sum, prod, max, min, argmax.
bool is_reduction(OpKind kind);
/// What a family of kernels is made for: reductions, scans, orders, products, scatters.
bool is_anchor(OpKind kind);
/// The ops that a scan kernel, that a sort kernel is made for.
bool is_scan(OpKind kind);
bool is_order(OpKind kind);
/// The op of a scan or sort kernel that its family is named after.
const Op& axis_op(const Op& kernel);
/// floor_div and remainder of integers: a divisor of 0 sets the index-range flag of the run.
bool divides_integers(const Op& op);
/// An op of the region, or of a kernel in it, does.
bool divides_integers(const Region& region);
/// The op may set the index-range flag of the run.
bool may_set_range_flag(const Op& op);
/// More work than a store and a load: polynomials, divisions, random numbers.
bool is_costly(const Op& op);
/// Axes that a reduction reduces, ascending.
std::vector<int64_t> reduced_axes(const Op& op);
/// The axes that a reduction reduces are the last ones of its operand: a row reduction. The others,
/// over leading axes, are column reductions.
bool reduces_last_axes(const Op& op);

struct KernelSpace {
  Shape space;
  /// Axes of the space that are reduced: the last (rows), the first (columns), the last by row
  /// reductions and all others by column reductions (rows_columns).
  int reduced = 0;

  int kept() const { return space.rank() - reduced; }
};

/// Elementwise and movement: the shape of the results; rows, columns and rows_columns: of the
/// reduced values; matmul, scatter: of the product, of what is added to; scan and sort: of what
/// runs along the axis. An optimizer kernel has no single space.
KernelSpace kernel_space(const Op& kernel);

/// One-element results that do not depend on what the kernel's family is made for, in program
/// order: their operands are such results or one-element parameters.
std::vector<Value> scalar_values(const Op& kernel);

/// All ops of a kernel but its yield.
std::vector<Op*> kernel_ops(const Op& kernel);

/// Of `ops`, which are in program order: column reductions and what depends on one.
std::unordered_set<const Op*> column_ops(std::span<Op* const> ops);

/// The reductions among `ops`, which are in program order, in levels: each after those that it is
/// made of.
std::vector<std::vector<const Op*>> reduction_levels(std::span<Op* const> ops);

/// Values that a flag word watches, made of reductions and with at most `lines` elements. Where a
/// line has no elements no result of the full shape reads them, but the word must tell of them.
std::vector<Value> watched_line_values(const Op& kernel, int64_t lines);

/// Bytes of the smallest elements that a kernel of these reads and writes, at most 8. Scalars are
/// read once a thread and do not count.
int64_t narrowest_bytes(std::span<const Value> inputs, std::span<const Value> outputs);

/// The segments of an optimizer kernel, each as its yields (which all have one shape): connected
/// sets of ops that share only parameters, constants and scalars.
std::vector<std::vector<Value>> optimizer_segments(const Op& kernel);

/// Ops of the region that the values depend on, each after those that it depends on.
std::vector<Op*> ops_behind(std::span<const Value> values);

/// All tensors behind `yields`, which have one shape, have that shape too and are read at the
/// element itself: the position of an element is all that its computation depends on.
bool is_flat(std::span<const Value> yields);

/// Kernels of the family read an element only where they write it, or may do so: a result may then
/// stand in the place of an operand.
bool may_write_in_place(Family family);

/// Which results of a kernel may be stored over which operands: those that the kernel reads nowhere
/// but at the element that it is about to write. Tasks run in any order and side by side, so every
/// other read forbids it.
class InPlaceRule {
 public:
  explicit InPlaceRule(const Op& kernel);
  /// `storage`: a value of the function's body that is no reshape. True also when the kernel does
  /// not read it; false for families whose tasks read more than they write.
  bool allows(int result, Value storage) const;

 private:
  bool reaches_only(Value inner, int result) const;

  const Op& kernel_;
  std::unordered_map<const ValueDef*, std::vector<int>> operands_;  // by storage
  std::unordered_map<const ValueDef*, size_t> segment_of_;          // of each yielded value
};

/// The value whose storage `value` shares: what stands behind its reshapes.
Value storage_of(Value value);

/// The last axis of `dims` that is longer than 1, along which vectors run; -1 when there is none.
int vector_axis(std::span<const int64_t> dims);

/// Distinct `word` attributes of the region in order of first appearance: the flag slots of the
/// kernel.
std::vector<int64_t> kernel_words(const Op& kernel);

/// Ops of the region whose number is an argument of the kernel instead of a part of its code, in
/// order: random ops (their `stream`) and constants (their `value`, one number whatever the shape).
std::vector<const Op*> kernel_slots(const Op& kernel);
/// What stands in the slot of such an op: the stream, the integer, 0 or 1 for a bool; for a float
/// the bits of its compute type (f32, or f64 for f64) in the low bytes.
int64_t slot_bits(const Op& op);

}  // namespace mezzo::ir
