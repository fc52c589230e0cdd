// SPDX-License-Identifier: Apache-2.0
// Kernel cases of attention: heads alike and grouped, every kind of mask, dropout, empty axes.
#include <ops/kernel_draft.h>
#include <optional>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;

namespace {

struct AttentionCase {
  int64_t batch, heads, key_heads, queries, keys, depth, width;
  std::optional<Type> mask = std::nullopt;
  bool causal = false;
  double rate = 0;
  bool offset = false;
};

void add_attention(const Draft& draft, const AttentionCase& c) {
  const bool gradient = draft.kind == OpKind::AttentionGrad;
  const DType wide = ir::default_acc(draft.dtype);
  const Type q(draft.dtype, {c.batch, c.heads, c.queries, c.depth});
  const Type k(draft.dtype, {c.batch, c.key_heads, c.keys, c.depth});
  const Type v(draft.dtype, {c.batch, c.key_heads, c.keys, c.width});
  const Type y(draft.dtype, {c.batch, c.heads, c.queries, c.width});
  const Type lse(wide, {c.batch, c.heads, c.queries});
  std::vector<Type> operands{q, k, v};
  std::string domains = "sss";
  if (gradient) {
    operands.insert(operands.end(), {y, lse, y, lse});
    domains += "spss";
  }
  Attrs attrs{{"scale", Attr(0.5)},
              {"causal", Attr(c.causal)},
              {"masked", Attr(c.mask.has_value())},
              {"rate", Attr(c.rate)}};
  if (c.mask) {
    operands.push_back(*c.mask);
    domains += c.mask->dtype == DType::Bool ? 'b' : 's';
  }
  if (c.rate > 0) {
    operands.emplace_back(DType::I64, Shape{2});
    domains += 'i';
    attrs.set("stream", Attr(int64_t{3}));
  }
  if (c.offset) {
    operands.emplace_back(DType::I64, Shape());
    domains += 'i';
  }
  if (gradient) attrs.set("mask_grad", Attr(c.mask && ir::is_float(c.mask->dtype)));
  std::vector<Type> declared = gradient ? std::vector<Type>{q, k, v} : std::vector<Type>{y, lse};
  draft.add(operands, attrs, declared, domains);
  if (wide == draft.dtype) return;
  // Straight from the accumulator.
  for (size_t i = 0; i < (gradient ? declared.size() : 1); ++i)
    declared[i] = declared[i].with(wide);
  draft.add(operands, attrs, declared, domains);
}

}  // namespace

void attentions(const Draft& draft) {
  if (!ir::is_float(draft.dtype)) return;
  const DType wide = ir::default_acc(draft.dtype);
  auto bools = [](Shape shape) { return Type(DType::Bool, shape); };
  auto numbers = [&](Shape shape) { return Type(wide, shape); };
  if (!draft.small()) {
    add_attention(draft, {1, 1, 1, kRows, 5, 3, 2, bools({5})});
    return;
  }
  const AttentionCase cases[] = {
      {1, 1, 1, 1, 1, 1, 1},
      {2, 4, 4, 5, 7, 8, 3},
      {2, 4, 2, 5, 7, 8, 3, bools({7})},
      {2, 6, 1, 3, 5, 4, 4, bools({2, 1, 1, 5}), true},
      {2, 4, 2, 5, 7, 8, 3, bools({2, 4, 5, 7})},
      {2, 4, 2, 5, 7, 8, 3, numbers({5, 7})},
      {1, 4, 2, 5, 3, 8, 3, numbers({1, 4, 1, 3}), true},
      {3, 2, 2, 9, 4, 2, 5, std::nullopt, true},
      {3, 2, 2, 4, 9, 2, 5, std::nullopt, true},
      {2, 4, 2, 5, 7, 8, 3, bools({4, 5, 7}), true, 0.25},
      {2, 2, 2, 6, 33, 4, 4, std::nullopt, false, 0.5, true},
      {1, 2, 2, 3, 4, 2, 2, std::nullopt, false, 1.0},
      {2, 2, 1, 0, 4, 3, 2},
      {2, 2, 1, 3, 0, 3, 2, bools({3, 0})},
      {0, 2, 2, 3, 4, 3, 2, std::nullopt, true},
      {1, 1, 1, 3, 4, 0, 2},
      {1, 1, 1, 3, 4, 2, 0},
      {1, 3, 3, 65, 70, 20, 16, std::nullopt, true},
  };
  for (const AttentionCase& each : cases) add_attention(draft, each);
}

}  // namespace mezzo::test
