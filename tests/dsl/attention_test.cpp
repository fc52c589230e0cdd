// SPDX-License-Identifier: Apache-2.0
// Attention, dropout and random draws as a program writes them: layers, training and evaluation,
// errors, the same numbers in parts of a batch.
#include <mezzo/mezzo.h>
#include <support/log_lines.h>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

using namespace mezzo;

namespace {

using Numbers = std::vector<double>;

const JitOptions kInterpreter{.device = Device::interpreter()};

template <typename F>
std::string error_of(F f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.message();
  }
  return "no error";
}

Numbers waves(int count, double speed) {
  Numbers out;
  for (int i = 0; i < count; ++i) out.push_back(std::sin(speed * i + 1));
  return out;
}

}  // namespace

TEST_CASE("multi-head attention is projections, heads and softmax written out") {
  nn::MultiHeadAttention layer{6, 2, {.name = "attention", .kv_heads = 1}};
  auto by_layer = jit([layer](Tensor x) { return layer(x, {.causal = true}); }, kInterpreter);
  auto by_hand = jit(
      [layer](Tensor x) {
        auto project = [&](const nn::Dense& dense) {
          return matmul(x, Operand(dense.weight())) + Operand(dense.bias());
        };
        Tensor q = transpose(reshape(project(layer.query()), {2, 4, 2, 3}), {0, 2, 1, 3});
        Tensor k = reshape(project(layer.key()), {2, 1, 4, 3});
        Tensor v = reshape(project(layer.value()), {2, 1, 4, 3});
        Tensor scores = matmul(q, k, {.transpose_b = true}) * (1 / std::sqrt(3.0));
        Tensor past = iota({1, 1, 1, 4}, i32, 3) <= iota({1, 1, 4, 1}, i32, 2);
        Tensor weights = softmax(where(past, scores, -HUGE_VAL));
        Tensor y = reshape(transpose(matmul(weights, v), {0, 2, 1, 3}), {2, 4, 6});
        return matmul(y, Operand(layer.out().weight())) + Operand(layer.out().bias());
      },
      kInterpreter);
  const Array x({2, 4, 6}, waves(48, 0.7));
  const Numbers got = by_layer(x).to_doubles(), wanted = by_hand(x).to_doubles();
  REQUIRE(got.size() == 48);
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-5));
  CHECK(layer.query().weight().name() == "attention.query.weight");
  CHECK(layer.key().weight().shape() == Shape{6, 3});
  CHECK(layer.out().bias().name() == "attention.out.bias");
}

TEST_CASE(
    "a block of a transformer trains in mixed precision, and its masked places do not matter") {
  struct Block {
    nn::MultiHeadAttention attention{8, 2, {.dropout = 0.1}};
    nn::Dense out{8, 3};
    nn::Dropout dropout{0.1};
    Tensor operator()(Tensor x) const {
      // The last feature says which places hold something.
      Tensor mask = reshape(slice(x, {0, 0, 7}, {4, 5, 8}) > 0.0, {4, 1, 1, 5});
      Tensor y = x + dropout(attention(x, {.mask = mask}));
      return out(reshape(slice(y, {0, 0, 0}, {4, 1, 8}), {4, 8}));
    }
  };
  for (const Policy& policy :
       {Policy::float32(), Policy::mixed_float16(), Policy::mixed_bfloat16()}) {
    Block model;
    Trainer trainer(model, losses::cross_entropy, optim::Adam{.learning_rate = 0.01},
                    {.policy = policy, .batch = 4, .seed = 5});
    Numbers numbers = waves(4 * 5 * 8, 1.3);
    for (size_t i = 0; i < 4 * 5; ++i) numbers[i * 8 + 7] = i % 5 < 3 ? 1 : -1;
    const Array x({4, 5, 8}, numbers), t({4}, {0, 1, 2, 1}, i32);
    double last = 0;
    for (int i = 0; i < 60; ++i) {
      StepResult step = trainer.step(x, t);
      CHECK(step.taken);
      last = step.loss;
    }
    CHECK(last < 0.2);
    // Evaluation drops nothing and reads nothing behind the mask.
    Numbers other = numbers;
    for (size_t i = 0; i < 4 * 5; ++i)
      for (size_t k = 0; i % 5 >= 3 && k < 7; ++k) other[i * 8 + k] = 100;
    const Dataset data{x, t}, moved{Array({4, 5, 8}, other), t};
    CHECK(trainer.evaluate(data).loss == trainer.evaluate(data).loss);
    CHECK(trainer.evaluate(data).loss == trainer.evaluate(moved).loss);
  }
}

TEST_CASE("nn::Dropout drops in training alone, by a mask that the backward pass draws again") {
  nn::Dropout layer{0.5};
  const Array x({64}, Numbers(64, 1.0));
  auto f = [layer](Tensor a) { return layer(a); };
  CHECK(jit(f, kInterpreter)(x).to_doubles() == Numbers(64, 1.0));
  for (Device device : {Device::interpreter(), Device::cpu()}) {
    JitOptions options{.device = device, .training = true, .seed = 9};
    auto both = jit(
        [layer](Tensor a) {
          auto at = value_and_grad([layer](Tensor b) { return sum(layer(b) * 3.0); })(a);
          return std::pair(at.value, at.grads[0]);
        },
        options);
    std::vector<Array> out = both(x);
    double total = 0;
    for (double slope : out[1].to_doubles()) {
      CHECK((slope == 0 || slope == 6));
      total += slope;
    }
    CHECK(out[0].item() == total);
    CHECK(std::abs(total - 192) < 100);
    // The next call draws other numbers.
    CHECK(both(x)[1].to_doubles() != out[1].to_doubles());
  }
}

TEST_CASE(
    "dropout has the same bits on the interpreter and on kernels with any number of threads") {
  const Array x({64, 1000}, waves(64000, 0.01));
  std::vector<Numbers> outcomes;
  for (int threads : {0, 1, 2}) {
    const Device device = threads == 0 ? Device::interpreter() : Device::cpu();
    outcomes.push_back(jit([](Tensor a) { return dropout(a, 0.3) + dropout(a, 0.7); },
                           {.device = device, .seed = 4, .threads = threads})(x)
                           .to_doubles());
  }
  CHECK(outcomes[0] == outcomes[1]);
  CHECK(outcomes[0] == outcomes[2]);
}

TEST_CASE("parts of a batch draw what the whole draws, by the offset of their first sample") {
  auto draws = [](int64_t count) {
    return jit(
        [count](Tensor x, Tensor offset) {
          Tensor drop = dropout(x, 0.5, {.offset = offset});
          Tensor coin = cast(bernoulli({count, 3}, 0.25, {.offset = offset}), f32);
          Tensor range = random_uniform({count, 3}, {.low = -2, .high = 3, .offset = offset});
          Tensor bell = random_normal({count, 3}, {.mean = 1, .deviation = 2, .offset = offset});
          Tensor chosen = cast(categorical(x, -1, {.offset = offset}), f32);
          return drop + coin + range + bell + reshape(chosen, {-1, 1});
        },
        {.device = Device::interpreter(), .seed = 2});
  };
  const Numbers numbers = waves(18, 2);
  auto start = [](double at) { return Array(at, i64); };
  const Numbers whole = draws(6)(Array({6, 3}, numbers), start(0)).to_doubles();
  Numbers parts;
  for (int first : {0, 2, 4}) {
    const Numbers own(numbers.begin() + first * 3, numbers.begin() + first * 3 + 6);
    for (double y : draws(2)(Array({2, 3}, own), start(first)).to_doubles()) parts.push_back(y);
  }
  CHECK(parts == whole);
}

TEST_CASE("ranges of uniform and normal numbers, in every type below the upper end") {
  for (DType dtype : {f64, f32, f16, bf16}) {
    auto f = jit(
        [dtype](Tensor) {
          return std::pair(random_uniform({4000}, {.low = 3, .high = 3.5, .dtype = dtype}),
                           random_normal({4000}, {.mean = -1, .deviation = 0.5, .dtype = dtype}));
        },
        kInterpreter);
    std::vector<Array> out = f(Array(0.0));
    CHECK(out[0].dtype() == dtype);
    double mean = 0;
    for (double x : out[0].to_doubles()) {
      CHECK(x >= 3);
      CHECK(x < 3.5);
    }
    for (double x : out[1].to_doubles()) mean += x / 4000;
    CHECK(mean == doctest::Approx(-1).epsilon(0.03));
  }
  // A range of one number, and one that ends at 0.
  auto narrow =
      jit([](Tensor) { return random_uniform({100}, {.low = 1, .high = 1.001, .dtype = bf16}); },
          kInterpreter);
  CHECK(narrow(Array(0.0)).to_doubles() == Numbers(100, 1.0));
  auto negative =
      jit([](Tensor) { return random_uniform({2000}, {.low = -1e-3, .high = 0}); }, kInterpreter);
  for (double x : negative(Array(0.0)).to_doubles()) CHECK(x < 0);
  // A range whose length is beyond the largest number.
  auto wide = jit([](Tensor) { return random_uniform({2000}, {.low = -3e38, .high = 3e38}); },
                  kInterpreter);
  int below = 0;
  for (double x : wide(Array(0.0)).to_doubles()) {
    CHECK(std::fabs(x) <= 3e38);
    below += x < 1e38;
  }
  CHECK(below > 1200);
  CHECK(below < 1470);
}

TEST_CASE("bernoulli of a tensor draws each element by its own probability") {
  auto f = jit([](Tensor p) { return bernoulli(p); }, {.device = Device::interpreter(), .seed = 8});
  Numbers p(3000);
  for (size_t i = 0; i < p.size(); ++i) p[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 0.5;
  const Numbers drawn = f(Array({3000}, p)).to_doubles();
  double count = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (i % 3 < 2) CHECK(drawn[i] == p[i]);
    count += i % 3 == 2 ? drawn[i] : 0;
  }
  CHECK(std::abs(count - 500) < 80);
}

TEST_CASE("categorical has the same classes on the interpreter and on kernels") {
  const Array x({300, 10}, waves(3000, 0.37));
  auto f = [](Tensor a) { return categorical(a); };
  const Numbers wanted = jit(f, {.device = Device::interpreter(), .seed = 6})(x).to_doubles();
  for (int threads : {1, 2})
    CHECK(jit(f, {.device = Device::cpu(), .seed = 6, .threads = threads})(x).to_doubles() ==
          wanted);
}

TEST_CASE("a mask of large negative numbers is a finding that names bools") {
  test::LogLines log;
  std::vector<std::string>& lines = log.lines;
  auto run_with = [](auto make_mask) {
    jit([&](Tensor x, Tensor m) { return attention(x, x, x, {.mask = make_mask(m)}); },
        kInterpreter)(Array({1, 1, 2, 2}, {1, 2, 3, 4}), Array({2}, {1, 0}));
  };
  run_with([](Tensor m) { return (1.0 - m) * -1e9; });
  run_with([](Tensor m) { return where(m > 0.0, 0.0, -10000.0); });
  CHECK(lines.size() == 2);
  for (const std::string& line : lines)
    CHECK(line.ends_with(
        ": attention: the mask adds a large negative number; a query with no key left would read "
        "all of them [additive-mask]\nnote: a mask of bools, true where a key is read, gives such "
        "a query 0"));
  lines.clear();
  run_with([](Tensor m) { return m > 0.0; });
  run_with([](Tensor m) { return where(m > 0.0, 0.0, -HUGE_VAL); });
  run_with([](Tensor m) { return m * -0.5; });  // a bias by distance
  CHECK(lines.empty());
}

TEST_CASE("layers and draws say what they do not take") {
  CHECK(error_of([] { nn::Dropout{1.5}; }) == "dropout: the rate must lie in [0, 1], not 1.5");
  CHECK(
      error_of([] { nn::MultiHeadAttention{6, 4}; }) ==
      "attention of 6 features, 4 heads and 4 heads of keys: heads must divide features, and heads "
      "of keys the heads");
  CHECK(error_of([] { nn::MultiHeadAttention{6, 2, {.dropout = -1}}; }) ==
        "attention: the rate must lie in [0, 1], not -1");
  auto traced = [](auto f) {
    return error_of([&] { jit(f, kInterpreter)(Array({2, 6}, Numbers(12, 1.0))); });
  };
  nn::MultiHeadAttention layer{6, 2, {.name = "a"}};
  CHECK(traced([layer](Tensor x) { return layer(x); }) ==
        "attention 'a': takes [batch, length, features], not tensor<2x6xf32>");
  CHECK(traced([](Tensor) { return random_uniform({2}, {.low = 1, .high = 1}); }) ==
        "random_uniform: low 1 and high 1 are no range of f32");
  CHECK(traced([](Tensor) { return random_uniform({2}, {.low = 0, .high = 1e5, .dtype = f16}); }) ==
        "random_uniform: low 0 and high 100000 are no range of f16");
  CHECK(traced([](Tensor) { return random_normal({2}, {.deviation = -1}); }) ==
        "random_normal: mean 0 and deviation -1 are none of f32");
  CHECK(traced([](Tensor) { return random_normal({2}, {.deviation = 1e39}); }) ==
        "random_normal: mean 0 and deviation 1e+39 are none of f32");
  for (DType dtype : {i32, u8, boolean}) {
    CHECK(traced([dtype](Tensor) { return random_uniform({2}, {.dtype = dtype}); }) ==
          std::string("random_uniform: gives a float type, not ") + ir::to_string(dtype));
    CHECK(traced([dtype](Tensor) { return random_normal({2}, {.dtype = dtype}); }) ==
          std::string("random_normal: gives a float type, not ") + ir::to_string(dtype));
  }
  CHECK(traced([](Tensor x) { return bernoulli(argmax(x)); }) ==
        "bernoulli: takes a float tensor of probabilities");
  CHECK(traced([](Tensor x) {
          return dropout(x, 2);
        }).starts_with("dropout: rate must lie in [0, 1]"));
  CHECK(traced([](Tensor x) {
          return attention(x, x, x);
        }).starts_with("attention: q must have 4 axes"));
}
