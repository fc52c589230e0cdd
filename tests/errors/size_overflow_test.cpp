// SPDX-License-Identifier: Apache-2.0
// Sizes beyond what 64 bits count: whoever asks for them is told the op, the sizes, the line and a
// remedy, whether a program asks, a text or an attribute.
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/parser.h>
#include <mezzo/mezzo.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>

using namespace mezzo;

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = -kMost - 1;
constexpr int64_t k30 = int64_t{1} << 30, k40 = int64_t{1} << 40, k59 = int64_t{1} << 59;

/// What the op says of tensors of these types, without the place, which is a line of this file.
struct Row {
  ir::Type a, b;
  std::function<void(Tensor, Tensor)> call;
  std::string text;
};

std::string told(const Row& row) {
  detail::Trace trace("test");
  trace.begin_function("f");
  Tensor a = trace.input(row.a, "a"), b = trace.input(row.b, "b");
  const std::string text = test::error_of([&] { row.call(a, b); });
  const size_t place = text.find("size_overflow_test.cpp:"), end = text.find(": error: ");
  return place < end && end != std::string::npos ? text.substr(end + 9) : "no place: " + text;
}

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(told(row) == row.text);
  }
}

const ir::Type kLine(f32, {k30}), kColumn(f32, {k30, 1}), kPair(f32, {4, 3}), kScalar(f32, {});
const ir::Type kImage(f32, {1, 8, 8, 3}), kWeight(f32, {2, 3, 3, 3});
const std::string kOfPair = " (x tensor<4x3xf32>)", kOfImage = " (x tensor<1x8x8x3xf32>)";
const std::string kTooMuchPadding =
    "\nnote: an axis is padded by 2^30 elements at each end, by less than 2^30 between two of its "
    "elements and by 2^50 between all at most";
const std::string kForwards =
    "\nnote: forwards it is 0 <= start <= end <= length, negative ones counted from the end, and "
    "the "
    "step is not 0";
const std::string kOfBoth = " (x tensor<1x8x8x3xf32>, weight tensor<2x3x3x3xf32>)";
const std::string kRemedy = "\nnote: make an axis shorter, or work on the tensor in parts";

}  // namespace

TEST_CASE("broadcasting to more than 2^59 elements") {
  const std::string pair = "shape 1073741824x1073741824 has more than 2^59 elements";
  check({
      {kLine, kColumn, [](Tensor a, Tensor b) { a + b; },
       "add: " + pair + " (x tensor<1073741824xf32>, y tensor<1073741824x1xf32>)" + kRemedy},
      {kLine, kColumn, [](Tensor a, Tensor b) { where(a > 0.0, a, b); },
       "where: shape 1073741824x1073741824 has more than 2^59 elements (condition "
       "tensor<1073741824xbool>, x tensor<1073741824xf32>, y tensor<1073741824x1xf32>)" +
           kRemedy},
      {kLine, kPair, [](Tensor a, Tensor) { broadcast_to(a, {k30, k30}); },
       "broadcast_to: " + pair + " (x tensor<1073741824xf32>)" + kRemedy},
      {kLine, kPair, [](Tensor a, Tensor) { broadcast_to(a, {kMost, k30}); },
       "broadcast_to: shape 9223372036854775807x1073741824 has more than 2^59 elements (x "
       "tensor<1073741824xf32>)" +
           kRemedy},
      {kLine, kLine, [](Tensor a, Tensor b) { outer(a, b); }, "outer: " + pair + kRemedy},
      {ir::Type(f32, {k30, 1, 2, 2}), ir::Type(f32, {k30, 2, 2}),
       [](Tensor a, Tensor b) { matmul(a, b); },
       "matmul: shape 1073741824x1073741824 has more than 2^59 elements (a "
       "tensor<1073741824x1x2x2xf32>, b tensor<1073741824x2x2xf32>)" +
           kRemedy},
      {kColumn, ir::Type(f32, {1, k30}), [](Tensor a, Tensor b) { matmul(a, b); },
       "matmul: shape 1073741824x1073741824 has more than 2^59 elements (a "
       "tensor<1073741824x1xf32>, b tensor<1x1073741824xf32>)" +
           kRemedy},
      {kLine, kLine, [](Tensor a, Tensor b) { einsum("i,j->ij", {a, b}); },
       "mul: shape 1073741824x1073741824 has more than 2^59 elements (x tensor<1073741824x1xf32>, "
       "y tensor<1x1073741824xf32>)" +
           kRemedy},
      {ir::Type(f32, {1, 1, k30, 8}), ir::Type(f32, {1, 1, 1, k30}),
       [](Tensor a, Tensor b) { attention(a, a, a, {.mask = b}); },
       "attention: shape 1x1x1073741824x1073741824 has more than 2^59 elements (q "
       "tensor<1x1x1073741824x8xf32>, k tensor<1x1x1073741824x8xf32>, v "
       "tensor<1x1x1073741824x8xf32>, mask tensor<1x1x1x1073741824xf32>)" +
           kRemedy},
  });
}

TEST_CASE("making more than 2^59 elements out of nothing") {
  check({
      {kPair, kPair, [](Tensor, Tensor) { full({k30, k30}, 1.0); },
       "full: shape 1073741824x1073741824 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { constant({1.0}, {k30, k30}); },
       "constant: shape 1073741824x1073741824 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { iota({kMost}); },
       "iota: shape 9223372036854775807 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { iota({k59, 2}, f64, 1); },
       "iota: shape 576460752303423488x2 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { linspace(0, 1, kMost); },
       "linspace: shape 9223372036854775807 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { eye(k30, k30); },
       "eye: shape 1073741824x1073741824 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { eye(kMost); },
       "eye: shape 9223372036854775807x9223372036854775807 has more than 2^59 elements" + kRemedy},
      {ir::Type(i32, {k30}), kPair, [](Tensor a, Tensor) { one_hot(a, k30); },
       "one_hot: shape 1073741824x1073741824 has more than 2^59 elements" + kRemedy},
      {ir::Type(i32, {4}), kPair, [](Tensor a, Tensor) { one_hot(a, kMost); },
       "one_hot: shape 4x9223372036854775807 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { random_uniform({k30, k30}); },
       "random_uniform: shape 1073741824x1073741824 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { random_normal({kMost, kMost}, {.mean = 1}); },
       "random_normal: shape 9223372036854775807x9223372036854775807 has more than 2^59 elements" +
           kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { bernoulli({kMost, 2}, 0.5); },
       "bernoulli: shape 9223372036854775807x2 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { nn::Parameter({k30, k30}, initializers::zeros(), "p"); },
       "parameter 'p': shape 1073741824x1073741824 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { nn::Dense(k30, k30); },
       "parameter 'weight': shape 1073741824x1073741824 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { nn::Lstm(4, kMost); },
       "parameter 'l0.w': shape 4x9223372036854775807 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor, Tensor) { nn::MultiHeadAttention(k40, 2); },
       "parameter 'weight': shape 1099511627776x1099511627776 has more than 2^59 elements" +
           kRemedy},
  });
}

TEST_CASE("moving elements into more than 2^59") {
  check({
      {kPair, kPair, [](Tensor a, Tensor) { reshape(a, {kMost, kMost, kMost}); },
       "reshape: shape 9223372036854775807x9223372036854775807x9223372036854775807 has more than "
       "2^59 elements" +
           kOfPair + kRemedy},
      {kPair, kPair, [](Tensor a, Tensor) { reshape(a, {kMost, kMost, -1}); },
       "reshape: 12 elements do not divide into [9223372036854775807, 9223372036854775807, -1]" +
           kOfPair + "\nnote: the given lengths must divide the number of elements"},
      {kPair, kPair, [](Tensor a, Tensor) { reshape(a, {k30, k30, 16, -1}); },
       "reshape: 12 elements do not divide into [1073741824, 1073741824, 16, -1]" + kOfPair +
           "\nnote: the given lengths must divide the number of elements"},
      {kPair, kPair, [](Tensor a, Tensor) { tile(a, {k30, k30}); },
       "tile: shape 4294967296x3221225472 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor a, Tensor) { tile(a, {kMost, 1}); },
       "tile: shape 9223372036854775807x3 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor a, Tensor) { repeat(a, kMost, 1); },
       "repeat: shape 4x9223372036854775807 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor a, Tensor) { repeat(a, k59, 1); },
       "repeat: shape 4x1729382256910270464 has more than 2^59 elements" + kRemedy},
      {ir::Type(f32, {k59}), kPair, [](Tensor a, Tensor) { stack({a, a}); },
       "stack: shape 2x576460752303423488 has more than 2^59 elements" + kRemedy},
      {ir::Type(f32, {k59}), kPair, [](Tensor a, Tensor) { concat({a, a}); },
       "concat: shape 1152921504606846976 has more than 2^59 elements (x "
       "tensor<576460752303423488xf32>, x tensor<576460752303423488xf32>)" +
           kRemedy},
      {ir::Type(f32, {0, 3}), kPair, [](Tensor a, Tensor) { split(a, kMost); },
       "split: axis 0 of x tensor<0x3xf32> into 9223372036854775807 parts, the most is "
       "16777216\nnote: reshape gives the parts an axis of their own"},
      {kLine, kPair, [](Tensor a, Tensor) { split(a, k30); },
       "split: axis 0 of x tensor<1073741824xf32> into 1073741824 parts, the most is "
       "16777216\nnote: reshape gives the parts an axis of their own"},
      {kLine, kPair, [](Tensor a, Tensor) { split(a, Dims{kMost, kMost, 2}); },
       "split: the lengths add up to 9223372036854775807; axis 0 of x tensor<1073741824xf32> has "
       "1073741824"},
      {kLine, kPair, [](Tensor a, Tensor) { split(a, Dims{kLeast, kLeast, 2}); },
       "split: the lengths add up to -9223372036854775806, some are negative; axis 0 of x "
       "tensor<1073741824xf32> has 1073741824"},
      {kPair, kPair, [](Tensor a, Tensor) { pad(a, {kMost, 0}, {0, 0}); },
       "pad: padding of axis 0 of length 4 by 9223372036854775807, 0 and 0 between its elements is "
       "too large" +
           kOfPair + kTooMuchPadding},
      {kPair, kPair, [](Tensor a, Tensor) { pad(a, {0, 0}, {0, 0}, {kMost, 0}); },
       "pad: padding of axis 0 of length 4 by 0, 0 and 9223372036854775807 between its elements is "
       "too large" +
           kOfPair + kTooMuchPadding},
      {kPair, kPair, [](Tensor a, Tensor) { pad(a, {0, 0}, {0, k30}, {k40, 0}); },
       "pad: shape 3298534883332x1073741827 has more than 2^59 elements" + kOfPair + kRemedy},
      {kPair, kPair, [](Tensor a, Tensor) { pad(a, {0, kLeast}, {0, 0}); },
       "pad: padding of axis 1 of length 3 by -9223372036854775808, 0 and 0 between its elements "
       "is negative" +
           kOfPair + "\nnote: slice takes elements away"},
      {kPair, kPair, [](Tensor a, Tensor) { pad(a, {0, 0}, {0, kMost}, PadMode::Constant); },
       "pad: padding of axis 1 of length 3 by 0, 9223372036854775807 and 0 between its elements is "
       "too large (x tensor<4x3xf32>, value tensor<f32>)" +
           kTooMuchPadding},
      {kPair, kPair, [](Tensor a, Tensor) { pad(a, {0, 0}, {kMost, 0}, PadMode::Reflect); },
       "pad: shape 9223372036854775807x3 has more than 2^59 elements" + kRemedy},
      {kPair, kPair, [](Tensor a, Tensor) { pad(a, {0, 0}, {kMost, 0}, PadMode::Edge); },
       "pad: shape 9223372036854775807x3 has more than 2^59 elements" + kRemedy},
      {ir::Type(f32, {k30}), ir::Type(i32, {k30}),
       [](Tensor a, Tensor b) { gather(reshape(a, {1, k30}), b, 0); },
       "gather: shape 1073741824x1073741824 has more than 2^59 elements (x "
       "tensor<1x1073741824xf32>, indices tensor<1073741824xi32>)" +
           kRemedy},
  });
}

TEST_CASE("more parts than their length can be counted for") {
  for (int64_t rows : {0, 1}) {
    CAPTURE(rows);
    const Row row{ir::Type(f32, {rows, k59}), kPair,
                  [](Tensor a, Tensor) { concat(std::vector<Tensor>(20, a), 1); }, ""};
    CHECK(told(row).starts_with("concat: shape " + std::to_string(rows) +
                                "x9223372036854775807 has more than 2^59 elements (x tensor<"));
  }
}

TEST_CASE("slices and axes near the ends of 64 bits") {
  const std::string backwards =
      " does not fit axis 0 of x tensor<4x3xf32>\nnote: backwards it is length > start >= end; an "
      "end of -length - 1 is before the first element";
  check({
      {kPair, kPair, [](Tensor a, Tensor) { slice(a, {0, 0}, {kMost, 3}); },
       "slice: slice 0:9223372036854775807:1 does not fit axis 0 of x tensor<4x3xf32>" + kForwards},
      {kPair, kPair, [](Tensor a, Tensor) { slice(a, {kLeast, 0}, {4, 3}); },
       "slice: slice -9223372036854775808:4:1 does not fit axis 0 of x tensor<4x3xf32>" +
           kForwards},
      {kPair, kPair, [](Tensor a, Tensor) { slice(a, {kMost, 0}, {kMost, 3}); },
       "slice: slice 9223372036854775807:9223372036854775807:1 does not fit axis 0 of x "
       "tensor<4x3xf32>" +
           kForwards},
      {kPair, kPair, [](Tensor a, Tensor) { slice(a, {kMost, 0}, {kLeast, 3}, {-1, 1}); },
       "slice: slice 9223372036854775807:-9223372036854775808:-1" + backwards},
      {kPair, kPair, [](Tensor a, Tensor) { slice(a, {kLeast, 0}, {kMost, 3}, {-1, 1}); },
       "slice: slice -9223372036854775808:9223372036854775807:-1" + backwards},
      {kPair, kPair, [](Tensor a, Tensor) { slice(a, {3, 0}, {-5, 3}, {kLeast, 1}); },
       "no place: no error"},
      {kPair, kPair, [](Tensor a, Tensor) { slice(a, {0, 0}, {4, 3}, {kMost, kMost}); },
       "no place: no error"},
      {kPair, kPair, [](Tensor a, Tensor) { sum(a, kMost); },
       "sum: axis 9223372036854775807 is out of range for rank 2" + kOfPair +
           "\nnote: axes are 0 to 1"},
      {kPair, kPair, [](Tensor a, Tensor) { softmax(a, kLeast); },
       "softmax: axis -9223372036854775808 is out of range for rank 2" + kOfPair +
           "\nnote: axes are 0 to 1"},
      {kPair, kPair, [](Tensor a, Tensor) { roll(a, kLeast, kLeast); },
       "roll: axis -9223372036854775808 is out of range for rank 2" + kOfPair},
      {kPair, kPair,
       [](Tensor a, Tensor) {
         roll(a, kLeast);
         roll(a, kMost);
       },
       "no place: no error"},
      {kPair, kPair,
       [](Tensor a, Tensor) {
         diagonal(a, kMost);
         diagonal(a, kLeast);
       },
       "no place: no error"},
      {kPair, kPair, [](Tensor a, Tensor) { topk(a, kMost); },
       "topk: k 9223372036854775807 is more than the 3 elements along axis 1" + kOfPair +
           "\nnote: k may be the length of the axis at most"},
      {kPair, kPair, [](Tensor a, Tensor) { dynamic_slice(a, {0, kMost}, {1, 1}); },
       "dynamic_slice: the start of axis 1 must be an integer in [0, 2] for 1 elements of x "
       "tensor<4x3xf32>, not 9223372036854775807"},
      {kPair, kPair, [](Tensor a, Tensor) { dynamic_slice(a, {0, 0}, {1, kMost}); },
       "dynamic_slice: 9223372036854775807 elements of axis 1 of x tensor<4x3xf32>"},
  });
}

TEST_CASE("windows near the ends of 64 bits") {
  check({
      {kImage, kWeight, [](Tensor a, Tensor b) { conv2d(a, b, {.padding = kMost}); },
       "conv: high 9223372036854775807 lies outside [0, 1073741824]" + kOfBoth},
      {kImage, kWeight, [](Tensor a, Tensor b) { conv2d(a, b, {.stride = {kMost}}); },
       "conv: strides 9223372036854775807 lies outside [1, 1073741824]" + kOfBoth},
      {kImage, kWeight, [](Tensor a, Tensor b) { conv2d(a, b, {.stride = {kLeast}}); },
       "conv: strides -9223372036854775808 lies outside [1, 1073741824]" + kOfBoth},
      {kImage, kWeight,
       [](Tensor a, Tensor b) { conv2d(a, b, {.stride = {kMost}, .padding = Padding::same()}); },
       "conv2d: stride 9223372036854775807 of axis 1" + kOfImage +
           "\nnote: strides are 1 or more, 2^30 at most"},
      {kImage, kWeight,
       [](Tensor a, Tensor b) { conv2d(a, b, {.padding = Padding::same(), .dilation = {kMost}}); },
       "conv: dilations 9223372036854775807 lies outside [1, 1073741824]" + kOfBoth},
      {kImage, kWeight, [](Tensor a, Tensor b) { conv2d(a, b, {.dilation = {kMost}}); },
       "conv: dilations 9223372036854775807 lies outside [1, 1073741824]" + kOfBoth},
      {kImage, kWeight, [](Tensor a, Tensor b) { conv2d(a, b, {.dilation = {k30}}); },
       "conv: a window of reach 2147483649 does not fit axis 1 of length 8 with padding 0 and 0" +
           kOfBoth + "\nnote: pad that axis more, or take a smaller window or dilation"},
      {kImage, kWeight, [](Tensor a, Tensor b) { conv2d(a, b, {.groups = kLeast}); },
       "conv: groups -9223372036854775808 lies outside [1, 1073741824]" + kOfBoth},
      {ir::Type(f32, {k30, 8, 8, 3}), ir::Type(f32, {k30, 1, 1, 3}),
       [](Tensor a, Tensor b) { conv2d(a, b); },
       "conv: shape 1073741824x8x8x1073741824 has more than 2^59 elements (x "
       "tensor<1073741824x8x8x3xf32>, weight tensor<1073741824x1x1x3xf32>)" +
           kRemedy},
      {ir::Type(f32, {k30, 4, 4, 1}), ir::Type(f32, {1, 1, 1, 1}),
       [](Tensor a, Tensor b) { conv2d(a, b, {.padding = k30}); },
       "conv: shape 1073741824x2147483652x2147483652x1 has more than 2^59 elements (x "
       "tensor<1073741824x4x4x1xf32>, weight tensor<1x1x1x1xf32>)" +
           kRemedy},
      {kImage, kPair, [](Tensor a, Tensor) { max_pool(a, {.window = {kMost}}); },
       "max_pool: strides 9223372036854775807 lies outside [1, 1073741824]" + kOfImage},
      {kImage, kPair,
       [](Tensor a, Tensor) { max_pool(a, {.window = {kLeast}, .padding = Padding::same()}); },
       "max_pool: stride -9223372036854775808 of axis 1" + kOfImage +
           "\nnote: strides are 1 or more, 2^30 at most"},
      {kImage, kPair, [](Tensor a, Tensor) { avg_pool(a, {.stride = {kMost}}); },
       "avg_pool: strides 9223372036854775807 lies outside [1, 1073741824]" + kOfImage},
      {kImage, kPair, [](Tensor a, Tensor) { upsample_nearest(a, {k30, k30}); },
       "upsample_nearest: shape 1x1073741824x1073741824x3 has more than 2^59 elements" + kOfImage +
           kRemedy},
      {kImage, kPair, [](Tensor a, Tensor) { upsample_bilinear(a, {kMost, 2}); },
       "upsample_linear: size 9223372036854775807 lies outside [1, 1073741824]" + kOfImage},
  });
}

TEST_CASE("the line is that of the call that asks for too much") {
  detail::Trace trace("test");
  trace.begin_function("f");
  Tensor a = trace.input(kLine, "a"), b = trace.input(kColumn, "b");
  int line = 0;
  try {
    line = __LINE__ + 1;
    a* b;
  } catch (const UserError& error) {
    CHECK(error.location().line == line);
    return;
  }
  FAIL("no error");
}

namespace {

/// What is told about the text of one op on tensor<4x3xf32>.
std::string told_of_text(const std::string& op) {
  const std::string text =
      "module @m {\nfunc @f(%x: tensor<4x3xf32>, %s: tensor<f32>) -> tensor<f32> {\n" + op +
      "\nreturn %s : tensor<f32>\n} }\n";
  std::string error =
      test::error_of<ParseError>([&] { (void)ir::parse(text, "m.mz", ir::ParseOptions{}); });
  // Without the line and its caret, which parse_errors_test.cpp pins.
  const size_t first = error.find('\n'), note = error.find("\nnote: ");
  if (first == std::string::npos) return error;
  return error.substr(0, first) + (note == std::string::npos ? "" : error.substr(note));
}

}  // namespace

TEST_CASE("texts with types and attributes beyond what 64 bits count") {
  struct TextRow {
    const char* op;
    std::string text;
  };
  const std::vector<TextRow> rows = {
      {"%0 = relu %x : tensor<4294967296x4294967296xf32>",
       "m.mz:3:16: error: shape 4294967296x4294967296 has more than 2^59 elements" + kRemedy},
      {"%0 = relu %x : tensor<9223372036854775808xf32>",
       "m.mz:3:16: error: '9223372036854775808' is no length of an axis\nnote: a length is a "
       "number, 2^59 at most"},
      {"%0 = relu %x : tensor<0x4294967296x4294967296xf32>",
       "m.mz:3:16: error: shape 0x4294967296x4294967296 has more than 2^59 elements" + kRemedy},
      {"%0 = iota {axis = 9223372036854775807} : tensor<4xf32>",
       "m.mz:3:6: error: iota: axis 9223372036854775807 is out of range for rank 1\nnote: there "
       "is axis 0 alone"},
      {"%0 = iota {axis = 9223372036854775808} : tensor<4xf32>",
       "m.mz:3:19: error: the integer 9223372036854775808 does not fit 64 bits"},
      {"%0 = broadcast_to %x {shape = [4294967296, 4294967296, 4, 3]} : tensor<4x3xf32> -> "
       "tensor<f32>",
       "m.mz:3:6: error: broadcast_to: shape 4294967296x4294967296x4x3 has more than 2^59 "
       "elements" +
           kOfPair + kRemedy},
      {"%0 = broadcast_to %s {shape = [-9223372036854775808, 2]} : tensor<f32> -> tensor<f32>",
       "m.mz:3:6: error: broadcast_to: shape -9223372036854775808x2 has the negative length "
       "-9223372036854775808 (x tensor<f32>)\nnote: lengths of axes are 0 or more"},
      {"%0 = reshape %x {shape = [9223372036854775807, 9223372036854775807]} : tensor<4x3xf32> -> "
       "tensor<f32>",
       "m.mz:3:6: error: reshape: shape 9223372036854775807x9223372036854775807 has more than 2^59 "
       "elements" +
           kOfPair + kRemedy},
      {"%0 = pad %x {low = [9223372036854775807, 0], high = [9223372036854775807, 0], interior = "
       "[0, 0]} : tensor<4x3xf32> -> tensor<f32>",
       "m.mz:3:6: error: pad: padding of axis 0 of length 4 by 9223372036854775807, "
       "9223372036854775807 and 0 between its elements is too large" +
           kOfPair + kTooMuchPadding},
      {"%0 = pad %x {low = [0, 0], high = [0, 0], interior = [9223372036854775807, 0]} : "
       "tensor<4x3xf32> -> tensor<f32>",
       "m.mz:3:6: error: pad: padding of axis 0 of length 4 by 0, 0 and 9223372036854775807 "
       "between its elements is too large" +
           kOfPair + kTooMuchPadding},
      {"%0 = pad %x {low = [-9223372036854775808, 0], high = [0, 0], interior = [0, 0]} : "
       "tensor<4x3xf32> -> tensor<f32>",
       "m.mz:3:6: error: pad: padding of axis 0 of length 4 by -9223372036854775808, 0 and 0 "
       "between its elements is negative" +
           kOfPair + "\nnote: slice takes elements away"},
      {"%0 = slice %x {starts = [-9223372036854775808, 0], ends = [9223372036854775807, 3], steps "
       "= [1, 1]} : tensor<4x3xf32> -> tensor<f32>",
       "m.mz:3:6: error: slice: slice -9223372036854775808:9223372036854775807:1 does not fit axis "
       "0 of length 4" +
           kOfPair + "\nnote: 0 <= start <= end <= length, and the step is 1 or more"},
      {"%0 = slice %x {starts = [0, 0], ends = [4, 3], steps = [9223372036854775807, 1]} : "
       "tensor<4x3xf32> -> tensor<f32>",
       "m.mz:3:6: error: slice: step 9223372036854775807 along axis 0 of length 4 is too large" +
           kOfPair + "\nnote: a step as long as the axis takes one element just as well"},
      {"%0 = transpose %x {perm = [9223372036854775807, 0]} : tensor<4x3xf32> -> tensor<f32>",
       "m.mz:3:6: error: transpose: perm [9223372036854775807, 0] is not a permutation" + kOfPair +
           "\nnote: each axis stands in it once"},
      {"%0 = concat %x, %x {axis = -9223372036854775808} : (tensor<4x3xf32>, tensor<4x3xf32>) -> "
       "tensor<f32>",
       "m.mz:3:6: error: concat: axis -9223372036854775808 is out of range for rank 2 (x "
       "tensor<4x3xf32>, x tensor<4x3xf32>)\nnote: axes are 0 to 1"},
      {"%0 = sum %x {axes = [9223372036854775807]} : tensor<4x3xf32> -> tensor<f32>",
       "m.mz:3:6: error: sum: axis 9223372036854775807 is out of range for rank 2" + kOfPair +
           "\nnote: axes are 0 to 1"},
      {"%0, %1 = topk %x {axis = 1, k = 9223372036854775807} : tensor<4x3xf32> -> (tensor<f32>, "
       "tensor<f32>)",
       "m.mz:3:10: error: topk: k 9223372036854775807 is more than the 3 elements along axis 1" +
           kOfPair + "\nnote: k may be the length of the axis at most"},
      {"%0 = layer_norm %x {axis = -9223372036854775808} : tensor<4x3xf32> -> tensor<f32>",
       "m.mz:3:6: error: layer_norm: axis -9223372036854775808 lies outside [0, 7]" + kOfPair},
      {"%0 = remap %x {shape = [4294967296, 4294967296], axes = [0, 1], multiples = [1, 1], "
       "offsets = [0, 0], divisors = [1, 1]} : tensor<4x3xf32> -> tensor<f32>",
       "m.mz:3:6: error: remap: shape 4294967296x4294967296 has more than 2^59 elements" + kOfPair +
           kRemedy},
      {"%0 = remap %x {shape = [4, 3], axes = [0, 1], multiples = [9223372036854775807, 1], "
       "offsets = [0, 0], divisors = [1, 1]} : tensor<4x3xf32> -> tensor<f32>",
       "m.mz:3:6: error: remap: multiples 9223372036854775807 lies outside [-4294967296, "
       "4294967296]" +
           kOfPair},
  };
  for (const TextRow& row : rows) {
    CAPTURE(row.op);
    CHECK(told_of_text(row.op) == row.text);
  }
}
