// SPDX-License-Identifier: Apache-2.0
// Promotion of operands: the only implicit casts of Mezzo besides those of a policy.
//   - the widest float type wins; f16 with bf16 gives f32; a float tensor wins over integers;
//     the widest integer wins over narrower ones and bools;
//   - a literal takes the type of its tensor; a float literal makes f32 of an integer tensor;
//   - where rounding a literal to 16 bits would make it 0, infinite or 1, the operation is done in
//     f32 and a finding names the line.
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>
#include <mezzo/passes/policy.h>

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace mezzo::detail {

namespace {

DType wider(DType a, DType b) {
  if (a == b) return a;
  if (ir::is_float(a) && ir::is_float(b)) {
    if (ir::is_16bit(a) && ir::is_16bit(b)) return f32;
    return ir::byte_size(a) > ir::byte_size(b) ? a : b;
  }
  if (ir::is_float(a)) return a;
  if (ir::is_float(b)) return b;
  if (a == boolean) return b;
  if (b == boolean) return a;
  return ir::byte_size(a) > ir::byte_size(b) ? a : b;
}

ir::Value literal_value(Trace& trace, ir::OpKind kind, const Operand& operand, DType dtype) {
  ir::Attr value = literal_attr(ir::to_string(kind), dtype, operand.literal(), operand.location());
  return trace.make(ir::OpKind::Constant, {}, {{"value", value}}, operand.location(),
                    {ir::Type(dtype, {})});
}

ir::Value cast_to(Trace& trace, ir::Value value, DType dtype, ir::Location location) {
  if (value.dtype() == dtype) return value;
  return trace.make(ir::OpKind::Cast, {value}, {{"reason", "promoted to the common type"}},
                    location, {value.type().with(dtype)});
}

DType literal_type(Operand::Kind kind) {
  return kind == Operand::Kind::Float ? f32 : kind == Operand::Kind::Int ? i32 : boolean;
}

/// The element type of all operands from `first` on.
DType common_type(Trace& trace, ir::OpKind kind, std::span<const Operand> operands, size_t first) {
  std::optional<DType> dtype, literals;
  for (const Operand& operand : operands.subspan(first)) {
    std::optional<DType>& target = operand.is_tensor() ? dtype : literals;
    DType own = operand.is_tensor() ? operand.type().dtype : literal_type(operand.kind());
    target = target ? wider(*target, own) : own;
  }
  if (!dtype) return *literals;
  if (trace.widens() && ir::is_16bit(*dtype)) return f32;
  if (!literals) return *dtype;
  if (!ir::is_float(*dtype)) {
    if (*literals == f32) return f32;
    return *dtype == boolean ? *literals : *dtype;
  }
  if (!ir::is_16bit(*dtype)) return *dtype;
  for (const Operand& operand : operands.subspan(first)) {
    if (operand.is_tensor()) continue;
    double literal = operand.literal().number;
    const passes::LiteralLoss loss = passes::loss_of_literal(literal, *dtype);
    if (loss == passes::LiteralLoss::None) continue;
    trace.findings.push_back(
        {"literal-leaves-type", operand.location(),
         fmt::format("{}: the literal {} {} in {}; computed in f32, and the result is f32",
                     ir::to_string(kind), literal, to_string(loss), ir::to_string(*dtype)),
         "cast the tensor to f32 to say so, or the result back if 16 bits are enough for it"});
    return f32;
  }
  return *dtype;
}

}  // namespace

ir::Attr literal_attr(std::string_view what, DType dtype, const Literal& literal,
                      ir::Location location) {
  if (ir::is_float(dtype) || dtype == boolean) return ir::scalar_attr(dtype, literal.number);
  std::optional<int64_t> integer = literal.integer;
  // Both bounds are doubles; NaN is in no range.
  if (!integer && literal.number >= -0x1p63 && literal.number < 0x1p63 &&
      std::trunc(literal.number) == literal.number)
    integer = static_cast<int64_t>(literal.number);
  if (integer && ir::wrap_integer(dtype, *integer) == *integer) return ir::Attr(*integer);
  throw UserError(
      location,
      fmt::format(
          "{}: the literal {} does not fit {}", what,
          literal.integer ? fmt::format("{}", *literal.integer) : fmt::format("{}", literal.number),
          ir::to_string(dtype)),
      "cast the tensor to a wider type first, or round the number to a whole one in range");
}

std::vector<ir::Value> promote(Trace& trace, ir::OpKind kind, std::span<const Operand> operands) {
  std::vector<ir::Value> values;
  size_t first = ir::op_info(kind).types == ir::TypeRule::Select ? 1 : 0;
  const char* name = ir::to_string(kind);
  if (first)
    values.push_back(operands[0].is_tensor()
                         ? trace.value(operands[0].tensor(), name, operands[0].location())
                         : literal_value(trace, kind, operands[0], boolean));
  if (operands.size() == first) return values;
  DType dtype = common_type(trace, kind, operands, first);
  for (const Operand& operand : operands.subspan(first)) {
    if (operand.is_tensor())
      values.push_back(cast_to(trace, trace.value(operand.tensor(), name, operand.location()),
                               dtype, operand.location()));
    else
      values.push_back(literal_value(trace, kind, operand, dtype));
  }
  return values;
}

ir::Value single(Trace& trace, ir::OpKind kind, const Operand& operand) {
  return promote(trace, kind, {&operand, 1})[0];
}

}  // namespace mezzo::detail
