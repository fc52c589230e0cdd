// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/kernel_region.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>

namespace mezzo::ir {

bool is_reduction(OpKind kind) {
  return kind == OpKind::Sum || kind == OpKind::Prod || kind == OpKind::Max ||
         kind == OpKind::Min || kind == OpKind::Argmax;
}

bool is_anchor(OpKind kind) {
  return is_reduction(kind) || is_scan(kind) || is_order(kind) || kind == OpKind::Matmul ||
         kind == OpKind::ScatterAdd;
}

bool is_scan(OpKind kind) {
  return kind == OpKind::Cumsum || kind == OpKind::Cumprod || kind == OpKind::Cummax ||
         kind == OpKind::Cummin || kind == OpKind::LinearScan;
}

bool is_order(OpKind kind) {
  return kind == OpKind::Sort || kind == OpKind::Argsort || kind == OpKind::SortBy ||
         kind == OpKind::Topk;
}

const Op& axis_op(const Op& kernel) {
  for (const Op& op : *kernel.body())
    if (is_scan(op.kind()) || is_order(op.kind())) return op;
  throw InternalError("kernel @" + kernel.kernel_name() + " has nothing that runs along an axis");
}

bool divides_integers(const Op& op) {
  return (op.kind() == OpKind::FloorDiv || op.kind() == OpKind::Remainder) &&
         is_integer(op.result().dtype());
}

bool divides_integers(const Region& region) {
  for (const Op& op : region)
    if (divides_integers(op) || (op.body() && divides_integers(*op.body()))) return true;
  return false;
}

bool may_set_range_flag(const Op& op) {
  return op.info().has(Trait::Checks) || divides_integers(op);
}

bool is_costly(const Op& op) {
  const OpInfo& info = op.info();
  return info.has(Trait::Random) || (is_elementwise(op.kind()) &&
                                     (!info.has(Trait::Exact) || info.growth == Growth::Singular));
}

std::vector<int64_t> reduced_axes(const Op& op) {
  if (op.kind() == OpKind::Argmax) return {op.int_attr("axis")};
  return op.ints_attr("axes");
}

bool reduces_last_axes(const Op& op) {
  const std::vector<int64_t> axes = reduced_axes(op);
  const int64_t count = std::ssize(axes);
  return count > 0 && axes.front() == op.operand(0).type().rank() - count;
}

KernelSpace kernel_space(const Op& kernel) {
  const Op* reduction = nullptr;
  for (Op& op : *kernel.body()) {
    if (op.kind() == OpKind::Matmul || op.kind() == OpKind::ScatterAdd)
      return {op.result().shape(), 0};
    if (is_scan(op.kind()) || is_order(op.kind())) return {op.operand(0).shape(), 0};
    // Row reductions before column reductions.
    if (is_reduction(op.kind()) && (!reduction || reduces_last_axes(op))) reduction = &op;
    if (reduction && reduces_last_axes(*reduction)) break;
  }
  if (!reduction) return {kernel.body()->terminator()->operand(0).shape(), 0};
  return {reduction->operand(0).shape(), static_cast<int>(reduced_axes(*reduction).size())};
}

std::vector<Value> scalar_values(const Op& kernel) {
  std::vector<Value> values;
  std::unordered_set<const Op*> ready;
  for (Op& op : *kernel.body()) {
    if (op.num_results() != 1 || op.result().type().elements() != 1 || is_anchor(op.kind()))
      continue;
    bool independent = true;
    for (Value operand : op.operands())
      independent &= operand.type().elements() == 1 &&
                     (operand.is_parameter() || ready.contains(operand.op()));
    if (!independent) continue;
    ready.insert(&op);
    values.push_back(op.result());
  }
  return values;
}

std::vector<Op*> kernel_ops(const Op& kernel) {
  std::vector<Op*> ops;
  for (Op& op : *kernel.body())
    if (op.kind() != OpKind::Yield) ops.push_back(&op);
  return ops;
}

namespace {

/// Of `ops`, which are in program order: those that `starts` holds for and what depends on one.
template <class Starts>
std::unordered_set<const Op*> made_of(std::span<Op* const> ops, Starts starts) {
  std::unordered_set<const Op*> made;
  for (const Op* op : ops) {
    bool inside = starts(*op);
    for (Value operand : op->operands())
      inside |= !operand.is_parameter() && made.contains(operand.op());
    if (inside) made.insert(op);
  }
  return made;
}

}  // namespace

std::unordered_set<const Op*> column_ops(std::span<Op* const> ops) {
  return made_of(ops,
                 [](const Op& op) { return is_reduction(op.kind()) && !reduces_last_axes(op); });
}

std::vector<std::vector<const Op*>> reduction_levels(std::span<Op* const> ops) {
  std::unordered_map<const Op*, size_t> depth;  // levels that are known before the op
  std::vector<std::vector<const Op*>> levels;
  for (const Op* op : ops) {
    size_t after = 0;
    for (Value operand : op->operands())
      if (!operand.is_parameter())
        if (auto it = depth.find(operand.op()); it != depth.end())
          after = std::max(after, it->second);
    if (is_reduction(op->kind())) {
      if (levels.size() <= after) levels.resize(after + 1);
      levels[after++].push_back(op);
    }
    depth[op] = after;
  }
  return levels;
}

std::vector<Value> watched_line_values(const Op& kernel, int64_t lines) {
  const std::vector<Op*> ops = kernel_ops(kernel);
  const std::unordered_set<const Op*> made =
      made_of(ops, [](const Op& op) { return is_reduction(op.kind()); });
  std::vector<Value> values;
  for (const Op* op : ops) {
    const int64_t elements = op->result().type().elements();
    if (made.contains(op) && op->attrs().has("word") && elements > 0 && elements <= lines)
      values.push_back(op->result());
  }
  return values;
}

int64_t narrowest_bytes(std::span<const Value> inputs, std::span<const Value> outputs) {
  int64_t narrowest = 8;
  for (std::span<const Value> values : {inputs, outputs})
    for (Value value : values)
      if (value.type().elements() != 1) narrowest = std::min(narrowest, byte_size(value.dtype()));
  return narrowest;
}

std::vector<std::vector<Value>> optimizer_segments(const Op& kernel) {
  // Union-find over ops; constants, iota and scalars belong to no segment.
  std::unordered_map<const Op*, const Op*> parent;
  auto connects = [](const Op& op) {
    return op.num_operands() > 0 && op.num_results() == 1 && op.result().type().elements() != 1;
  };
  auto root = [&](const Op* op) {
    while (parent.at(op) != op) op = parent[op] = parent.at(parent.at(op));
    return op;
  };
  for (Op& op : *kernel.body()) {
    if (!connects(op)) continue;
    parent[&op] = &op;
    for (Value operand : op.operands())
      if (!operand.is_parameter() && parent.contains(operand.op()))
        parent[root(operand.op())] = &op;
  }
  std::vector<std::vector<Value>> segments;
  std::unordered_map<const Op*, size_t> segment_of;
  for (Value value : kernel.body()->terminator()->operands()) {
    const Op* key = parent.contains(value.op()) ? root(value.op()) : value.op();
    auto [it, fresh] = segment_of.try_emplace(key, segments.size());
    if (fresh) segments.emplace_back();
    segments[it->second].push_back(value);
  }
  return segments;
}

std::vector<Op*> ops_behind(std::span<const Value> values) {
  std::vector<Op*> ops;
  std::unordered_set<const Op*> seen;
  // Depth first, each op after its operands.
  std::vector<std::pair<Op*, int>> work;
  auto visit = [&](Value value) {
    if (!value.is_parameter() && seen.insert(value.op()).second) work.emplace_back(value.op(), 0);
  };
  for (Value value : values) {
    visit(value);
    while (!work.empty()) {
      auto& [op, next] = work.back();
      if (next < op->num_operands()) {
        visit(op->operand(next++));
        continue;
      }
      ops.push_back(op);
      work.pop_back();
    }
  }
  return ops;
}

bool is_flat(std::span<const Value> yields) {
  const Shape& space = yields[0].shape();
  for (const Op* op : ops_behind(yields)) {
    const bool pointwise = is_elementwise(op->kind()) || op->kind() == OpKind::Constant ||
                           op->info().has(Trait::Random);
    const bool scalar = op->result().type().elements() == 1;
    if (!scalar && (!pointwise || !(op->result().shape() == space))) return false;
    if (op->info().has(Trait::Random)) continue;  // reads its state, not a tensor
    for (Value operand : op->operands())
      if (operand.type().elements() != 1 && !(operand.shape() == space)) return false;
  }
  return true;
}

Value storage_of(Value value) {
  while (value.is(OpKind::Reshape)) value = value.op()->operand(0);
  return value;
}

bool may_write_in_place(Family family) {
  return family == Family::Elementwise || family == Family::Optimizer;
}

InPlaceRule::InPlaceRule(const Op& kernel) : kernel_(kernel) {
  for (int i = 0; i < kernel.num_operands(); ++i)
    operands_[storage_of(kernel.operand(i)).def()].push_back(i);
  if (family_of(kernel) == Family::Optimizer) {
    std::vector<std::vector<Value>> segments = optimizer_segments(kernel);
    for (size_t i = 0; i < segments.size(); ++i)
      for (Value value : segments[i]) segment_of_[value.def()] = i;
  } else {
    for (Value value : kernel.body()->terminator()->operands()) segment_of_[value.def()] = 0;
  }
}

bool InPlaceRule::allows(int result, Value storage) const {
  auto it = operands_.find(storage.def());
  if (it == operands_.end()) return true;
  if (!may_write_in_place(family_of(kernel_))) return false;
  return std::ranges::all_of(it->second, [&](int operand) {
    return reaches_only(kernel_.body()->parameter(operand), result);
  });
}

/// Follows the readers of `inner` to the yields. Ops of one element count keep every element at its
/// place in memory; whatever moves elements, broadcasts or reduces them ends the walk.
bool InPlaceRule::reaches_only(Value inner, int result) const {
  const Type& type = kernel_.result(result).type();
  if (inner.type().bytes() != type.bytes() || inner.type().elements() != type.elements())
    return false;
  size_t own = segment_of_.at(kernel_.body()->terminator()->operand(result).def());
  std::vector<Value> work{inner};
  std::unordered_set<const Op*> seen;
  while (!work.empty()) {
    Value value = work.back();
    work.pop_back();
    for (const Op* user : value.users()) {
      if (user->kind() == OpKind::Yield) {
        // Another segment is a task of its own.
        if (segment_of_.at(value.def()) != own) return false;
        continue;
      }
      if (!is_elementwise(user->kind()) && user->kind() != OpKind::Reshape) return false;
      if (user->result().type().elements() != type.elements()) return false;
      if (seen.insert(user).second) work.push_back(user->result());
    }
  }
  return true;
}

int vector_axis(std::span<const int64_t> dims) {
  int axis = static_cast<int>(dims.size()) - 1;
  while (axis >= 0 && dims[static_cast<size_t>(axis)] == 1) --axis;
  return axis;
}

std::vector<int64_t> kernel_words(const Op& kernel) {
  std::vector<int64_t> words;
  for (Op& op : *kernel.body())
    if (op.attrs().has("word")) {
      int64_t word = op.attrs().get_int("word");
      if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
  return words;
}

std::vector<const Op*> kernel_slots(const Op& kernel) {
  std::vector<const Op*> ops;
  for (Op& op : *kernel.body())
    if (op.kind() == OpKind::Constant || op.attrs().has("stream")) ops.push_back(&op);
  return ops;
}

int64_t slot_bits(const Op& op) {
  if (const Attr* stream = op.attrs().find("stream")) return stream->as<int64_t>();
  const Attr& value = *op.attrs().find("value");
  const DType dtype = op.result().dtype();
  if (dtype == DType::F64) return std::bit_cast<int64_t>(scalar_value(dtype, value));
  if (is_float(dtype))
    return std::bit_cast<uint32_t>(static_cast<float>(scalar_value(dtype, value)));
  return value.is<bool>() ? value.as<bool>() : value.as<int64_t>();
}

}  // namespace mezzo::ir
