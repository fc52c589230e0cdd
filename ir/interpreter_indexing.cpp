// SPDX-License-Identifier: Apache-2.0
// The interpreter: reversal, concatenation, reading and adding by index. An index outside of its
// axis sets the range flag of the run; it reads 0 and adds nothing. What is added at one place is
// summed in double or 64-bit integers and rounded once.
#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/interpreter_ops.h>

#include <algorithm>

namespace mezzo::ir {

namespace {

/// Element `from` of `source` becomes element `to` of the result.
void move_element(OpRun& run, const InterpreterTensor& source, int64_t from, int64_t to) {
  const size_t at = static_cast<size_t>(to), place = static_cast<size_t>(from);
  if (source.holds_floats())
    run.result().floats[at] = source.floats[place];
  else
    run.result().integers[at] = source.integers[place];
}

/// Index number `place`; nothing, and the flag of the run, where it is none of [0, size).
std::optional<int64_t> checked_index(OpRun& run, int64_t place, int64_t size) {
  const int64_t index = run.operand(1).integers[static_cast<size_t>(place)];
  if (index >= 0 && index < size) return index;
  run.execution.index_range = true;
  return std::nullopt;
}

/// x with the sums of the updates that `visit(add)` gives as (row-major place in x, place in the
/// updates).
void add_updates(OpRun& run, auto visit) {
  const InterpreterTensor &x = run.operand(0), &updates = run.operand(2);
  const size_t elements = static_cast<size_t>(x.elements());
  std::vector<bool> touched(elements);
  std::vector<double> sums(x.holds_floats() ? elements : 0, -0.0);
  std::vector<int64_t> totals(x.holds_floats() ? 0 : elements);
  visit([&](int64_t to, int64_t from) {
    const size_t at = static_cast<size_t>(to), place = static_cast<size_t>(from);
    touched[at] = true;
    if (x.holds_floats())
      sums[at] += updates.floats[place];
    else
      totals[at] = host_add(totals[at], updates.integers[place]);
  });
  for (size_t i = 0; i < elements; ++i) {
    const int64_t at = static_cast<int64_t>(i);
    if (x.holds_floats())
      run.store(at, touched[i] ? x.floats[i] + sums[i] : x.floats[i]);
    else
      run.store_integer(at, host_add(x.integers[i], totals[i]));
  }
}

}  // namespace

void eval_flip(OpRun& run) {
  const Shape& shape = run.result().type.shape;
  Strides strides = shape.strides();
  int64_t first = 0;
  for (int64_t axis : run.op.ints_attr("axes")) {
    int64_t& stride = strides[static_cast<size_t>(axis)];
    first += (shape[static_cast<int>(axis)] - 1) * stride;
    stride = -stride;
  }
  for (IndexWalk walk(shape); !walk.done(); walk.advance())
    move_element(run, run.operand(0), first + walk.offset(strides), walk.linear());
}

void eval_concat(OpRun& run) {
  const size_t axis = static_cast<size_t>(run.op.int_attr("axis"));
  const Strides to = run.result().type.shape.strides();
  int64_t first = 0;
  for (const InterpreterTensor* operand : run.operands) {
    const Shape& shape = operand->type.shape;
    for (IndexWalk walk(shape); !walk.done(); walk.advance())
      move_element(run, *operand, walk.linear(), first + walk.offset(to));
    first += shape[static_cast<int>(axis)] * to[axis];
  }
}

void eval_gather(OpRun& run) {
  const AxisView view(run.operand(0).type.shape, run.op.int_attr("axis"));
  // Where nothing is read no index is, either.
  const int64_t indices = run.result().elements() > 0 ? run.operand(1).elements() : 0;
  for (int64_t k = 0; k < indices; ++k) {
    const std::optional<int64_t> row = checked_index(run, k, view.length);
    if (!row) continue;
    for (int64_t o = 0; o < view.outer; ++o)
      for (int64_t i = 0; i < view.inner; ++i)
        move_element(run, run.operand(0), view.at(o, *row, i), (o * indices + k) * view.inner + i);
  }
}

void eval_take_along_axis(OpRun& run) {
  const int64_t axis = run.op.int_attr("axis");
  const AxisView from(run.operand(0).type.shape, axis), to(run.operand(1).type.shape, axis);
  for (int64_t o = 0; o < to.outer; ++o)
    for (int64_t k = 0; k < to.length; ++k)
      for (int64_t i = 0; i < to.inner; ++i)
        if (const std::optional<int64_t> row = checked_index(run, to.at(o, k, i), from.length))
          move_element(run, run.operand(0), from.at(o, *row, i), to.at(o, k, i));
}

void eval_scatter_add(OpRun& run) {
  const AxisView view(run.operand(0).type.shape, run.op.int_attr("axis"));
  const int64_t indices = run.operand(1).elements();
  add_updates(run, [&](auto add) {
    for (int64_t k = 0; k < indices; ++k) {
      const std::optional<int64_t> row = checked_index(run, k, view.length);
      if (!row) continue;
      for (int64_t o = 0; o < view.outer; ++o)
        for (int64_t i = 0; i < view.inner; ++i)
          add(view.at(o, *row, i), (o * indices + k) * view.inner + i);
    }
  });
}

void eval_add_along_axis(OpRun& run) {
  const int64_t axis = run.op.int_attr("axis");
  const AxisView to(run.operand(0).type.shape, axis), from(run.operand(1).type.shape, axis);
  add_updates(run, [&](auto add) {
    for (int64_t o = 0; o < from.outer; ++o)
      for (int64_t k = 0; k < from.length; ++k)
        for (int64_t i = 0; i < from.inner; ++i)
          if (const std::optional<int64_t> row = checked_index(run, from.at(o, k, i), to.length))
            add(to.at(o, *row, i), from.at(o, k, i));
  });
}

}  // namespace mezzo::ir
