// SPDX-License-Identifier: Apache-2.0
// A function of the DSL as every engine runs it: the interpreter, kernels of one op each, and fused
// kernels in both rounding modes.
#pragma once

#include <mezzo/mezzo.h>

#include <string>
#include <utility>
#include <vector>

namespace mezzo::test {

using Numbers = std::vector<double>;

inline constexpr DType kFloats[] = {f64, f32, f16, bf16};

struct TracedOptions {
  /// Empty: element types as written.
  std::string policy = {};
};

/// What one engine gives.
struct TracedRun {
  std::string engine;
  std::vector<Array> results;
};

/// The results by every engine and rounding mode. Random operations draw with the seed 0, in step
/// 0.
std::vector<TracedRun> traced_runs(const detail::TensorFunction& function,
                                   const std::vector<Array>& inputs,
                                   const TracedOptions& options = {});

/// Checks that every engine gives these numbers, result by result: NaN, infinities and 0 (not its
/// sign) as they are, the others within `tolerance` of themselves.
void check_traced_list(const detail::TensorFunction& function, const std::vector<Array>& inputs,
                       const std::vector<Numbers>& wanted, double tolerance,
                       const TracedOptions& options = {});

/// The same for a function of so many tensors, as `jit` takes it.
template <typename F>
void check_traced(F function, const std::vector<Array>& inputs, const std::vector<Numbers>& wanted,
                  double tolerance, const TracedOptions& options = {}) {
  check_traced_list(detail::erase<detail::arity_of<F>()>(std::move(function)), inputs, wanted,
                    tolerance, options);
}

/// An array of one axis.
Array row(const Numbers& numbers, DType dtype);
/// A tensor of that number.
Array filled(Shape shape, double number, DType dtype);

/// A relative tolerance of a rounding or two in that type, and of numbers that are given with nine
/// digits.
double step_of(DType dtype);

}  // namespace mezzo::test
