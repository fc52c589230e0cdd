// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/movement.h>

#include <mezzo/dsl/located.h>
#include <mezzo/dsl/ops.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/sizes.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mezzo {

using detail::Trace;
using ir::Attr;
using ir::Location;
using ir::OpKind;
using ir::Value;

namespace {

/// The axis counted from the start; throws UserError when it is out of range.
int axis_of(const char* op, const Operand& x, int64_t axis, int rank) {
  const int64_t from_start = axis < 0 ? axis + rank : axis;
  if (from_start < 0 || from_start >= rank)
    throw UserError(x.location(), std::string(op) + ": axis " + std::to_string(axis) +
                                      " is out of range for rank " + std::to_string(rank) + " (x " +
                                      to_string(x.type()) + ")");
  return static_cast<int>(from_start);
}
int axis_of(const char* op, const Operand& x, int64_t axis) {
  return axis_of(op, x, axis, x.rank());
}

/// Elements [first, last) along one axis.
Tensor part_of(const Operand& x, int axis, int64_t first, int64_t last) {
  Dims starts(std::vector<int64_t>(static_cast<size_t>(x.rank()), 0)), ends(x.shape());
  starts[static_cast<size_t>(axis)] = first;
  ends[static_cast<size_t>(axis)] = last;
  return slice(x, starts, ends);
}

void check_length(const char* op, const char* name, const Dims& dims, const Operand& x) {
  if (std::ssize(dims) != x.rank())
    throw UserError(x.location(), std::string(op) + ": " + name + " has " +
                                      ir::counted(std::ssize(dims), "entry", "entries") +
                                      " for x " + to_string(x.type()));
  for (int64_t entry : dims)
    if (entry < 0)
      throw UserError(x.location(), std::string(op) + ": " + name + " must not be negative, not " +
                                        std::to_string(entry));
}

/// A kernel has so many operands at most.
constexpr size_t kMostParts = 32;

Tensor joined(Trace& trace, std::vector<Value> values, int64_t axis, Location location) {
  while (values.size() > kMostParts) {
    std::vector<Value> fewer;
    for (size_t i = 0; i < values.size(); i += kMostParts) {
      const std::span<const Value> some =
          std::span(values).subspan(i, std::min(kMostParts, values.size() - i));
      fewer.push_back(trace.create(OpKind::Concat, some, {{"axis", axis}}, location)->result());
    }
    values = std::move(fewer);
  }
  return trace.tensor(trace.create(OpKind::Concat, values, {{"axis", axis}}, location)->result());
}

/// One axis padded with what stands nearest to its ends.
Tensor pad_axis(const Operand& x, int axis, int64_t low, int64_t high, PadMode mode) {
  const int64_t length = x.shape()[axis];
  if (low == 0 && high == 0) return x.tensor();
  const bool reflects = mode == PadMode::Reflect;
  if (reflects ? std::max(low, high) > length - 1 : length == 0)
    throw UserError(x.location(),
                    "pad: axis " + std::to_string(axis) + " of x " + to_string(x.type()) +
                        " has too few elements for " + std::to_string(std::max(low, high)) +
                        " by " + (reflects ? "Reflect" : "Edge"),
                    reflects ? "as many elements as are added must stand behind the first and "
                               "before the last one"
                             : "there is no element to repeat");
  const Location location = x.location();
  auto beside = [&](int64_t count, int64_t first, int64_t edge) {
    if (reflects) return flip({part_of(x, axis, first, first + count), location}, axis);
    Dims dims(x.shape());
    dims[static_cast<size_t>(axis)] = count;
    return broadcast_to({part_of(x, axis, edge, edge + 1), location}, dims);
  };
  std::vector<Tensor> parts;
  if (low > 0) parts.push_back(beside(low, 1, 0));
  parts.push_back(x.tensor());
  if (high > 0) parts.push_back(beside(high, length - 1 - high, length - 1));
  std::vector<Operand> operands;
  for (const Tensor& part : parts) operands.emplace_back(part, location);
  return concat(operands, axis);
}

/// Where column - row is at most `diagonal` (tril), or at least (triu).
Tensor triangle(const char* op, const Operand& x, int64_t diagonal, bool lower) {
  if (x.rank() < 2)
    throw UserError(x.location(), std::string(op) + ": takes a tensor of rank 2 or more, not " +
                                      to_string(x.type()));
  const Location location = x.location();
  const int64_t rows = x.shape()[x.rank() - 2], columns = x.shape()[x.rank() - 1];
  diagonal = std::clamp(diagonal, -rows, columns);  // so that no sum with it wraps
  const Tensor row = iota({rows, 1}, i64, 0, location),
               column = iota({1, columns}, i64, 1, location);
  const Tensor last = add({row, location}, Operand(diagonal).at(location));
  const Tensor keeps =
      lower ? le({column, location}, {last, location}) : ge({column, location}, {last, location});
  // A bool literal takes any type, and leaves bools what they are.
  return where({keeps, location}, x, Operand(false).at(location));
}

}  // namespace

Tensor concat(Operands parts, int64_t axis) {
  const Location location = parts.location();
  if (parts.empty()) throw UserError(location, "concat: takes at least 1 operand, not 0");
  Trace& trace = Trace::require("concat", location);
  const int along = axis_of("concat", parts.front(), axis);
  return joined(trace, detail::promote(trace, OpKind::Concat, parts), along, location);
}

Tensor stack(Operands parts, int64_t axis) {
  const Location location = parts.location();
  if (parts.empty()) throw UserError(location, "stack: takes at least 1 operand, not 0");
  const Operand& first = parts.front();
  const int along = axis_of("stack", first, axis, first.rank() + 1);
  for (const Operand& part : parts)
    if (!(part.shape() == first.shape()))
      throw UserError(
          location,
          "stack: shapes differ, " + to_string(first.type()) + " and " + to_string(part.type()),
          "tensors of one shape are stacked; concat joins along an axis that is there");
  Dims together(first.shape());
  together.insert(together.begin() + along, std::ssize(parts));
  detail::located_shape(location, "stack", together);
  std::vector<Operand> raised;
  for (const Operand& part : parts) raised.emplace_back(unsqueeze(part, along), location);
  return concat(raised, along);
}

std::vector<Tensor> detail::split_evenly(const Operand& x, int64_t parts, int64_t axis) {
  const int along = axis_of("split", x, axis);
  const int64_t length = x.shape()[along];
  if (parts < 1 || length % parts != 0)
    throw UserError(x.location(),
                    "split: axis " + std::to_string(along) + " of x " + to_string(x.type()) +
                        " does not divide into " + ir::counted(parts, "part"),
                    "give the lengths of the parts: split(x, {2, 3, 2})");
  constexpr int64_t kMost = int64_t{1} << 24;  // ops of a function
  if (parts > kMost)
    throw UserError(x.location(),
                    "split: axis " + std::to_string(along) + " of x " + to_string(x.type()) +
                        " into " + ir::counted(parts, "part") + ", the most is " +
                        std::to_string(kMost),
                    "reshape gives the parts an axis of their own");
  return split(x, Dims(std::vector<int64_t>(static_cast<size_t>(parts), length / parts)), along);
}

std::vector<Tensor> split(Operand x, Dims lengths, int64_t axis) {
  const int along = axis_of("split", x, axis);
  int64_t total = 0;
  bool negative = false;
  for (int64_t length : lengths) {
    negative |= length < 0;
    total = ir::saturated_sum(total, length);
  }
  if (negative || total != x.shape()[along])
    throw UserError(x.location(), "split: the lengths add up to " + std::to_string(total) +
                                      (negative ? ", some are negative" : "") + "; axis " +
                                      std::to_string(along) + " of x " + to_string(x.type()) +
                                      " has " + std::to_string(x.shape()[along]));
  std::vector<Tensor> parts;
  int64_t first = 0;
  for (int64_t length : lengths) {
    parts.push_back(part_of(x, along, first, first + length));
    first += length;
  }
  return parts;
}

Tensor flip(Operand x, Axes axes) {
  Trace& trace = Trace::require("flip", x.location());
  if (axes.empty())
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  for (int64_t& axis : axes) axis = axis_of("flip", x, axis);
  std::ranges::sort(axes);
  const Value value = detail::single(trace, OpKind::Flip, x);
  return trace.tensor(trace.make(OpKind::Flip, {value}, {{"axes", Attr(axes)}}, x.location()));
}

Tensor roll(Operand x, int64_t shift, int64_t axis) {
  const int along = axis_of("roll", x, axis);
  const int64_t length = x.shape()[along];
  const int64_t first = length == 0 ? 0 : ((shift % length) + length) % length;
  if (first == 0) return part_of(x, along, 0, length);
  const Location location = x.location();
  return concat({Operand(part_of(x, along, length - first, length), location),
                 Operand(part_of(x, along, 0, length - first), location)},
                along);
}

Tensor tile(Operand x, Dims repeats) {
  check_length("tile", "repeats", repeats, x);
  Dims apart, wide, whole;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t length = x.shape()[i], times = repeats[static_cast<size_t>(i)];
    // An axis that is not repeated stays one, so that ranks stay small.
    if (times != 1) {
      apart.push_back(1);
      wide.push_back(times);
    }
    apart.push_back(length);
    wide.push_back(length);
    whole.push_back(ir::saturated_product(length, times));
  }
  const Location location = x.location();
  detail::located_shape(location, "tile", whole);
  const Tensor raised = reshape(x, apart);
  return reshape({broadcast_to({raised, location}, wide), location}, whole);
}

Tensor repeat(Operand x, int64_t count, int64_t axis) {
  const int along = axis_of("repeat", x, axis);
  if (count < 0)
    throw UserError(x.location(),
                    "repeat: count must not be negative, not " + std::to_string(count));
  const Location location = x.location();
  Dims wide(x.shape()), whole(x.shape());
  wide.insert(wide.begin() + along + 1, count);
  int64_t& repeated = whole[static_cast<size_t>(along)];
  repeated = ir::saturated_product(repeated, count);
  detail::located_shape(location, "repeat", whole);
  const Tensor raised = unsqueeze(x, along + 1);
  return reshape({broadcast_to({raised, location}, wide), location}, whole);
}

Tensor pad(Operand x, Dims low, Dims high, PadMode mode, Operand value) {
  Trace& trace = Trace::require("pad", x.location());
  check_length("pad", "low", low, x);
  check_length("pad", "high", high, x);
  if (mode == PadMode::Constant) {
    if (x.type().dtype == boolean && value.kind() == Operand::Kind::Int)
      value = Operand(value.literal().number != 0).at(value.location());
    std::vector<Value> values = detail::promote(trace, OpKind::Pad, std::vector{x, value});
    ir::Attrs attrs{{"low", Attr(low)},
                    {"high", Attr(high)},
                    {"interior", Attr(std::vector<int64_t>(low.size(), 0))}};
    return trace.tensor(
        trace.create(OpKind::Pad, values, std::move(attrs), x.location())->result());
  }
  Dims whole;
  for (int i = 0; i < x.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    whole.push_back(ir::saturated_sum(x.shape()[i], ir::saturated_sum(low[axis], high[axis])));
  }
  detail::located_shape(x.location(), "pad", whole);
  Tensor padded = x.tensor();
  for (int i = 0; i < x.rank(); ++i)
    padded = pad_axis({padded, x.location()}, i, low[static_cast<size_t>(i)],
                      high[static_cast<size_t>(i)], mode);
  return padded;
}

Tensor squeeze(Operand x, Axes axes) {
  if (axes.empty()) {
    for (int i = 0; i < x.rank(); ++i)
      if (x.shape()[i] == 1) axes.push_back(i);
  } else {
    for (int64_t& axis : axes) {
      axis = axis_of("squeeze", x, axis);
      if (x.shape()[static_cast<int>(axis)] != 1)
        throw UserError(x.location(), "squeeze: axis " + std::to_string(axis) + " of x " +
                                          to_string(x.type()) + " has length " +
                                          std::to_string(x.shape()[static_cast<int>(axis)]) +
                                          ", not 1");
    }
  }
  Dims dims;
  for (int i = 0; i < x.rank(); ++i)
    if (std::ranges::find(axes, i) == axes.end()) dims.push_back(x.shape()[i]);
  return reshape(x, dims);
}

Tensor unsqueeze(Operand x, int64_t axis) {
  const int place = axis_of("unsqueeze", x, axis, x.rank() + 1);
  return reshape(x, Dims(x.shape().inserted(place, 1)));
}

/// The two axes become one, in which the elements of the diagonal stand at equal distances.
Tensor diagonal(Operand x, int64_t offset, int64_t axis1, int64_t axis2) {
  const int first = axis_of("diagonal", x, axis1), second = axis_of("diagonal", x, axis2);
  if (first == second)
    throw UserError(x.location(), "diagonal: takes two axes of x " + to_string(x.type()) +
                                      ", not twice axis " + std::to_string(first));
  const Location location = x.location();
  const int64_t rows = x.shape()[first], columns = x.shape()[second];
  const int64_t length = std::max<int64_t>(
      0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  Axes perm;
  Dims flat, starts, ends, steps;
  for (int i = 0; i < x.rank(); ++i)
    if (i != first && i != second) {
      perm.push_back(i);
      flat.push_back(x.shape()[i]);
      starts.push_back(0);
      ends.push_back(x.shape()[i]);
      steps.push_back(1);
    }
  perm.insert(perm.end(), {first, second});
  flat.push_back(rows * columns);
  const int64_t start = length == 0 ? 0 : offset >= 0 ? offset : -offset * columns;
  starts.push_back(start);
  ends.push_back(length == 0 ? start : start + (length - 1) * (columns + 1) + 1);
  steps.push_back(columns + 1);
  const Tensor moved = std::ranges::is_sorted(perm) ? x.tensor() : transpose(x, perm);
  return slice({reshape({moved, location}, flat), location}, starts, ends, steps);
}

Tensor tril(Operand x, int64_t diagonal) { return triangle("tril", x, diagonal, true); }
Tensor triu(Operand x, int64_t diagonal) { return triangle("triu", x, diagonal, false); }

Tensor eye(int64_t rows, int64_t columns, int64_t offset, DType dtype, Location location) {
  if (columns == -1) columns = rows;
  detail::located_shape(location, "eye", Dims{rows, columns});
  offset = std::clamp(offset, -rows, columns);
  const Tensor row = iota({rows, 1}, i64, 0, location),
               column = iota({1, columns}, i64, 1, location);
  const Tensor hot =
      eq({add({row, location}, Operand(offset).at(location)), location}, {column, location});
  return cast({hot, location}, dtype);
}

Tensor linspace(double start, double stop, int64_t count, DType dtype, Location location) {
  if (count < 0)
    throw UserError(location, "linspace: count must not be negative, not " + std::to_string(count));
  detail::located_shape(location, "linspace", Dims{count});
  const Tensor number = iota({count}, f64, 0, location);
  // Divided first where the difference leaves the range.
  const double gaps = static_cast<double>(std::max<int64_t>(count - 1, 1)),
               difference = stop - start;
  const double step = std::isfinite(difference) ? difference / gaps : stop / gaps - start / gaps;
  const Tensor scaled = mul({number, location}, Operand(step).at(location));
  const Tensor sum = add({scaled, location}, Operand(start).at(location));
  // The last one is what was asked for, whatever the rounding of the step.
  if (count < 2) return cast({sum, location}, dtype);
  const Tensor last = eq({number, location}, Operand(static_cast<double>(count - 1)).at(location));
  return cast({where({last, location}, Operand(stop).at(location), {sum, location}), location},
              dtype);
}

}  // namespace mezzo
