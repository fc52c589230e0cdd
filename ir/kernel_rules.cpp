// SPDX-License-Identifier: Apache-2.0
// Legality of kernels. Every op of a set is given an index map: for each axis of its result, the
// axis of the kernel's space that it runs along, or none for an axis of length 1. Maps flow from
// the outputs down to the operands; an op that would need two different maps does not fit.
#include <mezzo/ir/kernel_rules.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/kernel_region.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

namespace mezzo::ir {

bool is_unit_reshape(const Op& op) {
  if (op.kind() != OpKind::Reshape) return false;
  std::vector<int64_t> from, to;
  for (int64_t dim : op.operand(0).shape())
    if (dim != 1) from.push_back(dim);
  for (int64_t dim : op.result().shape())
    if (dim != 1) to.push_back(dim);
  return from == to;
}

bool moves_stored(OpKind kind) {
  switch (kind) {
    case OpKind::Transpose:
    case OpKind::Slice:
    case OpKind::Flip:
    case OpKind::Pad:
    case OpKind::Remap:
    case OpKind::Concat:
    case OpKind::Gather:
    case OpKind::TakeAlongAxis:
      return true;
    default:
      return false;
  }
}

bool is_movement(OpKind kind) { return is_view(kind) || moves_stored(kind); }

bool is_pointwise(const Op& op) {
  if (op.kind() == OpKind::Constant) return splat_value(op.result()).has_value();
  return is_elementwise(op.kind()) || is_unit_reshape(op) || op.kind() == OpKind::BroadcastTo ||
         moves_stored(op.kind()) || op.kind() == OpKind::Iota || op.info().has(Trait::Random) ||
         op.kind() == OpKind::RngAdvance;
}

namespace {

constexpr int8_t kNone = -1;

/// Space axis of each axis of a value; kNone for axes of length 1 (and for axes that only an index
/// map of a view uses).
using AxisMap = std::array<int8_t, kMaxRank>;

AxisMap empty_map() {
  AxisMap map;
  map.fill(kNone);
  return map;
}

AxisMap identity_map(const Shape& shape) {
  AxisMap map = empty_map();
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1) map[static_cast<size_t>(i)] = static_cast<int8_t>(i);
  return map;
}

class Mapper {
 public:
  explicit Mapper(const KernelOps& ops) : ops_(ops) {
    for (Op* op : ops) inside_.insert(op);
  }

  /// False when `value` is made inside and already runs along other axes.
  bool demand(Value value, const AxisMap& map) {
    if (value.is_parameter() || !inside_.contains(value.op())) return true;
    auto [it, fresh] = maps_.try_emplace(value.op(), map);
    return fresh || it->second == map || value.is(OpKind::Constant);
  }

  const AxisMap* map_of(const Op* op) const {
    auto it = maps_.find(op);
    return it == maps_.end() ? nullptr : &it->second;
  }

  /// Propagates from the results to the operands of every op, last op first.
  bool propagate() {
    for (auto it = ops_.rbegin(); it != ops_.rend(); ++it) {
      Op& op = **it;
      if (op.kind() == OpKind::Matmul || op.kind() == OpKind::ScatterAdd)
        continue;  // its operands are prologue, in spaces of their own
      const AxisMap* map = map_of(&op);
      if (!map) continue;  // prologue of a product
      for (int i = 0; i < op.num_operands(); ++i)
        if (!demand(op.operand(i), operand_map(op, i, *map))) return false;
    }
    return true;
  }

 private:
  /// Of an axis that runs along none of the space.
  static int8_t own_axis(int i) { return static_cast<int8_t>(-2 - i); }

  static AxisMap operand_map(const Op& op, int number, const AxisMap& map) {
    AxisMap out = empty_map();
    const Shape &from = op.result().shape(), &to = op.operand(number).shape();
    if (op.info().has(Trait::Random) && number == 0) {  // the state, read whole at every element
      for (int i = 0; i < to.rank(); ++i) out[static_cast<size_t>(i)] = own_axis(i);
      return out;
    }
    if (is_reduction(op.kind())) {
      std::vector<int64_t> axes = reduced_axes(op);
      bool keepdims = op.bool_attr("keepdims");
      int kept = 0;
      for (int i = 0; i < to.rank(); ++i) {
        bool is_reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
        if (is_reduced) {
          out[static_cast<size_t>(i)] = to[i] == 1 ? kNone : static_cast<int8_t>(i);
        } else {
          out[static_cast<size_t>(i)] = map[static_cast<size_t>(keepdims ? i : kept)];
        }
        if (!is_reduced) ++kept;
      }
      return out;
    }
    switch (op.kind()) {
      case OpKind::Reshape: {  // unit reshape: axes that are not 1 correspond in order
        int source = 0;
        for (int i = 0; i < to.rank(); ++i) {
          if (to[i] == 1) continue;
          while (from[source] == 1) ++source;
          out[static_cast<size_t>(i)] = map[static_cast<size_t>(source++)];
        }
        return out;
      }
      case OpKind::Transpose: {
        std::vector<int64_t> perm = op.ints_attr("perm");
        for (int i = 0; i < from.rank(); ++i)
          out[static_cast<size_t>(perm[static_cast<size_t>(i)])] = map[static_cast<size_t>(i)];
        return out;
      }
      case OpKind::Gather:
      case OpKind::TakeAlongAxis:
        if (number == 1) {
          const int first = op.kind() == OpKind::Gather ? static_cast<int>(op.int_attr("axis")) : 0;
          for (int i = 0; i < to.rank(); ++i)
            if (to[i] != 1) out[static_cast<size_t>(i)] = map[static_cast<size_t>(first + i)];
          return out;
        }
        [[fallthrough]];
      case OpKind::Slice:
      case OpKind::Flip:
      case OpKind::Pad:
      case OpKind::Concat:
      case OpKind::Remap:
        // Offsets are not part of the map: a value behind them is another one than the same value
        // read directly.
        for (int i = 0; i < to.rank(); ++i) out[static_cast<size_t>(i)] = own_axis(i);
        return out;
      default:  // elementwise and broadcast_to: aligned at the last axis
        for (int i = 0; i < to.rank(); ++i) {
          int j = from.rank() - to.rank() + i;
          if (to[i] != 1) out[static_cast<size_t>(i)] = map[static_cast<size_t>(j)];
        }
        return out;
    }
  }

  const KernelOps& ops_;
  std::unordered_set<const Op*> inside_;
  std::unordered_map<const Op*, AxisMap> maps_;
};

bool all_pointwise(const KernelOps& ops) {
  return std::all_of(ops.begin(), ops.end(), [](const Op* op) { return is_pointwise(*op); });
}

/// What has an index map of its own may only stand on values from outside: behind it only views and
/// casts, so that what is loaded through the map is read, not computed anew. Indices, and the value
/// of a padding, are not moved. What only some indices read is not where flags are raised.
bool maps_stand_outside(const KernelOps& ops) {
  std::unordered_set<const Op*> inside(ops.begin(), ops.end());
  auto stands_outside = [&](Value value, bool by_index) {
    for (; !value.is_parameter() && inside.contains(value.op()); value = value.op()->operand(0)) {
      OpKind kind = value.op()->kind();
      if (kind == OpKind::Constant || kind == OpKind::Iota) return true;
      if (!is_view(kind) && kind != OpKind::Cast) return false;
      if (by_index && value.op()->attrs().has("word")) return false;
    }
    return true;
  };
  for (const Op* op : ops) {
    if (!moves_stored(op->kind())) continue;
    const int moved = op->kind() == OpKind::Concat ? op->num_operands() : 1;
    for (int i = 0; i < moved; ++i)
      if (!stands_outside(op->operand(i), op->info().has(Trait::Checks))) return false;
  }
  return true;
}

std::optional<Classified> classify_elementwise(const KernelOps& ops,
                                               std::span<const Value> outputs) {
  if (!all_pointwise(ops) || outputs.empty()) return std::nullopt;
  Shape space = outputs[0].shape();
  Mapper mapper(ops);
  for (Value value : outputs)
    if (!(value.shape() == space) || !mapper.demand(value, identity_map(space)))
      return std::nullopt;
  if (!mapper.propagate()) return std::nullopt;
  bool only_moves =
      std::all_of(ops.begin(), ops.end(), [](const Op* op) { return is_movement(op->kind()); });
  return Classified{only_moves ? Family::Movement : Family::Elementwise, space, 0};
}

/// The map of an output of a rows kernel with `k` reduced axes, or nullopt when it has neither
/// shape that is allowed.
std::optional<AxisMap> rows_output_map(const Shape& shape, const Shape& space, int k) {
  if (shape == space) return identity_map(space);
  int kept = space.rank() - k;
  if (shape.rank() != kept && shape.rank() != space.rank()) return std::nullopt;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != (i < kept ? space[i] : 1)) return std::nullopt;
  return identity_map(shape);
}

std::optional<AxisMap> columns_output_map(const Shape& shape, const Shape& space, int k) {
  AxisMap map = empty_map();
  bool keepdims = shape.rank() == space.rank();
  if (!keepdims && shape.rank() != space.rank() - k) return std::nullopt;
  for (int i = 0; i < shape.rank(); ++i) {
    int axis = keepdims ? i : i + k;
    if (shape[i] != (axis < k ? 1 : space[axis])) return std::nullopt;
    if (shape[i] != 1) map[static_cast<size_t>(i)] = static_cast<int8_t>(axis);
  }
  return map;
}

/// The reductions of a set and what they make of it.
struct Reductions {
  Family family = Family::Rows;
  Shape space;
  int rows = 0, columns = 0;  // axes that row reductions, that column reductions reduce
};

/// Nullopt where the reductions alone are none of a family's. Sums over all axes are rows kernels
/// of one row.
std::optional<Reductions> reductions_of(const KernelOps& ops) {
  Reductions out;
  const Op* first = nullptr;
  for (const Op* op : ops) {
    if (!is_reduction(op->kind())) {
      if (!is_pointwise(*op)) return std::nullopt;
      continue;
    }
    if (!first) first = op;
    if (!(op->operand(0).shape() == first->operand(0).shape())) return std::nullopt;
    const std::vector<int64_t> axes = reduced_axes(*op);
    const int count = static_cast<int>(axes.size());
    const bool last = reduces_last_axes(*op);
    if (count == 0 || (!last && axes.back() != count - 1)) return std::nullopt;
    if (!last && op->kind() == OpKind::Argmax) return std::nullopt;
    int& reduced = last ? out.rows : out.columns;
    if (reduced != 0 && reduced != count) return std::nullopt;
    reduced = count;
  }
  out.space = first->operand(0).shape();
  if (out.rows != 0 && out.columns != 0) {
    if (out.rows + out.columns != out.space.rank()) return std::nullopt;
    out.family = Family::RowsColumns;
  } else if (out.rows == 0) {
    out.family = Family::Columns;
  }
  return out;
}

/// Column reductions run side by side, after the rows: none may need another one, also where the
/// reduced axes have length 1, all are read, and behind them there are only columns, which have
/// nothing of a row at hand.
bool columns_stand_last(const KernelOps& ops, const std::unordered_set<const Op*>& columns,
                        const Reductions& reductions, const Mapper& mapper) {
  int64_t most = 1;
  for (int64_t dim : reductions.space.dims().subspan(static_cast<size_t>(reductions.columns)))
    most *= dim;
  std::unordered_set<const Op*> rows;  // row reductions and what depends on one
  for (const Op* op : ops) {
    bool reads_columns = false, reads_rows = false;
    for (Value operand : op->operands()) {
      if (operand.is_parameter()) continue;
      reads_columns |= columns.contains(operand.op());
      reads_rows |= rows.contains(operand.op());
    }
    const bool reduces = is_reduction(op->kind());
    if (!columns.contains(op)) {
      if (reads_rows || reduces) rows.insert(op);
      continue;
    }
    if (reduces && (reads_columns || !mapper.map_of(op))) return false;
    if (reads_columns && (reads_rows || op->result().type().elements() > most)) return false;
  }
  return true;
}

/// `count`: leading axes that are reduced.
bool is_chained(const KernelOps& ops, std::span<const Value> outputs, const Shape& space,
                int count) {
  return reduction_levels(ops).size() > 1 || std::ranges::any_of(outputs, [&](Value value) {
           return !columns_output_map(value.shape(), space, count);
         });
}

std::optional<Classified> classify_reductions(const KernelOps& ops,
                                              std::span<const Value> outputs) {
  const std::optional<Reductions> reductions = reductions_of(ops);
  if (!reductions) return std::nullopt;
  const auto& [family, space, row_axes, column_axes] = *reductions;
  const std::unordered_set<const Op*> columns = column_ops(ops);
  Mapper mapper(ops);
  auto map_for = [&](Value value) {
    const bool made = !value.is_parameter() && columns.contains(value.op());
    if (family == Family::Columns && value.shape() == space)
      return std::optional(identity_map(space));
    return made || row_axes == 0 ? columns_output_map(value.shape(), space, column_axes)
                                 : rows_output_map(value.shape(), space, row_axes);
  };
  for (Value value : outputs) {
    std::optional<AxisMap> map = map_for(value);
    if (!map || !mapper.demand(value, *map)) return std::nullopt;
  }
  if (!mapper.propagate()) return std::nullopt;
  // A reduction gives the kept axes in their places. What is read along others (a square space
  // reduced behind a transposition, then read beside the untransposed value) is another kernel's.
  // A column reduction that nothing reads has no place in a pass.
  for (const Op* op : ops) {
    if (!is_reduction(op->kind())) continue;
    const AxisMap* map = mapper.map_of(op);
    if (map ? map_for(op->result()) != *map : family == Family::Columns) return std::nullopt;
  }
  if (row_axes != 0 && column_axes != 0 && !columns_stand_last(ops, columns, *reductions, mapper))
    return std::nullopt;
  return Classified{family, space, row_axes != 0 ? row_axes : column_axes,
                    family == Family::Columns && is_chained(ops, outputs, space, column_axes)};
}

/// Behind an operand of the product: pointwise ops that keep the element count of the operand (or
/// broadcast into it).
bool prologue_fits(const KernelOps& prologue) {
  for (const Op* op : prologue) {
    if (!is_pointwise(*op) || op->info().growth == Growth::Exponential ||
        op->info().has(Trait::Random))
      return false;
    // What an operand of a product is packed through are views that keep an axis' direction.
    if (moves_stored(op->kind()) && (!is_view(op->kind()) || op->kind() == OpKind::Flip))
      return false;
  }
  return maps_stand_outside(prologue);
}

/// A product or a scatter with what stands before and behind it: nothing of what stands before is
/// read elsewhere, everything behind it runs along the axes of its result.
std::optional<Classified> classify_around(OpKind kind, Family family, const KernelOps& ops,
                                          std::span<const Value> outputs) {
  Op* anchor = nullptr;
  for (Op* op : ops)
    if (op->kind() == kind) {
      if (anchor) return std::nullopt;
      anchor = op;
    }
  std::unordered_set<const Op*> inside(ops.begin(), ops.end()), before;
  std::vector<const Op*> work{anchor};
  while (!work.empty()) {
    const Op* op = work.back();
    work.pop_back();
    for (Value value : op->operands())
      if (!value.is_parameter() && inside.contains(value.op()) && before.insert(value.op()).second)
        work.push_back(value.op());
  }
  KernelOps prologue, epilogue;
  for (Op* op : ops)
    if (op != anchor) (before.contains(op) ? prologue : epilogue).push_back(op);
  const bool fits = kind == OpKind::Matmul
                        ? prologue_fits(prologue)
                        : all_pointwise(prologue) && maps_stand_outside(prologue);
  if (!fits || !all_pointwise(epilogue)) return std::nullopt;
  for (Op* op : prologue)
    for (Op* user : op->result().users())
      if (user != anchor && inside.contains(user) && !before.contains(user)) return std::nullopt;
  Shape space = anchor->result().shape();
  KernelOps tail = epilogue;
  tail.insert(tail.begin(), anchor);
  Mapper mapper(tail);
  if (outputs.empty() || !maps_stand_outside(tail)) return std::nullopt;
  for (Value value : outputs) {
    if (!value.is_parameter() && before.contains(value.op())) return std::nullopt;
    if (!(value.shape() == space) || !mapper.demand(value, identity_map(space)))
      return std::nullopt;
  }
  if (!mapper.propagate()) return std::nullopt;
  const AxisMap* map = mapper.map_of(anchor);
  if (!map || *map != identity_map(space)) return std::nullopt;
  return Classified{family, space, 0};
}

/// All but the scan is pointwise and runs along the space as the scan does.
std::optional<Classified> classify_scan(const KernelOps& ops, std::span<const Value> outputs) {
  const Op* scan = nullptr;
  for (const Op* op : ops) {
    if (is_pointwise(*op)) continue;
    if (!is_scan(op->kind()) || scan) return std::nullopt;
    scan = op;
  }
  const Shape& space = scan->result().shape();
  Mapper mapper(ops);
  if (!mapper.demand(scan->result(), identity_map(space))) return std::nullopt;
  for (Value value : outputs)
    if (!(value.shape() == space) || !mapper.demand(value, identity_map(space)))
      return std::nullopt;
  if (!mapper.propagate()) return std::nullopt;
  return Classified{Family::Scan, space, 0};
}

/// Nothing but what its operands are made of stands beside the op, and nothing else is stored.
std::optional<Classified> classify_order(const KernelOps& ops, std::span<const Value> outputs) {
  const Op* order = nullptr;
  for (const Op* op : ops) {
    if (is_pointwise(*op)) continue;
    if (!is_order(op->kind()) || order) return std::nullopt;
    order = op;
  }
  for (Value value : outputs)
    if (value.is_parameter() || value.op() != order) return std::nullopt;
  const Shape& space = order->operand(0).shape();
  Mapper mapper(ops);
  for (Value value : order->operands())
    if (!mapper.demand(value, identity_map(space))) return std::nullopt;
  if (!mapper.propagate()) return std::nullopt;
  return Classified{Family::Sort, space, 0};
}

}  // namespace

std::optional<Classified> classify(const KernelOps& ops, std::span<const Value> outputs) {
  bool product = false, reduction = false, scatter = false, scan = false, order = false;
  for (const Op* op : ops) {
    product |= op->kind() == OpKind::Matmul;
    reduction |= is_reduction(op->kind());
    scatter |= op->kind() == OpKind::ScatterAdd;
    scan |= is_scan(op->kind());
    order |= is_order(op->kind());
  }
  if (product + reduction + scatter + scan + order > 1) return std::nullopt;
  if ((scan || order) && (outputs.empty() || !maps_stand_outside(ops))) return std::nullopt;
  if (scan) return classify_scan(ops, outputs);
  if (order) return classify_order(ops, outputs);
  if (product) return classify_around(OpKind::Matmul, Family::Matmul, ops, outputs);
  if (scatter) return classify_around(OpKind::ScatterAdd, Family::Scatter, ops, outputs);
  if (!maps_stand_outside(ops)) return std::nullopt;
  return reduction ? classify_reductions(ops, outputs) : classify_elementwise(ops, outputs);
}

std::optional<Classified> classify_kernel(const Op& kernel) {
  if (family_of(kernel) == Family::Optimizer) return std::nullopt;
  std::vector<Value> outputs = kernel.body()->terminator()->operands();
  return classify(kernel_ops(kernel), outputs);
}

}  // namespace mezzo::ir
