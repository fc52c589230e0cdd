// SPDX-License-Identifier: Apache-2.0
#include <support/random_graph_axis.h>

#include <mezzo/ir/error.h>

namespace mezzo::test {

using ir::Attrs;
using ir::OpInfo;
using ir::OpKind;
using ir::Value;

namespace {

/// The rows that run along the axis of the attribute of that name, and other than `axis` leave no
/// required attribute but those that are drawn here.
std::vector<const OpInfo*> rows_with(const AxisDraw& draw, bool reduction) {
  std::vector<const OpInfo*> rows;
  for (const OpInfo& info : ir::all_ops()) {
    const bool fits = reduction ? info.has(ir::Trait::Reduction)
                                : !info.has(ir::Trait::Reduction) && info.attribute("axis") &&
                                      info.max_operands > 0 &&
                                      (info.attribute("reverse") || info.attribute("descending") ||
                                       info.attribute("largest"));
    if (fits && (!draw.exact_only || info.has(ir::Trait::Exact))) rows.push_back(&info);
  }
  return rows;
}

void draw_choices(const AxisDraw& draw, const OpInfo& info, Attrs& attrs) {
  for (const ir::AttrInfo& attribute : info.attributes)
    if (attribute.kind == ir::AttrKind::Bool && draw.below(2) == 0)
      attrs.set(attribute.name, !attribute.fallback->as<bool>());
  if (info.attribute("correction")) attrs.set("correction", draw.below(3));
  constexpr double kOrders[] = {1, 2, 2, 3, 0.5};
  if (info.attribute("ord")) attrs.set("ord", kOrders[draw.below(5)]);
}

/// The op, or null where the shape rule refuses it: bools, or no elements.
ir::Op* try_create(const AxisDraw& draw, OpKind kind, const std::vector<Value>& operands,
                   const Attrs& attrs) {
  try {
    return draw.builder.create(kind, operands, attrs);
  } catch (const UserError&) {
    return nullptr;
  }
}

}  // namespace

Value random_reduction(const AxisDraw& draw, Value x, const std::vector<int64_t>& axes) {
  const std::vector<const OpInfo*> rows = rows_with(draw, true);
  const OpInfo& info = *rows[static_cast<size_t>(draw.below(std::ssize(rows)))];
  Attrs attrs;
  draw_choices(draw, info, attrs);
  if (info.attribute("axes"))
    attrs.set("axes", ir::Attr(axes));
  else if (x.type().rank() > 0)
    attrs.set("axis", draw.below(x.type().rank()));
  ir::Op* op = try_create(draw, info.kind, {x}, attrs);
  return op ? op->result() : Value();
}

std::vector<Value> random_along_axis(const AxisDraw& draw, Value x, Value other) {
  if (x.type().rank() == 0) return {};
  const std::vector<const OpInfo*> rows = rows_with(draw, false);
  const OpInfo& info = *rows[static_cast<size_t>(draw.below(std::ssize(rows)))];
  const int64_t axis = draw.below(x.type().rank());
  Attrs attrs{{"axis", axis}};
  draw_choices(draw, info, attrs);
  if (info.attribute("k")) attrs.set("k", draw.below(x.shape()[static_cast<int>(axis)] + 1));
  std::vector<Value> operands{x};
  if (info.max_operands > 1) operands.push_back(other);
  ir::Op* op = try_create(draw, info.kind, operands, attrs);
  return op ? op->results() : std::vector<Value>();
}

}  // namespace mezzo::test
