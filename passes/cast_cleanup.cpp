// SPDX-License-Identifier: Apache-2.0
// Removes and shares casts where no value can change.
//
// clang-format off
//   before                                               after
//     %1 = cast %0 : tensor<4xf16> -> tensor<4xf32>        %1 = cast %0 : tensor<4xf16> -> tensor<4xf32>
//     %2 = cast %1 : tensor<4xf32> -> tensor<4xf16>        return %0, %1 : ...
//     return %2, %1 : ...
// clang-format on
//
// Rules: a cast to the same type is its operand; a widening cast is exact, so a cast of it is a
// cast of its operand (and nothing at all when the types meet); equal casts of one value are one; a
// cast of a broadcast of fewer elements casts before the broadcast; unread casts go. f32 -> f16 ->
// f32 rounds and is never folded here (only `round-mode` drops it, inside a kernel). Casts marked
// {user} stay, and no cast is taken past one.
#include <mezzo/ir/builder.h>
#include <mezzo/passes/pass.h>

#include <map>

namespace mezzo::passes {

using namespace ir;

namespace {

/// Every value of `from` is a value of `to`.
bool is_exact(DType from, DType to) {
  if (from == to) return true;
  if (!is_float(from) || !is_float(to)) return false;
  if (to == DType::F64) return true;
  return to == DType::F32 && is_16bit(from);
}

bool replace(Op& op, Value value) {
  if (value.name().empty()) value.set_name(op.result().name());
  op.result().replace_all_uses_with(value);
  op.erase();
  return true;
}

bool drop_identity(Op& op) {
  if (op.operand(0).dtype() != op.result().dtype()) return false;
  return replace(op, op.operand(0));
}

/// cast(cast(x)) with an exact inner cast reads x.
bool skip_exact_cast(Op& op) {
  Value inner = op.operand(0);
  if (!inner.is(OpKind::Cast) || inner.op()->bool_attr("user")) return false;
  Value source = inner.op()->operand(0);
  if (!is_exact(source.dtype(), inner.dtype())) return false;
  op.set_operand(0, source);
  return true;
}

/// A narrowing cast of a view that has more elements than its source: cast the source instead.
bool move_before_broadcast(Op& op) {
  Value view = op.operand(0);
  if (!view.is(OpKind::BroadcastTo) || !view.has_one_use()) return false;
  Value source = view.op()->operand(0);
  if (source.type().elements() >= view.type().elements()) return false;
  Builder builder(&op);
  builder.derive_from(&op);
  Attrs attrs = op.attrs();
  Value cast =
      builder.make(OpKind::Cast, {source}, attrs, {source.type().with(op.result().dtype())});
  builder.derive_from(view.op());
  return replace(op, builder.broadcast_to(cast, view.shape()));
}

enum class Outcome { Same, Rewritten, Replaced };

Outcome simplify(Op& op) {
  bool skipped = skip_exact_cast(op);
  if (drop_identity(op) || move_before_broadcast(op)) return Outcome::Replaced;
  return skipped ? Outcome::Rewritten : Outcome::Same;
}

}  // namespace

bool cast_cleanup(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& function : module.functions()) {
    std::map<std::pair<const ValueDef*, DType>, Value> known;
    for (Op& op : function->body()) {
      if (op.kind() != OpKind::Cast || op.bool_attr("user")) continue;
      switch (simplify(op)) {
        case Outcome::Replaced:
          changed = true;
          continue;
        case Outcome::Rewritten:
          changed = true;
          break;
        case Outcome::Same:
          break;
      }
      auto [it, fresh] = known.try_emplace({op.operand(0).def(), op.result().dtype()}, op.result());
      if (!fresh) changed |= replace(op, it->second);
    }
    // Casts whose readers were all given something better.
    std::vector<Op*> casts;
    for (Op& op : function->body())
      if (op.kind() == OpKind::Cast && op.result().unused()) casts.push_back(&op);
    for (size_t i = casts.size(); i-- > 0;) {
      casts[i]->erase();
      changed = true;
    }
  }
  return changed;
}

}  // namespace mezzo::passes
