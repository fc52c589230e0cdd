// SPDX-License-Identifier: Apache-2.0
// Reductions, scans and orders as a program writes them, compiled and differentiated.
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace mezzo;

namespace {

using Numbers = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

const Array kMatrix({2, 3}, {1, -2, 3, 4, 0, -6});

Numbers result(auto f, const Array& x = kMatrix) { return jit(f)(x).to_doubles(); }
Numbers slope(auto f, const Array& x = kMatrix) { return jit(grad(f))(x).to_doubles(); }

}  // namespace

TEST_CASE("reductions take all axes, one or some, negative ones from the end") {
  CHECK(result([](Tensor x) { return prod(x); }) == Numbers{0});
  CHECK(result([](Tensor x) { return prod(x, -1); }) == Numbers{-6, 0});
  CHECK(result([](Tensor x) { return argmin(x); }) == Numbers{1, 2});
  CHECK(result([](Tensor x) { return count_nonzero(x, 0); }) == Numbers{2, 1, 2});
  CHECK(result([](Tensor x) { return cast(all(x, {0, 1}, true), f32); }) == Numbers{0});
  CHECK(result([](Tensor x) { return cast(any(x == 0, 1), f32); }) == Numbers{0, 1});
  CHECK(result([](Tensor x) { return norm(x, 1, false, {.ord = 1}); }) == Numbers{6, 10});
  CHECK(result([](Tensor x) { return norm(x, 1, false, {.ord = kInf}); }) == Numbers{3, 6});
  const Numbers spread = result([](Tensor x) { return var(x, 1, false, {.correction = 0}); });
  CHECK(spread[0] == doctest::Approx(38.0 / 9));
  CHECK(result([](Tensor x) { return stddev(x, 0); })[1] == doctest::Approx(std::sqrt(2)));
  CHECK(result([](Tensor x) { return logsumexp(x, 1); })[0] ==
        doctest::Approx(std::log(std::exp(1) + std::exp(-2) + std::exp(3))));
}

TEST_CASE("scans and orders along an axis") {
  CHECK(result([](Tensor x) { return cumsum(x); }) == Numbers{1, -1, 2, 4, 4, -2});
  CHECK(result([](Tensor x) { return cumsum(x, 0, {.reverse = true}); }) ==
        Numbers{5, -2, -3, 4, 0, -6});
  CHECK(result([](Tensor x) { return cumprod(x, 1, {.exclusive = true}); }) ==
        Numbers{1, 1, -2, 1, 4, 0});
  CHECK(result([](Tensor x) { return cummax(x); }) == Numbers{1, 1, 3, 4, 4, 4});
  CHECK(result([](Tensor x) { return cummin(x, 1, true); }) == Numbers{-2, -2, 3, -6, -6, -6});
  CHECK(result([](Tensor x) { return linear_scan(full(x.shape(), 0.5), x); }) ==
        Numbers{1, -1.5, 2.25, 4, 2, -5});
  CHECK(result([](Tensor x) { return sort(x); }) == Numbers{-2, 1, 3, -6, 0, 4});
  CHECK(result([](Tensor x) { return argsort(x, 1, true); }) == Numbers{2, 0, 1, 0, 1, 2});
  CHECK(result([](Tensor x) { return sort_by(x, x * x); }) == Numbers{1, -2, 3, 0, 4, -6});
  CHECK(result([](Tensor x) { return topk(x, 2).values; }) == Numbers{3, 1, 4, 0});
  CHECK(result([](Tensor x) { return topk(x, 1, {.axis = 0, .largest = false}).indices; }) ==
        Numbers{0, 0, 1});
}

TEST_CASE("gradients of reductions, scans and orders compile") {
  CHECK(slope([](Tensor x) { return sum(prod(x, 1)); }) == Numbers{-6, 3, -2, 0, -24, 0});
  CHECK(slope([](Tensor x) { return norm(x, {}, false, {.ord = kInf}); }) ==
        Numbers{0, 0, 0, 0, 0, -1});
  CHECK(slope([](Tensor x) { return sum(cummax(x)); }) == Numbers{2, 0, 1, 3, 0, 0});
  CHECK(slope([](Tensor x) { return sum(cumsum(x)); }) == Numbers{3, 2, 1, 3, 2, 1});
  CHECK(slope([](Tensor x) { return sum(topk(x, 1).values); }) == Numbers{0, 0, 1, 1, 0, 0});
  CHECK(slope([](Tensor x) { return sum(sort(x) * iota(x.shape(), f32, 1)); }) ==
        Numbers{1, 0, 2, 2, 1, 0});
  const Numbers flat = slope([](Tensor x) { return stddev(x); }, Array({3}, {2, 2, 2}));
  CHECK(flat == Numbers{0, 0, 0});
  const Numbers shares = slope([](Tensor x) { return logsumexp(x); }, Array({2}, {-kInf, 5}));
  CHECK(shares == Numbers{0, 1});
}

TEST_CASE("a sum whose parts leave f32 and come back is finite in the interpreter, inf on a CPU") {
  // The interpreter adds in f64, kernels in f32.
  Numbers line(2048, 3e38);
  line.insert(line.end(), 2048, -3e38);
  Numbers twice, columns;
  for (int i = 0; i < 2; ++i) twice.insert(twice.end(), line.begin(), line.end());
  for (double number : line) columns.insert(columns.end(), {number, 1, number});
  const Array x({4096}, line), rows({2, 4096}, twice), tall({4096, 3}, columns);
  auto total = [](Tensor a) { return sum(a); };
  auto by_row = [](Tensor a) { return sum(a, 1); };
  auto by_column = [](Tensor a) { return sum(a, 0); };
  const JitOptions interpreter{.device = Device::interpreter()};
  CHECK(jit(total, interpreter)(x).to_doubles() == Numbers{0});
  CHECK(jit(by_row, interpreter)(rows).to_doubles() == Numbers{0, 0});
  CHECK(jit(by_column, interpreter)(tall).to_doubles() == Numbers{0, 4096, 0});
  for (int threads : {1, 2}) {
    const JitOptions cpu{.device = Device::cpu(), .threads = threads};
    CHECK(jit(total, cpu)(x).to_doubles() == Numbers{kInf});
    CHECK(jit(by_row, cpu)(rows).to_doubles() == Numbers{kInf, kInf});
    // Columns are summed in parts that meet: inf and -inf.
    const Numbers sums = jit(by_column, cpu)(tall).to_doubles();
    CHECK_FALSE(std::isfinite(sums[0]));
    CHECK(sums[1] == 4096);
    CHECK_FALSE(std::isfinite(sums[2]));
  }
  // In f64 the parts stay in range everywhere.
  for (const Device& device : {Device::interpreter(), Device::cpu()})
    CHECK(jit([](Tensor a) { return sum(cast(a, f64)); }, {.device = device})(x).item() == 0);
}
