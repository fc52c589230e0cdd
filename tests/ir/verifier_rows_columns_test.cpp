// SPDX-License-Identifier: Apache-2.0
// What the verifier says of kernels that reduce over rows and over columns.
#include <mezzo/ir/parser.h>
#include <mezzo/ir/verifier.h>

#include <doctest/doctest.h>

#include <string>

namespace mezzo::ir {
namespace {

std::string found(const Module& module) {
  std::string out;
  for (const VerifierFinding& finding : verify(module)) out += finding.text + "\n";
  return out;
}

TEST_CASE("a kernel of rows and columns keeps them apart") {
  // `%x` of `space` and `%b` of 6 elements; results `%y`, `%z` of the types in `results`.
  auto of = [](const std::string& space, const std::string& results, const std::string& body) {
    const std::string names = results.find(',') == std::string::npos ? "%y" : "%y, %z",
                      outer = results.find(',') == std::string::npos ? "%r" : "%r, %s";
    return found(*parse("module @m attributes {stage = \"fused\"} { func @f(%x: " + space +
                        ", %b: tensor<6xf32>) -> (" + results + ") { " + outer +
                        " = kernel @k0 (%x = %x, %b = %b) {family = \"rows_columns\"} : (" + space +
                        ", tensor<6xf32>) -> (" + results + ") {\n" + body + "\nyield " + names +
                        " : (" + results + ")\n} return " + outer + " : (" + results + ") } }"));
  };
  const std::string square = "tensor<6x6xf32>", line = "tensor<6xf32>";
  const std::string rest =
      "%p = sum %x {axes = [1], keepdims = true} : tensor<6x6xf32> -> tensor<6x1xf32>\n"
      "%q = sub %x, %p : (tensor<6x6xf32>, tensor<6x1xf32>) -> tensor<6x6xf32>\n";
  const std::string columns = "%c = sum %q {axes = [0]} : tensor<6x6xf32> -> tensor<6xf32>\n";
  const std::string unfit =
      "kernel @k0: fits no family: a value is read along two ways or not at all, or yields have "
      "other shapes than the space of a rows_columns kernel\n";

  // Columns, rows and all of a square are told apart by what they are made of.
  CHECK(of(square, line + ", " + line,
           rest + columns +
               "%y = add %c, %b : tensor<6xf32>\n"
               "%z = max %q {axes = [1]} : tensor<6x6xf32> -> tensor<6xf32>") == "");
  CHECK(of("tensor<1x6xf32>", "tensor<1x6xf32>, tensor<1x6xf32>",
           "%p = sum %x {axes = [1], keepdims = true} : tensor<1x6xf32> -> tensor<1x1xf32>\n"
           "%y = sub %x, %p : (tensor<1x6xf32>, tensor<1x1xf32>) -> tensor<1x6xf32>\n"
           "%c = sum %y {axes = [0], keepdims = true} : tensor<1x6xf32> -> tensor<1x6xf32>\n"
           "%z = mul %c, %b : (tensor<1x6xf32>, tensor<6xf32>) -> tensor<1x6xf32>") == "");
  CHECK(of("tensor<2x3x6xf32>", "tensor<2x3xi32>, tensor<6xf32>",
           "%y = argmax %x {axis = 2} : tensor<2x3x6xf32> -> tensor<2x3xi32>\n"
           "%z = sum %x {axes = [0, 1]} : tensor<2x3x6xf32> -> tensor<6xf32>") == "");

  CHECK(of(square, square, rest + "%y = relu %q : tensor<6x6xf32>") ==
        "@f: %r = kernel @k0: a rows_columns kernel has no reduction over the first axes\n");
  CHECK(of(square, line, "%y = sum %x {axes = [0]} : tensor<6x6xf32> -> tensor<6xf32>") ==
        "@f: %r = kernel @k0: a rows_columns kernel has no reduction over the last axes\n");
  CHECK(of("tensor<2x3x6xf32>", "tensor<2x3xf32>, tensor<3x6xf32>",
           "%y = sum %x {axes = [2]} : tensor<2x3x6xf32> -> tensor<2x3xf32>\n"
           "%z = sum %x {axes = [0]} : tensor<2x3x6xf32> -> tensor<3x6xf32>") ==
        "@f: %z = sum: reduces axes [0] of rank 3; a rows_columns kernel reduces the last axes or "
        "exactly the others\n");
  CHECK(of(square, "tensor<6xi32>, tensor<6xf32>",
           rest + "%y = argmax %q {axis = 0} : tensor<6x6xf32> -> tensor<6xi32>\n"
                  "%z = sum %q {axes = [0]} : tensor<6x6xf32> -> tensor<6xf32>") ==
        "@f: %y = argmax: may not run over the first axes\n");
  CHECK(of(square, line + ", tensor<f32>",
           rest + columns +
               "%y = relu %c : tensor<6xf32>\n"
               "%z = sum %y {axes = [0]} : tensor<6xf32> -> tensor<f32>") ==
        "@f: %z = sum: reduces tensor<6xf32>, another op of the kernel values of 6x6\n"
        "@f: %z = sum: reduces what is known only after the last row\n");
  CHECK(of(square, line + ", " + line,
           rest + columns +
               "%y = relu %c : tensor<6xf32>\n"
               "%t = sub %q, %y : (tensor<6x6xf32>, tensor<6xf32>) -> tensor<6x6xf32>\n"
               "%z = sum %t {axes = [1]} : tensor<6x6xf32> -> tensor<6xf32>") ==
        "@f: %z = sum: reduces what is known only after the last row\n");
  // What needs all rows is no value of a row; columns have nothing of a row at hand.
  CHECK(of(square, square,
           rest + columns +
               "%y = sub %q, %c : (tensor<6x6xf32>, tensor<6xf32>) -> tensor<6x6xf32>") ==
        "@f: %r = " + unfit);
  CHECK(of(square, line,
           rest + columns +
               "%w = max %q {axes = [1]} : tensor<6x6xf32> -> tensor<6xf32>\n"
               "%y = add %c, %w : tensor<6xf32>") == "@f: %r = " + unfit);

  // A reduction over no axis is of neither kind, whatever the space leaves over.
  CHECK(
      of("tensor<6xf32>", "tensor<f32>, tensor<6xf32>",
         "%y = sum %x {axes = [0]} : tensor<6xf32> -> tensor<f32>\n"
         "%z = sum %x {axes = []} : tensor<6xf32>")
          .find("%z = sum: reduces axes [] of rank 1; a rows_columns kernel reduces the last axes "
                "or exactly the others\n") != std::string::npos);
}

}  // namespace
}  // namespace mezzo::ir
