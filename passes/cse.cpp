// SPDX-License-Identifier: Apache-2.0
// cse: merges ops of the same kind, operands, attributes and result types into the first of them,
// whose location and names stay. Random ops (backward regenerates masks instead of keeping them),
// ops with effects and kernels are left alone; clones of `recompute` differ by `replica`. What says
// only where an op comes from (word, reason, and once precision is decided role, scope and policy)
// does not count. One hash table a region: near-linear.
//
// before:
//   func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
//     %0 = add %x, %y : tensor<4xf32>
//     %1 = add %y, %x : tensor<4xf32>
//     %2 = mul %0, %1 : tensor<4xf32>
//     return %2 : tensor<4xf32>
//   }
// after:
//   func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
//     %0 = add %x, %y : tensor<4xf32>
//     %1 = mul %0, %0 : tensor<4xf32>
//     return %1 : tensor<4xf32>
//   }
#include <mezzo/passes/pass.h>
#include <mezzo/passes/rewrite.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <string_view>
#include <unordered_set>

namespace mezzo::passes {

namespace {

using ir::Op;
using ir::Value;

bool may_merge(const Op& op) {
  const ir::OpInfo& info = op.info();
  return !info.has(ir::Trait::Random) && !info.has(ir::Trait::Effect) &&
         !info.has(ir::Trait::Terminator) && op.num_results() > 0 && !op.body();
}

/// The attribute is part of what the op computes.
bool counts(std::string_view name, bool typed) {
  if (name == "word" || name == "reason" || name == "folded") return false;
  return !typed || (name != "role" && name != "scope" && name != "policy");
}

void mix(size_t& seed, size_t value) {
  seed ^= value + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2);
}

size_t hash_of(const ir::Attr& attr) {
  struct Visitor {
    size_t operator()(int64_t value) const { return std::hash<int64_t>{}(value); }
    size_t operator()(double value) const { return std::bit_cast<uint64_t>(value); }
    size_t operator()(bool value) const { return value; }
    size_t operator()(const std::string& value) const { return std::hash<std::string>{}(value); }
    size_t operator()(ir::DType value) const { return static_cast<size_t>(value); }
    size_t operator()(const ir::Bits& value) const { return value.bits; }
    size_t operator()(const ir::ValueRef& value) const {
      return std::hash<const void*>{}(value.value);
    }
    size_t operator()(const ir::Symbol& value) const { return (*this)(value.name); }
    size_t operator()(const ir::Resource& value) const { return (*this)(value.name); }
    size_t operator()(const ir::AttrList& list) const {
      size_t seed = list.size();
      for (const ir::Attr& item : list) mix(seed, hash_of(item));
      return seed;
    }
  };
  return std::visit(Visitor{}, attr.data());
}

/// The two operands of a commutative op in an order that both spellings share.
std::pair<const void*, const void*> sorted_operands(const Op& op) {
  const void *a = op.operand(0).def(), *b = op.operand(1).def();
  return std::less<>{}(a, b) ? std::pair(a, b) : std::pair(b, a);
}

bool commutes(const Op& op) {
  return op.info().has(ir::Trait::Commutative) && op.num_operands() == 2;
}

struct HashOp {
  bool typed;
  size_t operator()(const Op* op) const {
    size_t seed = static_cast<size_t>(op->kind());
    if (commutes(*op)) {
      auto [a, b] = sorted_operands(*op);
      mix(seed, std::hash<const void*>{}(a));
      mix(seed, std::hash<const void*>{}(b));
    } else {
      for (int i = 0; i < op->num_operands(); ++i)
        mix(seed, std::hash<const void*>{}(op->operand(i).def()));
    }
    for (const auto& [name, attr] : op->attrs())
      if (counts(name, typed)) mix(seed, hash_of(attr));
    for (int i = 0; i < op->num_results(); ++i) {
      mix(seed, static_cast<size_t>(op->result(i).dtype()));
      for (int64_t length : op->result(i).shape()) mix(seed, static_cast<size_t>(length));
    }
    return seed;
  }
};

struct EqualOp {
  bool typed;

  /// The next attribute that counts, or the end.
  auto skip(const ir::Attrs& attrs, decltype(attrs.begin()) it) const {
    return std::find_if(it, attrs.end(),
                        [&](const auto& entry) { return counts(entry.first, typed); });
  }

  bool operator()(const Op* a, const Op* b) const {
    if (a->kind() != b->kind() || a->num_operands() != b->num_operands() ||
        a->num_results() != b->num_results())
      return false;
    if (commutes(*a)) {
      if (sorted_operands(*a) != sorted_operands(*b)) return false;
    } else {
      for (int i = 0; i < a->num_operands(); ++i)
        if (a->operand(i) != b->operand(i)) return false;
    }
    for (int i = 0; i < a->num_results(); ++i)
      if (a->result(i).type() != b->result(i).type()) return false;
    auto x = skip(a->attrs(), a->attrs().begin()), y = skip(b->attrs(), b->attrs().begin());
    while (x != a->attrs().end() && y != b->attrs().end() && *x == *y) {
      x = skip(a->attrs(), ++x);
      y = skip(b->attrs(), ++y);
    }
    return x == a->attrs().end() && y == b->attrs().end();
  }
};

void merge(Op& later, Op& first, References& references) {
  for (int i = 0; i < later.num_results(); ++i) {
    if (first.result(i).name().empty()) first.result(i).set_name(later.result(i).name());
    references.replace(later.result(i), first.result(i));
    later.result(i).replace_all_uses_with(first.result(i));
  }
  references.drop(later);
  later.erase();
}

bool merge_equal_ops(ir::Region& region, bool typed, References& references) {
  std::unordered_set<Op*, HashOp, EqualOp> seen(16, HashOp{typed}, EqualOp{typed});
  bool changed = false;
  for (Op& op : region) {
    if (op.body()) changed |= merge_equal_ops(*op.body(), typed, references);
    if (!may_merge(op)) continue;
    auto [it, inserted] = seen.insert(&op);
    if (inserted) continue;
    merge(op, **it, references);
    changed = true;
  }
  return changed;
}

}  // namespace

bool cse(ir::Module& module, PassContext&) {
  bool typed = module.stage() >= ir::Stage::Typed;
  bool changed = false;
  for (const auto& function : module.functions()) {
    References references(*function);
    changed |= merge_equal_ops(function->body(), typed, references);
  }
  return changed;
}

}  // namespace mezzo::passes
