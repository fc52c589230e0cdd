// SPDX-License-Identifier: Apache-2.0
// Numbers that are no enumerators, views of another element type, and names for arguments: what a
// program can hand in that no text can.
#include <mezzo/mezzo.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <functional>
#include <string>

using namespace mezzo;
using mezzo::test::error_of;

namespace {

const DType kNoType = static_cast<DType>(99);
const std::string kTypes =
    "element type 99 is unknown\nnote: the element types are f64, f32, f16, bf16, i64, i32, u8, "
    "bool";

/// The error of `f` in a trace, which must be on that line.
void fails_at(int line, const std::string& text, const std::function<Tensor(Tensor)>& f) {
  auto traced = jit([&](Tensor x) { return f(x); });
  CHECK(error_of([&] {
          traced(Array(1.0));
        }).ends_with("dsl_values_test.cpp:" + std::to_string(line) + ": error: " + text));
}

std::string here(int line, const std::string& text) {
  return "dsl_values_test.cpp:" + std::to_string(line) + ": error: " + text;
}

}  // namespace

TEST_CASE("a number that is no element type is an error at the line of its use") {
  // clang-format off
  fails_at(__LINE__, "cast: " + kTypes, [](Tensor x) { return cast(x, kNoType); });
  fails_at(__LINE__, "cast: " + kTypes, [](Tensor) { return cast(1.0, kNoType); });
  fails_at(__LINE__, "full: " + kTypes, [](Tensor) { return full({2}, 1, kNoType); });
  fails_at(__LINE__, "constant: " + kTypes, [](Tensor) { return constant({1}, {1}, kNoType); });
  fails_at(__LINE__, "iota: " + kTypes, [](Tensor) { return iota({2}, kNoType); });
  fails_at(__LINE__, "random_uniform: " + kTypes, [](Tensor) { return random_uniform({2}, kNoType); });
  fails_at(__LINE__, "random_normal: " + kTypes, [](Tensor) { return random_normal({2}, kNoType); });
  // clang-format on
  Array x({2}, {1, 2});
  for (const std::string& text :
       {error_of([] { Array(1.0, kNoType); }), error_of([] { Array({1}, {1}, kNoType); }),
        error_of([] { Array(ir::Type(kNoType, {2})); }), error_of([&] { x.converted_to(kNoType); }),
        error_of([] { initializers::ones()(Shape{2}, kNoType, 0, 0); })})
    CHECK(text == "error: " + kTypes);
  x.type.dtype = kNoType;
  auto f = jit([](Tensor y) { return y; });
  int line = __LINE__ + 1;
  CHECK(error_of([&] { f(x); }).ends_with(here(line, "jit: argument 0: " + kTypes)));
  CHECK(error_of([&] { x.as_double(0); }) == "error: " + kTypes);
}

TEST_CASE("a number that is no kind of initializer or loss scale is an error") {
  Initializer odd = initializers::ones();
  odd.kind = static_cast<Initializer::Kind>(9);
  const std::string hint = "\nnote: the functions of mezzo::initializers make initializers";
  int line = __LINE__ + 1;
  CHECK(error_of([&] {
          nn::Parameter({2}, odd, "w");
        }).ends_with(here(line, "parameter 'w': the initializer's kind 9 is unknown" + hint)));
  odd = initializers::he_normal();
  odd.fan = static_cast<Initializer::Fan>(7);
  line = __LINE__ + 1;
  CHECK(error_of([&] {
          nn::Dense(2, 3, {.initializer = odd});
        }).ends_with(here(line, "parameter 'weight': the initializer's fan 7 is unknown" + hint)));
  LossScale scale;
  scale.kind = static_cast<LossScale::Kind>(5);
  line = __LINE__ + 1;
  CHECK(
      error_of([&] { Trainer(nn::Dense(2, 2), losses::mse, optim::SGD{}, {.loss_scale = scale}); })
          .ends_with(here(line,
                          "loss scale: the kind 5 is unknown\nnote: by_policy(), dynamic(), "
                          "static_scale() and none() make loss scales")));
}

TEST_CASE("a view names its type and the array's at the line of the call") {
  const std::string hint =
      "\nnote: converted_to gives the numbers in another element type, to_doubles as doubles; f16 "
      "and bf16 are viewed as uint16_t";
  Array x({2}, {1, 2});
  const Array half({2}, {1, 2}, f16);
  int line = __LINE__ + 1;
  CHECK(error_of([&] { x.view<double>(); })
            .ends_with(here(line,
                            "array: a double of 8 bytes is no view of f32, which has 4, in "
                            "tensor<2xf32>" +
                                hint)));
  line = __LINE__ + 1;
  CHECK(error_of([&] { half.view<float>(); })
            .ends_with(here(line,
                            "array: a float of 4 bytes is no view of f16, which has 2, in "
                            "tensor<2xf16>" +
                                hint)));
  line = __LINE__ + 1;
  CHECK(error_of([&] { x.view<uint16_t>(); })
            .ends_with(here(line,
                            "array: an integer of 2 bytes is no view of f32, which has 4, in "
                            "tensor<2xf32>" +
                                hint)));
  CHECK(x.view<float>()[1] == 2);
}
