// SPDX-License-Identifier: Apache-2.0
// Reductions to numbers, bools and indices, running values along an axis, and order along an axis.
// Axes count from the end when negative; a reduction takes all axes where none are given. What each
// gives of no elements and of NaN stands beside it.
#pragma once

#include <mezzo/dsl/operand.h>

#include <cstdint>

namespace mezzo {

/// Π over `axes`, accumulated in f64 (integers and bools in i64); 1 of nothing. The gradient is
/// right with any number of zeros.
Tensor prod(Operand x, Axes axes = {}, bool keepdims = false);
/// Index (i32) of the first minimum along `axis`, of the first NaN if there is one; an axis of no
/// elements is a UserError.
Tensor argmin(Operand x, int64_t axis = -1, bool keepdims = false);
/// Some element, every element is not 0 (bool); NaN is not 0. Of nothing false and true.
Tensor any(Operand x, Axes axes = {}, bool keepdims = false);
Tensor all(Operand x, Axes axes = {}, bool keepdims = false);
/// Number (i32) of elements that are not 0, NaN among them; more than 2^31 - 1 elements are a
/// UserError.
Tensor count_nonzero(Operand x, Axes axes = {}, bool keepdims = false);

struct VarOptions {
  /// The sum of squares is divided by the number of elements less this, or by 0: 1 for the estimate
  /// from a sample, 0 for the variance of the elements themselves.
  int64_t correction = 1;
};
/// Variance, and its root; NaN of nothing. Where the divisor is 0, NaN of equal elements, else
/// infinity. The
/// gradient of `stddev` is 0 where it is 0. (`std` is a namespace in C++.)
Tensor var(Operand x, Axes axes = {}, bool keepdims = false, VarOptions options = {});
Tensor stddev(Operand x, Axes axes = {}, bool keepdims = false, VarOptions options = {});

/// log Σ exp(x), which never overflows: -inf of nothing, and with gradient 0 of nothing but -inf.
Tensor logsumexp(Operand x, Axes axes = {}, bool keepdims = false);

struct NormOptions {
  /// p of (Σ |x|^p)^(1/p), positive; infinity for the largest |x|.
  double ord = 2;
};
/// Vector norm: powers are taken of x over its largest element or added in f64, so that they leave
/// no range which the norm does not leave. 0 of nothing (an error for `ord` infinity); the gradient
/// is 0 where x is 0, and that of the largest |x| all goes to the first.
Tensor norm(Operand x, Axes axes = {}, bool keepdims = false, NormOptions options = {});

struct ScanOptions {
  /// From the last element to the first.
  bool reverse = false;
  /// Without the element itself: the first is 0 for sums, 1 for products.
  bool exclusive = false;
};
/// Sums and products of all elements up to each, kept in f64 (integers and bools in i64). The
/// gradient of a product is right with any number of zeros.
Tensor cumsum(Operand x, int64_t axis = -1, ScanOptions options = {});
Tensor cumprod(Operand x, int64_t axis = -1, ScanOptions options = {});
/// The largest, the least element so far; a NaN stays. The gradient goes to the first place that
/// had the value.
Tensor cummax(Operand x, int64_t axis = -1, bool reverse = false);
Tensor cummin(Operand x, int64_t axis = -1, bool reverse = false);
/// y[k] = a[k] y[k-1] + b[k] with y[-1] = 0, floats of one shape. A y[k-1] of 0 gives b[k] whatever
/// a[k] is.
Tensor linear_scan(Operand a, Operand b, int64_t axis = -1, bool reverse = false);

/// Elements in order along `axis`, or their indices (i32). Equal elements, -0 and +0 among them,
/// keep their order; NaN is greater than every number: last, or first when descending.
Tensor sort(Operand x, int64_t axis = -1, bool descending = false);
Tensor argsort(Operand x, int64_t axis = -1, bool descending = false);
/// The elements of x in the order of `keys`, a tensor of its shape.
Tensor sort_by(Operand x, Operand keys, int64_t axis = -1, bool descending = false);

struct TopK {
  Tensor values;
  /// i32, along the axis.
  Tensor indices;
};
struct TopKOptions {
  int64_t axis = -1;
  /// The greatest, in descending order; else the least, in ascending order.
  bool largest = true;
};
/// The first k of the order of `sort`.
TopK topk(Operand x, int64_t k, TopKOptions options = {});

}  // namespace mezzo
