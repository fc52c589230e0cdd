// SPDX-License-Identifier: Apache-2.0
// Reported faults of conversions between element types, with the numbers of the reports: the ends
// of a range, ties, subnormals, NaN, and literals.
#include <support/log_lines.h>

#include <doctest/doctest.h>

#include <cases/traced_runs.h>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace mezzo::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double above(double x) { return std::nextafter(x, kInf); }
double below(double x) { return std::nextafter(x, -kInf); }

/// The numbers and their negatives in `from`, cast to `to` by every engine and by an array.
void check_cast(DType from, const Numbers& numbers, DType to, const Numbers& wanted) {
  CAPTURE(ir::to_string(from));
  CAPTURE(ir::to_string(to));
  Numbers both = numbers, expected = wanted;
  for (double number : numbers) both.push_back(-number);
  for (double number : wanted) expected.push_back(-number);
  const Array x = row(both, from);
  check_traced([to](Tensor v) { return cast(v, to); }, {x}, {expected}, 0);
  const Numbers converted = x.converted_to(to).to_doubles();
  for (size_t i = 0; i < converted.size(); ++i) CHECK(converted[i] == expected[i]);
}

/// An array of those bit patterns.
template <typename T>
Array patterns(const std::vector<T>& bits, DType dtype) {
  Array array(ir::Type(dtype, {static_cast<int64_t>(bits.size())}));
  std::memcpy(array.bytes().data(), bits.data(), array.bytes().size());
  return array;
}

TEST_CASE("CV-01: the end of the f16 range") {
  check_cast(f32, {65504, 65519, 65519.996, 65520}, f16, {65504, 65504, 65504, kInf});
  check_cast(f64, {65519, below(65520), 65520}, f16, {65504, 65504, kInf});
  const double last = 0x1.fep127, tie = 0x1.ffp127;  // of bf16, and where infinity begins
  check_cast(f32, {last, 0x1.fefffep127, tie}, bf16, {last, last, kInf});
  check_cast(f64, {last, below(tie), tie}, bf16, {last, last, kInf});
  const double longest = 0x1.fffffep127, half = 0x1.ffffffp127;  // of f32
  check_cast(f64, {longest, below(half), half}, f32, {longest, longest, kInf});
  check_cast(i64, {65504, 65519, 65520}, f16, {65504, 65504, kInf});
  // What an operation makes ends there too.
  check_traced([](Tensor x, Tensor y) { return std::pair(x + y, -x - y); },
               {row({65504, 65504}, f16), row({15, 16}, f16)}, {{65504, kInf}, {-65504, -kInf}}, 0);
}

TEST_CASE("CV-02: a narrow float is rounded once, from the type that it comes from") {
  const double bit = 0x1p-40;
  check_cast(f64, {1 + 0x1p-11 + bit, 1 + 0x1p-11, 1 + 0x1p-11 - bit}, f16, {1.0009765625, 1, 1});
  check_cast(f64, {1 + 0x1p-8 + bit, 1 + 0x1p-8, 1 + 3 * 0x1p-8 - bit}, bf16,
             {1.0078125, 1, 1.0078125});
  // Integers have more digits than f64.
  Array wide(ir::Type(i64, {3}));
  wide.set_integer(0, (int64_t{1} << 60) + (int64_t{1} << 36) + 1);
  wide.set_integer(1, (int64_t{1} << 60) + (int64_t{1} << 36));
  wide.set_integer(2, -wide.as_integer(0));
  const double up = 0x1p60 + 0x1p37;
  check_traced([](Tensor v) { return cast(v, f32); }, {wide}, {{up, 0x1p60, -up}}, 0);
  wide.set_integer(0, (int64_t{1} << 40) + (int64_t{1} << 32) + 1);
  wide.set_integer(1, (int64_t{1} << 40) + (int64_t{1} << 32));
  wide.set_integer(2, -wide.as_integer(0));
  const double more = 0x1p40 + 0x1p33;
  check_traced([](Tensor v) { return cast(v, bf16); }, {wide}, {{more, 0x1p40, -more}}, 0);
  CHECK(wide.converted_to(bf16).to_doubles() == Numbers{more, 0x1p40, -more});
}

TEST_CASE("CV-05: results below the smallest step are rounded with all bits of the source") {
  const struct {
    DType type;
    double step;
  } cases[] = {{f16, 0x1p-24}, {bf16, 0x1p-133}, {f32, 0x1p-149}};
  for (auto [type, step] : cases)
    check_cast(f64, {step / 2, above(step / 2), 1.5 * step, below(1.5 * step)}, type,
               {0, step, 2 * step, step});
  const double next = std::nextafter(0x1p-25f, 1.0f);
  check_cast(f32, {0x1p-25, next, 3 * 0x1p-25}, f16, {0, 0x1p-24, 0x1p-23});
  check_cast(f32, {0x1p-134, 0x1p-134 + 0x1p-149, 3 * 0x1p-134}, bf16, {0, 0x1p-133, 0x1p-132});
}

TEST_CASE("CV-06: subnormals are kept") {
  const Numbers small{0x1p-15, 6e-5, 1e-6, 0x1p-24};
  const std::vector<uint16_t> bits{0x0200, 0x03EF, 0x0011, 0x0001};
  for (DType from : {f32, f64})
    for (const TracedRun& run :
         traced_runs([](std::span<const Tensor> x) { return std::vector{cast(x[0], f16)}; },
                     {row(small, from)})) {
      CAPTURE(run.engine);
      for (size_t i = 0; i < bits.size(); ++i) CHECK(run.results[0].view<uint16_t>()[i] == bits[i]);
    }
  // Read back, and in operations.
  for (DType dtype : {f16, bf16, f32}) {
    CAPTURE(ir::to_string(dtype));
    const double step = dtype == f16 ? 0x1p-24 : dtype == bf16 ? 0x1p-133 : 0x1p-149;
    const Numbers some{step, 3 * step, 17 * step, -5 * step};
    Numbers twice;
    for (double x : some) twice.push_back(2 * x);
    check_traced(
        [](Tensor x) {
          return std::vector<Tensor>{cast(x, f64), x + x, 2 * x, x / 0.5, maximum(x, -1), sum(x)};
        },
        {row(some, dtype)}, {some, twice, twice, twice, some, {16 * step}}, 0);
  }
}

TEST_CASE("CV-09: a number that is too large is infinite, and widening keeps the number") {
  check_cast(f32, {1e6}, f16, {kInf});
  check_cast(f64, {1e6, 1e300}, f16, {kInf, kInf});
  check_cast(f64, {1e6, 1e300}, f32, {1e6, kInf});
  check_cast(i32, {1000000}, f16, {kInf});
  for (DType from : {f16, bf16, f32})
    for (DType to : {f32, f64, i32}) check_cast(from, {1, 3}, to, {1, 3});
  check_cast(f16, {1, 0x1p-24, 65504}, bf16, {1, 0x1p-24, 65536});
  check_cast(bf16, {1, 0x1p-24, 65536}, f16, {1, 0x1p-24, kInf});
}

TEST_CASE("CV-10: a conversion to bf16 rounds to even") {
  const double bit = 0x1p-20;
  const Numbers from{0.26914087, 1.00390625 + bit, 1.00390625, 1.01171875};
  const Numbers to{0.26953125, 1.0078125, 1, 1.015625};
  check_cast(f32, from, bf16, to);
  check_cast(f64, from, bf16, to);
  check_cast(f16, {1.00390625, 1.01171875, 1.0048828125}, bf16, {1, 1.015625, 1.0078125});
  // Results of operations: 1 + 2^-8 and 1 + 3 2^-8 are ties.
  check_traced([](Tensor x, Tensor y) { return x + y; },
               {row({1, 1, 1.0078125}, bf16), row({0x1p-8, 0x1.02p-8, 0x1p-8}, bf16)},
               {{1, 1.0078125, 1.015625}}, 0);
}

TEST_CASE("CV-11: NaN stays NaN, whatever its bits") {
  const Array narrow = patterns<uint32_t>({0x7F800001, 0x7FFF8C22, 0xFFC00000, 0xFF800001}, f32);
  const Array wide = patterns<uint64_t>(
      {0x7FF0000000000001, 0xFFF0000000000001, 0x7FFFFFFFFFFFFFFF, 0x7FF000001FFFFFFF}, f64);
  const Numbers all(4, kNan);
  for (DType to : {f16, bf16, f32, f64})
    for (const Array& from : {narrow, wide}) {
      CAPTURE(ir::to_string(to));
      CAPTURE(ir::to_string(from.dtype()));
      check_traced([to](Tensor x) { return std::pair(cast(x, to), cast(x, to) * 1); }, {from},
                   {all, all}, 0);
      for (double number : from.converted_to(to).to_doubles()) CHECK(std::isnan(number));
    }
  const Array half = patterns<uint16_t>({0x7C01, 0xFC01, 0x7FFF, 0xFE00}, f16);
  const Array brain = patterns<uint16_t>({0x7F81, 0xFF81, 0x7FFF, 0xFFC0}, bf16);
  for (DType to : {f16, bf16, f32, f64})
    for (const Array& from : {half, brain})
      check_traced([to](Tensor x) { return cast(x, to); }, {from}, {all}, 0);
  check_traced([](Tensor x) { return cast(x, i32); }, {narrow}, {Numbers(4, 0)}, 0);
}

/// What is reported while `f` is compiled for one array, line by line.
template <typename F>
std::vector<std::string> reports(F f, const Array& x, const JitOptions& options = {}) {
  LogLines log;
  jit(f, options)(x);
  return std::move(log.lines);
}

/// One report, which is at that line and says so.
void check_report(const std::vector<std::string>& lines, int line, const std::string& text) {
  REQUIRE(lines.size() == 1);
  CAPTURE(lines[0]);
  CHECK(lines[0].find("conversion_cases_test.cpp:" + std::to_string(line) + ": constant: " + text +
                      ", whose ") != std::string::npos);
}

TEST_CASE("CV-13: constants that leave 16 bits are counted in a report") {
  const Numbers numbers{1e-8, 1e-7, 1e5, -1e-9};
  auto given = [&](DType dtype) {
    return [=](Tensor x) { return where(x > 0, constant(numbers, {4}, dtype), x); };
  };
  const int given_line = __LINE__ - 2;
  const Array x = filled({4}, 1, f16);
  for (DType dtype : {f32, f16}) {
    // As f16 from the start, or made f16 by a cast.
    auto narrow = [&](Tensor v) { return cast(given(dtype)(cast(v, dtype)), f16); };
    check_traced(narrow, {x}, {{0, 0x1p-23, kInf, 0}}, 0);
    for (const TracedRun& run :
         traced_runs([&](std::span<const Tensor> v) { return std::vector{narrow(v[0])}; }, {x}))
      CHECK(run.results[0].view<uint16_t>()[3] == 0x8000);
  }
  const std::string lost = "2 of 4 numbers become 0, 1 becomes infinite in f16";
  check_report(reports(given(f16), x), given_line, lost);
  CHECK(reports(given(bf16), filled({4}, 1, bf16)).empty());
  CHECK(reports(given(f32), filled({4}, 1, f32)).empty());

  // By the policy, once also where a gradient is taken.
  const JitOptions mixed{.policy = Policy::mixed_float16()};
  auto product = [&](Tensor v) { return sum(matmul(v, constant(numbers, {4, 1}))); };
  const int product_line = __LINE__ - 1;
  check_report(reports(product, Array({1, 4}, {0, 0, 0, 0}), mixed), product_line, lost);
  check_report(reports(value_and_grad(product), Array({1, 4}, {0, 0, 0, 0}), mixed), product_line,
               lost);
  auto scaled = [&](Tensor v) { return matmul(v, full({4, 1}, 1e-9)); };
  const int scaled_line = __LINE__ - 1;
  check_report(reports(scaled, Array({1, 4}, {0, 0, 0, 0}), mixed), scaled_line,
               "1e-09 becomes 0 in f16");

  // What they become is the same in a table that is too long to be folded, and in a product.
  Numbers table(20, 1.0), rounded(20, 1.0);
  for (size_t i = 0; i < numbers.size(); ++i) {
    table[i] = numbers[i];
    rounded[i] = ir::round_to(f16, numbers[i]);
  }
  check_traced([&](Tensor v) { return v * constant(table, {20}, f16); }, {filled({20}, 1, f16)},
               {rounded}, 0);
  check_traced([](Tensor v) { return matmul(v, full({4, 2}, 1e5)); }, {filled({1, 4}, 1, f32)},
               {{kInf, kInf}}, 0, {.policy = "mixed_float16"});

  // A bound that becomes 1; in a table a number next to 1 is one that is rounded, like others.
  auto bounded = [](Tensor v) { return minimum(v, full({}, 1 - 1e-6, f16)); };
  const int bounded_line = __LINE__ - 1;
  check_report(reports(bounded, x), bounded_line, "0.999999 becomes 1 in f16");
  auto alone = [](Tensor v) { return minimum(v, constant({0.9999}, {1}, bf16)); };
  const int alone_line = __LINE__ - 1;
  check_report(reports(alone, filled({2}, 1, bf16)), alone_line, "0.9999 becomes 1 in bf16");
  CHECK(reports([](Tensor v) { return v * constant({1, 0.99999}, {2}, f16); }, filled({2}, 1, f16))
            .empty());
  // An infinity that the program wrote is meant.
  CHECK(
      reports([](Tensor v) { return where(v > 0, v, -kInf) + full({4}, -kInf, f16); }, x).empty());
  CHECK(reports([](Tensor v) { return cummax(concat({full({1}, -kInf, f16), v}), 0); }, x).empty());
}

TEST_CASE("CV-15: literals keep the type of their tensor, numbers of the program too") {
  const double two = 2.0;  // as an argument of the function that is traced
  for (DType dtype : kFloats) {
    CAPTURE(ir::to_string(dtype));
    auto function = [=](std::span<const Tensor> x) {
      auto scaled = [&](double factor) { return x[0] * factor; };
      return std::vector<Tensor>{x[0] * 2.0,  x[0] + 1,   1 / x[0],    scaled(two),
                                 x[0] * 2.0f, 0.5 - x[0], x[0] * x[1], x[0] - true};
    };
    const std::vector<Numbers> wanted{{2, 4}, {2, 3},       {1, 0.5}, {2, 4},
                                      {2, 4}, {-0.5, -1.5}, {2, 4},   {0, 1}};
    const std::vector<Array> inputs{row({1, 2}, dtype), Array(2, dtype)};
    check_traced_list(function, inputs, wanted, 0);
    for (const TracedRun& run : traced_runs(function, inputs))
      for (const Array& result : run.results) CHECK(result.dtype() == dtype);
  }
  auto integer = [](std::span<const Tensor> x) {
    return std::vector<Tensor>{x[0] + 0.5, x[0] + 1, 2 * x[0]};
  };
  check_traced_list(integer, {row({1}, i32)}, {{1.5}, {2}, {2}}, 0);
  for (const TracedRun& run : traced_runs(integer, {row({1}, i32)})) {
    CHECK(run.results[0].dtype() == f32);
    CHECK(run.results[1].dtype() == i32);
    CHECK(run.results[2].dtype() == i32);
  }
}

}  // namespace
}  // namespace mezzo::test
