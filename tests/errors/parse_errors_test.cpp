// SPDX-License-Identifier: Apache-2.0
// What a text that cannot be read is answered with: the whole message, place and caret included.
#include <mezzo/ir/attr_parser.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/parser.h>

#include <doctest/doctest.h>

#include <string>

using namespace mezzo;
using namespace mezzo::ir;

namespace {

std::string error_of(const std::string& text) {
  try {
    parse(text, "net.mz");
  } catch (const ParseError& error) {
    return error.what();
  }
  return "no error";
}

/// The error of a body that starts on line 2 of the text, in a function of `%x: tensor<4xf32>` and
/// `%i: tensor<4xi32>`.
std::string error_in(const std::string& body) {
  return error_of("module @m { func @f(%x: tensor<4xf32>, %i: tensor<4xi32>) -> tensor<4xf32> {\n" +
                  body + "\n} }");
}

struct Case {
  const char* text;
  const char* message;
};

}  // namespace

TEST_CASE("a body that cannot be read is answered with place, caret and remedy") {
  const Case cases[] = {
#include "parse_errors_bodies.inc"
  };
  for (const Case& each : cases) CHECK(error_in(each.text) == each.message);
}

TEST_CASE("a module that cannot be read is answered with place, caret and remedy") {
  const Case cases[] = {
#include "parse_errors_modules.inc"
  };
  for (const Case& each : cases) CHECK(error_of(each.text) == each.message);
}
