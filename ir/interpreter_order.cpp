// SPDX-License-Identifier: Apache-2.0
// The interpreter: order along an axis. Equal elements, -0 and +0 among them, keep their order; NaN
// is greater than every number.
#include <mezzo/ir/interpreter_ops.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mezzo::ir {

namespace {

bool less(const InterpreterTensor& keys, size_t a, size_t b) {
  if (!keys.holds_floats()) return keys.integers[a] < keys.integers[b];
  const double x = keys.floats[a], y = keys.floats[b];
  return std::isnan(y) ? !std::isnan(x) : x < y;
}

/// Calls `line(o, i, order)` for every line [o, :, i] along the attribute `axis`: the indices along
/// the axis in the order of `keys`.
void for_each_order(const OpRun& run, const InterpreterTensor& keys, bool descending, auto line) {
  AxisView view(keys.type.shape, run.op.int_attr("axis"));
  std::vector<int64_t> order(static_cast<size_t>(view.length));
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const auto x = static_cast<size_t>(view.at(o, a, i));
        const auto y = static_cast<size_t>(view.at(o, b, i));
        return descending ? less(keys, y, x) : less(keys, x, y);
      });
      line(view, o, i, order);
    }
}

/// Element `to` of the first result is element `from` of the first operand.
void move_element(OpRun& run, int64_t to, int64_t from) {
  const InterpreterTensor& source = run.operand(0);
  if (source.holds_floats())
    run.store(to, source.floats[static_cast<size_t>(from)]);
  else
    run.store_integer(to, source.integers[static_cast<size_t>(from)]);
}

void move_in_order(OpRun& run, const InterpreterTensor& keys) {
  for_each_order(
      run, keys, run.op.bool_attr("descending"),
      [&](const AxisView& view, int64_t o, int64_t i, const std::vector<int64_t>& order) {
        for (int64_t k = 0; k < view.length; ++k)
          move_element(run, view.at(o, k, i), view.at(o, order[static_cast<size_t>(k)], i));
      });
}

}  // namespace

void eval_sort(OpRun& run) { move_in_order(run, run.operand(0)); }
void eval_sort_by(OpRun& run) { move_in_order(run, run.operand(1)); }

void eval_argsort(OpRun& run) {
  for_each_order(
      run, run.operand(0), run.op.bool_attr("descending"),
      [&](const AxisView& view, int64_t o, int64_t i, const std::vector<int64_t>& order) {
        for (int64_t k = 0; k < view.length; ++k)
          run.store_integer(view.at(o, k, i), order[static_cast<size_t>(k)]);
      });
}

void eval_topk(OpRun& run) {
  const AxisView taken(run.result().type.shape, run.op.int_attr("axis"));
  for_each_order(
      run, run.operand(0), run.op.bool_attr("largest"),
      [&](const AxisView& view, int64_t o, int64_t i, const std::vector<int64_t>& order) {
        for (int64_t k = 0; k < taken.length; ++k) {
          const int64_t from = order[static_cast<size_t>(k)], to = taken.at(o, k, i);
          move_element(run, to, view.at(o, from, i));
          run.result(1).integers[static_cast<size_t>(to)] = from;
        }
      });
}

}  // namespace mezzo::ir
