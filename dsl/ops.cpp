// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/ops.h>

#include <mezzo/dsl/axes.h>
#include <mezzo/dsl/linear_algebra.h>
#include <mezzo/dsl/located.h>
#include <mezzo/dsl/movement.h>
#include <mezzo/dsl/nn.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>
#include <mezzo/ir/sizes.h>
#include <mezzo/passes/policy.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo {

using detail::Trace;
using ir::Attr;
using ir::Attrs;
using ir::OpKind;
using ir::Value;

int64_t Tensor::dim(int axis, ir::Location location) const {
  int from_start = axis < 0 ? axis + rank() : axis;
  if (from_start < 0 || from_start >= rank())
    throw UserError(
        location, "dim: axis " + std::to_string(axis) + " is out of range for " + to_string(type_),
        "axes count from 0, or from -1 at the end");
  return type_.shape[from_start];
}

Tensor Tensor::named(std::string_view name, ir::Location location) const {
  Trace& trace = Trace::require("named", location);
  trace.name_value(trace.value(*this, "named", location), name);
  return *this;
}

Operand::Operand(const nn::Parameter& parameter, const char* file, int line)
    : location_{file, line} {
  tensor_ =
      Trace::require("parameter", location_).parameter(nn::detail_state(parameter, location_));
}

namespace {

Trace& require(OpKind kind, ir::Location location) {
  return Trace::require(ir::to_string(kind), location);
}

/// An op of one operand.
Tensor unary(OpKind kind, const Operand& x, Attrs attrs,
             std::initializer_list<ir::Type> declared = {}) {
  Trace& trace = require(kind, x.location());
  Value value = detail::single(trace, kind, x);
  return trace.tensor(trace.make(kind, {value}, std::move(attrs), x.location(), declared));
}

/// Throws UserError for a number that is no element type.
void check_type(const char* what, DType dtype, ir::Location location) {
  detail::located(location, what, [&] { ir::to_string(dtype); });
}

ir::Type type_of(const char* what, DType dtype, const Dims& dims, ir::Location location) {
  check_type(what, dtype, location);
  return {dtype, detail::located_shape(location, what, dims)};
}

/// An op without operands.
Tensor nullary(OpKind kind, const ir::Type& type, Attrs attrs, ir::Location location) {
  return require(kind, location)
      .tensor(require(kind, location).make(kind, {}, std::move(attrs), location, {type}));
}

/// Numbers that their 16-bit type does not hold: the cast says which they were, so that lint can
/// tell and a run finds what is infinite. From f64, which rounds once.
Tensor narrowed(const ir::Type& type, Attr numbers, ir::Location location) {
  Trace& trace = require(OpKind::Constant, location);
  const Value wide =
      trace.make(OpKind::Constant, {}, {{"value", std::move(numbers)}}, location, {type.with(f64)});
  return trace.tensor(trace.make(OpKind::Cast, {wide}, {{"user", true}}, location, {type}));
}

Tensor reduce(OpKind kind, const Operand& x, Axes axes, bool keepdims) {
  return unary(
      kind, x,
      {{"axes", Attr(detail::reduced_axes(std::move(axes), x.rank()))}, {"keepdims", keepdims}});
}

Tensor along_axis(OpKind kind, const Operand& x, int64_t axis) {
  return unary(kind, x, {{"axis", detail::from_start(axis, x.rank())}});
}

std::string list_text(const std::vector<int64_t>& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + std::to_string(values[i]);
  return out + "]";
}

}  // namespace

Tensor detail::elementwise(const char* op, std::initializer_list<Operand> operands) {
  OpKind kind = *ir::parse_op(op);
  ir::Location location = operands.size() ? operands.begin()->location() : ir::Location();
  Trace& trace = require(kind, location);
  std::vector<Value> values = promote(trace, kind, {operands.begin(), operands.size()});
  return trace.tensor(trace.create(kind, values, {}, location)->result());
}

Tensor cast(Operand x, DType dtype) {
  Trace& trace = require(OpKind::Cast, x.location());
  check_type("cast", dtype, x.location());
  Value value = x.is_tensor() ? trace.value(x.tensor(), "cast", x.location())
                              : detail::single(trace, OpKind::Cast, x);
  return trace.tensor(trace.make(OpKind::Cast, {value}, {{"user", true}}, x.location(),
                                 {value.type().with(dtype)}));
}

Tensor sum(Operand x, Axes axes, bool keepdims) {
  return reduce(OpKind::Sum, x, std::move(axes), keepdims);
}
Tensor mean(Operand x, Axes axes, bool keepdims) {
  return reduce(OpKind::Mean, x, std::move(axes), keepdims);
}
Tensor max(Operand x, Axes axes, bool keepdims) {
  return reduce(OpKind::Max, x, std::move(axes), keepdims);
}
Tensor min(Operand x, Axes axes, bool keepdims) {
  return reduce(OpKind::Min, x, std::move(axes), keepdims);
}

Tensor argmax(Operand x, int64_t axis, bool keepdims) {
  return unary(OpKind::Argmax, x,
               {{"axis", detail::from_start(axis, x.rank())}, {"keepdims", keepdims}});
}

Tensor softmax(Operand x, int64_t axis) { return along_axis(OpKind::Softmax, x, axis); }
Tensor log_softmax(Operand x, int64_t axis) { return along_axis(OpKind::LogSoftmax, x, axis); }

Tensor matmul(Operand a, Operand b, MatmulOptions options) {
  Trace& trace = require(OpKind::Matmul, a.location());
  if (a.is_tensor() && b.is_tensor() && std::min(a.rank(), b.rank()) == 1)
    return detail::vector_product(a, b, options);
  std::vector<Value> values = detail::promote(trace, OpKind::Matmul, std::vector{a, b});
  Attrs attrs{{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}};
  return trace.tensor(
      trace.create(OpKind::Matmul, values, std::move(attrs), a.location())->result());
}

Tensor reshape(Operand x, Dims shape) {
  for (int64_t length : shape)
    if (length < -1)
      throw UserError(x.location(),
                      "reshape: the length " + std::to_string(length) + " of " + list_text(shape) +
                          " is negative (x " + to_string(x.type()) + ")",
                      "one length may be -1: it follows from the others");
  int64_t known = 1, elements = x.type().elements();
  auto open = shape.end();
  for (auto dim = shape.begin(); dim != shape.end(); ++dim) {
    if (*dim != -1) {
      known = ir::saturated_product(known, *dim);
      continue;
    }
    if (open != shape.end())
      throw UserError(x.location(),
                      "reshape: more than one length of " + list_text(shape) + " is -1 (x " +
                          to_string(x.type()) + ")",
                      "one length can follow from the others, not two");
    open = dim;
  }
  if (open != shape.end()) {
    if (known <= 0 || elements % known != 0)
      throw UserError(x.location(),
                      "reshape: " + ir::counted(elements, "element does", "elements do") +
                          " not divide into " + list_text(shape) + " (x " + to_string(x.type()) +
                          ")",
                      "the given lengths must divide the number of elements");
    *open = elements / known;
  }
  return unary(OpKind::Reshape, x, {{"shape", Attr(shape)}});
}

Tensor transpose(Operand x, Axes perm) {
  if (perm.empty())
    for (int i = x.rank() - 1; i >= 0; --i) perm.push_back(i);
  for (int64_t& axis : perm) axis = detail::from_start(axis, x.rank());
  return unary(OpKind::Transpose, x, {{"perm", Attr(perm)}});
}

Tensor slice(Operand x, Dims starts, Dims ends, Dims steps) {
  if (steps.empty()) steps.assign(starts.size(), 1);
  auto from_end = [&](Dims& places) {
    for (size_t i = 0; i < places.size() && i < static_cast<size_t>(x.rank()); ++i)
      if (places[i] < 0) places[i] += x.shape()[static_cast<int>(i)];
  };
  const Dims given_starts = starts, given_ends = ends;
  from_end(starts);
  from_end(ends);
  const size_t axes =
      std::min({starts.size(), ends.size(), steps.size(), static_cast<size_t>(x.rank())});
  auto check = [&](size_t i, bool fits, const char* remedy) {
    if (fits) return;
    throw UserError(x.location(),
                    fmt::format("slice: slice {}:{}:{} does not fit axis {} of x {}",
                                given_starts[i], given_ends[i], steps[i], i, to_string(x.type())),
                    remedy);
  };
  // Backwards: the same elements forwards, of the tensor turned round.
  Axes turned;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t last = x.shape()[static_cast<int>(i)] - 1;
    if (steps[i] >= 0) {
      check(i, steps[i] > 0 && 0 <= starts[i] && starts[i] <= ends[i] && ends[i] <= last + 1,
            "forwards it is 0 <= start <= end <= length, negative ones counted from the end, and "
            "the step is not 0");
      continue;
    }
    const int64_t end = std::max<int64_t>(ends[i], -1);
    check(i, starts[i] <= last && starts[i] >= end,
          "backwards it is length > start >= end; an end of -length - 1 is before the first "
          "element");
    turned.push_back(static_cast<int64_t>(i));
    starts[i] = last - starts[i];
    ends[i] = last - end;
    steps[i] = ir::saturated_difference(0, steps[i]);
  }
  if (!turned.empty()) x = {flip(x, turned), x.location()};
  for (size_t i = 0; i < std::min(steps.size(), static_cast<size_t>(x.rank())); ++i)
    steps[i] = std::min(steps[i], ir::greatest_step(x.shape()[static_cast<int>(i)]));
  return unary(OpKind::Slice, x,
               {{"starts", Attr(starts)}, {"ends", Attr(ends)}, {"steps", Attr(steps)}});
}

Tensor pad(Operand x, Dims low, Dims high, Dims interior) {
  if (interior.empty()) interior.assign(low.size(), 0);
  return unary(OpKind::Pad, x,
               {{"low", Attr(low)}, {"high", Attr(high)}, {"interior", Attr(interior)}});
}

Tensor broadcast_to(Operand x, Dims shape) {
  return unary(OpKind::BroadcastTo, x, {{"shape", Attr(shape)}});
}

Tensor full(Dims shape, Literal value, DType dtype, Location location) {
  const ir::Type type = type_of("full", dtype, shape, location);
  if (ir::is_16bit(dtype) &&
      passes::loss_of_literal(value.number, dtype) != passes::LiteralLoss::None)
    return narrowed(type, ir::scalar_attr(f64, value.number), location);
  return nullary(OpKind::Constant, type,
                 {{"value", detail::literal_attr("full", dtype, value, location)}}, location);
}

Tensor constant(std::vector<double> values, Dims shape, DType dtype, Location location) {
  const ir::Type type = type_of("constant", dtype, shape, location);
  const bool narrow =
      ir::is_16bit(dtype) && std::ranges::any_of(values, [&](double value) {
        const auto loss = passes::loss_of_literal(value, dtype);
        return values.size() == 1 ? loss != passes::LiteralLoss::None : passes::leaves_range(loss);
      });
  const DType stored = narrow ? f64 : dtype;
  ir::AttrList list;
  for (double value : values)
    list.push_back(detail::literal_attr("constant", stored, value, location));
  if (narrow) return narrowed(type, Attr(list), location);
  return nullary(OpKind::Constant, type, {{"value", Attr(list)}}, location);
}

Tensor iota(Dims shape, DType dtype, int64_t axis, Location location) {
  int rank = static_cast<int>(shape.size());
  return nullary(OpKind::Iota, type_of("iota", dtype, shape, location),
                 {{"axis", detail::from_start(axis, rank)}}, location);
}

}  // namespace mezzo
