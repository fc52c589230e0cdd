// SPDX-License-Identifier: Apache-2.0
// Random numbers: published vectors of the generator, the place of each element in its stream,
// statistics.
#include <mezzo/ir/philox.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

InterpreterTensor rng(int64_t seed, int64_t step) {
  InterpreterTensor tensor(Type(DType::I64, {2}));
  tensor.integers = {seed, step};
  return tensor;
}

InterpreterTensor draw(OpKind kind, DType type, Shape shape, int64_t seed = 0, int64_t step = 0,
                       int64_t stream = 0) {
  return eval_op(kind, {rng(seed, step)}, {{"stream", stream}}, {Type(type, shape)});
}

}  // namespace

TEST_CASE("Philox4x32-10 gives the published vectors") {
  using Words = std::array<uint32_t, 4>;
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) ==
        Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("uniform numbers are the top bits of the words") {
  InterpreterTensor f32 = draw(OpKind::RandomUniform, DType::F32, {4});
  CHECK(f32.floats[0] == (0x6627e8d5u >> 8) * 0x1p-24);
  CHECK(f32.floats[3] == (0x9b00dbd8u >> 8) * 0x1p-24);
  CHECK(draw(OpKind::RandomUniform, DType::F16, {4}).floats[1] == (0xe169c58du >> 21) * 0x1p-11);
  CHECK(draw(OpKind::RandomUniform, DType::BF16, {4}).floats[2] == (0xbc57ac4cu >> 24) * 0x1p-8);
  InterpreterTensor f64 = draw(OpKind::RandomUniform, DType::F64, {2});
  CHECK(f64.floats[0] == static_cast<double>(0x6627e8d5e169c58du >> 11) * 0x1p-53);
  CHECK(f64.floats[1] == static_cast<double>(0xbc57ac4c9b00dbd8u >> 11) * 0x1p-53);
}

TEST_CASE("normal numbers come in pairs from adjacent words") {
  double u = ((0xbc57ac4cu >> 8) + 1) * 0x1p-24, v = (0x9b00dbd8u >> 8) * 0x1p-24;
  double radius = std::sqrt(-2 * std::log(u)), angle = 2 * 3.14159265358979323846 * v;
  InterpreterTensor f32 = draw(OpKind::RandomNormal, DType::F32, {4});
  CHECK(f32.floats[2] == round_to(DType::F32, radius * std::cos(angle)));
  CHECK(f32.floats[3] == round_to(DType::F32, radius * std::sin(angle)));
  InterpreterTensor bf16 = draw(OpKind::RandomNormal, DType::BF16, {4});
  CHECK(bf16.floats[3] == round_to(DType::BF16, radius * std::sin(angle)));
}

TEST_CASE(
    "seed, step and stream each select other numbers, and only the low half of the step counts") {
  auto base = draw(OpKind::RandomUniform, DType::F32, {8}, 1, 2, 3).floats;
  CHECK(base == draw(OpKind::RandomUniform, DType::F32, {2, 4}, 1, 2, 3).floats);
  CHECK(base != draw(OpKind::RandomUniform, DType::F32, {8}, int64_t{1} << 32 | 1, 2, 3).floats);
  CHECK(base != draw(OpKind::RandomUniform, DType::F32, {8}, 1, 3, 3).floats);
  CHECK(base != draw(OpKind::RandomUniform, DType::F32, {8}, 1, 2, 4).floats);
  CHECK(base == draw(OpKind::RandomUniform, DType::F32, {8}, 1, int64_t{1} << 32 | 2, 3).floats);
}

TEST_CASE("a batch drawn in parts by sample offset is the batch drawn whole") {
  for (OpKind kind : {OpKind::RandomUniform, OpKind::RandomNormal})
    for (DType type : {DType::F64, DType::F32, DType::F16}) {
      std::vector<double> whole = draw(kind, type, {6, 3}).floats;
      for (int64_t offset : {0, 1, 2, 4}) {
        InterpreterTensor at(Type(DType::I64, {}));
        at.integers[0] = offset;
        std::vector<double> part =
            eval_op(kind, {rng(0, 0), at}, {{"stream", 0}}, {Type(type, {2, 3})}).floats;
        CHECK(part ==
              std::vector<double>(whole.begin() + offset * 3, whole.begin() + offset * 3 + 6));
      }
    }
}

TEST_CASE("uniform and normal numbers have the moments of their distributions") {
  int64_t n = 200000;
  for (DType type : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    double step = type == DType::BF16 ? 0x1p-8 : type == DType::F16 ? 0x1p-11 : 0;
    double mean = 0, square = 0, low = 1, high = 0;
    for (double x : draw(OpKind::RandomUniform, type, {n}, 42).floats) {
      mean += x / static_cast<double>(n);
      low = std::min(low, x);
      high = std::max(high, x);
    }
    CHECK(mean == doctest::Approx(0.5 - step / 2).epsilon(0.005));
    CHECK(low >= 0);
    CHECK(high < 1);
    mean = 0;
    for (double x : draw(OpKind::RandomNormal, type, {n}, 43).floats) {
      mean += x / static_cast<double>(n);
      square += x * x / static_cast<double>(n);
    }
    CHECK(std::abs(mean) < 0.01);
    CHECK(square == doctest::Approx(1).epsilon(0.02));
  }
}

TEST_CASE("bernoulli compares words with floor(p 2^32)") {
  const Shape shape{1000};
  InterpreterTensor drawn =
      eval_op(OpKind::Bernoulli, {rng(3, 1)}, {{"p", 0.3}, {"stream", int64_t{2}}},
              {Type(DType::Bool, shape)});
  int64_t count = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    CHECK(drawn.integers[i] == (random_block(3, 1, 2, i / 4)[i % 4] < 1288490188u));
    count += drawn.integers[i];
  }
  CHECK(std::abs(count - 300) < 60);
  for (double p : {0.0, 0x1p-33, 1.0})
    CHECK(eval_op(OpKind::Bernoulli, {rng(3, 1)}, {{"p", p}, {"stream", int64_t{2}}},
                  {Type(DType::Bool, shape)})
              .integers == std::vector<int64_t>(1000, p == 1));
}

TEST_CASE(
    "OT-09: dropout of rate 1 gives 0, of rate 0 the numbers, of rate a half twice what it keeps") {
  for (DType type : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    InterpreterTensor x = make_tensor(Type(type, {2}), {1, 2});
    auto drop = [&](const InterpreterTensor& of, double rate) {
      return eval_op(OpKind::Dropout, {of, rng(1, 0)}, {{"rate", rate}, {"stream", int64_t{0}}})
          .floats;
    };
    CHECK(drop(x, 1) == std::vector<double>{0, 0});
    CHECK(drop(x, 0) == x.floats);
    InterpreterTensor many = full_tensor(Type(type, {100}), 3);
    int64_t dropped = 0;
    for (double y : drop(many, 0.5)) {
      CHECK((y == 0 || y == 6));
      dropped += y == 0;
    }
    CHECK(std::abs(dropped - 50) < 20);
    // What is dropped may be anything, what is kept is times 1 / (1 - rate) in f32, rounded once.
    many = full_tensor(Type(type, {100}), std::numeric_limits<double>::quiet_NaN());
    int64_t zeros = 0;
    for (double y : drop(many, 0.5)) zeros += y == 0;
    CHECK(zeros == dropped);
    const DType wide = type == DType::F64 ? DType::F64 : DType::F32;
    for (double y : drop(full_tensor(Type(type, {100}), 0.3), 0.1))
      CHECK((y == 0 ||
             y == round_to(type, round_to(wide, round_to(type, 0.3) * round_to(wide, 1 / 0.9)))));
  }
}

TEST_CASE("dropout in parts by sample offset is dropout of the whole") {
  InterpreterTensor x = full_tensor(Type(DType::F32, {6, 3}), 1);
  const Attrs attrs{{"rate", 0.5}, {"stream", int64_t{4}}};
  std::vector<double> whole = eval_op(OpKind::Dropout, {x, rng(5, 2)}, attrs).floats, parts;
  for (int64_t offset : {0, 2, 4}) {
    InterpreterTensor at(Type(DType::I64, {}));
    at.integers[0] = offset;
    InterpreterTensor part = full_tensor(Type(DType::F32, {2, 3}), 1);
    for (double y : eval_op(OpKind::Dropout, {part, rng(5, 2), at}, attrs).floats)
      parts.push_back(y);
  }
  CHECK(parts == whole);
}

TEST_CASE("categorical draws classes with the probabilities of softmax") {
  const int64_t rows = 40000;
  InterpreterTensor logits(Type(DType::F32, {rows, 4}));
  const double p[] = {0.5, 0.3, 0.2, 0};
  for (int64_t i = 0; i < rows * 4; ++i) logits.set_number(i, std::log(p[i % 4]) + 7);
  const Attrs attrs{{"axis", int64_t{1}}, {"stream", int64_t{1}}};
  std::vector<double> counts(4);
  InterpreterTensor drawn = eval_op(OpKind::Categorical, {logits, rng(11, 0)}, attrs);
  CHECK(drawn.type == Type(DType::I32, {rows}));
  for (int64_t k : drawn.integers)
    counts[static_cast<size_t>(k)] += 1.0 / static_cast<double>(rows);
  for (size_t k = 0; k < 4; ++k) CHECK(std::abs(counts[k] - p[k]) < 0.01);
  CHECK(counts[3] == 0);
  // Rows of another place draw other numbers; the same place the same.
  CHECK(eval_op(OpKind::Categorical, {logits, rng(11, 0)}, attrs).integers == drawn.integers);
  CHECK(eval_op(OpKind::Categorical, {logits, rng(11, 1)}, attrs).integers != drawn.integers);
}

TEST_CASE("categorical: the first of nothing, the first NaN, infinity before all") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  InterpreterTensor logits = make_tensor(Type(DType::F64, {3, 3}),
                                         {-kInf, -kInf, -kInf, 1, std::nan(""), kInf, 0, 50, kInf});
  CHECK(eval_op(OpKind::Categorical, {logits, rng(1, 1)},
                {{"axis", int64_t{1}}, {"stream", int64_t{0}}})
            .integers == std::vector<int64_t>{0, 1, 2});
}

TEST_CASE("rng_advance adds one to the step and keeps the seed") {
  InterpreterTensor next = eval_op(OpKind::RngAdvance, {rng(9, 41)});
  CHECK(next.integers == std::vector<int64_t>{9, 42});
}
