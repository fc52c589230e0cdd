// SPDX-License-Identifier: Apache-2.0
// Joining, cutting and rearranging as NumPy does, compiled for the CPU; every element keeps its
// bits.
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

using namespace mezzo;

namespace {

using Numbers = std::vector<double>;

/// 0, 1, 2 ...
Array ramp(const Shape& shape, DType dtype = f32) {
  Numbers values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 0);
  return Array(shape, values, dtype);
}

/// What a function makes of an array, as numbers.
Numbers made(const std::function<Tensor(Tensor)>& f, const Array& x) {
  return jit(f)(x).to_doubles();
}

Shape shape_of(const std::function<Tensor(Tensor)>& f, const Array& x) {
  return jit(f)(x).type.shape;
}

}  // namespace

TEST_CASE("concat, stack and split are each other's inverse") {
  const Array x = ramp({2, 6});
  CHECK(made([](Tensor t) { return concat(split(t, 3, 1), -1); }, x) == x.to_doubles());
  CHECK(made([](Tensor t) { return concat(split(t, {1, 0, 5}, 1), 1); }, x) == x.to_doubles());
  CHECK(made([](Tensor t) { return stack(split(t, 2, 0), 0); }, x) == x.to_doubles());
  CHECK(
      made([](Tensor t) { return stack({slice(t, {0, 0}, {1, 2}), slice(t, {1, 0}, {2, 2})}, -1); },
           x) == Numbers{0, 6, 1, 7});
  CHECK(shape_of([](Tensor t) { return stack({t, t, t}, 1); }, x) == Shape{2, 3, 6});
  // More parts than a kernel takes.
  CHECK(made([](Tensor t) { return concat(split(t, 100)); }, ramp({100})) ==
        ramp({100}).to_doubles());
  // Types are promoted.
  CHECK(jit([](Tensor a, Tensor b) { return concat({a, b}); })(ramp({1}, f16), ramp({2}, f32))
            .type.dtype == f32);
}

TEST_CASE("flip and slices with negative steps go backwards") {
  const Array x = ramp({2, 4});
  CHECK(made([](Tensor t) { return flip(t); }, x) == Numbers{7, 6, 5, 4, 3, 2, 1, 0});
  CHECK(made([](Tensor t) { return flip(t, -1); }, x) == Numbers{3, 2, 1, 0, 7, 6, 5, 4});
  // x[:, 3:0:-1], x[:, ::-2], x[::-1, 2:]
  CHECK(made([](Tensor t) { return slice(t, {0, 3}, {2, 0}, {1, -1}); }, x) ==
        Numbers{3, 2, 1, 7, 6, 5});
  CHECK(made([](Tensor t) { return slice(t, {0, -1}, {2, -5}, {1, -2}); }, x) ==
        Numbers{3, 1, 7, 5});
  CHECK(made([](Tensor t) { return slice(t, {1, 2}, {-3, 4}, {-1, 1}); }, x) ==
        Numbers{6, 7, 2, 3});
}

TEST_CASE("roll, tile and repeat") {
  const Array x = ramp({2, 3});
  CHECK(made([](Tensor t) { return roll(t, 1, 1); }, x) == Numbers{2, 0, 1, 5, 3, 4});
  CHECK(made([](Tensor t) { return roll(t, -4, 1); }, x) == Numbers{1, 2, 0, 4, 5, 3});
  CHECK(made([](Tensor t) { return roll(t, 1); }, x) == Numbers{3, 4, 5, 0, 1, 2});
  CHECK(made([](Tensor t) { return tile(t, {1, 2}); }, x) ==
        Numbers{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK(made([](Tensor t) { return tile(t, {2, 1}); }, x) ==
        Numbers{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
  CHECK(made([](Tensor t) { return repeat(t, 2, 1); }, x) ==
        Numbers{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
}

TEST_CASE("padding by a value, by the edge, by reflection") {
  const Array x = ramp({2, 3});
  CHECK(made([](Tensor t) { return pad(t, {1, 0}, {0, 1}, PadMode::Constant, -1); }, x) ==
        Numbers{-1, -1, -1, -1, 0, 1, 2, -1, 3, 4, 5, -1});
  CHECK(made([](Tensor t) { return pad(t, {0, 2}, {1, 1}, PadMode::Edge); }, x) ==
        Numbers{0, 0, 0, 1, 2, 2, 3, 3, 3, 4, 5, 5, 3, 3, 3, 4, 5, 5});
  CHECK(made([](Tensor t) { return pad(t, {1, 2}, {0, 1}, PadMode::Reflect); }, x) ==
        Numbers{5, 4, 3, 4, 5, 4, 2, 1, 0, 1, 2, 1, 5, 4, 3, 4, 5, 4});
  CHECK(
      jit([](Tensor t) { return pad(t, {1}, {1}, PadMode::Constant, 1); })(Array({1}, {0}, boolean))
          .type.dtype == boolean);
}

TEST_CASE("axes of length 1 come and go") {
  const Array x = ramp({1, 2, 1});
  CHECK(shape_of([](Tensor t) { return squeeze(t); }, x) == Shape{2});
  CHECK(shape_of([](Tensor t) { return squeeze(t, -1); }, x) == Shape{1, 2});
  CHECK(shape_of([](Tensor t) { return unsqueeze(t, -1); }, x) == Shape{1, 2, 1, 1});
  CHECK(shape_of([](Tensor t) { return expand_dims(t, 0); }, x) == Shape{1, 1, 2, 1});
}

TEST_CASE("diagonals and triangles") {
  const Array x = ramp({3, 4});
  CHECK(made([](Tensor t) { return diagonal(t); }, x) == Numbers{0, 5, 10});
  CHECK(made([](Tensor t) { return diagonal(t, 1); }, x) == Numbers{1, 6, 11});
  CHECK(made([](Tensor t) { return diagonal(t, -2); }, x) == Numbers{8});
  CHECK(made([](Tensor t) { return diagonal(t, 4); }, x).empty());
  CHECK(made([](Tensor t) { return diagonal(t, 0, 2, 0); }, ramp({2, 3, 2})) ==
        Numbers{0, 7, 2, 9, 4, 11});
  CHECK(made([](Tensor t) { return tril(t); }, x) == Numbers{0, 0, 0, 0, 4, 5, 0, 0, 8, 9, 10, 0});
  CHECK(made([](Tensor t) { return triu(t, 1); }, x) ==
        Numbers{0, 1, 2, 3, 0, 0, 6, 7, 0, 0, 0, 11});
  CHECK(jit([](Tensor t) { return tril(t, -1); })(Array({2, 2}, {1, 1, 1, 1}, boolean)).type ==
        ir::Type(boolean, {2, 2}));
  CHECK(made([](Tensor) { return eye(2, 3, 1); }, x) == Numbers{0, 1, 0, 0, 0, 1});
  CHECK(made([](Tensor) { return eye(2); }, x) == Numbers{1, 0, 0, 1});
  // Diagonals as far off as numbers go.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Numbers all = x.to_doubles(), none(12, 0.0);
  CHECK(made([](Tensor t) { return tril(t, kMost); }, x) == all);
  CHECK(made([](Tensor t) { return triu(t, kMost); }, x) == none);
  CHECK(made([](Tensor t) { return tril(t, -kMost - 1); }, x) == none);
  CHECK(made([](Tensor t) { return triu(t, -kMost - 1); }, x) == all);
  CHECK(made([](Tensor) { return eye(2, 2, kMost); }, x) == Numbers{0, 0, 0, 0});
}

TEST_CASE("an array of a shape without elements is no scalar") {
  CHECK(Array({0}, {}).type == ir::Type(f32, {0}));
  CHECK(Array({0}, {}, i32).type == ir::Type(i32, {0}));
  CHECK(Array(3).type == ir::Type(f32, {}));
}

TEST_CASE("linspace ends where it was told to") {
  const Array none = ramp({1});
  CHECK(made([](Tensor) { return linspace(0, 1, 5); }, none) == Numbers{0, 0.25, 0.5, 0.75, 1});
  CHECK(made([](Tensor) { return linspace(0.1, 0.7, 8, f64); }, none).back() == 0.7);
  CHECK(made([](Tensor) { return linspace(3, 4, 1); }, none) == Numbers{3});
  CHECK(made([](Tensor) { return linspace(3, 4, 0); }, none).empty());
  CHECK(made([](Tensor) { return linspace(-1e308, 1e308, 3, f64); }, none) ==
        Numbers{-1e308, 0, 1e308});
  // Every number is the rounding of what f64 has.
  const Numbers many = made([](Tensor) { return linspace(-1, 2, 1001); }, none);
  for (size_t i = 0; i < many.size(); ++i)
    CHECK(many[i] == static_cast<float>(-1 + static_cast<double>(i) * (3.0 / 1000)));
}

TEST_CASE("-0 stays -0 and NaN stays NaN wherever they are moved") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array x({4}, {-0.0, nan, -0.0, 1}, f16);
  const std::vector<std::function<Tensor(Tensor)>> moves = {
      [](Tensor t) { return roll(roll(t, 1), -1); },
      [](Tensor t) { return flip(flip(concat(split(t, 2)))); },
      [](Tensor t) { return slice(tile(t, {2}), {4}, {8}); },
      [](Tensor t) { return slice(pad(t, {1}, {3}, PadMode::Reflect), {1}, {5}); },
      [](Tensor t) { return diagonal(tril(broadcast_to(t, {4, 4}))); },
      [](Tensor t) { return gather(t, iota({4})); },
      [](Tensor t) { return take_along_axis(t, iota({4})); },
  };
  for (const auto& move : moves) {
    const Numbers y = made(move, x);
    CHECK(std::signbit(y[0]));
    CHECK(std::isnan(y[1]));
    CHECK(std::signbit(y[2]));
    CHECK(y[3] == 1);
  }
}

TEST_CASE("gradients of what is moved come back to their places") {
  const Array x = ramp({2, 3});
  auto slope = [&](const std::function<Tensor(Tensor)>& f) {
    return jit([&](Tensor t) {
             return grad([&](Tensor a) {
               const Tensor y = f(a);
               return sum(y * reshape(iota({y.type().elements()}, f32), Dims(y.shape())));
             })(t);
           })(x)
        .to_doubles();
  };
  CHECK(slope([](Tensor a) { return roll(a, 1, 1); }) == Numbers{1, 2, 0, 4, 5, 3});
  CHECK(slope([](Tensor a) { return tile(a, {1, 2}); }) == Numbers{3, 5, 7, 15, 17, 19});
  CHECK(slope([](Tensor a) { return pad(a, {0, 1}, {0, 0}, PadMode::Edge); }) ==
        Numbers{1, 2, 3, 9, 6, 7});
  CHECK(slope([](Tensor a) { return diagonal(a); }) == Numbers{0, 0, 0, 0, 1, 0});
  CHECK(slope([](Tensor a) { return triu(a); }) == Numbers{0, 1, 2, 0, 4, 5});
}
