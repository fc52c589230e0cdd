// SPDX-License-Identifier: Apache-2.0
// Each rule of the verifier: a valid module, one fault, and the whole text of what is found.
#include <mezzo/ir/verifier.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/parser.h>

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <string_view>

using namespace mezzo;
using namespace mezzo::ir;

namespace {

const char* const kTraced = R"(module @m {
  func @loss(%x: tensor<4xf32>, %w: tensor<4xf32> {param}) -> tensor<f32> {
    %p = mul %x, %w : tensor<4xf32>
    %l = sum %p {axes = [0]} : tensor<4xf32> -> tensor<f32>
    return %l : tensor<f32>
  }
  func @step(%x: tensor<4xf32>, %w: tensor<4xf32> {param}, %v: tensor<4xf32> {param}, %lr: tensor<f32> {state}) -> (tensor<f32>, tensor<4xf32> {updates = %w}, tensor<4xf32> {updates = %v}) {
    %l, %dw = gradient %x, %w {func = @loss, wrt = [1]} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>)
    %w1 = sgd %w, %dw, %lr : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %v1 = sgd %v, %dw, %lr : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %l, %w1, %v1 : (tensor<f32>, tensor<4xf32>, tensor<4xf32>)
  }
})";

/// One kernel of a family on `%x: tensor<8x16xf32>` and `%w: tensor<16xf32> {param}`.
std::string kernel(const std::string& family, const std::string& result, const std::string& ops,
                   const std::string& stage = "fused", const std::string& more = "") {
  return "module @m attributes {stage = \"" + stage +
         "\"} {\n  func @f(%x: tensor<8x16xf32>, %w: tensor<16xf32> {param}) -> " + result +
         " {\n    %r = kernel @k0 (%a = %x, %b = %w) {family = \"" + family + "\"" + more +
         "} plan {grain = 4} : (tensor<8x16xf32>, tensor<16xf32>) -> " + result + " {\n" + ops +
         "\n  yield %y : " + result + "\n}\n    return %r : " + result + "\n  }\n}";
}

std::string found(const Module& module) {
  std::string out;
  for (const VerifierFinding& finding : verify(module)) out += finding.text + "\n";
  return out;
}

/// What is found in `text` after `change`; the text alone is valid.
std::string found_after(const std::string& text, const std::function<void(Module&)>& change) {
  auto module = parse(text);
  CHECK(found(*module) == "");
  change(*module);
  return found(*module);
}

std::string found_in(const std::string& text) { return found(*parse(text)); }

Op* op_at(Function* function, int index) {
  Op* op = function->body().front();
  while (index--) op = op->next();
  return op;
}

}  // namespace

TEST_CASE("an operand must be made before and be visible") {
  CHECK(found_after(kTraced, [](Module& m) {
          op_at(m.function("loss"), 1)->move_before(op_at(m.function("loss"), 0));
        }) == "@loss: %l = sum: operand 0, %p, is read before it is made\n");
  CHECK(found_after(kTraced, [](Module& m) {
          op_at(m.function("loss"), 0)->set_operand(0, m.function("step")->parameter(0));
        }) == "@loss: %p = mul: operand 0, %<gone>, is not visible in this region\n");
  std::string text =
      kernel("elementwise", "tensor<8x16xf32>",
             "%y = add %a, %b : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>");
  CHECK(found_after(text, [](Module& m) {
          Op* inner = op_at(m.function("f"), 0)->body()->front();
          inner->set_operand(0, m.function("f")->parameter(0));
        }) == "@f: %y = add: operand 0, %x, is not visible in this region\n");
}

TEST_CASE("types must be those that the shape rules give") {
  CHECK(found_after(kTraced,
                    [](Module& m) {
                      op_at(m.function("loss"), 0)->result().set_type(Type(DType::F32, {2, 2}));
                    }) ==
        "@loss: %p = mul: result 0 is tensor<2x2xf32>, not tensor<4xf32>\n"
        "@loss: %l = sum: result 0 is tensor<f32>, not tensor<2xf32>\n");
  CHECK(found_after(kTraced, [](Module& m) {
          op_at(m.function("loss"), 1)->attrs().set("axes", Attr(std::vector<int64_t>{3}));
        }) == "@loss: %l = sum: sum: axis 3 is out of range for rank 1 (x tensor<4xf32>)\n");
  CHECK(found_after(kTraced, [](Module& m) {
          op_at(m.function("loss"), 0)->attrs().set("role", "sideways");
        }) == "@loss: %p = mul: unknown role \"sideways\"\n");
}

TEST_CASE("a region ends in its terminator") {
  CHECK(
      found_after(kTraced,
                  [](Module& m) {
                    Op* last = m.function("loss")->body().back();
                    last->move_before(last->previous());
                  }) ==
      "@loss: return: stands where only a last 'return' may end a region\n"
      "@loss: the last op must be 'return'\n"
      "@loss: return: operand 0, %l, is read before it is made\n"
      "@loss: returns 0 values for 1 result\n"
      "@step: %l, %dw = gradient: gradient: the first result of @loss must be a float scalar, the "
      "loss, not nothing (x tensor<4xf32>, x tensor<4xf32>)\n");
}

TEST_CASE("functions and parameters have names of their own") {
  CHECK(found_after(kTraced, [](Module& m) { m.add_function("loss")->set_results({}, {}); }) ==
        "two functions are named @loss\n");
  CHECK(found_after(kTraced, [](Module& m) { m.function("loss")->parameter(1).set_name("x"); }) ==
        "@loss: two parameters are named 'x'\n");
}

TEST_CASE("a gradient needs its function") {
  CHECK(found_after(kTraced, [](Module& m) { m.function("loss")->set_name("objective"); }) ==
        "@step: %l, %dw = gradient: gradient: there is no function 'loss' (x tensor<4xf32>, x "
        "tensor<4xf32>)\n");
}

TEST_CASE("updates name distinct states of the same type") {
  auto updates = [](Module& m, int result, int parameter) {
    Function* step = m.function("step");
    step->result_attrs(result).set("updates", ValueRef{step->parameter(parameter).def()});
  };
  CHECK(found_after(kTraced, [&](Module& m) { updates(m, 2, 1); }) ==
        "@step: result 2 updates %w, which another result updates\n");
  CHECK(found_after(kTraced, [&](Module& m) { updates(m, 1, 0); }) ==
        "@step: result 1 updates %x, which is neither {param} nor {state}\n");
  CHECK(found_after(kTraced, [&](Module& m) { updates(m, 1, 3); }) ==
        "@step: result 1 is tensor<4xf32>, but updates %lr of tensor<f32>\n");
  CHECK(found_after(kTraced, [](Module& m) {
          Function* step = m.function("step");
          step->result_attrs(1).set("updates", ValueRef{op_at(step, 0)->result(1).def()});
        }) == "@step: result 1 updates %dw, which is no parameter\n");
}

TEST_CASE("references to values that are gone are found, not followed") {
  CHECK(found_after(kTraced, [](Module& m) {
          Op* p = op_at(m.function("loss"), 0);
          Builder builder(p);
          Value gone = builder.make(OpKind::Neg, {p->operand(0)});
          p->attrs().set("grad_of", ValueRef{gone.def()});
          gone.op()->erase();
        }) == "@loss: %p = mul: attribute 'grad_of' refers to a value that is not in @loss\n");
}

TEST_CASE("each stage forbids what its pass has removed") {
  auto module = parse(kTraced);
  module->set_stage(Stage::Differentiated);
  CHECK(found(*module) ==
        "@step: %l, %dw = gradient: may not stand in stage differentiated; autodiff expands it\n");
  std::string text = R"(module @m attributes {stage = "differentiated"} {
  func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %s = softmax %x {axis = 0} : tensor<4xf32>
    %y = mul %s, %x {grad_of = %x} : tensor<4xf32>
    return %y : tensor<4xf32>
  }
})";
  auto stage = [&](Stage stage) {
    return found_after(text, [&](Module& m) { m.set_stage(stage); });
  };
  std::string grad_of = "@f: %y = mul: has attribute 'grad_of' in stage ";
  std::string composite = "@f: %s = softmax: is composite in stage ";
  CHECK(stage(Stage::Typed) == grad_of + "typed; autocast drops it\n");
  CHECK(stage(Stage::Primitive) == grad_of + "primitive; autocast drops it\n" + composite +
                                       "primitive; decompose replaces it\n");
  CHECK(stage(Stage::Fused) == grad_of + "fused; autocast drops it\n" + composite +
                                   "fused; decompose replaces it\n"
                                   "@f: %s = softmax: stands outside a kernel in stage fused\n"
                                   "@f: %y = mul: stands outside a kernel in stage fused\n");
  std::string fused = kernel("elementwise", "tensor<8x16xf32>", "%y = relu %a : tensor<8x16xf32>");
  CHECK(found_after(fused, [](Module& m) { m.set_stage(Stage::Primitive); }) ==
        "@f: %r = kernel @k0: stands in stage primitive; fuse makes kernels\n");
}

TEST_CASE("kernels bind and yield by type") {
  std::string text = kernel("elementwise", "tensor<8x16xf32>", "%y = relu %a : tensor<8x16xf32>");
  CHECK(found_after(text, [](Module& m) {
          Op* k = op_at(m.function("f"), 0);
          k->body()->parameter(1).set_type(Type(DType::F16, {16}));
        }) == "@f: %r = kernel @k0: operand 1 is tensor<16xf32>, its inner name tensor<16xf16>\n");
  CHECK(found_after(text, [](Module& m) {
          Op* k = op_at(m.function("f"), 0);
          k->body()->terminator()->set_operand(0, k->body()->parameter(0));
        }) == "@f: %r = kernel @k0: yields its parameter %a\n");
  CHECK(found_after(text,
                    [](Module& m) {
                      Op* k = op_at(m.function("f"), 0);
                      k->body()->terminator()->set_operand(0, k->body()->parameter(1));
                    }) ==
        "@f: %r = kernel @k0: result 0 is tensor<8x16xf32>, but yields tensor<16xf32>\n"
        "@f: %r = kernel @k0: yields its parameter %b\n");
  CHECK(found_after(text, [](Module& m) { op_at(m.function("f"), 0)->attrs().erase("family"); }) ==
        "@f: %r = kernel @k0: attribute 'family' is missing or unknown\n");
}

TEST_CASE("kernels hold what their family admits") {
  const std::string full = "tensor<8x16xf32>", row = "tensor<8xf32>", column = "tensor<16xf32>";
  CHECK(found_in(kernel("rows", row,
                        "%y = sum %a {axes = [1]} : tensor<8x16xf32> -> tensor<8xf32>")) == "");
  CHECK(found_in(kernel("columns", column,
                        "%y = sum %a {axes = [0]} : tensor<8x16xf32> -> tensor<16xf32>")) == "");
  CHECK(found_in(kernel(
            "movement", "tensor<16x8xf32>",
            "%y = transpose %a {perm = [1, 0]} : tensor<8x16xf32> -> tensor<16x8xf32>")) == "");
  CHECK(found_in(kernel("elementwise", row,
                        "%y = sum %a {axes = [1]} : tensor<8x16xf32> -> tensor<8xf32>")) ==
        "@f: %y = sum: may not stand in a kernel of family elementwise\n");
  CHECK(found_in(kernel("movement", full, "%y = relu %a : tensor<8x16xf32>")) ==
        "@f: %y = relu: may not stand in a kernel of family movement\n");
  CHECK(found_in(kernel("matmul", full, "%y = relu %a : tensor<8x16xf32>")) ==
        "@f: %r = kernel @k0: has 0 products, not 1\n");
  CHECK(found_in(kernel("rows", full, "%y = relu %a : tensor<8x16xf32>")) ==
        "@f: %r = kernel @k0: a rows kernel has no reduction\n");
  CHECK(found_in(kernel("rows", column,
                        "%y = sum %a {axes = [0]} : tensor<8x16xf32> -> tensor<16xf32>")) ==
        "@f: %y = sum: reduces axes [0] of rank 2; a rows kernel reduces the last axes\n");
  CHECK(found_in(kernel("rows", "tensor<f32>",
                        "%s = sum %a {axes = [1]} : tensor<8x16xf32> -> tensor<8xf32>\n"
                        "%y = sum %s {axes = [0]} : tensor<8xf32> -> tensor<f32>")) ==
        "@f: %y = sum: reduces axes [0], another op of the kernel [1]\n"
        "@f: %y = sum: reduces tensor<8xf32>, another op of the kernel tensor<8x16xf32>\n");
  CHECK(found_in(kernel("elementwise", "tensor<128xf32>",
                        "%y = reshape %a {shape = [128]} : tensor<8x16xf32> -> tensor<128xf32>")) ==
        "@f: %y = reshape: changes more than axes of length 1, from tensor<8x16xf32> to "
        "tensor<128xf32>\n");
  CHECK(found_in(kernel("elementwise", "tensor<2xf32>",
                        "%y = constant {value = [1.0, 2.0]} : tensor<2xf32>")) ==
        "@f: %y = constant: is no splat\n");
}

TEST_CASE("a value that a kernel makes runs along its space in one way") {
  auto of_square = [](const std::string& family, const std::string& results,
                      const std::string& body) {
    const std::string names = results.find(',') == std::string::npos ? "%r" : "%r, %s";
    return found(
        *parse("module @m attributes {stage = \"fused\"} { func @f(%x: tensor<6x6xf32>, "
               "%b: tensor<6xf32>) -> (" +
               results + ") { " + names + " = kernel @k0 (%x = %x, %b = %b) {family = \"" + family +
               "\"} : (tensor<6x6xf32>, tensor<6xf32>) -> (" + results + ") {\n" + body +
               "\n} return " + names + " : (" + results + ") } }"));
  };
  const std::string square = "tensor<6x6xf32>";
  const std::string unfit =
      "@f: %r = kernel @k0: fits no family: a value is read along two ways or not at all, or "
      "yields have other shapes than the space of ";
  CHECK(of_square("rows", square,
                  "%s = sum %x {axes = [1], keepdims = true} : tensor<6x6xf32> -> tensor<6x1xf32>\n"
                  "%y = sub %x, %s : (tensor<6x6xf32>, tensor<6x1xf32>) -> tensor<6x6xf32>\n"
                  "yield %y : tensor<6x6xf32>") == "");
  CHECK(of_square("rows", square,
                  "%s = sum %x {axes = [1]} : tensor<6x6xf32> -> tensor<6xf32>\n"
                  "%y = sub %x, %s : (tensor<6x6xf32>, tensor<6xf32>) -> tensor<6x6xf32>\n"
                  "yield %y : tensor<6x6xf32>") == unfit + "a rows kernel\n");
  CHECK(of_square("columns", square,
                  "%s = sum %x {axes = [0]} : tensor<6x6xf32> -> tensor<6xf32>\n"
                  "%y = sub %x, %s : (tensor<6x6xf32>, tensor<6xf32>) -> tensor<6x6xf32>\n"
                  "yield %y : tensor<6x6xf32>") == "");
  CHECK(of_square("columns", square,
                  "%s = sum %x {axes = [0]} : tensor<6x6xf32> -> tensor<6xf32>\n"
                  "%t = reshape %s {shape = [6, 1]} : tensor<6xf32> -> tensor<6x1xf32>\n"
                  "%y = sub %x, %t : (tensor<6x6xf32>, tensor<6x1xf32>) -> tensor<6x6xf32>\n"
                  "yield %y : tensor<6x6xf32>") == unfit + "a columns kernel\n");
  CHECK(of_square("columns", square + ", tensor<6xf32>",
                  "%y = relu %x : tensor<6x6xf32>\n"
                  "%s = sum %y {axes = [0]} : tensor<6x6xf32> -> tensor<6xf32>\n"
                  "yield %y, %s : (tensor<6x6xf32>, tensor<6xf32>)") == "");
  // A reduction that nothing reads stands in no pass.
  CHECK(of_square("columns", "tensor<6xf32>",
                  "%m = max %x {axes = [0]} : tensor<6x6xf32> -> tensor<6xf32>\n"
                  "%s = sum %x {axes = [0]} : tensor<6x6xf32> -> tensor<6xf32>\n"
                  "yield %s : tensor<6xf32>") == unfit + "a columns kernel\n");
  CHECK(of_square("elementwise", square,
                  "%e = exp %x : tensor<6x6xf32>\n"
                  "%t = transpose %e {perm = [1, 0]} : tensor<6x6xf32>\n"
                  "%y = add %e, %t : tensor<6x6xf32>\n"
                  "yield %y : tensor<6x6xf32>") == unfit + "an elementwise kernel\n");
  CHECK(of_square("elementwise", square,
                  "%t = transpose %x {perm = [1, 0]} : tensor<6x6xf32>\n"
                  "yield %t : tensor<6x6xf32>") == "");
  CHECK(
      of_square("optimizer", square,
                "%e = exp %x : tensor<6x6xf32>\n"
                "%t = transpose %e {perm = [1, 0]} : tensor<6x6xf32>\n"
                "%y = add %e, %t : tensor<6x6xf32>\n"
                "yield %y : tensor<6x6xf32>") ==
      "@f: %r = kernel @k0: the segment that yields %y reads a value of its own along two ways\n");
}

TEST_CASE("segments of an optimizer kernel that share a value have one shape") {
  CHECK(found(*parse(R"(module @m attributes {stage = "fused"} {
  func @f(%w: tensor<4x8xf32>, %b: tensor<8xf32>, %p: tensor<8xf16>) -> (tensor<4x8xf32>, tensor<8xf32>) {
    %w2, %b2 = kernel @k0 (%w = %w, %b = %b, %p = %p) {family = "optimizer"} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf16>) -> (tensor<4x8xf32>, tensor<8xf32>) {
      %c = cast %p : tensor<8xf16> -> tensor<8xf32>
      %w1 = sub %w, %c : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      %b1 = sub %b, %c : tensor<8xf32>
      yield %w1, %b1 : (tensor<4x8xf32>, tensor<8xf32>)
    }
    return %w2, %b2 : (tensor<4x8xf32>, tensor<8xf32>)
  }
})")) == "@f: %w2, %b2 = kernel @k0: one segment yields %w1 of tensor<4x8xf32> and %b1 of "
         "tensor<8xf32>; segments share only parameters, constants and scalars\n");
}

TEST_CASE("a planned module has plans, and nobody reads what was overwritten") {
  std::string text = R"(module @m attributes {stage = "planned"} {
  func @f(%w: tensor<4xf32> {param}) -> (tensor<4xf32> {updates = %w}, tensor<4xf32>) {
    %b = kernel @k0 (%a = %w) {family = "elementwise", places = [@result1]} plan {grain = 4} : tensor<4xf32> {
      %y = neg %a : tensor<4xf32>
      yield %y : tensor<4xf32>
    }
    %c = kernel @k1 (%a = %w) {family = "elementwise", places = [%w]} plan {grain = 4} : tensor<4xf32> {
      %y = relu %a : tensor<4xf32>
      yield %y : tensor<4xf32>
    }
    return %c, %b : (tensor<4xf32>, tensor<4xf32>)
  }
})";
  CHECK(found_after(text, [](Module& m) {
          op_at(m.function("f"), 1)->move_before(op_at(m.function("f"), 0));
        }) == "@f: %b = kernel @k0: reads %w after @k1 has overwritten it\n");
  CHECK(found_after(text,
                    [](Module& m) {
                      Function* f = m.function("f");
                      op_at(f, 0)->attrs().set(
                          "places", Attr(AttrList{Attr(ValueRef{f->parameter(0).def()})}));
                    }) ==
        "@f: %c = kernel @k1: reads %w after @k0 has overwritten it\n"
        "@f: %c = kernel @k1: overwrites %w, which @k0 has overwritten already\n");
  auto unplanned = parse(
      "module @m attributes {stage = \"planned\"} { func @f(%x: tensor<4xf32>) -> tensor<4xf32> { "
      "%r "
      "= kernel @k (%a = %x) {family = \"elementwise\"} : tensor<4xf32> { %y = relu %a : "
      "tensor<4xf32> yield %y : tensor<4xf32> } return %r : tensor<4xf32> } }");
  CHECK(found(*unplanned) == "@f: %r = kernel @k: has no plan\n");
}

TEST_CASE("places belong to one value at a time, and to what leaves the function there") {
  // %a and %b are read by @k1, which makes %y; %y is the result, %w is updated with %b.
  auto text = [](const std::string& first, const std::string& second) {
    return "module @m attributes {stage = \"planned\"} {\nfunc @f(%w: tensor<4xf32> {param}, %x: "
           "tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32> {updates = %w}) attributes {arena = "
           "128} {\n%a, %b = kernel @k0 (%x = %x) {family = \"elementwise\", places = " +
           first +
           "} plan {grain = 4} : tensor<4xf32> -> (tensor<4xf32>, tensor<4xf32>) {\n%c = relu %x : "
           "tensor<4xf32>\n%d = neg %x : tensor<4xf32>\nyield %c, %d : (tensor<4xf32>, "
           "tensor<4xf32>) }\n%y = kernel @k1 (%a = %a, %b = %b) {family = \"elementwise\", places "
           "= " +
           second +
           "} plan {grain = 4} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {\n%s = add %a, "
           "%b "
           ": tensor<4xf32>\nyield %s : tensor<4xf32> }\nreturn %y, %b : (tensor<4xf32>, "
           "tensor<4xf32>) } }";
  };
  auto found_of = [&](const std::string& first, const std::string& second) {
    return found(*parse(text(first, second)));
  };
  CHECK(found_of("[0, %w]", "[@result0]") == "");
  CHECK(found_of("[0, @result1]", "[@result0]") == "");
  CHECK(found_of("[0, 64]", "[@result0]") == "");
  const std::string first = "@f: %a, %b = kernel @k0: ", second = "@f: %y = kernel @k1: ";
  CHECK(found_of("[0, 0]", "[@result0]") ==
        first + "place 0 of %b overlaps %a, which is still read, at 0\n");
  CHECK(found_of("[64, %w]", "[64]") ==
        second + "place 64 of %y overlaps %a, which is still read, at 64\n");
  CHECK(found_of("[@result0, %w]", "[0]") == first + "place @result0 is not for %a, but for %y\n");
  CHECK(found_of("[%w, 0]", "[@result0]") == first + "place %w is not for %a, but for %b\n");
  CHECK(found_of("[0, %x]", "[@result0]") ==
        first + "place %x is not for %b, the function updates it with nothing\n");
}

TEST_CASE("numbers of a text that index memory are checked where it is read") {
  auto error = [](const std::string& op, const std::string& from = "tensor<3x5xf32>") {
    try {
      parse("module @m { func @f(%x: " + from + ") -> tensor<3x5xf32> {\n%y = " + op +
            "\nreturn %y : tensor<3x5xf32> } }");
    } catch (const ParseError& fault) {
      std::string what = fault.what();
      constexpr std::string_view kHead = "error: ";
      size_t start = what.find(kHead) + kHead.size();
      return what.substr(start, what.find('\n') - start);
    }
    return std::string("no error");
  };
  CHECK(error("iota {axis = -1} : tensor<3x5xf32>") == "iota: axis -1 is out of range for rank 2");
  CHECK(error("iota {axis = 1} : tensor<3x5xf32>") == "no error");
  CHECK(error("log %x {word = -1} : tensor<3x5xf32>") ==
        "log: word -1 lies outside [0, 16777215] (x tensor<3x5xf32>)");
  CHECK(error("log %x {word = 16777216} : tensor<3x5xf32>") ==
        "log: word 16777216 lies outside [0, 16777215] (x tensor<3x5xf32>)");
  CHECK(error("argmax %x {axis = 0} : tensor<2147483649xi64> -> tensor<i32>",
              "tensor<2147483649xi64>")
            .find("argmax: the axis has 2147483649 elements, whose indices do not fit i32") == 0);
  CHECK(error("check_index %x {size = -5} : tensor<3x5xi32>", "tensor<3x5xi32>") ==
        "check_index: size must be 0 or more, not -5 (x tensor<3x5xi32>)");
  CHECK(error("random_uniform %x {stream = -1} : tensor<2xi64> -> tensor<3x5xf32>",
              "tensor<2xi64>") ==
        "random_uniform: stream -1 lies outside [0, 4294967295] (rng tensor<2xi64>)");
  CHECK(error("random_uniform %x {stream = 4294967295} : tensor<2xi64> -> tensor<3x5xf32>",
              "tensor<2xi64>") == "no error");
  CHECK(error("log %x {checkpoint = -1} : tensor<3x5xf32>") ==
        "log: checkpoint must be 0 or more, not -1 (x tensor<3x5xf32>)");
  CHECK(error("relu %x {acc = bool} : tensor<3x5xf32>") ==
        "relu: attribute 'acc' is for products (x tensor<3x5xf32>)");
}

TEST_CASE("plans and places must lie inside what they stand for") {
  auto text = [](const std::string& place, const std::string& plan) {
    return "module @m attributes {stage = \"planned\"} { func @f(%x: tensor<4xf32>) -> "
           "tensor<4xf32> attributes {arena = 64} { %r = kernel @k (%a = %x) {family = "
           "\"elementwise\", places = [" +
           place + "]} plan {" + plan +
           "} : tensor<4xf32> { %y = relu %a : tensor<4xf32> yield %y : tensor<4xf32> } return %r "
           ": "
           "tensor<4xf32> } }";
  };
  auto found_at = [&](const std::string& place, const std::string& plan) {
    return found(*parse(text(place, plan)));
  };
  const std::string head = "@f: %r = kernel @k: ";
  CHECK(found_at("0", "grain = 4, vector = 4") == "");
  std::string bare = text("0", "grain = 4");
  bare.erase(bare.find(", places = [0]"), 14);
  CHECK(found(*parse(bare)) == head + "has no places for its results\n");
  CHECK(found_at("@result0", "grain = 4") == "");
  CHECK(found_at("1048576000", "grain = 4") ==
        head + "place 1048576000 of 16 bytes lies outside the arena of 64\n");
  CHECK(found_at("-64", "grain = 4") == head + "place -64 is no multiple of 64\n");
  CHECK(found_at("@result7", "grain = 4") ==
        head + "there is no place @result7; @f has 1 result\n");
  CHECK(found_at("@result0x", "grain = 4") ==
        head + "there is no place @result0x; @f has 1 result\n");
  CHECK(found_at("0", "vector = 3") ==
        head + "plan: 'vector' must be a power of two up to 1024, not 3\n");
  CHECK(found_at("0", "grain = 0") == head + "plan: 'grain' must be positive, not 0\n");
  CHECK(found_at("0", "gain = 7") == head + "plan: unknown field 'gain'; did you mean 'grain'?\n");
}

TEST_CASE("findings are thrown as an internal error that names the pass and the line") {
  auto module = parse(kTraced, "net.mz");
  verify_or_throw(*module, "cse");
  op_at(module->function("loss"), 0)->attrs().set("role", "a");
  op_at(module->function("loss"), 1)->attrs().set("role", "b");
  CHECK_THROWS_WITH_AS(verify_or_throw(*module, "cse"),
                       "internal error after pass 'cse': net.mz:3: @loss: %p = mul: unknown role "
                       "\"a\"\n  net.mz:4: @loss: %l = sum: unknown role \"b\"",
                       InternalError);
  for (int i = 0; i < 10; ++i) module->add_function("loss");
  try {
    verify_or_throw(*module);
    FAIL("nothing was thrown");
  } catch (const InternalError& error) {
    CHECK(std::string(error.what()).starts_with("internal error: invalid module: two functions"));
    CHECK(std::string(error.what()).find("\n  and ") != std::string::npos);
  }
}
