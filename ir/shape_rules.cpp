// SPDX-License-Identifier: Apache-2.0
// The common part of the shape rules: attribute schemas, elementwise ops, and the dispatch to the
// rule of a row.
#include <mezzo/ir/shape_rules.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>

#include <limits>

namespace mezzo::ir {

void InferContext::fail(const std::string& message, const std::string& hint) const {
  const OpInfo& info = op_info(kind);
  std::string types;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i) types += ", ";
    size_t name = std::min(i, info.operands.empty() ? 0 : info.operands.size() - 1);
    if (!info.operands.empty()) types += info.operands[name] + " ";
    types += to_string(operands[i]);
  }
  throw UserError(
      location, std::string(info.name) + ": " + message + (types.empty() ? "" : " (" + types + ")"),
      hint);
}

double InferContext::number(std::string_view name) const {
  return attr_or_default(kind, attrs, name).as<double>();
}

std::string InferContext::text(std::string_view name) const {
  return attr_or_default(kind, attrs, name).as<std::string>();
}

int check_axis(const InferContext& context, int64_t axis, int rank) {
  if (axis < 0 || axis >= rank)
    context.fail(
        "axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank),
        rank == 0   ? "a scalar has no axes"
        : rank == 1 ? "there is axis 0 alone"
                    : "axes are 0 to " + std::to_string(rank - 1));
  return static_cast<int>(axis);
}

Shape reduced_shape(const Shape& shape, std::span<const int64_t> axes, bool keepdims) {
  bool reduced[kMaxRank] = {};
  for (int64_t axis : axes) reduced[axis] = true;
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!reduced[i])
      dims.push_back(shape[i]);
    else if (keepdims)
      dims.push_back(1);
  }
  return Shape(std::span<const int64_t>(dims));
}

namespace {

const char* kind_text(AttrKind kind) {
  constexpr const char* kTexts[] = {"an integer",       "a float",         "true or false",
                                    "a string",         "an element type", "a list of integers",
                                    "a list of floats", "a constant",      "a symbol",
                                    "a value",          "a list of places"};
  return kTexts[static_cast<size_t>(kind)];
}

bool all_of_kind(const Attr& attr, auto accept) {
  if (!attr.is<AttrList>()) return false;
  for (const Attr& item : attr.as<AttrList>())
    if (!accept(item)) return false;
  return true;
}

bool is_number(const Attr& attr) {
  return attr.is<int64_t>() || attr.is<double>() || attr.is<bool>() || attr.is<Bits>();
}

bool fits(const Attr& attr, AttrKind kind) {
  switch (kind) {
    case AttrKind::Int:
      return attr.is<int64_t>();
    case AttrKind::Float:
      return attr.is<double>();
    case AttrKind::Bool:
      return attr.is<bool>();
    case AttrKind::String:
      return attr.is<std::string>();
    case AttrKind::Type:
      return attr.is<DType>();
    case AttrKind::Ints:
      return all_of_kind(attr, [](const Attr& item) { return item.is<int64_t>(); });
    case AttrKind::Floats:
      return all_of_kind(attr, [](const Attr& item) { return item.is<double>(); });
    case AttrKind::Scalar:
      return is_number(attr) || attr.is<Resource>() || all_of_kind(attr, is_number);
    case AttrKind::Symbol:
      return attr.is<Symbol>();
    case AttrKind::Value:
      return attr.is<ValueRef>();
    case AttrKind::Places:
      return all_of_kind(attr, [](const Attr& item) {
        return item.is<int64_t>() || item.is<ValueRef>() || item.is<Symbol>();
      });
  }
  return false;
}

void check_range(const InferContext& context, const AttrInfo& info, const Attr& attr) {
  if (attr.is<AttrList>()) {
    for (const Attr& item : attr.as<AttrList>()) check_range(context, info, item);
    return;
  }
  const auto [least, most] = *info.range;
  const int64_t value = attr.as<int64_t>();
  if (value >= least && value <= most) return;
  const std::string name = info.name;
  if (most == std::numeric_limits<int64_t>::max())
    context.fail(name + " must be " + std::to_string(least) + " or more, not " +
                 std::to_string(value));
  context.fail(name + " " + std::to_string(value) + " lies outside [" + std::to_string(least) +
               ", " + std::to_string(most) + "]");
}

void check_attributes(const InferContext& context) {
  const OpInfo& info = op_info(context.kind);
  for (const auto& [name, value] : context.attrs) {
    const AttrInfo* known = info.attribute(name);
    if (!known) {
      if (context.kind == OpKind::Kernel) continue;
      std::vector<std::string> names;
      for (const AttrInfo& each : info.attributes) names.push_back(each.name);
      context.fail("unknown attribute '" + std::string(name) + "'" + did_you_mean(name, names));
    }
    if (!fits(value, known->kind))
      context.fail("attribute '" + std::string(name) + "' must be " + kind_text(known->kind));
    if (known->range) check_range(context, *known, value);
  }
  for (const AttrInfo& known : info.attributes)
    if (known.required && !context.attrs.has(known.name))
      context.fail("attribute '" + std::string(known.name) + "' is missing");
}

/// The type that products accumulate in.
void check_acc(const InferContext& context) {
  const Attr* acc = context.attrs.find("acc");
  if (!acc) return;
  if (!has_acc(context.kind))
    context.fail("attribute 'acc' is for products", "leave it out: nothing is accumulated here");
  DType made = default_acc(context.operands[0].dtype);
  if (acc->as<DType>() != made)
    context.fail(std::string("products of ") + to_string(context.operands[0].dtype) +
                 " accumulate in " + to_string(made) + ", not " + to_string(acc->as<DType>()));
}

void check_operand_count(const InferContext& context) {
  const OpInfo& info = op_info(context.kind);
  int count = static_cast<int>(context.operands.size());
  if (count < info.min_operands || (info.max_operands >= 0 && count > info.max_operands)) {
    const int most = std::max(info.min_operands, info.max_operands);
    std::string expected = info.max_operands < 0 ? "at least " : "";
    if (most != info.min_operands) expected += std::to_string(info.min_operands) + " to ";
    context.fail("takes " + expected + counted(most, "operand") + ", not " + std::to_string(count));
  }
}

std::string entering(TypeRule rule) {
  switch (rule) {
    case TypeRule::SameFloat:
    case TypeRule::PredicateFloat:
      return "a float type";
    case TypeRule::SameNumber:
    case TypeRule::PredicateNumber:
      return "a float or integer type";
    case TypeRule::SameInteger:
      return "an integer type";
    case TypeRule::Logical:
      return "bool";
    default:
      return "any type";
  }
}

Shape broadcast_operands(const InferContext& context) {
  Shape shape = context.operands[0].shape;
  for (const Type& type : context.operands.subspan(1)) {
    std::optional<Shape> both = broadcast(shape, type.shape);
    if (!both)
      context.fail("shapes do not broadcast, " + to_string(Type(type.dtype, shape)) + " and " +
                       to_string(type),
                   kBroadcastHint);
    shape = *both;
  }
  return shape;
}

std::vector<Type> infer_elementwise(const InferContext& context) {
  TypeRule rule = op_info(context.kind).types;
  if (context.operands.empty()) context.fail("takes at least 1 operand, not 0");
  Shape shape = broadcast_operands(context);
  if (rule == TypeRule::Cast) {
    return {Type(declared(context).dtype, shape)};
  }
  size_t first = 0;
  if (rule == TypeRule::Select) {
    if (context.operands[0].dtype != DType::Bool)
      context.fail(
          std::string("condition must be bool, not ") + to_string(context.operands[0].dtype),
          "a comparison gives bool");
    first = 1;
  }
  DType dtype = context.operands[first].dtype;
  for (size_t i = first; i < context.operands.size(); ++i) {
    const Type& type = context.operands[i];
    expect_same_dtype(context, i, first);
    if (!may_enter(rule, type.dtype))
      context.fail(
          "takes " + entering(rule) + ", not " + to_string(type.dtype),
          context.kind == OpKind::Div && is_integer(type.dtype)
              ? "floor_div divides integers; cast one operand to a float type for a quotient"
              : "cast it first");
  }
  bool predicate = rule == TypeRule::PredicateFloat || rule == TypeRule::PredicateNumber ||
                   rule == TypeRule::PredicateAny;
  return {Type(predicate ? DType::Bool : dtype, shape)};
}

std::vector<Type> infer_by_row(const InferContext& context) {
  switch (context.kind) {
#define ELEMENTWISE(Kind, ...) \
  case OpKind::Kind:           \
    return infer_elementwise(context);
#define STRUCTURAL(Kind, name, operands, results, shape, ...) \
  case OpKind::Kind:                                          \
    return infer_##shape(context);
#define COMPOSITE(Kind, name, operands, results, shape, ...) \
  case OpKind::Kind:                                         \
    return infer_##shape(context);
#include <mezzo/ir/ops.def>
  }
  return {};
}

}  // namespace

bool may_enter(TypeRule rule, DType type) { return contains(operand_types(rule), type); }

std::vector<Type> infer_types(const InferContext& context) {
  check_attributes(context);
  check_operand_count(context);
  check_acc(context);
  try {
    return infer_by_row(context);
  } catch (const UserError& error) {
    // A shape that cannot be knows neither the op that it comes out of nor its line.
    if (error.message().starts_with(std::string(op_info(context.kind).name) + ": ")) throw;
    context.fail(error.message(), error.hint());
  }
}

}  // namespace mezzo::ir
