// SPDX-License-Identifier: Apache-2.0
// Mistakes in reductions, scans and orders: the text, the types and the hint.
#include <mezzo/dsl/trace.h>
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>

using namespace mezzo;

namespace {

/// The text of the error that `f` makes of an input of that type and of one of `other`, without its
/// place; "no error" where there is none.
std::string error_of(ir::Type type, const std::function<void(Tensor, Tensor)>& f,
                     ir::Type other = {f32, {4, 3}}) {
  detail::Trace trace("test");
  trace.begin_function("f");
  Tensor x = trace.input(type, "x"), y = trace.input(other, "y");
  try {
    f(x, y);
  } catch (const UserError& error) {
    const std::string text = error.what();
    return text.substr(text.find(": error: ") + 9);
  }
  return "no error";
}

const ir::Type kMatrix(f32, {4, 3}), kIntegers(i32, {4, 3}), kEmpty(f32, {4, 0});
const std::string kOfMatrix = " (x tensor<4x3xf32>)", kAxes = "\nnote: axes are 0 to 1";
constexpr int64_t kBeyond = int64_t{1} << 31;

}  // namespace

TEST_CASE("statistics take floats") {
  const std::string rest =
      ": takes a float type, not i32 (x tensor<4x3xi32>)\nnote: cast it to f32 first";
  CHECK(error_of(kIntegers, [](Tensor x, Tensor) { var(x); }) == "var" + rest);
  CHECK(error_of(kIntegers, [](Tensor x, Tensor) { stddev(x); }) == "stddev" + rest);
  CHECK(error_of(kIntegers, [](Tensor x, Tensor) { logsumexp(x); }) == "logsumexp" + rest);
  CHECK(error_of(kIntegers, [](Tensor x, Tensor) { norm(x); }) == "norm" + rest);
}

TEST_CASE("reduced axes that are not there or are named twice") {
  CHECK(error_of(kMatrix, [](Tensor x, Tensor) { prod(x, 2); }) ==
        "prod: axis 2 is out of range for rank 2" + kOfMatrix + kAxes);
  CHECK(error_of(kMatrix, [](Tensor x, Tensor) { any(x, {1, 1}); }) ==
        "any: axes must ascend without repetition, not [1, 1]" + kOfMatrix);
  CHECK(error_of(kMatrix, [](Tensor x, Tensor) { count_nonzero(x, -3); }) ==
        "count_nonzero: axis -3 is out of range for rank 2" + kOfMatrix + kAxes);
  CHECK(error_of(kMatrix, [](Tensor x, Tensor) { var(x, 5); }) ==
        "var: axis 5 is out of range for rank 2" + kOfMatrix + kAxes);
}

TEST_CASE("an extremum of nothing has no value; other reductions of nothing have") {
  CHECK(error_of(kEmpty, [](Tensor x, Tensor) { argmin(x); }) ==
        "argmin: argmin of no elements has no value (x tensor<4x0xf32>)\nnote: give the axis a "
        "length of at least 1");
  CHECK(error_of(kEmpty,
                 [](Tensor x, Tensor) {
                   norm(x, 1, false, {.ord = std::numeric_limits<double>::infinity()});
                 }) ==
        "max: max of no elements has no value (x tensor<4x0xf32>)\nnote: give the reduced axes a "
        "length of at least 1");
  CHECK(error_of(kEmpty, [](Tensor x, Tensor) {
          prod(x), any(x), all(x), count_nonzero(x), var(x), stddev(x), logsumexp(x), norm(x);
          cumsum(x), cumprod(x), cummax(x), cummin(x), sort(x), argsort(x), topk(x, 0);
        }) == "no error");
  CHECK(error_of({boolean, {3}}, [](Tensor x, Tensor) { argmin(x); }) ==
        "argmin: takes a float or integer type, not bool (x tensor<3xbool>)\nnote: cast it to i32 "
        "first");
}

TEST_CASE("attributes of statistics out of range") {
  const std::string hint =
      "\nnote: of order inf it is max of abs; count_nonzero counts what is not 0";
  CHECK(error_of(kMatrix, [](Tensor x, Tensor) { norm(x, {}, false, {.ord = 0}); }) ==
        "norm: ord must be positive and finite, not 0" + kOfMatrix + hint);
  CHECK(error_of(kMatrix, [](Tensor x, Tensor) { norm(x, {}, false, {.ord = -1.5}); }) ==
        "norm: ord must be positive and finite, not -1.5" + kOfMatrix + hint);
  CHECK(error_of(kMatrix, [](Tensor x, Tensor) { var(x, {}, false, {.correction = -1}); }) ==
        "var: correction -1 lies outside [0, 2147483647]" + kOfMatrix);
}

TEST_CASE("more elements than a count or an index of i32 holds") {
  CHECK(error_of({u8, {kBeyond}}, [](Tensor x, Tensor) { count_nonzero(x); }) ==
        "count_nonzero: counts 2147483648 elements, more than i32 holds (x "
        "tensor<2147483648xu8>)\nnote: count over fewer axes and add the counts as i64");
  const std::string rest =
      ": the axis has 2147483648 elements, whose indices do not fit i32 (x "
      "tensor<2147483648xu8>)\nnote: cut the axis into parts of 2147483647 elements at most";
  const ir::Type beyond(u8, {kBeyond});
  CHECK(error_of(beyond, [](Tensor x, Tensor) { sort(x); }) == "sort" + rest);
  CHECK(error_of(beyond, [](Tensor x, Tensor) { argsort(x); }) == "argsort" + rest);
  CHECK(error_of(beyond, [](Tensor x, Tensor) { topk(x, 3); }) == "topk" + rest);
}

TEST_CASE("scans and orders need an axis, and operands that go together") {
  CHECK(error_of({f32, {}}, [](Tensor x, Tensor) { cumsum(x); }) ==
        "cumsum: axis -1 is out of range for rank 0 (x tensor<f32>)\nnote: a scalar has no axes");
  CHECK(error_of(kMatrix, [](Tensor x, Tensor) { sort(x, 2); }) ==
        "sort: axis 2 is out of range for rank 2" + kOfMatrix + kAxes);
  CHECK(error_of({boolean, {3}}, [](Tensor x, Tensor) { cummax(x); }) ==
        "cummax: takes a float or integer type, not bool (x tensor<3xbool>)\nnote: cast it to i32 "
        "first");
  CHECK(error_of(kMatrix, [](Tensor x, Tensor y) { linear_scan(x, y); }, {f32, {3}}) ==
        "linear_scan: types differ, tensor<4x3xf32> and tensor<3xf32> (a tensor<4x3xf32>, b "
        "tensor<3xf32>)\nnote: broadcast or cast one of them first");
  CHECK(error_of(
            kIntegers, [](Tensor x, Tensor y) { linear_scan(x, y); }, kIntegers) ==
        "linear_scan: takes a float type, not i32 (a tensor<4x3xi32>, b tensor<4x3xi32>)\nnote: "
        "cast it to f32 first");
  CHECK(error_of(kMatrix, [](Tensor x, Tensor y) { sort_by(x, y); }, {i32, {3}}) ==
        "sort_by: shapes differ, tensor<4x3xf32> and tensor<3xi32> (x tensor<4x3xf32>, keys "
        "tensor<3xi32>)\nnote: there is one key for each element of x");
  CHECK(error_of(kMatrix, [](Tensor x, Tensor) { topk(x, 4); }) ==
        "topk: k 4 is more than the 3 elements along axis 1" + kOfMatrix +
            "\nnote: k may be the length of the axis at most");
  CHECK(error_of(kMatrix, [](Tensor x, Tensor) { topk(x, -1); }) ==
        "topk: k must be 0 or more, not -1" + kOfMatrix);
}
