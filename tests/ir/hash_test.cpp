// SPDX-License-Identifier: Apache-2.0
// What structural hashes count and what they do not.
#include <mezzo/ir/hash.h>

#include <mezzo/ir/parser.h>

#include <doctest/doctest.h>

#include <string>

using namespace mezzo::ir;

namespace {

const char* const kText = R"(module @m attributes {stage = "planned"} {
  func @f(%x: tensor<8x16xf32>, %w: tensor<16xf32> {param = true}) -> tensor<8x16xf32> {
    %r = kernel @k0 (%a = %x, %b = %w) {family = "elementwise", word = 3} plan {grain = 4, reason = "small"} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32> {
      %c = constant {value = 2.0} : tensor<f32>
      %p = mul %a, %b {word = 1} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
      %y = mul %p, %c {word = 2} : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
      yield %y : tensor<8x16xf32>
    }
    return %r : tensor<8x16xf32>
  }
}
)";

/// kText with every `from` changed to `to`.
std::string with(const std::string& from, const std::string& to) {
  std::string text = kText;
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  for (; at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

Digest module_hash(const std::string& text) { return structural_hash(*parse(text)); }
Digest region_hash(const std::string& text) {
  return kernel_hash(*parse(text)->function("f")->body().front());
}

}  // namespace

TEST_CASE("names of values, locations and defaults do not count") {
  CHECK(module_hash(kText) == module_hash(with("%p", "%product")));
  CHECK(module_hash(kText) == module_hash(with("%x", "%data")));
  CHECK(module_hash(kText) == module_hash(with("return %r : tensor<8x16xf32>",
                                               "return %r : tensor<8x16xf32> loc(\"a\":1)")));
  CHECK(module_hash(kText) == module_hash(with("{word = 1}", "{role = \"forward\", word = 1}")));
}

TEST_CASE("values, types, attributes, plans and names of states count") {
  Digest base = module_hash(kText);
  for (auto [from, to] : {std::pair{"%w", "%weight"},
                          {"2.0", "3.0"},
                          {"tensor<8x16xf32>", "tensor<4x16xf32>"},
                          {"word = 1", "word = 7"},
                          {"grain = 4", "grain = 8"},
                          {"\"small\"", "\"large\""},
                          {"@k0", "@k1"},
                          {"@f", "@g"},
                          {"planned", "fused"},
                          {"mul %a, %b", "add %a, %b"},
                          {"yield %y", "yield %p"},
                          {"return %r", "return %x"}}) {
    CHECK_MESSAGE(module_hash(with(from, to)) != base, from);
  }
}

TEST_CASE("the key of a kernel leaves out arguments, names and reasons") {
  Digest base = region_hash(kText);
  for (auto [from, to] : {std::pair{"word = 1", "word = 7"},
                          {"2.0", "3.0"},
                          {"word = 3", "word = 9"},
                          {"\"small\"", "\"large\""},
                          {"@k0", "@k1"},
                          {"%w", "%weight"},
                          {"%a", "%input"}})
    CHECK_MESSAGE(region_hash(with(from, to)) == base, from);
  for (auto [from, to] : {std::pair{"tensor<8x16xf32>", "tensor<4x16xf32>"},
                          {"grain = 4", "grain = 8"},
                          {"mul %a, %b", "add %a, %b"},
                          {"yield %y", "yield %p"}})
    CHECK_MESSAGE(region_hash(with(from, to)) != base, from);
}
