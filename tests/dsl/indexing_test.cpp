// SPDX-License-Identifier: Apache-2.0
// Reading and adding by index from a program, on the CPU and by the interpreter.
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace mezzo;

namespace {

using Numbers = std::vector<double>;

const JitOptions kDevices[] = {{.device = Device::interpreter()}, {}};

Array whole(const Shape& shape, const Numbers& values) { return Array(shape, values, i32); }

}  // namespace

TEST_CASE("gather, embedding and take_along_axis read what the indices say") {
  const Array x({3, 2}, {0, 1, 2, 3, 4, 5}), at = whole({2, 2}, {2, 0, 1, 1});
  for (const JitOptions& options : kDevices) {
    CHECK(jit([](Tensor t, Tensor i) { return embedding(t, i); }, options)(x, at).to_doubles() ==
          Numbers{4, 5, 0, 1, 2, 3, 2, 3});
    CHECK(jit([](Tensor t) { return gather(t, 1, -1); }, options)(x).to_doubles() ==
          Numbers{1, 3, 5});
    CHECK(jit([](Tensor t, Tensor i) { return take_along_axis(t, i, 0); }, options)(x, at)
              .to_doubles() == Numbers{4, 1, 2, 3});
    // The other axes broadcast.
    CHECK(jit([](Tensor t) { return take_along_axis(t, constant({2, 0}, {2, 1}, i32), 0); },
              options)(x)
              .to_doubles() == Numbers{4, 5, 0, 1});
  }
}

TEST_CASE("one_hot has a 1 at the index") {
  for (const JitOptions& options : kDevices)
    for (DType dtype : {f32, f16, boolean, i64}) {
      const Array y =
          jit([&](Tensor i) { return one_hot(i, 3, dtype); }, options)(whole({2}, {2, 0}));
      CHECK(y.type == ir::Type(dtype, {2, 3}));
      CHECK(y.to_doubles() == Numbers{0, 0, 1, 1, 0, 0});
    }
}

TEST_CASE("dynamic_slice starts where a tensor says") {
  const Array x({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  for (const JitOptions& options : kDevices) {
    auto part = jit([](Tensor t, Tensor s) { return dynamic_slice(t, {s, 1}, {2, 3}); }, options);
    CHECK(part(x, whole({}, {1})).to_doubles() == Numbers{5, 6, 7, 9, 10, 11});
    CHECK(part(x, whole({}, {0})).to_doubles() == Numbers{1, 2, 3, 5, 6, 7});
    for (double bad : {-1.0, 2.0, 2147483647.0})
      CHECK_THROWS_WITH_AS(part(x, whole({}, {bad})),
                           doctest::Contains("is out of range for size 3"), UserError);
  }
}

TEST_CASE("the gradient of an embedding adds up the rows that were read, in f32") {
  // 4,000 rows of f16 ones at one place: a sum in f16 would stop at 2048.
  constexpr int64_t kCount = 4000;
  for (const JitOptions& options : kDevices) {
    auto slope = jit(
        [](Tensor table) {
          return grad([](Tensor t) {
            const Tensor rows = embedding(t, full({kCount}, 1, i32));
            return sum(cast(rows, f32));
          })(table);
        },
        options);
    const Array dw = slope(Array({3, 2}, {1, 2, 3, 4, 5, 6}, f16));
    CHECK(dw.type.dtype == f32);
    CHECK(dw.to_doubles() == Numbers{0, 0, kCount, kCount, 0, 0});
  }
}
