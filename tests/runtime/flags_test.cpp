// SPDX-License-Identifier: Apache-2.0
// Flag words of kernels at every width of vectors: each op reports into its own word, whatever
// lanes the masks have that gather what it saw.
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/target.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>
#include <runtime/compiled.h>
#include <string>

namespace mezzo::test {
namespace {

/// Sums of %x (or its elements), which overflow f16, are a pole of log, or overflow f32.
struct Case {
  const char *family, *line, *sum;
};
constexpr Case kCases[] = {
    {"elementwise", "tensor<3x200xf32>", ""},
    {"columns", "tensor<200xf32>", "{axes = [0]}"},
    {"rows", "tensor<3xf32>", "{axes = [1]}"},
};

std::string text_of(const Case& each, int64_t vector) {
  const std::string line = each.line, half = line.substr(0, line.size() - 4) + "f16>";
  const std::string sum =
      *each.sum ? fmt::format("%s = sum %x {} : tensor<3x200xf32> -> {}", each.sum, line)
                : fmt::format("%s = neg %x : {}", line);
  return fmt::format(R"(module @m attributes {{stage = "fused", words = 3}} {{
  func @f(%x: tensor<3x200xf32>) -> ({2}, {1}, {1}) {{
    %a, %b, %c = kernel @k0 (%x = %x) {{family = "{0}"}} plan {{grain = 64, tasks = 4, vector = {4}}} : tensor<3x200xf32> -> ({2}, {1}, {1}) {{
      {3}
      %h = cast %s {{word = 0}} : {1} -> {2}
      %l = log %s {{word = 1}} : {1}
      %e = exp %s {{word = 2}} : {1}
      yield %h, %l, %e : ({2}, {1}, {1})
    }}
    return %a, %b, %c : ({2}, {1}, {1})
  }}
}}
)",
                     each.family, line, half, sum, vector);
}

}  // namespace

TEST_CASE("an op's flags reach its own word at every width of vectors") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int64_t most = 4 * codegen::native_target().lanes(4);
  for (const Case& each : kCases)
    for (int64_t vector = 2; vector <= most; vector *= 2) {
      auto executable = compile_text(text_of(each, vector), "f", in_memory());
      const ir::Type type(ir::DType::F32, {3, 200});
      const double sign = *each.sum ? 1 : -1;  // of what is read of an element
      int seen = 0;
      for (size_t place : {0, 15, 64, 199, 263, 599})
        for (double number : {7e4, 0.0, -7e4, kInfinity, -kInfinity}) {
          Tensors inputs = {ir::full_tensor(type, *each.sum ? 0 : -1)};
          for (size_t i = 0; *each.sum && i < 200; ++i) inputs[0].floats[i] = 1;
          inputs[0].floats[place] = sign * number;
          INFO(std::string(each.family)
               << ", vectors of " << vector << ", " << number << " at " << place);
          const Outcome got = run_compiled(*executable, inputs);
          CHECK(got.words == run_interpreted(*executable, inputs).words);
          CHECK_FALSE(got.index_out_of_range);
          for (uint32_t word : got.words) seen += word != 0;
        }
      CHECK(seen > 20);
    }
}

}  // namespace mezzo::test
