// SPDX-License-Identifier: Apache-2.0
// What the verifier says of scan and sort kernels.
#include <mezzo/ir/parser.h>
#include <mezzo/ir/verifier.h>

#include <doctest/doctest.h>

#include <string>

namespace mezzo::ir {
namespace {

/// Findings of a kernel of `%x` of 4x6 elements and `%b` of 6; its result `%y` is of `result`.
std::string found(const std::string& family, const std::string& result, const std::string& body) {
  const std::unique_ptr<Module> module = parse(
      "module @m attributes {stage = \"fused\"} { func @f(%x: tensor<4x6xf32>, %b: tensor<6xf32>) "
      "-> " +
      result + " { %r = kernel @k0 (%x = %x, %b = %b) {family = \"" + family +
      "\"} : (tensor<4x6xf32>, tensor<6xf32>) -> " + result + " {\n" + body +
      "\nyield %y : " + result + "\n} return %r : " + result + " } }");
  std::string out;
  for (const VerifierFinding& finding : verify(*module)) out += finding.text + "\n";
  return out;
}

const std::string kFull = "tensor<4x6xf32>";
const std::string kUnfit =
    "@f: %r = kernel @k0: fits no family: a value is read along two ways or not at all, or yields "
    "have other shapes than the space of a ";

TEST_CASE("a scan kernel has one scan, and all beside it runs along the space") {
  const std::string sum = "%s = cumsum %x {axis = 0} : tensor<4x6xf32>\n";
  CHECK(found("scan", kFull,
              "%p = exp %x : tensor<4x6xf32>\n%s = cumsum %p {axis = 0} : tensor<4x6xf32>\n"
              "%y = add %s, %p : tensor<4x6xf32>") == "");
  CHECK(found("scan", kFull,
              sum + "%y = add %s, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>") == "");
  CHECK(found("scan", kFull, "%y = exp %x : tensor<4x6xf32>") ==
        "@f: %r = kernel @k0: has 0 ops along an axis, not 1\n");
  CHECK(found("scan", kFull, sum + "%y = cummax %s {axis = 1} : tensor<4x6xf32>") ==
        "@f: %r = kernel @k0: has 2 ops along an axis, not 1\n");
  CHECK(found("scan", kFull, sum + "%y = sort %s {axis = 1} : tensor<4x6xf32>") ==
        "@f: %y = sort: may not stand in a kernel of family scan\n"
        "@f: %r = kernel @k0: has 2 ops along an axis, not 1\n");
  CHECK(found("rows", kFull, "%y = cumsum %x {axis = 1} : tensor<4x6xf32>") ==
        "@f: %y = cumsum: may not stand in a kernel of family rows\n"
        "@f: %r = kernel @k0: a rows kernel has no reduction\n");
  CHECK(found("scan", "tensor<6x4xf32>",
              sum + "%y = transpose %s {perm = [1, 0]} : tensor<4x6xf32> -> tensor<6x4xf32>") ==
        kUnfit + "scan kernel\n");
}

TEST_CASE("a sort kernel stores what its op gives, nothing else") {
  CHECK(found("sort", kFull,
              "%p = neg %x : tensor<4x6xf32>\n%y = sort %p {axis = 1} : tensor<4x6xf32>") == "");
  CHECK(found("sort", "tensor<4x6xi32>",
              "%y = argsort %x {axis = 1} : tensor<4x6xf32> -> tensor<4x6xi32>") == "");
  CHECK(found("sort", kFull,
              "%s = sort %x {axis = 1} : tensor<4x6xf32>\n%y = neg %s : tensor<4x6xf32>") ==
        kUnfit + "sort kernel\n");
  CHECK(found("sort", kFull, "%y = neg %x : tensor<4x6xf32>") ==
        "@f: %r = kernel @k0: has 0 ops along an axis, not 1\n");
}

}  // namespace
}  // namespace mezzo::ir
