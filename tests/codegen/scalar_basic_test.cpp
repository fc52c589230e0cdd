// SPDX-License-Identifier: Apache-2.0
// Device functions that are exact: minimum, maximum, sign, mul0, predicates, remainder and floor
// division.
#include <mezzo/codegen/scalar_functions.h>
#include <support/host_emitter.h>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace mezzo::test {
namespace {

template <class T>
void check_same(T got, T want) {
  using Bits = typename HostEmitter<T>::I;
  INFO(double(got), " for ", double(want));
  if (std::isnan(want)) {
    CHECK(std::isnan(got));
  } else {
    CHECK(std::bit_cast<Bits>(got) == std::bit_cast<Bits>(want));
  }
}

TEST_CASE("maximum, minimum and clamp propagate NaN and order the zeros") {
  HostEmitter<float> e;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_same(codegen::dev_maximum(e, -0.0f, 0.0f), 0.0f);
  check_same(codegen::dev_maximum(e, 0.0f, -0.0f), 0.0f);
  check_same(codegen::dev_maximum(e, -0.0f, -0.0f), -0.0f);
  check_same(codegen::dev_minimum(e, -0.0f, 0.0f), -0.0f);
  check_same(codegen::dev_minimum(e, 0.0f, -0.0f), -0.0f);
  for (float other : {0.0f, 1.0f, std::numeric_limits<float>::infinity(), nan}) {
    check_same(codegen::dev_maximum(e, nan, other), nan);
    check_same(codegen::dev_maximum(e, other, nan), nan);
    check_same(codegen::dev_minimum(e, nan, other), nan);
    check_same(codegen::dev_minimum(e, other, nan), nan);
  }
  check_same(codegen::dev_maximum(e, 2.0f, 3.0f), 3.0f);
  check_same(codegen::dev_minimum(e, 2.0f, 3.0f), 2.0f);
}

TEST_CASE("sign, mul0, round and the predicates have defined edges") {
  HostEmitter<double> e;
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  check_same(codegen::dev_sign(e, -0.0), -0.0);
  check_same(codegen::dev_sign(e, -inf), -1.0);
  check_same(codegen::dev_sign(e, nan), nan);
  check_same(codegen::dev_mul0(e, 0.0, inf), 0.0);
  check_same(codegen::dev_mul0(e, -0.0, nan), 0.0);
  check_same(codegen::dev_mul0(e, 2.0, 3.0), 6.0);
  check_same(codegen::dev_mul0(e, nan, 0.0), nan);
  check_same(codegen::dev_round(e, 2.5), 2.0);
  check_same(codegen::dev_round(e, -0.5), -0.0);
  CHECK(codegen::dev_isnan(e, nan));
  CHECK_FALSE(codegen::dev_isnan(e, inf));
  CHECK(codegen::dev_isinf(e, -inf));
  CHECK_FALSE(codegen::dev_isinf(e, nan));
  CHECK(codegen::dev_isfinite(e, 1e308));
  CHECK_FALSE(codegen::dev_isfinite(e, nan));
  CHECK(codegen::dev_ne(e, nan, nan));
  CHECK_FALSE(codegen::dev_le(e, nan, 1.0));
}

}  // namespace
}  // namespace mezzo::test
