// SPDX-License-Identifier: Apache-2.0
// Rows of movement, indexing, reductions, scans, orders and products.
#include <errors/shape_rule_rows.h>

namespace mezzo::test {

using ir::OpKind;

const std::vector<Row>& movement() {
  static const std::vector<Row> rows = {
      {OpKind::Constant, "", "{value = [1.0, 2.0]}",
       "constant: value has 2 elements for tensor<3xf32>\nnote: give one number for each element, "
       "or one for all without a list",
       "3xf32"},
      {OpKind::Constant, "", "{value = 1.0}",
       "constant: needs its result type, not 0 types\nnote: the type stands behind the op: `cast "
       "%x : tensor<4xf32> -> tensor<4xf16>`"},
      {OpKind::Iota, "", "{axis = 0}",
       "iota: gives a float or integer type, not bool\nnote: compare it with a number", "3xbool"},
      {OpKind::Iota, "", "{axis = 1}",
       "iota: axis 1 is out of range for rank 1\nnote: there is axis 0 alone", "3xf32"},
      {OpKind::BroadcastTo, "4x3xf32", "{shape = [4, 4]}",
       "broadcast_to: cannot broadcast to shape [4, 4]" + kOfPair + kBroadcasts},
      {OpKind::BroadcastTo, "4x3xf32", "{shape = [3]}",
       "broadcast_to: cannot broadcast to shape [3]" + kOfPair + kBroadcasts},
      {OpKind::Reshape, "4x3xf32", "{shape = [5]}",
       "reshape: cannot reshape 12 elements to shape [5] of 5" + kOfPair +
           "\nnote: the lengths must multiply to the number of elements"},
      {OpKind::Transpose, "4x3xf32", "{perm = [0]}",
       "transpose: perm has 1 entry for rank 2" + kOfPair +
           "\nnote: give one number for each axis"},
      {OpKind::Transpose, "4x3xf32", "{perm = [0, 0]}",
       "transpose: perm [0, 0] is not a permutation" + kOfPair +
           "\nnote: each axis stands in it once"},
      {OpKind::Slice, "4x3xf32", "{starts = [0], ends = [4, 3], steps = [1, 1]}",
       "slice: starts has 1 entry for rank 2" + kOfPair + "\nnote: give one number for each axis"},
      {OpKind::Slice, "4x3xf32", "{starts = [0, 2], ends = [4, 1], steps = [1, 1]}",
       "slice: slice 2:1:1 does not fit axis 1 of length 3" + kOfPair +
           "\nnote: 0 <= start <= end <= length, and the step is 1 or more"},
      {OpKind::Slice, "4x3xf32", "{starts = [0, 0], ends = [4, 3], steps = [1, 0]}",
       "slice: slice 0:3:0 does not fit axis 1 of length 3" + kOfPair +
           "\nnote: 0 <= start <= end <= length, and the step is 1 or more"},
      {OpKind::Pad, "4x3xf32", "{low = [0, 0], high = [0], interior = [0, 0]}",
       "pad: high has 1 entry for rank 2" + kOfPair + "\nnote: give one number for each axis"},
      {OpKind::Pad, "4x3xf32", "{low = [0, 0], high = [0, -1], interior = [0, 0]}",
       "pad: padding of axis 1 of length 3 by 0, -1 and 0 between its elements is negative" +
           kOfPair + "\nnote: slice takes elements away"},
      {OpKind::Pad, "4x3xf32, f16", "{low = [0, 0], high = [0, 0], interior = [0, 0]}",
       "pad: value must be tensor<f32>, not tensor<f16> (x tensor<4x3xf32>, value tensor<f16>)"},
      {OpKind::Flip, "4x3xf32", "{axes = [1, 0]}",
       "flip: axes must ascend without repetition, not [1, 0]" + kOfPair},
      {OpKind::Concat, "4x3xf32, 4x2xf32", "{axis = 0}",
       "concat: operand 0 has length 3 along axis 1, operand 1 has 2 (x tensor<4x3xf32>, x "
       "tensor<4x2xf32>)\nnote: they may differ along axis 0 alone"},
      {OpKind::Concat, "4x3xf32, 4x2xf16", "{axis = 1}",
       "concat: element types differ, f32 and f16 (x tensor<4x3xf32>, x tensor<4x2xf16>)\nnote: "
       "only `cast` changes an element type"},
      {OpKind::Concat, "", "{axis = 1}", "concat: takes at least 1 operand, not 0"},
      {OpKind::Gather, "4x3xf32, 2xf32", "{axis = 0}",
       "gather: indices must be of an integer type, not f32 (x tensor<4x3xf32>, indices "
       "tensor<2xf32>)\nnote: cast them to i32"},
      {OpKind::TakeAlongAxis, "4x3xf32, 2x2xi32", "{axis = 0}",
       "take_along_axis: indices have length 2 along axis 1, x has 3 (x tensor<4x3xf32>, indices "
       "tensor<2x2xi32>)\nnote: they may differ along axis 0 alone"},
      {OpKind::ScatterAdd, "4x3xf32, 2xi32, 2x2xf32", "{axis = 0}",
       "scatter_add: updates must be tensor<2x3xf32>, not tensor<2x2xf32> (x tensor<4x3xf32>, "
       "indices tensor<2xi32>, updates tensor<2x2xf32>)"},
      {OpKind::ScatterAdd, "4x3xf32, 2xi32, 2x3xf64", "{axis = 0}",
       "scatter_add: element types differ, f32 and f64 (x tensor<4x3xf32>, indices tensor<2xi32>, "
       "updates tensor<2x3xf64>)\nnote: updates have the type of x, or 16 bits where x is f32; "
       "only `cast` changes an element type"},
      {OpKind::AddAlongAxis, "4x3xbool, 2x3xi32, 2x3xbool", "{axis = 0}",
       "add_along_axis: takes a float or integer type, not bool (x tensor<4x3xbool>, indices "
       "tensor<2x3xi32>, updates tensor<2x3xbool>)" +
           kNumber},
  };
  return rows;
}

const std::vector<Row>& reductions() {
  static const std::vector<Row> rows = {
      {OpKind::Sum, "4x3xf32", "{axes = [2]}",
       "sum: axis 2 is out of range for rank 2" + kOfPair + kAxes},
      {OpKind::Prod, "4x3xf32", "{axes = [2]}",
       "prod: axis 2 is out of range for rank 2" + kOfPair + kAxes},
      {OpKind::AnyOf, "4x3xf32", "{axes = [2]}",
       "any: axis 2 is out of range for rank 2" + kOfPair + kAxes},
      {OpKind::AllOf, "4x3xf32", "{axes = [2]}",
       "all: axis 2 is out of range for rank 2" + kOfPair + kAxes},
      {OpKind::CountNonzero, "4x3xf32", "{axes = [2]}",
       "count_nonzero: axis 2 is out of range for rank 2" + kOfPair + kAxes},
      {OpKind::Max, "4x3xbool", "{axes = [0]}",
       "max: takes a float or integer type, not bool (x tensor<4x3xbool>)" + kNumber},
      {OpKind::Min, "0x3xf32", "{axes = [0]}",
       "min: min of no elements has no value (x tensor<0x3xf32>)\nnote: give the reduced axes a "
       "length of at least 1"},
      {OpKind::Mean, "4x3xi32", "{axes = [0]}",
       "mean: takes a float type, not i32 (x tensor<4x3xi32>)" + kFloat},
      {OpKind::Argmax, "4x3xbool", "{axis = 0}",
       "argmax: takes a float or integer type, not bool (x tensor<4x3xbool>)" + kNumber},
      {OpKind::Argmin, "4x0xf32", "{axis = 1}",
       "argmin: argmin of no elements has no value (x tensor<4x0xf32>)\nnote: give the axis a "
       "length of at least 1"},
      {OpKind::Argmax, "2147483649xf32", "{axis = 0}",
       "argmax: the axis has 2147483649 elements, whose indices do not fit i32 (x "
       "tensor<2147483649xf32>)\nnote: cut the axis into parts of 2147483648 elements at most"},
      {OpKind::CountNonzero, "4294967296xf32", "{axes = [0]}",
       "count_nonzero: counts 4294967296 elements, more than i32 holds (x "
       "tensor<4294967296xf32>)\nnote: count over fewer axes and add the counts as i64"},
      {OpKind::Var, "4x3xi32", "{axes = [0]}",
       "var: takes a float type, not i32 (x tensor<4x3xi32>)" + kFloat},
      {OpKind::Stddev, "4x3xf32", "{axes = [0], correction = -1}",
       "stddev: correction -1 lies outside [0, 2147483647]" + kOfPair},
      {OpKind::LogSumExp, "4x3xbool", "{axes = [0]}",
       "logsumexp: takes a float type, not bool (x tensor<4x3xbool>)" + kFloat},
      {OpKind::Norm, "4x3xf32", "{axes = [0], ord = 0.0}",
       "norm: ord must be positive and finite, not 0" + kOfPair +
           "\nnote: of order inf it is max of abs; count_nonzero counts what is not 0"},
      {OpKind::Cumsum, "4x3xf32", "{axis = 2}",
       "cumsum: axis 2 is out of range for rank 2" + kOfPair + kAxes},
      {OpKind::Cumprod, "f32", "{axis = 0}",
       "cumprod: axis 0 is out of range for rank 0 (x tensor<f32>)\nnote: a scalar has no axes"},
      {OpKind::Cummax, "4x3xbool", "{axis = 0}",
       "cummax: takes a float or integer type, not bool (x tensor<4x3xbool>)" + kNumber},
      {OpKind::Cummin, "4x3xbool", "{axis = 0}",
       "cummin: takes a float or integer type, not bool (x tensor<4x3xbool>)" + kNumber},
      {OpKind::LinearScan, "4x3xf32, 3xf32", "{axis = 0}",
       "linear_scan: types differ, tensor<4x3xf32> and tensor<3xf32> (a tensor<4x3xf32>, b "
       "tensor<3xf32>)\nnote: broadcast or cast one of them first"},
      {OpKind::Sort, "3xf32", "{axis = 1}",
       "sort: axis 1 is out of range for rank 1 (x tensor<3xf32>)\nnote: there is axis 0 alone"},
      {OpKind::Argsort, "4294967296xf32", "{axis = 0}",
       "argsort: the axis has 4294967296 elements, whose indices do not fit i32 (x "
       "tensor<4294967296xf32>)\nnote: cut the axis into parts of 2147483647 elements at most"},
      {OpKind::SortBy, "4x3xf32, 4xf32", "{axis = 0}",
       "sort_by: shapes differ, tensor<4x3xf32> and tensor<4xf32> (x tensor<4x3xf32>, keys "
       "tensor<4xf32>)\nnote: there is one key for each element of x"},
      {OpKind::Topk, "4x3xf32", "{axis = 1, k = 4}",
       "topk: k 4 is more than the 3 elements along axis 1" + kOfPair +
           "\nnote: k may be the length of the axis at most"},
      {OpKind::Matmul, "4x3xf32, 4x3xf32", "{}",
       "matmul: inner sizes differ, 3 and 4 (a tensor<4x3xf32>, b tensor<4x3xf32>)\nnote: a row of "
       "a times a column of b; transpose_a and transpose_b exchange the two"},
      {OpKind::Matmul, "3xf32, 3x2xf32", "{}",
       "matmul: takes operands of rank 2 or more, not 1 and 2 (a tensor<3xf32>, b "
       "tensor<3x2xf32>)\nnote: reshape makes a matrix of a vector"},
      {OpKind::Matmul, "2x4x3xf32, 3x3x4xf32", "{}",
       "matmul: batch axes do not broadcast, [2] and [3] (a tensor<2x4x3xf32>, b "
       "tensor<3x3x4xf32>)" +
           kBroadcasts},
      {OpKind::Matmul, "4x3xf16, 3x4xf16", "{}",
       "matmul: gives f16 or f32, not f64 (a tensor<4x3xf16>, b tensor<3x4xf16>)\nnote: cast the "
       "result",
       "4x4xf64"},
      {OpKind::Matmul, "4x3xi32, 3x4xi32", "{}",
       "matmul: takes a float type, not i32 (a tensor<4x3xi32>, b tensor<3x4xi32>)" + kFloat},
      {OpKind::Matmul, "4x3xf16, 3x4xf32", "{}",
       "matmul: element types differ, f16 and f32 (a tensor<4x3xf16>, b tensor<3x4xf32>)\nnote: "
       "only `cast` changes an element type"},
      {OpKind::Matmul, "4x3xf16, 3x4xf16", "{acc = f16}",
       "matmul: products of f16 accumulate in f32, not f16 (a tensor<4x3xf16>, b tensor<3x4xf16>)"},
      {OpKind::Sum, "4x3xf16", "{axes = [0], acc = 1}",
       "sum: attribute 'acc' must be an element type (x tensor<4x3xf16>)"},
      {OpKind::Softmax, "4x3xi32", "{axis = 0}",
       "softmax: takes a float type, not i32 (x tensor<4x3xi32>)" + kFloat},
      {OpKind::LogSoftmax, "4x3xf32", "{axis = 2}",
       "log_softmax: axis 2 is out of range for rank 2" + kOfPair + kAxes},
      {OpKind::SoftmaxGrad, "4x3xf32, 4x3xf16", "{axis = 0}",
       "softmax_grad: types differ, tensor<4x3xf32> and tensor<4x3xf16> (y tensor<4x3xf32>, dy "
       "tensor<4x3xf16>)\nnote: the gradient of y has the type of y"},
      {OpKind::LogSoftmaxGrad, "4x3xf32, 3xf32", "{axis = 0}",
       "log_softmax_grad: types differ, tensor<4x3xf32> and tensor<3xf32> (y tensor<4x3xf32>, dy "
       "tensor<3xf32>)\nnote: the gradient of y has the type of y"},
  };
  return rows;
}

}  // namespace mezzo::test
