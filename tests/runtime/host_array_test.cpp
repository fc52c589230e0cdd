// SPDX-License-Identifier: Apache-2.0
// Host arrays: element access in every type and conversions that round once.
#include <mezzo/runtime/host_array.h>

#include <mezzo/ir/error.h>
#include <mezzo/runtime/array.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

using mezzo::UserError;
using mezzo::ir::DType;
using mezzo::ir::Type;
using mezzo::runtime::HostArray;

namespace {

double converted(DType from, double value, DType to) {
  return HostArray({from, {1}}, std::vector<double>{value}).converted_to(to).as_double(0);
}

// An integer that no double holds, as the float type `to`.
double converted(int64_t value, DType to) {
  HostArray array({DType::I64, {1}});
  array.set_integer(0, value);
  return array.converted_to(to).as_double(0);
}

/// A device that has been lost.
struct LostCopy : mezzo::runtime::DeviceCopy {
  void download(std::span<std::byte>) override { throw mezzo::DeviceError("lost"); }
};

}  // namespace

TEST_CASE("all bytes can be replaced after their device was lost") {
  HostArray two(Type(DType::F32, {2}));
  two.set_device_copy(std::make_shared<LostCopy>(), true);
  CHECK_THROWS_AS(two.bytes(), mezzo::DeviceError);
  const HostArray numbers(two.type, std::vector<double>{3, 4});
  two.set_bytes(numbers.bytes());
  CHECK(two.to_doubles() == std::vector<double>{3, 4});
  CHECK_FALSE(two.device_copy().current);
  CHECK_THROWS_AS(two.set_bytes(HostArray(Type(DType::F32, {3})).bytes()), mezzo::InternalError);
}

TEST_CASE("an element that is not there and bytes that do not fit are errors") {
  HostArray two(Type(DType::F32, {2}));
  CHECK_THROWS_WITH_AS(two.set(1000000000, 3),
                       "error: array: there is no element 1000000000 in tensor<2xf32> with 8 bytes",
                       UserError);
  CHECK_THROWS_AS(two.as_double(-1), UserError);
  CHECK_THROWS_AS(HostArray(Type(DType::F32, {0})).as_double(0), UserError);
  two.check_size();
  two.bytes().resize(4);
  CHECK_THROWS_WITH_AS(two.check_size(),
                       "error: array: tensor<2xf32> takes 8 bytes, but there are 4", UserError);
}

TEST_CASE("a host array starts with zeros and reads back what was set in every type") {
  for (DType dtype : mezzo::ir::kAllDTypes) {
    CAPTURE(mezzo::ir::to_string(dtype));
    HostArray array({dtype, {2, 3}});
    CHECK(array.to_doubles() == std::vector<double>(6, 0.0));
    array.set(4, 1);
    CHECK(array.as_double(4) == 1);
    CHECK(array.as_integer(4) == 1);
    CHECK(array.as_double(3) == 0);
    CHECK(array.as_double(5) == 0);
  }
  CHECK(HostArray().as_double(0) == 0);
  CHECK(HostArray({DType::F32, {0, 4}}).bytes().empty());
}

TEST_CASE("floats are rounded once, to nearest even") {
  CHECK(converted(DType::F64, 1 + 0x1p-11 + 0x1p-40, DType::F16) == 1 + 0x1p-10);
  CHECK(converted(DType::F32, 1 + 0x1p-11, DType::F16) == 1);
  CHECK(converted(DType::F32, 65520, DType::F16) == std::numeric_limits<double>::infinity());
  CHECK(converted(DType::F16, 0x1p-24, DType::BF16) == 0x1p-24);
  CHECK(std::isnan(converted(DType::F32, NAN, DType::BF16)));
}

TEST_CASE("integers become floats with one rounding, also beyond 2^53") {
  // Above the tie of bf16 by one; an f64 in between would lose the one and make it a tie to even.
  const int64_t above_tie = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;
  CHECK(converted(above_tie, DType::BF16) == std::ldexp(129, 55));
  CHECK(converted(above_tie - 1, DType::BF16) == std::ldexp(1, 62));
  CHECK(converted(-above_tie, DType::BF16) == -std::ldexp(129, 55));
  CHECK(converted(std::numeric_limits<int64_t>::min(), DType::F32) == -0x1p63);
  CHECK(converted(std::numeric_limits<int64_t>::max(), DType::F32) == 0x1p63);
  CHECK(converted((int64_t{1} << 53) + 1, DType::F64) == 0x1p53);
}

TEST_CASE("floats become integers saturated, integers narrower ones wrapped") {
  CHECK(converted(DType::F32, 1e20, DType::I32) == 2147483647);
  CHECK(converted(DType::F32, -1.5, DType::U8) == 0);
  CHECK(converted(DType::I32, 257, DType::U8) == 1);
  CHECK(converted(DType::I32, 256, DType::Bool) == 1);
  CHECK(converted(DType::F32, 0.5, DType::Bool) == 1);
}

TEST_CASE("a view must have the size of the elements") {
  HostArray array({DType::F16, {2}}, std::vector<double>{1, -2});
  CHECK(array.view<uint16_t>()[0] == 0x3c00);
  CHECK(array.view<uint16_t>().size() == 2);
  CHECK_THROWS_AS(array.view<float>(), UserError);
  CHECK_THROWS_WITH_AS(HostArray({DType::F16, {2}}, std::vector<double>{1}),
                       "error: an array tensor<2xf16> has 2 elements, not 1", mezzo::UserError);
  CHECK_THROWS_WITH_AS(mezzo::Array({2, 2}, {1, 2, 3}),
                       "error: an array tensor<2x2xf32> has 4 elements, not 3", mezzo::UserError);
}
