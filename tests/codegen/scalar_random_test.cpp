// SPDX-License-Identifier: Apache-2.0
// Random numbers of the device functions: Philox's published answers in both lane widths, uniform
// and normal numbers.
#include <mezzo/codegen/scalar_functions.h>
#include <support/host_emitter.h>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <random>

namespace mezzo::test {
namespace {

struct KnownAnswer {
  std::array<uint32_t, 4> counter;
  std::array<uint32_t, 2> key;
  std::array<uint32_t, 4> words;
};

// The known answers published with the generator.
constexpr KnownAnswer kAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

template <class T>
void check_philox() {
  using Word = typename HostEmitter<T>::I;
  HostEmitter<T> e;
  for (const KnownAnswer& answer : kAnswers) {
    const auto words = codegen::dev_philox(e,
                                           {Word{answer.counter[0]}, Word{answer.counter[1]},
                                            Word{answer.counter[2]}, Word{answer.counter[3]}},
                                           {Word{answer.key[0]}, Word{answer.key[1]}});
    for (size_t i = 0; i < 4; ++i) CHECK(words[i] == answer.words[i]);
  }
}

TEST_CASE("Philox gives its published answers in lanes of 32 and of 64 bits") {
  check_philox<float>();
  check_philox<double>();
}

TEST_CASE("uniform numbers are the top bits of a word") {
  HostEmitter<float> e;
  HostEmitter<double> d;
  std::mt19937_64 random(1);
  int wrong = 0;
  for (int i = 0; i < 100000; ++i) {
    const uint32_t word = i == 0 ? 0xFFFFFFFF : static_cast<uint32_t>(random());
    const uint32_t low = static_cast<uint32_t>(random());
    wrong += codegen::dev_uniform(e, word) != std::ldexp(static_cast<float>(word >> 8), -24);
    wrong += codegen::dev_uniform(e, word, 11) != std::ldexp(static_cast<float>(word >> 21), -11);
    wrong += codegen::dev_uniform(e, word, 8) != std::ldexp(static_cast<float>(word >> 24), -8);
    const uint64_t both = uint64_t{word} << 32 | low;
    wrong +=
        codegen::dev_uniform53(d, word, low) != std::ldexp(static_cast<double>(both >> 11), -53);
  }
  CHECK(wrong == 0);
}

/// Error of `got` in units of `roundoff` relative to `want`.
template <class W>
double relative_error(W got, W want, W roundoff) {
  return want == 0 ? static_cast<double>(std::fabs(got) / roundoff)
                   : static_cast<double>(std::fabs(got / want - 1) / roundoff);
}

TEST_CASE("normal numbers are within four steps of the formula and have its moments") {
  HostEmitter<float> e;
  HostEmitter<double> d;
  std::mt19937_64 random(1);
  double worst32 = 0;
  double worst64 = 0;
  double sum = 0;
  double squares = 0;
  const int count = 200000;
  for (int i = 0; i < count; ++i) {
    const auto a = static_cast<uint32_t>(random());
    const auto b = static_cast<uint32_t>(random());
    const auto pair = codegen::dev_normal(e, a, b);
    const double u = std::ldexp(static_cast<double>((a >> 8) + 1), -24);
    const double radius = std::sqrt(-2 * std::log(u));
    const double angle = 2 * std::numbers::pi * std::ldexp(static_cast<double>(b >> 8), -24);
    if ((b >> 8) % (1 << 22) != 0) {  // else the rounding of pi decides
      worst32 =
          std::max(worst32, relative_error<double>(pair[0], radius * std::cos(angle), 0x1p-23));
      worst32 =
          std::max(worst32, relative_error<double>(pair[1], radius * std::sin(angle), 0x1p-23));
    }
    sum += pair[0] + pair[1];
    squares += pair[0] * pair[0] + pair[1] * pair[1];

    const auto c = static_cast<uint32_t>(random());
    const auto w = static_cast<uint32_t>(random());
    const auto wide = codegen::dev_normal(d, std::array<uint64_t, 4>{a, b, c, w});
    const long double v =
        std::ldexp(static_cast<long double>((uint64_t{a} << 32 | b) >> 11) + 1, -53);
    const long double t = std::ldexp(static_cast<long double>((uint64_t{c} << 32 | w) >> 11), -53);
    const long double r = std::sqrt(-2 * std::log(v));
    // Reduced to a quarter: the library's own argument would lose what the device function keeps.
    const long double k = std::nearbyint(4 * t);
    const long double part = 2 * std::numbers::pi_v<long double> * (t - k / 4);
    const int quarter = static_cast<int>(k) % 4;
    const long double sines[] = {std::sin(part), std::cos(part), -std::sin(part), -std::cos(part)};
    worst64 = std::max(worst64, relative_error<long double>(wide[1], r * sines[quarter], 0x1p-52L));
    worst64 = std::max(
        worst64, relative_error<long double>(wide[0], r * sines[(quarter + 1) % 4], 0x1p-52L));
  }
  std::printf("normal: worst %.3f units of 2^-23 in f32, %.3f of 2^-52 in f64, bound 4\n", worst32,
              worst64);
  CHECK(worst32 <= 4);
  CHECK(worst64 <= 4);
  CHECK(std::fabs(sum / (2 * count)) < 0.01);
  CHECK(std::fabs(squares / (2 * count) - 1) < 0.01);
}

TEST_CASE("the quarters of the circle are exact") {
  HostEmitter<float> e;
  const float sines[] = {0, 1, 0, -1};
  for (int k = 0; k < 4; ++k) {
    const auto at = codegen::dev_sincos2pi(e, 0.25f * static_cast<float>(k));
    CHECK(at.sin == sines[k]);
    CHECK(at.cos == sines[(k + 1) % 4]);
  }
}

}  // namespace
}  // namespace mezzo::test
