// SPDX-License-Identifier: Apache-2.0
// Operators and usual parameters of elementwise operations.
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <functional>
#include <string>

using namespace mezzo;

namespace {

const JitOptions kInterpreter{.device = Device::interpreter()};

std::vector<double> numbers(const Array& array) {
  std::vector<double> out;
  for (int64_t i = 0; i < array.type.elements(); ++i) out.push_back(array.as_double(i));
  return out;
}

using Numbers = std::vector<double>;

}  // namespace

TEST_CASE("bit operators work on integers bit by bit and on bools as logic") {
  auto integers = jit(
      [](Tensor x, Tensor y) { return std::vector<Tensor>{x & y, x | y, x ^ 1, ~x, x % y, 7 % y}; },
      kInterpreter);
  std::vector<Array> out = integers(Array({2}, {12, -7}, i32), Array({2}, {10, 3}, i32));
  CHECK(numbers(out[0]) == Numbers{8, 1});
  CHECK(numbers(out[1]) == Numbers{14, -5});
  CHECK(numbers(out[2]) == Numbers{13, -8});
  CHECK(numbers(out[3]) == Numbers{-13, 6});
  CHECK(numbers(out[4]) == Numbers{2, 2});
  CHECK(numbers(out[5]) == Numbers{7, 1});

  auto masks = jit(
      [](Tensor x) {
        Tensor positive = x > 0, small = x < 2;
        Tensor both = positive & small;
        CHECK(both.dtype() == boolean);
        both ^= true;
        return std::vector<Tensor>{positive & small, positive | small, both, ~positive};
      },
      kInterpreter);
  out = masks(Array({3}, {-1, 1, 5}));
  CHECK(numbers(out[0]) == Numbers{0, 1, 0});
  CHECK(numbers(out[1]) == Numbers{1, 1, 1});
  CHECK(numbers(out[2]) == Numbers{1, 0, 1});
  CHECK(numbers(out[3]) == Numbers{1, 0, 0});
}

TEST_CASE("activations have their usual parameters, and take others as tensors or numbers") {
  auto f = jit(
      [](Tensor x, Tensor slope) {
        return std::vector<Tensor>{leaky_relu(x), leaky_relu(x, slope), leaky_relu(x, 0.5),
                                   elu(x),        celu(x, 2.0),         clamp(x, -1, 3),
                                   celu(x)};
      },
      kInterpreter);
  std::vector<Array> out = f(Array({2}, {-2, 4}), Array({2}, {0.25, 9}));
  CHECK(numbers(out[0]) == Numbers{static_cast<float>(-2 * double(0.01f)), 4});
  CHECK(numbers(out[1]) == Numbers{-0.5, 4});
  CHECK(numbers(out[2]) == Numbers{-1, 4});
  CHECK(numbers(out[3])[0] == doctest::Approx(-0.8646647167633873));
  CHECK(numbers(out[4])[0] == doctest::Approx(-1.2642411176571153));
  CHECK(numbers(out[5]) == Numbers{-1, 3});
  CHECK(numbers(out[6]) == numbers(out[3]));
}

TEST_CASE("the slope of a leaky_relu is trained as any operand is") {
  auto f =
      jit([](Tensor x,
             Tensor slope) { return grad([&](Tensor s) { return sum(leaky_relu(x, s)); })(slope); },
          kInterpreter);
  CHECK(numbers(f(Array({3}, {-2, 4, -1}), Array({1}, {0.25}))) == Numbers{-3});
}

TEST_CASE("an integer division by 0 is an error of the run, which the text names") {
  auto text = [](const Device& device) {
    auto f = jit([](Tensor x, Tensor y) { return floor_div(x, y) + x % y; }, {.device = device});
    CHECK(f(Array({3}, {7, -7, 1}, i32), Array({3}, {2, 2, 2}, i32)).as_integer(1) == -3);
    try {
      f(Array({3}, {7, -7, 1}, i32), Array({3}, {2, 0, 2}, i32));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  for (const Device& device : {Device::interpreter(), Device::cpu()})
    CHECK(text(device).find(": an integer is divided by 0\nnote: divisors of floor_div and "
                            "remainder must not be 0; the call is at ") != std::string::npos);
}

TEST_CASE("the quotient of two integers is refused with a way out") {
  auto f = jit([](Tensor x) { return x / x; }, kInterpreter);
  CHECK_THROWS_WITH_AS(f(Array({2}, {1, 2}, i32)),
                       doctest::Contains("div: takes a float type, not i32"), UserError);
  CHECK_THROWS_WITH_AS(f(Array({2}, {1, 2}, i32)),
                       doctest::Contains("floor_div divides integers; cast one operand to a float "
                                         "type for a quotient"),
                       UserError);
}
