// SPDX-License-Identifier: Apache-2.0
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace mezzo;

TEST_CASE("an epoch's order is a permutation that depends on seed and epoch alone") {
  std::vector<int64_t> order = detail::shuffled(1000, 1, 0), sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), int64_t{0});
  CHECK(sorted == all);
  CHECK(order != all);
  CHECK(detail::shuffled(1000, 1, 0) == order);
  CHECK(detail::shuffled(1000, 1, 1) != order);
  CHECK(detail::shuffled(1000, 2, 0) != order);
}

TEST_CASE("pixels become f32 in [0, 1]") {
  Array pixels({3, 2}, {0, 255, 51, 102, 1, 254}, u8);
  Array batch(detail::input_type(pixels, 2));
  CHECK(batch.dtype() == f32);
  std::vector<int64_t> rows{1, 0};
  detail::gather_rows(pixels, rows, batch);
  CHECK(batch.as_double(0) == doctest::Approx(0.2));
  CHECK(batch.as_double(1) == doctest::Approx(0.4));
  CHECK(batch.as_double(2) == 0);
  CHECK(batch.as_double(3) == 1);
}

TEST_CASE("u8 that are no pixels stay what they are") {
  Array labels({3}, {0, 255, 7}, u8);
  Array batch(detail::batch_type(labels, 2));
  CHECK(batch.dtype() == u8);
  std::vector<int64_t> rows{2, 1};
  detail::gather_rows(labels, rows, batch);
  CHECK(batch.to_doubles() == std::vector<double>{7, 255});
}

TEST_CASE("a data set checks that both halves have as many samples") {
  Dataset data{Array({3, 1}, {1, 2, 3}), Array({2}, {0, 1}, i32)};
  CHECK_THROWS_WITH_AS(data.check(),
                       doctest::Contains("dataset: 3 inputs (tensor<3x1xf32>) and 2 targets "
                                         "(tensor<2xi32>)"),
                       UserError);
}
