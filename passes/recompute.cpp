// SPDX-License-Identifier: Apache-2.0
// Lets the backward pass read what is in memory anyway instead of keeping more.
//
//   before                                             after
//     %a = mul %x, %c : tensor<4xf32>                    %a = mul %x, %c : tensor<4xf32>
//     %y = relu %p : tensor<4xf32>                       %y = relu %p : tensor<4xf32>
//     %m = gt %p, %zero {role = "backward"} : ...        %m = gt %y, %zero {role = "backward"} :
//     ... %g = mul %a, %dy {role = "backward"} : ...         %0 = mul %x, %c {replica = 1} :
//     tensor<4xf32>
//                                                        %g = mul %0, %dy {role = "backward"} : ...
//
// Two rules. (1) relu(p) > 0 exactly when p > 0, NaN included, so the mask of relu reads the
// output, which the next layer keeps, and p need not be stored. (2) An exact elementwise op on
// parameters, inputs and constants alone is cloned for its backward readers: its operands live
// through the whole step, so the clone moves no byte more than a stored copy. This is the only pass
// that clones; clones repeat the rounding of the original.
#include <mezzo/ir/builder.h>
#include <mezzo/passes/pass.h>

#include <unordered_map>

namespace mezzo::passes {

using namespace ir;

namespace {

bool is_backward(const Op& op) { return op.role() == "backward"; }

/// gt(p, 0) with a relu(p) before it.
bool read_relu_output(Op& op) {
  if (op.kind() != OpKind::Gt || !is_backward(op)) return false;
  std::optional<double> zero = splat_value(op.operand(1));
  Value input = op.operand(0);
  if (!zero || *zero != 0) return false;
  for (Op* user : input.users())
    if (user->kind() == OpKind::Relu && !is_backward(*user) && user->region() == op.region()) {
      op.set_operand(0, user->result());
      return true;
    }
  return false;
}

bool lives_through_the_step(Value value) {
  while (!value.is_parameter() && is_view(value.op()->kind())) value = value.op()->operand(0);
  return value.is_parameter() || value.is(OpKind::Constant);
}

bool is_cheap(const Op& op) {
  if (!is_elementwise(op.kind()) || !op.info().has(Trait::Exact) || is_backward(op)) return false;
  if (op.attrs().has("replica")) return false;
  for (Value operand : op.operands())
    if (!lives_through_the_step(operand)) return false;
  return true;
}

bool clone_for_backward(Op& op) {
  if (!is_cheap(op)) return false;
  std::vector<Use*> backward;
  bool forward = false;
  for (Use* use = op.result().def()->uses; use; use = use->next) {
    if (is_backward(*use->user))
      backward.push_back(use);
    else
      forward = true;
  }
  if (backward.empty() || !forward) return false;
  // Uses are listed newest first; the clone stands before the oldest backward reader.
  std::unordered_map<const Op*, int> wanted;
  for (Use* use : backward) ++wanted[use->user];
  Op* place = op.next();
  while (!wanted.contains(place)) place = place->next();
  ValueMap map;
  Op* copy = clone_op(op, *op.region(), place, map);
  copy->attrs().set("replica", 1);
  for (Use* use : backward) use->user->set_operand(use->index, copy->result());
  return true;
}

}  // namespace

bool recompute(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& function : module.functions())
    for (Op& op : function->body()) {
      changed |= read_relu_output(op);
      changed |= clone_for_backward(op);
    }
  return changed;
}

}  // namespace mezzo::passes
