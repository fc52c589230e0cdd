// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/builder.h>

#include <mezzo/ir/shape_rules.h>

#include <bit>
#include <cmath>

namespace mezzo::ir {

void Builder::derive_from(const Op* op) {
  inherited_ = {};
  origin_ = {};
  role_.clear();
  if (!op) return;
  location_ = op->location();
  origin_ = op->origin().name ? op->origin() : Origin{intern(op->info().name), op->location()};
  for (const char* name : {"role", "scope", "policy", "word", "checkpoint"})
    if (const Attr* attr = op->attrs().find(name)) inherited_.set(name, *attr);
}

Op* Builder::create(OpKind kind, std::span<const Value> operands, Attrs attrs,
                    std::span<const Type> declared) {
  for (const auto& [name, value] : inherited_)
    if (!attrs.has(name)) attrs.set(name, value);
  if (!role_.empty()) attrs.set("role", role_);
  // Defaults are never stored, so that equal ops have equal attributes and print alike.
  for (const auto& [name, value] : Attrs(attrs))
    if (const AttrInfo* info = op_info(kind).attribute(name);
        info && info->fallback && *info->fallback == value)
      attrs.erase(name);
  if (const Attr* acc = attrs.find("acc");
      acc && !operands.empty() && has_acc(kind) && *acc == Attr(default_acc(operands[0].dtype())))
    attrs.erase("acc");
  std::vector<Type> types;
  types.reserve(operands.size());
  for (Value value : operands) types.push_back(value.type());
  std::vector<Type> results = infer_types({kind, types, attrs, declared, module(), location_});
  Op* op = module()->make_op(kind, operands, results, std::move(attrs), location_);
  op->set_origin(origin_.name ? origin_ : Origin{intern(op->info().name), location_});
  if (place_)
    Module::insert_before(place_, op);
  else
    Module::append(*region_, op);
  return op;
}

DType default_acc(DType dtype) {
  if (!is_float(dtype)) return DType::I64;
  return dtype == DType::F64 ? DType::F64 : DType::F32;
}

Attr scalar_attr(DType dtype, double value) {
  if (dtype == DType::Bool) return Attr(value != 0);
  if (!is_float(dtype)) return Attr(wrap_integer(dtype, static_cast<int64_t>(value)));
  double rounded = round_to(dtype, value);
  if (std::isfinite(rounded)) return Attr(rounded);
  switch (dtype) {
    case DType::F64:
      return Attr(Bits{std::bit_cast<uint64_t>(rounded), 16});
    case DType::F16:
      return Attr(Bits{f64_to_f16(rounded), 4});
    case DType::BF16:
      return Attr(Bits{f64_to_bf16(rounded), 4});
    default:
      return Attr(Bits{std::bit_cast<uint32_t>(static_cast<float>(rounded)), 8});
  }
}

double scalar_value(DType dtype, const Attr& attr) {
  if (attr.is<bool>()) return attr.as<bool>() ? 1 : 0;
  if (attr.is<int64_t>()) return static_cast<double>(attr.as<int64_t>());
  if (attr.is<double>()) return attr.as<double>();
  uint64_t bits = attr.as<Bits>().bits;
  switch (dtype) {
    case DType::F64:
      return std::bit_cast<double>(bits);
    case DType::F16:
      return f16_to_f32(static_cast<uint16_t>(bits));
    case DType::BF16:
      return bf16_to_f32(static_cast<uint16_t>(bits));
    default:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
  }
}

std::optional<double> splat_value(Value value) {
  if (!value.is(OpKind::Constant)) return std::nullopt;
  const Attr& attr = *value.op()->attrs().find("value");
  if (attr.is<AttrList>() || attr.is<Resource>()) return std::nullopt;
  return scalar_value(value.dtype(), attr);
}

Value Builder::constant(const Type& type, double value) {
  return make(OpKind::Constant, {}, {{"value", scalar_attr(type.dtype, value)}}, {type});
}

Value Builder::cast(Value value, DType dtype, std::string reason) {
  if (value.dtype() == dtype) return value;
  Attrs attrs;
  if (!reason.empty()) attrs.set("reason", std::move(reason));
  return make(OpKind::Cast, {value}, std::move(attrs), {value.type().with(dtype)});
}

Value Builder::reshape(Value value, const Shape& shape) {
  if (value.shape() == shape) return value;
  return make(OpKind::Reshape, {value},
              {{"shape", Attr(std::vector<int64_t>(shape.begin(), shape.end()))}});
}

Value Builder::broadcast_to(Value value, const Shape& shape) {
  if (value.shape() == shape) return value;
  return make(OpKind::BroadcastTo, {value},
              {{"shape", Attr(std::vector<int64_t>(shape.begin(), shape.end()))}});
}

Value Builder::transpose(Value value, std::vector<int64_t> perm) {
  return make(OpKind::Transpose, {value}, {{"perm", Attr(perm)}});
}

Value Builder::slice(Value value, std::vector<int64_t> starts, std::vector<int64_t> ends) {
  std::vector<int64_t> steps(starts.size(), 1);
  return make(OpKind::Slice, {value},
              {{"starts", Attr(starts)}, {"ends", Attr(ends)}, {"steps", Attr(steps)}});
}

Value Builder::sum(Value value, std::vector<int64_t> axes, bool keepdims) {
  return make(OpKind::Sum, {value}, {{"axes", Attr(axes)}, {"keepdims", keepdims}});
}

Value Builder::max(Value value, std::vector<int64_t> axes, bool keepdims) {
  return make(OpKind::Max, {value}, {{"axes", Attr(axes)}, {"keepdims", keepdims}});
}

}  // namespace mezzo::ir
