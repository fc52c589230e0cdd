// SPDX-License-Identifier: Apache-2.0
// The small FileCheck itself: every directive can pass and can fail.
#include <support/check_text.h>

#include <doctest/doctest.h>

namespace {

using mezzo::test::check_text;

const char* const kText =
    "func @a {\n"
    "  %0 = relu %x : tensor<2xf32>\n"
    "  %1 = add  %0, %0\n"
    "  return %1\n"
    "}\n"
    "func @b {\n"
    "  %2 = exp %x\n"
    "  return %2\n"
    "}\n";

bool good(const char* spec) {
  INFO(check_text(kText, spec));
  return check_text(kText, spec).empty();
}

bool mentions(const std::string& text, const char* words) {
  INFO(text);
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("CHECK lines match in order and not twice") {
  CHECK(good("// CHECK: relu\n// CHECK: add\n"));
  CHECK_FALSE(good("// CHECK: add\n// CHECK: relu\n"));
  CHECK_FALSE(good("// CHECK: relu\n// CHECK: relu\n"));
}

TEST_CASE("a run of spaces matches any run of spaces and no other character") {
  CHECK(good("CHECK: add %0,   %0"));
  CHECK_FALSE(good("CHECK: add%0"));
}

TEST_CASE("CHECK-NEXT looks at the next line only") {
  CHECK(good("CHECK: relu\nCHECK-NEXT: add"));
  CHECK_FALSE(good("CHECK: relu\nCHECK-NEXT: return"));
  CHECK_FALSE(good("CHECK: relu\nCHECK-NEXT: tensor"));
  CHECK(mentions(check_text(kText, "CHECK-NEXT: relu"), "follows no match"));
}

TEST_CASE("CHECK-SAME looks at the rest of the line only") {
  CHECK(good("CHECK: relu\nCHECK-SAME: tensor<2xf32>"));
  CHECK_FALSE(good("CHECK: relu\nCHECK-SAME: %0"));
}

TEST_CASE("CHECK-NOT rejects between the matches around it") {
  CHECK(good("CHECK: relu\nCHECK-NOT: exp\nCHECK: return"));
  CHECK_FALSE(good("CHECK: relu\nCHECK-NOT: add\nCHECK: return"));
  CHECK_FALSE(good("CHECK: relu\nCHECK-NOT: exp"));
  CHECK(good("CHECK: exp\nCHECK-NOT: relu"));
}

TEST_CASE("CHECK-LABEL bounds what the other directives can match") {
  CHECK(good("CHECK-LABEL: func @a\nCHECK: return\nCHECK-LABEL: func @b\nCHECK: exp"));
  CHECK_FALSE(good("CHECK-LABEL: func @a\nCHECK: exp\nCHECK-LABEL: func @b"));
  CHECK(good("CHECK-LABEL: func @a\nCHECK-NOT: exp\nCHECK-LABEL: func @b"));
  CHECK_FALSE(good("CHECK-LABEL: func @a\nCHECK-NOT: add\nCHECK-LABEL: func @b"));
}

TEST_CASE("a captured value must be found again") {
  CHECK(good("CHECK: [[r:%[A-Za-z0-9_.$]+]] = relu\nCHECK: add [[r]], [[r]]"));
  CHECK_FALSE(good("CHECK: [[r:%[A-Za-z0-9_.$]+]] = relu\nCHECK: return [[r]]\n"));
  CHECK(good("CHECK: add [[v:%[0-9]]], [[v]]"));
  CHECK_FALSE(good("CHECK: [[v:%[0-9]]] = add [[v]]"));
  CHECK(mentions(check_text(kText, "CHECK: return [[x]]"), "'x' was not captured before"));
}

TEST_CASE("expressions have classes, repetition and alternatives") {
  CHECK(good("CHECK: %{{[0-9]+}} = {{exp|relu}} %x"));
  CHECK(good("CHECK: relu{{.*}}f32>"));
  CHECK(good("CHECK: relu{{[^<]*}}<2xf{{3?2}}>"));
  CHECK_FALSE(good("CHECK: relu{{.*}}add"));
  CHECK_FALSE(good("CHECK: {{tanh|sin}} %x"));
  CHECK(check_text("a.b\n", "CHECK: a{{\\.}}b").empty());
  CHECK_FALSE(check_text("axb\n", "CHECK: a{{\\.}}b").empty());
}

TEST_CASE("a specification that cannot fail is itself a failure") {
  CHECK(check_text(kText, "nothing here") == "the specification has no CHECK line");
  CHECK(mentions(check_text(kText, "a\nCHECK-NXT: relu"), "line 2: unknown directive 'CHECK-NXT'"));
  CHECK(mentions(check_text(kText, "CHECK:"), "an empty pattern"));
  CHECK(mentions(check_text(kText, "CHECK: {{a"), "is not closed"));
  CHECK(mentions(check_text(kText, "CHECK: {{(a)}}"), "has no meaning"));
}

TEST_CASE("a failure names the line, the values and the text") {
  std::string message = check_text(kText, "CHECK: [[r:%[0-9]+]] = relu\nCHECK-NEXT: mul [[r]]");
  CHECK(mentions(message, "specification line 2: 'CHECK-NEXT: mul [[r]]' does not match (r = %0)"));
  CHECK(mentions(message, "  |   %1 = add  %0, %0\n"));
}
