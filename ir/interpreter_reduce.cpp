// SPDX-License-Identifier: Apache-2.0
// The interpreter: reductions and matrix products, accumulated in double or 64-bit integers and
// rounded once. Kernels keep f32, so a sum whose parts leave f32 and come back (3e38 + 3e38 - 3e38)
// is finite here and inf there; their flag words say so.
#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/interpreter_ops.h>

#include <cmath>

namespace mezzo::ir {

Strides group_strides(const Shape& shape, const std::vector<int64_t>& axes) {
  bool reduced[kMaxRank] = {};
  for (int64_t axis : axes) reduced[axis] = true;
  Strides strides{};
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (reduced[axis]) continue;
    strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

namespace {

/// Folds every group of the operand in row-major order: `fold(accumulator, element)`.
template <class T>
std::vector<T> fold_groups(const OpRun& run, const std::vector<T>& elements, int64_t groups,
                           T start, auto fold) {
  const Shape& shape = run.operand(0).type.shape;
  Strides strides = group_strides(shape, run.op.ints_attr("axes"));
  std::vector<T> sums(static_cast<size_t>(groups), start);
  for (IndexWalk walk(shape); !walk.done(); walk.advance()) {
    T& sum = sums[static_cast<size_t>(walk.offset(strides))];
    sum = fold(sum, elements[static_cast<size_t>(walk.linear())]);
  }
  return sums;
}

/// Where a sum starts: -0 is what leaves every number as it is, so that the sum of one element is
/// that element; the sum of none is +0.
double start_of_sum(const InterpreterTensor& x) { return x.elements() > 0 ? -0.0 : 0.0; }

template <class T>
void reduce_extremum(OpRun& run, const std::vector<T>& elements, T start) {
  bool largest = run.op.kind() == OpKind::Max;
  run.store_all(fold_groups(run, elements, run.result().elements(), start, [&](T x, T y) {
    return largest ? host_maximum(x, y) : host_minimum(x, y);
  }));
}

}  // namespace

void eval_sum(OpRun& run) {
  const InterpreterTensor& x = run.operand(0);
  int64_t groups = run.result().elements();
  auto add = [](auto sum, auto element) { return host_add(sum, element); };
  if (x.holds_floats())
    run.store_all(fold_groups(run, x.floats, groups, start_of_sum(x), add));
  else
    run.store_all(fold_groups(run, x.integers, groups, int64_t{0}, add));
}

void eval_mean(OpRun& run) {
  const InterpreterTensor& x = run.operand(0);
  int64_t groups = run.result().elements();
  std::vector<double> sums = fold_groups(run, x.floats, groups, start_of_sum(x),
                                         [](double sum, double value) { return sum + value; });
  if (groups == 0) return;
  // No elements: 0 / 0, NaN.
  double length = static_cast<double>(x.elements() / groups);
  for (double& sum : sums) sum /= length;
  run.store_all(sums);
}

// Empty groups are refused by the shape rule, so the start value never reaches a result.
void eval_max(OpRun& run) {
  const InterpreterTensor& x = run.operand(0);
  if (x.holds_floats())
    reduce_extremum(run, x.floats, -std::numeric_limits<double>::infinity());
  else
    reduce_extremum(run, x.integers, std::numeric_limits<int64_t>::min());
}

void eval_min(OpRun& run) {
  const InterpreterTensor& x = run.operand(0);
  if (x.holds_floats())
    reduce_extremum(run, x.floats, std::numeric_limits<double>::infinity());
  else
    reduce_extremum(run, x.integers, std::numeric_limits<int64_t>::max());
}

namespace {

/// The index along `axis` of the first NaN, else of the first greatest (least) element.
void index_of_extremum(OpRun& run, bool largest) {
  const InterpreterTensor& x = run.operand(0);
  AxisView view(x.type.shape, run.op.int_attr("axis"));
  auto beyond = [&](auto a, auto b) { return largest ? a > b : a < b; };
  auto beats = [&](int64_t challenger, int64_t best) {
    size_t a = static_cast<size_t>(challenger), b = static_cast<size_t>(best);
    if (!x.holds_floats()) return beyond(x.integers[a], x.integers[b]);
    if (std::isnan(x.floats[b])) return false;
    return std::isnan(x.floats[a]) || beyond(x.floats[a], x.floats[b]);
  };
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      int64_t best = 0;
      for (int64_t k = 1; k < view.length; ++k)
        if (beats(view.at(o, k, i), view.at(o, best, i))) best = k;
      run.store_integer(o * view.inner + i, best);
    }
}

}  // namespace

void eval_argmax(OpRun& run) { index_of_extremum(run, true); }
void eval_argmin(OpRun& run) { index_of_extremum(run, false); }

void eval_matmul(OpRun& run) {
  const InterpreterTensor &a = run.operand(0), &b = run.operand(1);
  const Shape& shape = run.result().type.shape;
  size_t rank = static_cast<size_t>(shape.rank());
  bool transpose_a = run.op.bool_attr("transpose_a"), transpose_b = run.op.bool_attr("transpose_b");

  // Offsets of a row of a and of a column of b at an index [batch..., row, column] of the result.
  // Only the batch axes broadcast: the strides of the last two are set by hand.
  auto strides_of = [&](const Shape& from) {
    Shape batch(from.dims().first(static_cast<size_t>(from.rank() - 2)));
    Strides strides = broadcast_strides(batch, Shape(shape.dims().first(rank - 2)));
    for (size_t axis = 0; axis + 2 < rank; ++axis)
      strides[axis] *= from[from.rank() - 2] * from[from.rank() - 1];
    return strides;
  };
  int64_t a_width = a.type.shape[a.type.rank() - 1], b_width = b.type.shape[b.type.rank() - 1];
  int64_t inner = transpose_a ? a.type.shape[a.type.rank() - 2] : a_width;
  Strides a_strides = strides_of(a.type.shape), b_strides = strides_of(b.type.shape);
  a_strides[rank - 2] = transpose_a ? 1 : a_width;
  b_strides[rank - 1] = transpose_b ? b_width : 1;
  int64_t a_step = transpose_a ? a_width : 1, b_step = transpose_b ? 1 : b_width;

  for (IndexWalk walk(shape); !walk.done(); walk.advance()) {
    const double* row = a.floats.data() + walk.offset(a_strides);
    const double* column = b.floats.data() + walk.offset(b_strides);
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k) sum += row[k * a_step] * column[k * b_step];
    run.store(walk.linear(), sum);
  }
}

}  // namespace mezzo::ir
