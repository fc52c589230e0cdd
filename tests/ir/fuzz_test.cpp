// SPDX-License-Identifier: Apache-2.0
// Damaged texts: whatever is done to a valid text, it is read or answered with an error, and what
// is read prints to a text that reads back to itself.
#include <mezzo/ir/error.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <mezzo/ir/verifier.h>

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using namespace mezzo;
using namespace mezzo::ir;

namespace {

const char* const kSeeds[] = {
    R"(module @m attributes {stage = "traced"} {
  func @loss(%x: tensor<4x3xf32>, %y: tensor<4xi32>, %w: tensor<3x2xf32> {param}) -> tensor<f32> {
    %0 = matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %l = cross_entropy %0, %y {label_smoothing = 0.1} : (tensor<4x2xf32>, tensor<4xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  func @step(%x: tensor<4x3xf32>, %y: tensor<4xi32>, %w: tensor<3x2xf32> {param}, %lr: tensor<f32> {state}) -> (tensor<f32>, tensor<3x2xf32> {updates = %w}) {
    %l, %dw = gradient %x, %y, %w {func = @loss, wrt = [2]} : (tensor<4x3xf32>, tensor<4xi32>, tensor<3x2xf32>) -> (tensor<f32>, tensor<3x2xf32>)
    %w1 = sgd %w, %dw, %lr {momentum = 0.0} : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
    return %l, %w1 : (tensor<f32>, tensor<3x2xf32>)
  }
})",
    R"(module @m attributes {rounding = "excess", stage = "planned"} {
  func @f(%x: tensor<8x16xf16>) -> (tensor<8x16xf16>, tensor<8xf32>) {
    %r, %s = kernel @k0 (%a = %x) {family = "rows", places = [0, @result1], word = 3} plan {grain = 4} : tensor<8x16xf16> -> (tensor<8x16xf16>, tensor<8xf32>) {
      %1 = mul %a, %a : tensor<8x16xf16> loc("n\u00e9t.cpp":12 from relu)
      %2 = cast %1 {user} : tensor<8x16xf16> -> tensor<8x16xf32>
      %s = sum %2 {axes = [1]} : tensor<8x16xf32> -> tensor<8xf32>
      yield %1, %s : (tensor<8x16xf16>, tensor<8xf32>)
    }
    return %r, %s : (tensor<8x16xf16>, tensor<8xf32>)
  }
})",
    R"(module @m { // movement
  func @f(%x: tensor<4x6xf32>, %g: tensor<2xi64> {state}) -> (tensor<6x4xf32>, tensor<2xi64> {updates = %g}) attributes {arena = 64} {
    %c = constant {value = [1.0, -2.5e-3, 0x7FC00000]} : tensor<3xf32>
    %s = slice %x {ends = [4, 6], starts = [0, 1], steps = [1, 2]} : tensor<4x6xf32> -> tensor<4x3xf32>
    %p = pad %s {high = [0, 1], interior = [0, 1], low = [0, 0]} : tensor<4x3xf32> -> tensor<4x6xf32>
    %t = transpose %p {perm = [1, 0]} : tensor<4x6xf32> -> tensor<6x4xf32>
    %v = reshape %t {shape = [24]} : tensor<6x4xf32> -> tensor<24xf32>
    %i = iota {axis = 1} : tensor<2x3xi32>
    %m = argmax %x {axis = 1} : tensor<4x6xf32> -> tensor<4xi32>
    %u = random_uniform %g {stream = 5} : tensor<2xi64> -> tensor<4xf16>
    %n = rng_advance %g : tensor<2xi64>
    return %t, %n : (tensor<6x4xf32>, tensor<2xi64>)
  }
})"};

const char* const kPieces[] = {"-1",
                               "9223372036854775807",
                               "0",
                               "1e308",
                               "%x",
                               "@f",
                               "{",
                               "}",
                               "(",
                               ")",
                               "[",
                               "]",
                               ",",
                               "=",
                               ":",
                               "->",
                               "tensor<f32>",
                               "tensor<0xf16>",
                               "tensor<4611686018427387904xf32>",
                               "\"",
                               "\\u",
                               "//",
                               "\n",
                               "func",
                               "loc(\"a\":1)",
                               "kernel",
                               "return",
                               "yield",
                               "gradient",
                               "true",
                               "bf16",
                               "0x7E00",
                               "resource(\"r\")",
                               "wrt",
                               "axes",
                               "\xff",
                               " "};

std::string damage(std::string text, std::mt19937& random) {
  auto below = [&](size_t n) { return random() % n; };
  for (size_t edits = 1 + below(3); edits; --edits) {
    size_t at = below(text.size()), length = std::min(below(12), text.size() - at);
    switch (below(5)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 2:
        text.replace(at, length, kPieces[below(std::size(kPieces))]);
        break;
      case 3:
        text.insert(below(text.size()), text.substr(at, length * 4));
        break;
      default:
        text[at] = static_cast<char>(random() % 256);
    }
    if (text.empty()) return text;
  }
  return text;
}

/// True when the text was read.
bool survives(const std::string& text) {
  std::unique_ptr<Module> module;
  try {
    module = parse(text);
  } catch (const ParseError&) {
    return false;
  }
  verify(*module);
  std::string printed = print(*module, {.locations = true});
  INFO(text);
  CHECK(print(*parse(printed), {.locations = true}) == printed);
  return true;
}

}  // namespace

TEST_CASE("a damaged text is read or answered with an error, never more") {
  std::mt19937 random(20240607);
  int read = 0;
  constexpr int kTexts = 6000;
  for (int i = 0; i < kTexts; ++i) read += survives(damage(kSeeds[i % 3], random));
  // Both ways must have been taken.
  CHECK(read > 50);
  CHECK(read < kTexts - 1000);
}

TEST_CASE("a text that is cut off anywhere is answered with an error") {
  for (std::string text : kSeeds)
    for (size_t length = 0; length + 1 < text.size(); ++length)
      CHECK_THROWS_AS(parse(text.substr(0, length)), ParseError);
}
