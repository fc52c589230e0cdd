// SPDX-License-Identifier: Apache-2.0
// Shape rules of attention, [batch, heads, length, depth] throughout: q [b, h, m, d], k [b, g, n,
// d], v [b, g, n, e] where the g heads of keys divide the h heads of queries; y [b, h, m, e], the
// saved log-sum-exp [b, h, m].
#include <mezzo/ir/attention.h>
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>

#include <fmt/format.h>

#include <cmath>

namespace mezzo::ir {

namespace {

constexpr const char* kLayout = "operands are [batch, heads, length, depth]";

void check_operand(const InferContext& context, size_t operand) {
  const Type &type = context.operands[operand], &q = context.operands[0];
  const std::string& name = op_info(context.kind).operands[operand];
  expect_float(context, static_cast<int>(operand));
  if (type.rank() != 4)
    context.fail(fmt::format("{} must have 4 axes, not {}", name, type.rank()), kLayout);
  expect_same_dtype(context, operand);
  if (type.shape[0] != q.shape[0])
    context.fail(fmt::format("batch sizes differ, {} and {}", q.shape[0], type.shape[0]), kLayout);
}

void check_heads(const InferContext& context) {
  for (size_t operand : {0, 1, 2}) check_operand(context, operand);
  const Shape &q = context.operands[0].shape, &k = context.operands[1].shape,
              &v = context.operands[2].shape;
  if (k[1] != v[1] || k[2] != v[2])
    context.fail(fmt::format("keys and values differ, {} of length {} and {} of length {}",
                             counted(k[1], "head"), k[2], counted(v[1], "head"), v[2]),
                 kLayout);
  if (q[3] != k[3])
    context.fail(fmt::format("queries have depth {}, keys {}", q[3], k[3]), kLayout);
  if (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0)
    context.fail(fmt::format("{} of keys and values do not divide {} of queries",
                             counted(k[1], "head"), counted(q[1], "head")),
                 "query head i reads key head i / (query heads / key heads)");
}

/// [b, h, m, n].
Shape scores_of(const InferContext& context) {
  const Shape &q = context.operands[0].shape, &k = context.operands[1].shape;
  return Shape{q[0], q[1], q[2], k[2]};
}

void check_mask(const InferContext& context, size_t operand, DType wide) {
  const Type& mask = context.operands[operand];
  if (mask.dtype != DType::Bool && mask.dtype != wide)
    context.fail(
        fmt::format("mask must be bool or {}, not {}", to_string(wide), to_string(mask.dtype)),
        "true in a boolean mask selects a key; a mask of numbers is added to the scores");
  const Shape scores = scores_of(context);
  std::optional<Shape> both = broadcast(mask.shape, scores);
  if (!both || !(*both == scores))
    context.fail("mask does not broadcast to the scores [" + to_string(scores) + "]",
                 "scores are [batch, heads, queries, keys]");
}

/// What stands behind the operands that are always there: a mask, the random state, an offset.
void check_rest(const InferContext& context, size_t first, DType wide) {
  const double rate = context.number("rate"), scale = context.number("scale");
  if (!(rate >= 0 && rate <= 1))
    context.fail(fmt::format("rate must lie in [0, 1], not {:g}", rate));
  if (!std::isfinite(scale)) context.fail(fmt::format("scale must be finite, not {:g}", scale));
  const bool masked = context.attrs.get_bool("masked"), drops = rate > 0;
  size_t fixed = first + masked + drops;
  if (context.operands.size() < fixed || context.operands.size() > fixed + drops)
    context.fail(fmt::format("takes {}{}{}", counted(static_cast<int64_t>(first), "operand"),
                             masked ? ", a mask" : "",
                             drops ? ", the random state and optionally an offset" : ""),
                 "masked says that there is a mask, a rate above 0 that there is a random state");
  if (masked) check_mask(context, first, wide);
  if (!drops) return;
  const size_t state = first + masked;
  auto expect = [&](size_t operand, const Type& wanted, const char* name) {
    if (!(context.operands[operand] == wanted))
      context.fail(fmt::format("{} must be {}, not {}", name, to_string(wanted),
                               to_string(context.operands[operand])));
  };
  expect(state, Type(DType::I64, {2}), "rng");
  if (context.operands.size() > state + 1) expect(state + 1, Type(DType::I64, {}), "offset");
}

/// The element type of result `index` whose own type is `own`: as stated where that is `own` or the
/// accumulator's.
DType chosen(const InferContext& context, size_t index, DType own, DType wide) {
  const DType dtype = context.declared.size() > index ? context.declared[index].dtype : own;
  if (dtype != own && dtype != wide)
    context.fail(
        fmt::format("gives {} or {}, not {}", to_string(own), to_string(wide), to_string(dtype)));
  return dtype;
}

}  // namespace

AttentionOperands attention_operands(OpKind kind, const Attrs& attrs, size_t count) {
  const size_t first = kind == OpKind::Attention ? 3 : 7;
  const bool masked = attrs.get_bool("masked");
  AttentionOperands out;
  if (masked) out.mask = static_cast<int>(first);
  const size_t state = first + masked;
  if (count > state) out.rng = static_cast<int>(state);
  if (count > state + 1) out.offset = static_cast<int>(state + 1);
  return out;
}

std::vector<Type> infer_attention(const InferContext& context) {
  check_heads(context);
  const Type& q = context.operands[0];
  const DType wide = default_acc(q.dtype);
  check_rest(context, 3, wide);
  const Type y(chosen(context, 0, q.dtype, wide), q.shape.with(3, context.operands[2].shape[3]));
  return {y, Type(wide, q.shape.without(3))};
}

std::vector<Type> infer_attention_grad(const InferContext& context) {
  check_heads(context);
  const Type &q = context.operands[0], &v = context.operands[2];
  const DType wide = default_acc(q.dtype);
  const Type y = q.with(q.shape.with(3, v.shape[3])), sums(wide, q.shape.without(3));
  expect_type(context, 3, y);
  expect_type(context, 4, sums);
  expect_type(context, 5, y);
  expect_type(context, 6, sums);
  check_rest(context, 7, wide);
  std::vector<Type> results;
  for (size_t i = 0; i < 3; ++i) {
    const Type& own = context.operands[i];
    results.push_back(own.with(chosen(context, i, own.dtype, wide)));
  }
  if (context.attrs.get_bool("mask_grad")) {
    const bool masked = context.attrs.get_bool("masked");
    if (!masked || context.operands[7].dtype == DType::Bool)
      context.fail(std::string("mask_grad needs a mask of numbers, not ") +
                       (masked ? "one of bools" : "none"),
                   "a mask of bools has no gradient");
    results.push_back(context.operands[7]);
  }
  return results;
}

}  // namespace mezzo::ir
