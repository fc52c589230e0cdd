// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/indexing.h>

#include <mezzo/dsl/axes.h>
#include <mezzo/dsl/located.h>
#include <mezzo/dsl/movement.h>
#include <mezzo/dsl/ops.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

namespace mezzo {

using detail::Trace;
using ir::OpKind;
using ir::Value;

namespace {

Trace& require(OpKind kind, const Operand& x) {
  return Trace::require(ir::to_string(kind), x.location());
}

/// Indices as they are: no policy and no promotion touches them.
Value index_value(Trace& trace, OpKind kind, const Operand& indices) {
  return indices.is_tensor()
             ? trace.value(indices.tensor(), ir::to_string(kind), indices.location())
             : detail::single(trace, kind, indices);
}

/// Messages about `value` name the function that the program called.
Value written_as(const char* name, Value value, ir::Location location) {
  value.op()->set_origin({ir::intern(name), location});
  return value;
}

/// As the function `name` of the language.
Tensor read(OpKind kind, const char* name, const Operand& x, const Operand& indices, int64_t axis) {
  Trace& trace = require(kind, x);
  const Value from = detail::single(trace, kind, x);
  const Value read = trace.make(kind, {from, index_value(trace, kind, indices)},
                                {{"axis", detail::from_start(axis, x.rank())}}, x.location());
  return trace.tensor(written_as(name, read, x.location()));
}

Tensor add_at(OpKind kind, const Operand& x, const Operand& indices, const Operand& updates,
              int64_t axis) {
  Trace& trace = require(kind, x);
  const std::vector<Value> values = detail::promote(trace, kind, std::vector{x, updates});
  return trace.tensor(trace.make(kind, {values[0], index_value(trace, kind, indices), values[1]},
                                 {{"axis", detail::from_start(axis, x.rank())}}, x.location()));
}

/// `other` with the lengths of `x` where it has length 1, but along `axis`.
Operand broadcast_beside(const Operand& other, const Operand& x, int64_t axis) {
  if (!other.is_tensor() || other.rank() != x.rank()) return other;
  Dims dims(other.shape());
  for (size_t i = 0; i < dims.size(); ++i)
    if (static_cast<int64_t>(i) != axis && dims[i] == 1) dims[i] = x.shape()[static_cast<int>(i)];
  if (dims == Dims(other.shape())) return other;
  return {broadcast_to(other, dims), other.location()};
}

}  // namespace

Tensor gather(Operand x, Operand indices, int64_t axis) {
  return read(OpKind::Gather, "gather", x, indices, axis);
}

Tensor take_along_axis(Operand x, Operand indices, int64_t axis) {
  const int64_t along = detail::from_start(axis, x.rank());
  const Operand wide = broadcast_beside(x, indices, along);
  return read(OpKind::TakeAlongAxis, "take_along_axis", wide,
              broadcast_beside(indices, wide, along), along);
}

Tensor scatter_add(Operand x, Operand indices, Operand updates, int64_t axis) {
  return add_at(OpKind::ScatterAdd, x, indices, updates, axis);
}

Tensor add_along_axis(Operand x, Operand indices, Operand updates, int64_t axis) {
  return add_at(OpKind::AddAlongAxis, x, indices, updates, axis);
}

Tensor embedding(Operand table, Operand indices) {
  if (table.rank() != 2)
    throw UserError(table.location(),
                    "embedding: the table must have rank 2, not " + to_string(table.type()),
                    "rows of a table [count, width] are read; for other shapes use gather");
  return read(OpKind::Gather, "embedding", table, indices, 0);
}

Tensor one_hot(Operand indices, int64_t classes, DType dtype) {
  const ir::Location location = indices.location();
  Trace& trace = Trace::require("one_hot", location);
  if (classes < 1)
    throw UserError(location,
                    "one_hot: there must be at least one class, not " + std::to_string(classes));
  const Value value = index_value(trace, OpKind::CheckIndex, indices);
  Dims wide(value.type().shape);
  wide.push_back(classes);
  detail::located_shape(location, "one_hot", wide);
  const Value checked = trace.make(OpKind::CheckIndex, {value}, {{"size", classes}}, location);
  const Tensor places = unsqueeze(
      {trace.tensor(written_as("one_hot", checked, location)), location}, value.type().rank());
  Dims dims(std::vector<int64_t>(static_cast<size_t>(value.type().rank()), 1));
  dims.push_back(classes);
  const Tensor numbers = iota(dims, i32, value.type().rank(), location);
  const Tensor hot = eq({places, location}, {numbers, location});
  return cast({hot, location}, dtype);
}

Tensor dynamic_slice(Operand x, Operands starts, Dims sizes) {
  const ir::Location location = x.location();
  const auto rank = static_cast<size_t>(x.rank());
  if (starts.size() != rank || sizes.size() != rank)
    throw UserError(location,
                    "dynamic_slice: " + ir::counted(std::ssize(starts), "start") + " and " +
                        ir::counted(std::ssize(sizes), "size") + " for x " + to_string(x.type()),
                    "give one of each for every axis");
  Tensor part = x.tensor();
  for (size_t i = 0; i < rank; ++i) {
    const int axis = static_cast<int>(i);
    const int64_t length = x.shape()[axis];
    if (sizes[i] < 0 || sizes[i] > length)
      throw UserError(location, "dynamic_slice: " + std::to_string(sizes[i]) +
                                    " elements of axis " + std::to_string(i) + " of x " +
                                    to_string(x.type()));
    const Operand& start = starts[i];
    if (start.is_tensor() && (start.rank() != 0 || !ir::is_integer(start.type().dtype)))
      throw UserError(location, "dynamic_slice: the start of axis " + std::to_string(i) +
                                    " must be an integer scalar, not " + to_string(start.type()));
    if (!start.is_tensor()) {
      const std::optional<int64_t> from = start.literal().integer;
      if (!from || *from < 0 || *from > length - sizes[i])
        throw UserError(
            location,
            "dynamic_slice: the start of axis " + std::to_string(i) +
                " must be an integer in [0, " + std::to_string(length - sizes[i]) + "] for " +
                std::to_string(sizes[i]) + " elements of x " + to_string(x.type()) + ", not " +
                (from ? std::to_string(*from) : fmt::format("{}", start.literal().number)));
      Dims first(std::vector<int64_t>(rank, 0)), last(part.shape());
      first[i] = *from;
      last[i] = *from + sizes[i];
      part = slice({part, location}, first, last);
      continue;
    }
    // In 64 bits, so that no start wraps around into the axis.
    const Tensor places = add({cast({start.tensor(), location}, i64), location},
                              {iota({sizes[i]}, i64, 0, location), location});
    part = read(OpKind::Gather, "dynamic_slice", {part, location}, {places, location}, axis);
  }
  return part;
}

}  // namespace mezzo
