// SPDX-License-Identifier: Apache-2.0
// Products of size-1 and odd axes in every element type and layout, and 16-bit tensors that are
// only moved, against the interpreter.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <runtime/compiled.h>
#include <string>

namespace mezzo::test {
namespace {

std::string type_text(int batch, int rows, int columns, const char* dtype) {
  return fmt::format("tensor<{}{}x{}x{}>", batch > 0 ? std::to_string(batch) + "x" : "", rows,
                     columns, dtype);
}

/// One function with a product for every size and layout.
std::string products(const char* dtype, int batch) {
  const char* out = std::string(dtype) == "f64" ? "f64" : "f32";
  std::string parameters, body, names, types;
  int number = 0;
  for (int m : {1, 8})
    for (int n : {1, 8})
      for (int k : {1, 2, 3, 33})
        for (int layout = 0; layout < 4; ++layout, ++number) {
          const bool ta = layout & 1, tb = layout & 2;
          const std::string a = type_text(batch, ta ? k : m, ta ? m : k, dtype),
                            b = type_text(batch, tb ? n : k, tb ? k : n, dtype),
                            y = type_text(batch, m, n, out);
          parameters += fmt::format("{0}%a{1}: {2}, %b{1}: {3}", number ? ", " : "", number, a, b);
          body += fmt::format(
              "    %y{0} = matmul %a{0}, %b{0} {{transpose_a = {1}, transpose_b = {2}}} : ({3}, "
              "{4}) -> {5}\n",
              number, ta, tb, a, b, y);
          names += fmt::format("{}%y{}", number ? ", " : "", number);
          types += (number ? ", " : "") + y;
        }
  return fmt::format("module @m {{\n  func @f({}) -> ({}) {{\n{}    return {} : ({})\n  }}\n}}\n",
                     parameters, types, body, names, types);
}

void compare(const std::string& text, const char* rounding) {
  runtime::CompileOptions options = in_memory();
  options.rounding = rounding;
  auto executable = compile_text(text, "f", options);
  const Tensors inputs = inputs_for(executable->function(), 7, {});
  const Outcome got = run_compiled(*executable, inputs),
                wanted = run_interpreted(*executable, inputs);
  for (size_t i = 0; i < got.results.size(); ++i) {
    CAPTURE(i);
    CHECK(describe_distance(got.results[i], wanted.results[i]) == "");
  }
}

TEST_CASE("products of size-1 and odd axes are right in every type and layout") {
  for (const char* dtype : {"f16", "bf16", "f32", "f64"})
    for (int batch : {0, 3}) {
      CAPTURE(dtype);
      CAPTURE(batch);
      compare(products(dtype, batch), "excess");
    }
}

TEST_CASE("16-bit tensors that are only moved compile in both rounding modes") {
  for (const char* dtype : {"f16", "bf16", "f32"})
    for (const char* rounding : {"excess", "as-written"}) {
      CAPTURE(dtype);
      CAPTURE(rounding);
      compare(fmt::format(R"(module @m {{
  func @f(%x: tensor<6x4x{0}>) -> (tensor<4x6x2x{0}>, tensor<4x3x{0}>) {{
    %t = broadcast_to %x {{shape = [2, 6, 4]}} : tensor<6x4x{0}> -> tensor<2x6x4x{0}>
    %y = transpose %t {{perm = [2, 1, 0]}} : tensor<2x6x4x{0}> -> tensor<4x6x2x{0}>
    %u = transpose %x {{perm = [1, 0]}} : tensor<6x4x{0}> -> tensor<4x6x{0}>
    %z = slice %u {{ends = [4, 6], starts = [0, 1], steps = [1, 2]}} : tensor<4x6x{0}> -> tensor<4x3x{0}>
    return %y, %z : (tensor<4x6x2x{0}>, tensor<4x3x{0}>)
  }}
}}
)",
                          dtype),
              rounding);
    }
}

TEST_CASE("a transposed tensor without elements has a kernel that does nothing") {
  compare(R"(module @m {
  func @f(%x: tensor<16x0x16xf32>) -> tensor<16x0x16xf32> {
    %t = transpose %x {perm = [2, 1, 0]} : tensor<16x0x16xf32> -> tensor<16x0x16xf32>
    %y = neg %t : tensor<16x0x16xf32> -> tensor<16x0x16xf32>
    return %y : tensor<16x0x16xf32>
  }
}
)",
          "excess");
}

TEST_CASE("what a kernel of lines without elements computes of them raises its flags") {
  struct Lines {
    const char *family, *all, *line, *axes;
  };
  for (const Lines& each :
       {Lines{"columns", "tensor<0x5xf32>", "tensor<5xf32>", "axes = [0]"},
        Lines{"rows", "tensor<5x0xf32>", "tensor<5x1xf32>", "axes = [1], keepdims = true"}}) {
    INFO(std::string(each.family));
    // Only results of no elements read %l, the logarithm of 0, and %r.
    const std::string text = fmt::format(
        R"(module @m attributes {{stage = "fused", words = 2}} {{
  func @f(%x: {1}) -> ({1}, {2}) {{
    %a, %b = kernel @k0 (%x = %x) {{family = "{0}"}} : {1} -> ({1}, {2}) {{
      %s = sum %x {{{3}}} : {1} -> {2}
      %l = log %s {{word = 0}} : {2}
      %r = exp %s {{word = 1}} : {2}
      %z = sub %x, %l : ({1}, {2}) -> {1}
      %y = sub %z, %r : ({1}, {2}) -> {1}
      yield %y, %s : ({1}, {2})
    }}
    return %a, %b : ({1}, {2})
  }}
}}
)",
        each.family, each.all, each.line, each.axes);
    auto executable = compile_text(text, "f", in_memory());
    const Tensors inputs = inputs_for(executable->function(), 1, {});
    const Outcome wanted = run_interpreted(*executable, inputs);
    CHECK(wanted.words.at(0) != 0);
    CHECK(run_compiled(*executable, inputs).words == wanted.words);
  }
}

}  // namespace
}  // namespace mezzo::test
