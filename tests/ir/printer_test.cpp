// SPDX-License-Identifier: Apache-2.0
// Names of values, forms of signatures and defaults in printed text.
#include <mezzo/ir/printer.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/parser.h>

#include <doctest/doctest.h>

using namespace mezzo::ir;

namespace {

/// `@f(%x: tensor<4xf32>)` to which a test adds ops.
struct Fixture {
  Module module{"m"};
  Function* function = module.add_function("f");
  Value x = function->add_parameter(Type(DType::F32, {4}), "x");
  Builder builder{function->body()};

  Value relu(Value value, const char* name = "") {
    Value out = builder.make(OpKind::Relu, {value});
    out.set_name(name);
    return out;
  }
  /// The text after `%last` is returned; it must read back to itself.
  std::string finish(Value last) {
    function->set_results(std::vector<Value>{last}, {Attrs()});
    std::string text = print(module);
    CHECK(print(*parse(text)) == text);
    return text;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "equal names get a suffix, odd characters become underscores") {
  Value a = relu(x, "h"), b = relu(a, "h"), c = relu(b, "h_1"), d = relu(c, "h");
  Value e = relu(d, "layer 1/out"), f = relu(e, "2nd"), g = relu(f, "17");
  std::string text = finish(g);
  ValueNames names(*function);
  CHECK(names(a) == "%h");
  CHECK(names(b) == "%h_1");
  CHECK(names(c) == "%h_1_1");
  CHECK(names(d) == "%h_2");
  CHECK(names(e) == "%layer_1_out");
  CHECK(names(f) == "%_2nd");
  CHECK(names(g) == "%0");  // digits alone are our numbers
  CHECK(names.find("%h_2") == d);
  CHECK(!names.find("%nothing"));
}

TEST_CASE("numbers never meet the digits that a parameter is named by") {
  Module module("m");
  Function* function = module.add_function("f");
  Value a = function->add_parameter(Type(DType::F32, {}), "1");
  Value b = function->add_parameter(Type(DType::F32, {}), "");
  Builder builder(function->body());
  Value c = builder.make(OpKind::Add, {a, b});
  function->set_results(std::vector<Value>{c}, {Attrs()});
  CHECK(print(module) == R"(module @m attributes {stage = "traced"} {
  func @f(%1: tensor<f32>, %0: tensor<f32>) -> tensor<f32> {
    %2 = add %1, %0 : tensor<f32>
    return %2 : tensor<f32>
  }
}
)");
  CHECK(print(*parse(print(module))) == print(module));
}

TEST_CASE_FIXTURE(Fixture, "types are stated once where all agree") {
  builder.cast(x, DType::F16);
  Value sum = builder.make(OpKind::Add, {x, x});
  Value scalar = builder.constant(Type(DType::F32, {}), 2);
  builder.make(OpKind::Mul, {x, scalar});
  std::string text = finish(sum);
  CHECK(text.find("%0 = cast %x : tensor<4xf32> -> tensor<4xf16>\n") != std::string::npos);
  CHECK(text.find("%1 = add %x, %x : tensor<4xf32>\n") != std::string::npos);
  CHECK(text.find("%2 = constant {value = 2.0} : tensor<f32>\n") != std::string::npos);
  CHECK(text.find("%3 = mul %x, %2 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>\n") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "defaults are not printed, attributes are sorted") {
  Op* op =
      builder.make(OpKind::Sum, {x}, {{"keepdims", true}, {"axes", Attr(std::vector<int64_t>{0})}})
          .op();
  op->attrs().set("role", "forward");
  CHECK(print(*op) == "%0 = sum %x {axes = [0], keepdims = true} : tensor<4xf32> -> tensor<1xf32>");
}

TEST_CASE_FIXTURE(Fixture, "locations name the op that a derived op stands for") {
  builder.set_location({"net.cpp", 12});
  Value h = relu(x, "h");
  builder.derive_from(h.op());
  Value g = builder.make(OpKind::Mul0, {x, h});
  CHECK(print(*h.op(), {.locations = true}) == "%h = relu %x : tensor<4xf32> loc(\"net.cpp\":12)");
  CHECK(print(*g.op(), {.locations = true}) ==
        "%0 = mul0 %x, %h : tensor<4xf32> loc(\"net.cpp\":12 from relu)");
}

TEST_CASE_FIXTURE(Fixture, "a reference to a value that is gone is shown, not followed") {
  Value gone = relu(x);
  Value kept = relu(x);
  kept.op()->attrs().set("grad_of", ValueRef{gone.def()});
  gone.op()->erase();
  CHECK(print(*kept.op()) == "%0 = relu %x {grad_of = %<gone>} : tensor<4xf32>");
}
