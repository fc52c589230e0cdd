// SPDX-License-Identifier: Apache-2.0
// The interpreter: products, bools and counts, variances, log-sum-exp and norms. Each is computed
// from all elements of a group at once, in long double where sums are taken, and rounded once.
#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/interpreter_ops.h>

#include <algorithm>
#include <cmath>

namespace mezzo::ir {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The places of the elements of each group that the attribute `axes` makes one, groups in the
/// order of the result.
std::vector<std::vector<size_t>> groups_of(const OpRun& run) {
  const Shape& shape = run.operand(0).type.shape;
  const Strides strides = group_strides(shape, run.op.ints_attr("axes"));
  std::vector<std::vector<size_t>> groups(static_cast<size_t>(run.op.result().type().elements()));
  for (IndexWalk walk(shape); !walk.done(); walk.advance())
    groups[static_cast<size_t>(walk.offset(strides))].push_back(static_cast<size_t>(walk.linear()));
  return groups;
}

/// Stores `reduce(elements)` of every group.
void reduce_floats(OpRun& run, auto reduce) {
  int64_t at = 0;
  for (const std::vector<size_t>& group : groups_of(run)) {
    std::vector<double> elements;
    for (size_t place : group) elements.push_back(run.operand(0).floats[place]);
    run.store(at++, static_cast<double>(reduce(elements)));
  }
}

int64_t count_nonzero(const OpRun& run, const std::vector<size_t>& group) {
  const InterpreterTensor& x = run.operand(0);
  return std::ranges::count_if(
      group, [&](size_t place) { return x.number(static_cast<int64_t>(place)) != 0; });
}

/// Σ (x - mean)² / max(0, n - correction), taken of x - x[0]: two passes.
long double variance(const std::vector<double>& x, int64_t correction) {
  const long double count = static_cast<long double>(x.size());
  long double sum = 0, squares = 0;
  for (double each : x) sum += static_cast<long double>(each) - x[0];
  const long double mean = sum / count;
  for (double each : x) {
    const long double deviation = (static_cast<long double>(each) - x[0]) - mean;
    squares += deviation * deviation;
  }
  return squares / std::max(0.0L, count - static_cast<long double>(correction));
}

long double log_sum_exp(const std::vector<double>& x) {
  double largest = -kInfinity;
  for (double each : x) largest = host_maximum(largest, each);
  if (!std::isfinite(largest)) return largest;  // all -inf, or some +inf or NaN
  long double sum = 0;
  for (double each : x) sum += std::exp(static_cast<long double>(each) - largest);
  return std::log(sum) + largest;
}

/// (Σ |x|^p)^(1/p), the powers of |x| / max |x|, which neither overflow nor all vanish.
long double norm(const std::vector<double>& x, double order) {
  double largest = 0;
  for (double each : x) largest = host_maximum(largest, std::fabs(each));
  if (largest == 0 || !std::isfinite(largest)) return largest;
  long double sum = 0;
  for (double each : x)
    sum += std::pow(std::fabs(static_cast<long double>(each)) / largest,
                    static_cast<long double>(order));
  return largest * std::pow(sum, 1 / static_cast<long double>(order));
}

}  // namespace

RunningProduct RunningProduct::times(double x) const {
  RunningProduct out = *this;
  if (x == 0 || !std::isfinite(x) || mantissa == 0 || !std::isfinite(mantissa)) {
    out.mantissa *= x;
    return out;
  }
  int of_x = 0, of_product = 0;
  out.mantissa = std::frexp(mantissa * std::frexp(static_cast<long double>(x), &of_x), &of_product);
  out.exponent += of_x + of_product;
  return out;
}

double RunningProduct::value() const {
  constexpr int64_t kBeyond = 5000;  // of every double
  return static_cast<double>(
      std::ldexp(mantissa, static_cast<int>(std::clamp(exponent, -kBeyond, kBeyond))));
}

void eval_prod(OpRun& run) {
  const InterpreterTensor& x = run.operand(0);
  if (x.holds_floats())
    return reduce_floats(run, [](const std::vector<double>& elements) {
      RunningProduct product;
      for (double element : elements) product = product.times(element);
      return product.value();
    });
  int64_t at = 0;
  for (const std::vector<size_t>& group : groups_of(run)) {
    int64_t product = 1;
    for (size_t place : group) product = host_mul(product, x.integers[place]);
    run.store_integer(at++, product);
  }
}

void eval_any(OpRun& run) {
  int64_t at = 0;
  for (const std::vector<size_t>& group : groups_of(run))
    run.store_integer(at++, count_nonzero(run, group) > 0);
}

void eval_all(OpRun& run) {
  int64_t at = 0;
  for (const std::vector<size_t>& group : groups_of(run))
    run.store_integer(at++, count_nonzero(run, group) == std::ssize(group));
}

void eval_count_nonzero(OpRun& run) {
  int64_t at = 0;
  for (const std::vector<size_t>& group : groups_of(run))
    run.store_integer(at++, count_nonzero(run, group));
}

void eval_var(OpRun& run) {
  reduce_floats(run, [&](const std::vector<double>& x) {
    return variance(x, run.op.int_attr("correction"));
  });
}

void eval_stddev(OpRun& run) {
  reduce_floats(run, [&](const std::vector<double>& x) {
    return std::sqrt(variance(x, run.op.int_attr("correction")));
  });
}

void eval_logsumexp(OpRun& run) { reduce_floats(run, log_sum_exp); }

void eval_norm(OpRun& run) {
  const double order = run.op.float_attr("ord");
  reduce_floats(run, [&](const std::vector<double>& x) { return norm(x, order); });
}

}  // namespace mezzo::ir
