// SPDX-License-Identifier: Apache-2.0
// What a text that cannot be read is answered with: the whole message, place and caret included.
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
      // clang-format off
    {R"(%y = rleu %x : tensor<4xf32>)",
     R"(net.mz:2:6: error: unknown op 'rleu'; did you mean 'relu'?
%y = rleu %x : tensor<4xf32>
     ^)"},
    {R"(%y = relu %z : tensor<4xf32>)",
     R"(net.mz:2:11: error: unknown value '%z'
%y = relu %z : tensor<4xf32>
          ^)"},
    {R"(%hidden = relu %x : tensor<4xf32>
%y = relu %hiden : tensor<4xf32>)",
     R"(net.mz:3:11: error: unknown value '%hiden'; did you mean '%hidden'?
%y = relu %hiden : tensor<4xf32>
          ^)"},
    {R"(%y = relu %x {scpe = "a"} : tensor<4xf32>)",
     R"(net.mz:2:15: error: relu: unknown attribute 'scpe'; did you mean 'scope'?
%y = relu %x {scpe = "a"} : tensor<4xf32>
              ^)"},
    {R"(%y = sum %x {axis = [0]} : tensor<4xf32> -> tensor<f32>)",
     R"(net.mz:2:14: error: sum: unknown attribute 'axis'; did you mean 'axes'?
%y = sum %x {axis = [0]} : tensor<4xf32> -> tensor<f32>
             ^)"},
    {R"(%y = sum %x {axes = [0], axes = [0]} : tensor<4xf32> -> tensor<f32>)",
     R"(net.mz:2:26: error: attribute 'axes' is given twice
%y = sum %x {axes = [0], axes = [0]} : tensor<4xf32> -> tensor<f32>
                         ^)"},
    {R"(%y = sum %x {axes = 0} : tensor<4xf32> -> tensor<f32>)",
     R"(net.mz:2:6: error: sum: attribute 'axes' must be a list of integers (x tensor<4xf32>)
%y = sum %x {axes = 0} : tensor<4xf32> -> tensor<f32>
     ^)"},
    {R"(%y = sum %x : tensor<4xf32> -> tensor<f32>)",
     R"(net.mz:2:6: error: sum: attribute 'axes' is missing (x tensor<4xf32>)
%y = sum %x : tensor<4xf32> -> tensor<f32>
     ^)"},
    {R"(%y = sum %x {axes = [2]} : tensor<4xf32> -> tensor<f32>)",
     R"(net.mz:2:6: error: sum: axis 2 is out of range for rank 1 (x tensor<4xf32>)
%y = sum %x {axes = [2]} : tensor<4xf32> -> tensor<f32>
     ^
note: there is axis 0 alone)"},
    {R"(%y = add %x, %i : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>)",
     R"(net.mz:2:6: error: add: element types differ, f32 and i32 (x tensor<4xf32>, y tensor<4xi32>)
%y = add %x, %i : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>
     ^
note: only `cast` changes an element type)"},
    {R"(%y = add %x : tensor<4xf32>)",
     R"(net.mz:2:6: error: add: takes 2 operands, not 1 (x tensor<4xf32>)
%y = add %x : tensor<4xf32>
     ^)"},
    {R"(%y = add %x, %i : tensor<4xf32>)",
     R"(net.mz:2:19: error: operand '%i' is tensor<4xi32>, not tensor<4xf32>
%y = add %x, %i : tensor<4xf32>
                  ^)"},
    {R"(%y = add %x, %x : (tensor<4xf32>) -> tensor<4xf32>)",
     R"(net.mz:2:19: error: types of 1 operand are given, but there are 2
%y = add %x, %x : (tensor<4xf32>) -> tensor<4xf32>
                  ^)"},
    {R"(%y = add %x, %x : (tensor<4xf32>, tensor<4xf32>))",
     R"(net.mz:3:1: error: expected '->' and the result types, not '}'
} }
^)"},
    {R"(%y = relu %x : tensor<4xf32> -> tensor<2xf32>)",
     R"(net.mz:2:16: error: result '%y' is tensor<4xf32>, not tensor<2xf32>
%y = relu %x : tensor<4xf32> -> tensor<2xf32>
               ^)"},
    {R"(%y, %z = relu %x : tensor<4xf32>)",
     R"(net.mz:2:10: error: relu gives 1 result, but 2 are named
%y, %z = relu %x : tensor<4xf32>
         ^)"},
    {R"(relu %x : tensor<4xf32>)",
     R"(net.mz:2:1: error: relu gives 1 result, but 0 are named
relu %x : tensor<4xf32>
^)"},
    {R"(%y = relu %x tensor<4xf32>)",
     R"(net.mz:2:14: error: expected ':' before the types of the op, not 'tensor<4xf32>'
%y = relu %x tensor<4xf32>
             ^)"},
    {R"(%y = relu %x : tensor<4xf23>)",
     R"(net.mz:2:16: error: unknown element type 'f23'
%y = relu %x : tensor<4xf23>
               ^)"},
    {R"(%y = relu %x : tensor<4x>)",
     R"(net.mz:2:16: error: the type has no element type
%y = relu %x : tensor<4x>
               ^
note: write tensor<f32> for a scalar)"},
    {R"(%y = relu %x : tensor<4yxf32>)",
     R"(net.mz:2:16: error: '4y' is no length of an axis
%y = relu %x : tensor<4yxf32>
               ^
note: a length is a number, 2^59 at most)"},
    {R"(%y = relu %x : tensor<4xf32)",
     R"(net.mz:2:16: error: the type does not end: '>' is missing
%y = relu %x : tensor<4xf32
               ^)"},
    {R"(%y = relu %x : tensor<1x1x1x1x1x1x1x1x1xf32>)",
     R"(net.mz:2:16: error: shape 1x1x1x1x1x1x1x1x1 has 9 axes, the most is 8
%y = relu %x : tensor<1x1x1x1x1x1x1x1x1xf32>
               ^
note: reshape makes one axis of several)"},
    {R"(%x = relu %x : tensor<4xf32>)",
     R"(net.mz:2:1: error: value '%x' is defined twice
%x = relu %x : tensor<4xf32>
^)"},
    {R"(%y = relu %x : tensor<4xf32> loc("a":x))",
     R"(net.mz:2:38: error: expected a line number, not 'x'
%y = relu %x : tensor<4xf32> loc("a":x)
                                     ^)"},
    {R"(%y = constant {value = 1} : tensor<4xf32>)",
     R"(net.mz:2:15: error: constant: a value of type f32 is a float such as 1.0, or bits
%y = constant {value = 1} : tensor<4xf32>
              ^)"},
    {R"(%y = constant {value = 1.0} : tensor<4xi32>)",
     R"(net.mz:2:15: error: constant: a value of type i32 is an integer
%y = constant {value = 1.0} : tensor<4xi32>
              ^)"},
    {R"(%y = constant {value = 300} : tensor<4xu8>)",
     R"(net.mz:2:15: error: constant: 300 does not fit u8
%y = constant {value = 300} : tensor<4xu8>
              ^)"},
    {R"(%y = constant {value = 1} : tensor<4xbool>)",
     R"(net.mz:2:15: error: constant: a value of type bool is true or false
%y = constant {value = 1} : tensor<4xbool>
              ^)"},
    {R"(%y = constant {value = 0x7F800000} : tensor<4xf16>)",
     R"(net.mz:2:15: error: constant: bits of type f16 have 4 hex digits, not 8
%y = constant {value = 0x7F800000} : tensor<4xf16>
              ^)"},
    {R"(%y = constant {value = 0x7F8} : tensor<4xf16>)",
     R"(net.mz:2:24: error: bits have 4, 8 or 16 hex digits, not 3
%y = constant {value = 0x7F8} : tensor<4xf16>
                       ^)"},
    {R"(%y = constant {value = [1.0, 2.0]} : tensor<4xf32>)",
     R"(net.mz:2:6: error: constant: value has 2 elements for tensor<4xf32>
%y = constant {value = [1.0, 2.0]} : tensor<4xf32>
     ^
note: give one number for each element, or one for all without a list)"},
    {R"(%y = constant {value = 1e999} : tensor<4xf64>)",
     R"(net.mz:2:24: error: the number 1e999 does not fit f64
%y = constant {value = 1e999} : tensor<4xf64>
                       ^
note: write an infinity as bits: 0x7FF0000000000000 for f64, 0x7F800000 for f32)"},
    {R"(%y = constant {value = 99999999999999999999} : tensor<4xi64>)",
     R"(net.mz:2:24: error: the integer 99999999999999999999 does not fit 64 bits
%y = constant {value = 99999999999999999999} : tensor<4xi64>
                       ^)"},
    {R"(%y = relu %x {scope = "a} : tensor<4xf32>)",
     R"(net.mz:2:23: error: the string does not end on its line
%y = relu %x {scope = "a} : tensor<4xf32>
                      ^)"},
    {R"(%y = relu %x {scope = "a\q"} : tensor<4xf32>)",
     R"(net.mz:2:23: error: unknown escape '\q' in a string
%y = relu %x {scope = "a\q"} : tensor<4xf32>
                      ^)"},
    {R"(%y = relu %x {scope = "\ud800"} : tensor<4xf32>)",
     R"(net.mz:2:23: error: '\u' in a string must be followed by four hex digits of a character
%y = relu %x {scope = "\ud800"} : tensor<4xf32>
                      ^)"},
    {R"(%y = relu %x {scope = @} : tensor<4xf32>)",
     R"(net.mz:2:23: error: expected a name after '@'
%y = relu %x {scope = @} : tensor<4xf32>
                      ^
note: a name is digits, or a letter or '_' followed by letters, digits, '_', '.' or '$')"},
    {R"(%y = relu %x {scope: 1} : tensor<4xf32>)",
     R"(net.mz:2:20: error: expected '=' after the name of an attribute, not ':'
%y = relu %x {scope: 1} : tensor<4xf32>
                   ^)"},
    {R"(%y = relu %x {acc = f23} : tensor<4xf32>)",
     R"(net.mz:2:21: error: unknown element type 'f23'
%y = relu %x {acc = f23} : tensor<4xf32>
                    ^)"},
    {R"(%y = relu %x ; : tensor<4xf32>)",
     R"(net.mz:2:14: error: unexpected character ';'
%y = relu %x ; : tensor<4xf32>
             ^)"},
    {R"(%y = kernel @k (%a = %x) {family = "row"} : tensor<4xf32> { yield %a : tensor<4xf32> })",
     R"(net.mz:2:26: error: kernel: unknown family "row"; did you mean 'rows'?
%y = kernel @k (%a = %x) {family = "row"} : tensor<4xf32> { yield %a : tensor<4xf32> }
                         ^)"},
    {R"(%y = kernel @k (%a = %x) {family = "elementwise"} : tensor<4xf32> { %b = relu %x : tensor<4xf32> yield %b : tensor<4xf32> })",
     R"(net.mz:2:79: error: unknown value '%x'
%y = kernel @k (%a = %x) {family = "elementwise"} : tensor<4xf32> { %b = relu %x : tensor<4xf32> yield %b : tensor<4xf32> }
                                                                              ^)"},
    {R"(%y = kernel @k (%a = %x) {family = "elementwise"} : tensor<4xf32> { return %a : tensor<4xf32> })",
     R"(net.mz:2:69: error: the last op must be 'yield'
%y = kernel @k (%a = %x) {family = "elementwise"} : tensor<4xf32> { return %a : tensor<4xf32> }
                                                                    ^)"},
    {R"(%y = kernel @k (%a = %x) {family = "elementwise"} : tensor<4xf32> -> tensor<4xf16> { %b = relu %a : tensor<4xf32> yield %b : tensor<4xf32> })",
     R"(net.mz:2:115: error: result 0 is declared as tensor<4xf16>, but yield gives tensor<4xf32>
%y = kernel @k (%a = %x) {family = "elementwise"} : tensor<4xf32> -> tensor<4xf16> { %b = relu %a : tensor<4xf32> yield %b : tensor<4xf32> }
                                                                                                                  ^)"},
    {R"(%y = gradient %x, %i {func = @los, wrt = [0]} : (tensor<4xf32>, tensor<4xi32>) -> tensor<f32>)",
     R"(net.mz:2:6: error: gradient: there is no function 'los' (x tensor<4xf32>, x tensor<4xi32>)
%y = gradient %x, %i {func = @los, wrt = [0]} : (tensor<4xf32>, tensor<4xi32>) -> tensor<f32>
     ^)"},
    {R"(%y = gradient %x, %i {func = @f, wrt = [0]} : (tensor<4xf32>, tensor<4xi32>) -> tensor<f32>)",
     R"(net.mz:2:30: error: function '@f' is differentiated inside itself
%y = gradient %x, %i {func = @f, wrt = [0]} : (tensor<4xf32>, tensor<4xi32>) -> tensor<f32>
                             ^)"},
    {R"(return %x : tensor<4xf32>
%y = relu %x : tensor<4xf32>)",
     R"(net.mz:3:1: error: expected '}' after 'return', not '%y'
%y = relu %x : tensor<4xf32>
^)"},
    {R"(%y = relu %x : tensor<4xf32>)",
     R"(net.mz:3:1: error: the last op must be 'return'
} }
^)"},
    {R"(return %i : tensor<4xi32>)",
     R"(net.mz:2:1: error: result 0 is declared as tensor<4xf32>, but return gives tensor<4xi32>
return %i : tensor<4xi32>
^)"},
    {R"(return %x, %x : (tensor<4xf32>, tensor<4xf32>))",
     R"(net.mz:2:1: error: return has 2 operands for 1 result
return %x, %x : (tensor<4xf32>, tensor<4xf32>)
^)"},
    {R"(return %x : tensor<4xf32> extra)",
     R"(net.mz:2:27: error: expected '}' after 'return', not 'extra'
return %x : tensor<4xf32> extra
                          ^)"},
      // clang-format on
  };
  for (const Case& each : cases) CHECK(error_in(each.text) == each.message);
}

TEST_CASE("a module that cannot be read is answered with place, caret and remedy") {
  const Case cases[] = {
      // clang-format off
    {R"()",
     R"(net.mz:1:1: error: expected 'module', not the end of the text

^)"},
    {R"(modul @m {})",
     R"(net.mz:1:1: error: expected 'module', not 'modul'
modul @m {}
^)"},
    {R"(module m {})",
     R"(net.mz:1:8: error: expected the name of the module, '@name', not 'm'
module m {}
       ^)"},
    {R"(module @m {)",
     R"(net.mz:1:12: error: expected 'func' or '}', not the end of the text
module @m {
           ^)"},
    {R"(module @m attributes {stage = "type"} {})",
     R"(net.mz:1:22: error: unknown stage "type"; did you mean 'typed'?
module @m attributes {stage = "type"} {}
                     ^)"},
    {R"(module @m attributes {stage = 3} {})",
     R"(net.mz:1:22: error: attribute 'stage' must be a string
module @m attributes {stage = 3} {}
                     ^)"},
    {R"(module @m attributes {target = 3} {})",
     R"(net.mz:1:22: error: attribute 'target' must be a string
module @m attributes {target = 3} {}
                     ^)"},
    {R"(module @m attributes {rounding = "exces"} {})",
     R"(net.mz:1:22: error: unknown rounding "exces"; did you mean 'excess'?
module @m attributes {rounding = "exces"} {}
                     ^)"},
    {R"(module @m attributes {stage = "typd"} {})",
     R"(net.mz:1:22: error: unknown stage "typd"; did you mean 'typed'?
module @m attributes {stage = "typd"} {}
                     ^)"},
    {R"(module @m { fun @f() -> () { return : () } })",
     R"(net.mz:1:13: error: expected 'func' or '}', not 'fun'
module @m { fun @f() -> () { return : () } }
            ^)"},
    {R"(module @m { func f() -> () { return : () } })",
     R"(net.mz:1:18: error: expected the name of the function, '@name', not 'f'
module @m { func f() -> () { return : () } }
                 ^)"},
    {R"(module @m {} trailing)",
     R"(net.mz:1:14: error: expected the end of the text, not 'trailing'
module @m {} trailing
             ^)"},
    {R"(module @m { func @f() -> () { return : () } func @f() -> () { return : () } })",
     R"(net.mz:1:50: error: function '@f' is defined twice
module @m { func @f() -> () { return : () } func @f() -> () { return : () } }
                                                 ^)"},
    {R"(module @m { func @f(%x: tensor<f32>, %x: tensor<f32>) -> () { return : () } })",
     R"(net.mz:1:38: error: value '%x' is defined twice
module @m { func @f(%x: tensor<f32>, %x: tensor<f32>) -> () { return : () } }
                                     ^)"},
    {R"(module @m { func @f(%x: tensor<f32> {state}) -> tensor<f32> {updates = %y} { return %x : tensor<f32> } })",
     R"(net.mz:1:72: error: unknown value '%y'
module @m { func @f(%x: tensor<f32> {state}) -> tensor<f32> {updates = %y} { return %x : tensor<f32> } }
                                                                       ^)"},
    {R"(module @m { func @f(%x tensor<f32>) -> () { return : () } })",
     R"(net.mz:1:24: error: expected ':' before the type of the parameter, not 'tensor<f32>'
module @m { func @f(%x tensor<f32>) -> () { return : () } }
                       ^)"},
    {R"(module @m { func @f() { return : () } })",
     R"(net.mz:1:23: error: expected '->' before the result types, not '{'
module @m { func @f() { return : () } }
                      ^)"},
    {R"(module @m { func @f() -> () { } })",
     R"(net.mz:1:31: error: the last op must be 'return'
module @m { func @f() -> () { } }
                              ^)"},
    {R"(module @m { func @f() -> () { return : () })",
     R"(net.mz:1:44: error: expected 'func' or '}', not the end of the text
module @m { func @f() -> () { return : () }
                                           ^)"},
    {R"(module @m {
	func @f() -> () {
		retrun : () } })",
     R"(net.mz:3:3: error: unknown op 'retrun'; did you mean 'return'?
		retrun : () } }
		^)"},
    {R"(module @m attributes {a = [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]} {})",
     R"(net.mz:1:43: error: lists are nested too deeply
module @m attributes {a = [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]} {}
                                          ^)"},
    {R"(module @m attributes {a = %x} {})",
     R"(net.mz:1:27: error: a value cannot stand here
module @m attributes {a = %x} {}
                          ^)"},
    {R"(module @m { # comment
})",
     R"(net.mz:1:13: error: unexpected character '#'
module @m { # comment
            ^)"},
      // clang-format on
  };
  for (const Case& each : cases) CHECK(error_of(each.text) == each.message);
}

TEST_CASE("of a long line the part around the place is shown, and what no terminal shows is '?'") {
  const auto shown = [](const std::string& line, int column) {
    const std::string text = ParseError("t", 1, column, "m", line).what();
    return text.substr(text.find('\n') + 1);
  };
  CHECK(shown("a\tb\x01\x7f\xff c\xc3\xa9", 7) == "a\tb??? c\xc3\xa9\n \t    ^");
  CHECK(shown("cut \xe2\x82", 1) == "cut ??\n^");
  CHECK(shown(std::string(160, 'x'), 3) == std::string(160, 'x') + "\n  ^");
  CHECK(shown(std::string(161, 'x'), 3) == std::string(160, 'x') + "...\n  ^");
  CHECK(shown(std::string(500, 'x') + "y", 501) ==
        "..." + std::string(100, 'x') + "y\n" + std::string(103, ' ') + "^");
  CHECK(shown("", 1) == "\n^");
  CHECK(shown("end", 4) == "end\n   ^");
}

TEST_CASE("brackets, braces and parentheses without end are an error, not a full stack") {
  CHECK(error_of("module @m attributes {a = " + std::string(100000, '[') + "} {}")
            .starts_with("net.mz:1:43: error: lists are nested too deeply\n"));
  CHECK(error_of("module @m { func @f() -> () " + std::string(100000, '{'))
            .starts_with("net.mz:1:30: error: expected the name of an op, not '{'\n"));
  CHECK(error_of("module @m { func @f(" + std::string(100000, '('))
            .starts_with("net.mz:1:21: error: expected a parameter, '%name: type', not '('\n"));
  CHECK(error_of("module " + std::string(100000, 'a')).size() < 500);
}
