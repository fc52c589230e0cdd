// SPDX-License-Identifier: Apache-2.0
// Rules of movement: views compose and cancel, transposes of the last two axes enter matrix
// products, a view of a splat is a splat. None of them touches an element's bits.
#include <mezzo/ir/sizes.h>
#include <mezzo/passes/canonicalize_rules.h>

#include <algorithm>
#include <iterator>

namespace mezzo::passes {

namespace {

using ir::Attr;
using ir::Op;
using ir::OpKind;
using ir::Value;
using Ints = std::vector<int64_t>;

bool is_identity(const Ints& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return true;
}

/// The last two axes change places, the others stay.
bool swaps_last_two(const Ints& perm) {
  size_t n = perm.size();
  if (n < 2) return false;
  Ints swapped = perm;
  std::swap(swapped[n - 2], swapped[n - 1]);
  return is_identity(swapped);
}

/// A reshape, broadcast or slice that changes no axis, a transposition or reversal that moves none,
/// a padding of nothing, a concatenation of one.
bool view_of_nothing(Op& op, Rewriter& rewriter) {
  bool same = false;
  switch (op.kind()) {
    case OpKind::Reshape:
    case OpKind::BroadcastTo:
    case OpKind::Slice:  // the shape stays only when every element is taken once, in order
    case OpKind::Pad:
      same = op.operand(0).shape() == op.result().shape();
      break;
    case OpKind::Transpose:
      same = is_identity(op.ints_attr("perm"));
      break;
    case OpKind::Concat:
      same = op.num_operands() == 1;
      break;
    case OpKind::Flip:
      same = std::ranges::all_of(op.ints_attr("axes"), [&](int64_t axis) {
        return op.result().shape()[static_cast<int>(axis)] <= 1;
      });
      break;
    default:
      break;
  }
  if (!same) return false;
  rewriter.replace(op, op.operand(0));
  return true;
}

/// Two reshapes, broadcasts, transpositions, reversals or slices in a row are one.
bool view_of_view(Op& op, Rewriter& rewriter) {
  if (!ir::is_view(op.kind()) || !op.operand(0).is(op.kind())) return false;
  Op& inner = *op.operand(0).op();
  Value source = inner.operand(0);
  ir::Builder builder = rewriter.builder(op);
  switch (op.kind()) {
    case OpKind::Reshape:
      rewriter.replace(op, builder.reshape(source, op.result().shape()));
      return true;
    case OpKind::BroadcastTo:
      rewriter.replace(op, builder.broadcast_to(source, op.result().shape()));
      return true;
    case OpKind::Transpose: {
      Ints outer = op.ints_attr("perm"), first = inner.ints_attr("perm"), perm;
      for (int64_t axis : outer) perm.push_back(first[static_cast<size_t>(axis)]);
      rewriter.replace(op, builder.transpose(source, perm));
      return true;
    }
    case OpKind::Flip: {
      Ints axes, outer = op.ints_attr("axes"), first = inner.ints_attr("axes");
      std::ranges::set_symmetric_difference(outer, first, std::back_inserter(axes));
      rewriter.replace(op, builder.make(OpKind::Flip, {source}, {{"axes", Attr(axes)}}));
      return true;
    }
    case OpKind::Slice: {
      Ints starts = inner.ints_attr("starts"), steps = inner.ints_attr("steps"), ends;
      Ints outer_starts = op.ints_attr("starts"), outer_steps = op.ints_attr("steps");
      for (size_t i = 0; i < starts.size(); ++i) {
        int64_t length = op.result().shape()[static_cast<int>(i)];
        starts[i] = length == 0 ? 0 : starts[i] + outer_starts[i] * steps[i];
        const int64_t whole = source.shape()[static_cast<int>(i)];
        steps[i] =
            std::min(ir::saturated_product(steps[i], outer_steps[i]), ir::greatest_step(whole));
        ends.push_back(length == 0 ? 0 : starts[i] + (length - 1) * steps[i] + 1);
      }
      rewriter.replace(
          op,
          builder.make(OpKind::Slice, {source},
                       {{"starts", Attr(starts)}, {"ends", Attr(ends)}, {"steps", Attr(steps)}}));
      return true;
    }
    default:
      return false;
  }
}

/// A view of a splat constant is a splat constant.
bool view_of_splat(Op& op, Rewriter& rewriter) {
  if (!ir::is_view(op.kind()) || !ir::splat_value(op.operand(0))) return false;
  ir::Builder builder = rewriter.builder(op);
  Attr value = *op.operand(0).op()->attrs().find("value");
  rewriter.replace(op,
                   builder.make(OpKind::Constant, {}, {{"value", value}}, {op.result().type()}));
  return true;
}

/// A transposition of the last two axes of an operand of a product becomes its attribute.
bool transpose_into_matmul(Op& op, Rewriter& rewriter) {
  if (op.kind() != OpKind::Matmul) return false;
  bool changed = false;
  for (int i : {0, 1}) {
    Value operand = op.operand(i);
    if (!operand.is(OpKind::Transpose) || !swaps_last_two(operand.op()->ints_attr("perm")))
      continue;
    const char* name = i == 0 ? "transpose_a" : "transpose_b";
    bool transposed = !op.bool_attr(name);
    rewriter.set_operand(op, i, operand.op()->operand(0));
    if (transposed)
      op.attrs().set(name, true);
    else
      op.attrs().erase(name);
    changed = true;
  }
  return changed;
}

/// A reduction over no axes is its operand (bools aside, whose sum is i64); the mean divides by 1.
bool reduction_of_nothing(Op& op, Rewriter& rewriter) {
  bool reduces = op.kind() == OpKind::Sum || op.kind() == OpKind::Mean ||
                 op.kind() == OpKind::Prod || op.kind() == OpKind::Max || op.kind() == OpKind::Min;
  if (!reduces || !op.ints_attr("axes").empty() || op.operand(0).type() != op.result().type())
    return false;
  rewriter.replace(op, op.operand(0));
  return true;
}

constexpr RewriteRule kRules[] = {view_of_nothing, view_of_view, view_of_splat,
                                  transpose_into_matmul, reduction_of_nothing};

}  // namespace

std::span<const RewriteRule> view_rules() { return kRules; }

}  // namespace mezzo::passes
