// SPDX-License-Identifier: Apache-2.0
// Makes checked ops: types are inferred by the shape rules, every op is stamped with the current
// location and origin.
#pragma once

#include <mezzo/ir/graph.h>

#include <initializer_list>
#include <vector>

namespace mezzo::ir {

class Builder {
 public:
  /// Appends to the end of `region`.
  explicit Builder(Region& region) : region_(&region) {}
  /// Inserts before `place`.
  explicit Builder(Op* place) : region_(place->region()), place_(place) {}

  void set_location(Location location) { location_ = location; }
  Location location() const { return location_; }
  /// Ops made from now on stand for this user-written operation, with this role, scope, policy and
  /// word: what passes call when they replace or derive from `op`. Null forgets it.
  void derive_from(const Op* op);
  /// The role attribute of ops made from now on ("backward", "update", "scale"; empty: that of the
  /// derived-from op).
  void set_role(std::string role) { role_ = std::move(role); }
  Module* module() const { return region_->module(); }
  Region& region() const { return *region_; }

  /// Makes an op; throws UserError at the current location when operands and attributes do not fit.
  /// `declared` gives the result types of ops that have a choice.
  Op* create(OpKind kind, std::span<const Value> operands, Attrs attrs = {},
             std::span<const Type> declared = {});
  Op* create(OpKind kind, std::initializer_list<Value> operands, Attrs attrs = {},
             std::initializer_list<Type> declared = {}) {
    return create(kind, std::span(operands.begin(), operands.size()), std::move(attrs),
                  std::span(declared.begin(), declared.size()));
  }
  /// The single result of `create`.
  Value make(OpKind kind, std::initializer_list<Value> operands, Attrs attrs = {},
             std::initializer_list<Type> declared = {}) {
    return create(kind, operands, std::move(attrs), declared)->result();
  }

  // The ops that passes make most.
  /// A splat of `type`; `value` is rounded once to the element type.
  Value constant(const Type& type, double value);
  Value cast(Value value, DType dtype, std::string reason = "");
  /// f32 for 16-bit values, others as they are.
  Value widen(Value value, std::string reason) {
    return is_16bit(value.dtype()) ? cast(value, DType::F32, std::move(reason)) : value;
  }
  Value reshape(Value value, const Shape& shape);
  Value broadcast_to(Value value, const Shape& shape);
  Value transpose(Value value, std::vector<int64_t> perm);
  /// Elements from `starts` up to `ends`, with steps of 1.
  Value slice(Value value, std::vector<int64_t> starts, std::vector<int64_t> ends);
  Value sum(Value value, std::vector<int64_t> axes, bool keepdims = false);
  Value max(Value value, std::vector<int64_t> axes, bool keepdims = false);

 private:
  Region* region_;
  Op* place_ = nullptr;
  Location location_;
  Origin origin_;
  std::string role_;
  Attrs inherited_;
};

/// Products: ops that round once from an accumulator of type `acc`.
inline bool has_acc(OpKind kind) { return op_info(kind).precision_of(0) == Precision::Narrow; }
/// The accumulator that products of this element type have unless `acc` says otherwise: f64 for
/// f64, i64 for integers, else f32.
DType default_acc(DType dtype);
/// The attribute of a scalar constant of element type `dtype`: Bits for NaN and infinities, else
/// the rounded number.
Attr scalar_attr(DType dtype, double value);
/// The scalar of such an attribute as a double (Bits read as `dtype`).
double scalar_value(DType dtype, const Attr& attr);
/// The value of a splat constant, or nullopt for anything else.
std::optional<double> splat_value(Value value);

}  // namespace mezzo::ir
