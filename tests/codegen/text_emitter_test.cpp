// SPDX-License-Identifier: Apache-2.0
// The CUDA text of device functions: exact literals, one temporary an operation, no fused or
// approximate forms.
#include <mezzo/codegen/cuda/text_emitter.h>

#include <mezzo/codegen/scalar_functions.h>

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace mezzo::test {
namespace {

using codegen::TextEmitter;

TEST_CASE("a device function is a list of constant temporaries") {
  std::string text;
  TextEmitter e(text, 32, "v", 4);
  CHECK(codegen::dev_relu(e, std::string("x")) == "v1");
  CHECK(text ==
        "    const bool v0 = x <= 0x0p+0f;\n"
        "    const float v1 = v0 ? 0x0p+0f : x;\n");
}

TEST_CASE("temporaries are numbered on through the functions of one emitter") {
  std::string text;
  TextEmitter e(text, 64);
  const std::string square = codegen::dev_square(e, std::string("x"));
  CHECK(codegen::dev_reciprocal(e, square) == "t1");
  CHECK(text ==
        "  const double t0 = x * x;\n"
        "  const double t1 = __ddiv_rn(0x1p+0, t0);\n");
}

TEST_CASE("literals are exact and can stand after any operator") {
  std::string text;
  TextEmitter narrow(text, 32);
  TextEmitter wide(text, 64);
  CHECK(narrow.constant(0.1) == "0x1.99999ap-4f");
  CHECK(wide.constant(0.1) == "0x1.999999999999ap-4");
  CHECK(narrow.constant(-2.0) == "(-0x1p+1f)");
  CHECK(wide.constant(-0.0) == "(-0x0p+0)");
  CHECK(narrow.constant(std::numeric_limits<double>::infinity()) == "__uint_as_float(0x7F800000u)");
  CHECK(narrow.constant(1e300) == "__uint_as_float(0x7F800000u)");
  CHECK(wide.constant(std::numeric_limits<double>::quiet_NaN()) ==
        "__longlong_as_double(0x7FF8000000000000ull)");
  CHECK(narrow.iconstant(-1) == "0xFFFFFFFFu");
  CHECK(wide.iconstant(-1) == "0xFFFFFFFFFFFFFFFFull");
  CHECK(text.empty());
}

TEST_CASE("words are multiplied by the instruction of their lane width") {
  std::string text;
  TextEmitter narrow(text, 32, "a");
  TextEmitter wide(text, 64, "b");
  narrow.umul32_high("x", "y");
  narrow.umul32_low("x", "y");
  wide.umul32_high("x", "y");
  wide.umul32_low("x", "y");
  CHECK(text ==
        "  const unsigned int a0 = __umulhi(x, y);\n"
        "  const unsigned int a1 = x * y;\n"
        "  const unsigned long long b0 = (x * y) >> 32;\n"
        "  const unsigned long long b1 = (x * y) & 0xFFFFFFFFull;\n");
}

}  // namespace
}  // namespace mezzo::test
