// SPDX-License-Identifier: Apache-2.0
// The interpreter: running values along an axis, element after element in the order of the scan, in
// double or 64-bit integers, each rounded once.
#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/interpreter_ops.h>

namespace mezzo::ir {

namespace {

/// The places of every line in the order of the scan.
void for_each_scan(const OpRun& run, auto line) {
  for_each_line(run, line, run.op.bool_attr("reverse"));
}

/// `step(state, element)` is the state behind an element, `value(state)` what is stored of it.
template <class State, class T>
void scan(OpRun& run, const std::vector<T>& elements, const State& start, auto step, auto value,
          auto store) {
  const bool exclusive = run.op.info().attribute("exclusive") && run.op.bool_attr("exclusive");
  for_each_scan(run, [&](const std::vector<int64_t>& places) {
    State state = start;
    for (int64_t place : places) {
      State next = step(state, elements[static_cast<size_t>(place)]);
      store(place, value(exclusive ? state : next));
      state = next;
    }
  });
}

void scan_integers(OpRun& run, int64_t start, auto step) {
  scan(
      run, run.operand(0).integers, start, step, [](int64_t x) { return x; },
      [&](int64_t place, int64_t x) { run.store_integer(place, x); });
}

void scan_floats(OpRun& run, double start, auto step) {
  scan(
      run, run.operand(0).floats, start, step, [](double x) { return x; },
      [&](int64_t place, double x) { run.store(place, x); });
}

void running_extremum(OpRun& run, bool largest) {
  auto step = [&](auto x, auto y) { return largest ? host_maximum(x, y) : host_minimum(x, y); };
  if (run.operand(0).holds_floats()) return scan_floats(run, largest ? -HUGE_VAL : HUGE_VAL, step);
  using Limits = std::numeric_limits<int64_t>;
  scan_integers(run, largest ? Limits::min() : Limits::max(), step);
}

}  // namespace

void eval_cumsum(OpRun& run) {
  auto add = [](auto x, auto y) { return host_add(x, y); };
  // -0 leaves every number as it is; a sum of nothing, which an exclusive scan stores, is +0.
  if (run.operand(0).holds_floats())
    scan_floats(run, run.op.bool_attr("exclusive") ? 0.0 : -0.0, add);
  else
    scan_integers(run, 0, add);
}

void eval_cumprod(OpRun& run) {
  if (!run.operand(0).holds_floats())
    return scan_integers(run, 1, [](int64_t x, int64_t y) { return host_mul(x, y); });
  scan(
      run, run.operand(0).floats, RunningProduct(),
      [](RunningProduct product, double x) { return product.times(x); },
      [](const RunningProduct& product) { return product.value(); },
      [&](int64_t place, double x) { run.store(place, x); });
}

void eval_cummax(OpRun& run) { running_extremum(run, true); }
void eval_cummin(OpRun& run) { running_extremum(run, false); }

void eval_linear_scan(OpRun& run) {
  const std::vector<double>&a = run.operand(0).floats, &b = run.operand(1).floats;
  for_each_scan(run, [&](const std::vector<int64_t>& places) {
    double state = 0;
    for (int64_t place : places) {
      const size_t at = static_cast<size_t>(place);
      state = mul0(state, a[at]) + b[at];
      run.store(place, state);
    }
  });
}

}  // namespace mezzo::ir
