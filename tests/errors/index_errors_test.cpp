// SPDX-License-Identifier: Apache-2.0
// An index, a label or a divisor that cannot be, told by the run: the op, its line, the index and
// the size, by the interpreter and on the device of the test.
#include <mezzo/mezzo.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <functional>
#include <runtime/compiled.h>
#include <string>
#include <vector>

using namespace mezzo;

namespace {

using mezzo::test::error_of;

/// Two inputs, floats [4, 3] and indices.
using Program = std::function<Tensor(Tensor, Tensor)>;

struct Case {
  Program program;
  Shape shape;  // of the indices
  std::vector<double> indices;
  std::string text;  // behind `error: `
};

std::vector<Device> devices() {
  return {Device::interpreter(), Device::by_name(runtime::to_string(mezzo::test::test_device()))};
}

std::string told(const Case& each, const Device& device, const std::vector<double>& indices) {
  auto f = jit(each.program, {.device = device});
  const Array x({4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  return error_of([&] { f(x, Array(each.shape, indices, i32)); });
}

std::string at(int line) {
  return "tests/errors/index_errors_test.cpp:" + std::to_string(line) + ": error: ";
}

void check(const std::vector<Case>& cases) {
  for (const Device& device : devices())
    for (const Case& each : cases) {
      CAPTURE(each.text);
      CAPTURE(device.name());
      const std::string text = told(each, device, each.indices);
      CAPTURE(text);
      CHECK(text.substr(text.find(": error: ") + 9).starts_with(each.text + "; the call is at "));
      // What is all right raises nothing.
      CHECK(told(each, device, std::vector<double>(each.indices.size(), 1)) == "no error");
    }
}

std::string outside(const std::string& op, int64_t index, int64_t size) {
  const std::string length = std::to_string(size);
  return op + ": index " + std::to_string(index) + " is out of range for size " + length +
         "\nnote: indices must lie in [0, " + length + "); nothing wraps around";
}

std::string label(const std::string& op, int64_t index) {
  return op + ": label " + std::to_string(index) +
         " is out of range for 3 classes\nnote: labels must lie in [0, 3); nothing wraps around";
}

}  // namespace

TEST_CASE("an index out of range is told with op, line, index and size") {
  check({
      {[](Tensor x, Tensor i) { return gather(x, i); }, {3}, {0, 4, 7}, outside("gather", 4, 4)},
      {[](Tensor x, Tensor i) { return gather(x, i, 1); },
       {3},
       {0, -1, 2},
       outside("gather", -1, 3)},
      {[](Tensor x, Tensor i) { return embedding(x, i); },
       {2, 2},
       {0, 1, 2, 9},
       outside("embedding", 9, 4)},
      {[](Tensor x, Tensor i) { return take_along_axis(x, i, 1); },
       {4, 1},
       {0, 1, 3, 1},
       outside("take_along_axis", 3, 3)},
      {[](Tensor x, Tensor i) { return scatter_add(x, i, full({2, 3}, 1)); },
       {2},
       {3, -5},
       outside("scatter_add", -5, 4)},
      {[](Tensor x, Tensor i) { return add_along_axis(x, i, full({4, 1}, 1), 1); },
       {4, 1},
       {0, 1, 5, 1},
       outside("add_along_axis", 5, 3)},
      {[](Tensor x, Tensor i) { return x + sum(one_hot(i, 5)); },
       {2},
       {4, 5},
       outside("one_hot", 5, 5)},
      {[](Tensor x, Tensor i) { return dynamic_slice(x, {i, 0}, {2, 3}); },
       {},
       {3},
       outside("dynamic_slice", 4, 4)},
  });
}

TEST_CASE("a label out of range is told with the loss, its line, the label and the classes") {
  check({
      {[](Tensor x, Tensor y) { return cross_entropy(x, y); },
       {4},
       {0, 1, 3, 2},
       label("cross_entropy", 3)},
      {[](Tensor x, Tensor y) { return nll(x, y); }, {4}, {0, 1, 2, -1}, label("nll", -1)},
  });
}

TEST_CASE("an index that is computed is told as it was when it was used") {
  check({
      // Inside the kernel that reads, and in one before it.
      {[](Tensor x, Tensor i) { return gather(x, i * 2 + 1) * 2.0; },
       {2},
       {1, 2},
       outside("gather", 5, 4)},
      {[](Tensor x, Tensor i) { return gather(x, cumsum(i, 0)); },
       {3},
       {1, 1, 4},
       outside("gather", 6, 4)},
      {[](Tensor x, Tensor i) { return gather(x, transpose(reshape(i, {1, 2}))); },
       {2},
       {1, 8},
       outside("gather", 8, 4)},
      // By its gradient too.
      {[](Tensor x, Tensor i) { return grad([&](Tensor t) { return sum(gather(t, i)); })(x); },
       {2},
       {1, 6},
       outside("gather", 6, 4)},
  });
}

TEST_CASE("of several ops that read by index the one that failed is told, with its line") {
  const int line = __LINE__ + 2;
  auto program = [](Tensor x, Tensor i) {
    const Tensor rows = gather(x, i);
    return gather(rows, i, 1);
  };
  for (const Device& device : devices()) {
    CHECK(told({program, {2}, {}, ""}, device, {1, 4})
              .starts_with(at(line) + outside("gather", 4, 4)));
    CHECK(told({program, {2}, {}, ""}, device, {1, 3})
              .starts_with(at(line + 1) + outside("gather", 3, 3)));
  }
}

TEST_CASE("an index that rounded numbers gave is told without a number") {
  const Array x({4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), i({1}, {3.0});
  const int line = __LINE__ + 3;
  auto one = [](Tensor t, Tensor power) {
    const Tensor places = cast(exp(power), i32);
    return gather(t, places);
  };
  auto two = [](Tensor t, Tensor power) {
    const Tensor places = cast(exp(power), i32);
    return gather(gather(t, places), places, 1);
  };
  for (const Device& device : devices()) {
    CHECK(error_of([&] { jit(one, {.device = device})(x, i); })
              .starts_with(at(line) + "gather: an index is out of range for size 4\nnote: indices "
                                      "must lie in [0, 4); nothing wraps around; the call is at "));
    // Any of the two may be the one.
    CHECK(
        error_of([&] { jit(two, {.device = device})(x, i); })
            .ends_with(": error: jit: an index is out of range\nnote: indices and labels must lie "
                       "in [0, size); nothing wraps around"));
  }
}

TEST_CASE("an index that comes from state is told without its number") {
  const Array x({4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const std::string hint =
      "\nnote: indices must lie in [0, 4); nothing wraps around; the call is at ";
  for (const Device& device : devices()) {
    CAPTURE(device.name());
    const nn::Parameter place = nn::Parameter::state({1}, initializers::constant(3), "place");
    const int line = __LINE__ + 1;
    auto f = jit([&](Tensor t) { return gather(t, cast(place, i32)); }, {.device = device});
    CHECK(f(x).to_doubles() == std::vector<double>{10, 11, 12});
    nn::Parameter(place).set_value(Array({1}, {7}));
    CHECK(error_of([&] {
            f(x);
          }).starts_with(at(line) + "gather: an index is out of range for size 4" + hint));
    // Beside one that an argument gave, whose number is told.
    auto both = jit([&](Tensor t, Tensor i) { return gather(t, i) + gather(t, cast(place, i32)); },
                    {.device = device});
    CHECK(error_of([&] {
            both(x, Array({1}, {5}, i32));
          }).find("gather: index 5 is out of range for size 4" + hint) != std::string::npos);
  }
}

TEST_CASE("a divisor of 0 is told with the op and its line") {
  for (const Device& device : devices()) {
    const int line = __LINE__ + 2;
    auto divided = [](Tensor x, Tensor y) {
      const Tensor quotient = floor_div(x, y);
      return quotient + gather(x, y);
    };
    auto f = jit(divided, {.device = device});
    CHECK(error_of([&] { f(Array({3}, {7, -7, 1}, i32), Array({3}, {2, 0, 2}, i32)); })
              .starts_with(at(line) + "floor_div: an integer is divided by 0\nnote: divisors of "
                                      "floor_div and remainder must not be 0; the call is at "));
  }
}
