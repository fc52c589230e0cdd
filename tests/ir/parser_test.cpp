// SPDX-License-Identifier: Apache-2.0
// Reading texts: round trips of whole modules, the short forms that input may use, and large texts.
#include <mezzo/ir/parser.h>

#include <mezzo/ir/attr_parser.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/printer.h>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <string>

using namespace mezzo;
using namespace mezzo::ir;

namespace {

/// Reads and prints; the text must come back.
void round_trip(const std::string& text) {
  CHECK(print(*parse(text)) == text);
  std::string located = print(*parse(text, "net.mz"), {.locations = true});
  CHECK(print(*parse(located), {.locations = true}) == located);
  CHECK(print(*parse(located)) == text);
}

/// A module of one function with this body and these parameters, whose result is tensor<4xf32>.
std::string body(const std::string& ops,
                 const std::string& parameters = "%x: tensor<4xf32>, %y: tensor<4xf32>") {
  return "module @m attributes {stage = \"traced\"} {\n  func @f(" + parameters +
         ") -> tensor<4xf32> {\n" + ops + "  }\n}\n";
}

const char* const kMlp = R"(module @mlp attributes {stage = "traced"} {
  func @loss(%x: tensor<32x784xf32>, %label: tensor<32xi32>, %w1: tensor<784x256xf32> {param = true}, %b1: tensor<256xf32> {param = true}) -> tensor<f32> {
    %0 = matmul %x, %w1 : (tensor<32x784xf32>, tensor<784x256xf32>) -> tensor<32x256xf32>
    %1 = add %0, %b1 : (tensor<32x256xf32>, tensor<256xf32>) -> tensor<32x256xf32>
    %h = relu %1 : tensor<32x256xf32>
    %l = cross_entropy %h, %label : (tensor<32x256xf32>, tensor<32xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
)";

const char* const kLoss =
    R"(  func @loss(%x: tensor<4x3xf32>, %y: tensor<4xi32>, %w: tensor<3x2xf32> {param = true}, %b: tensor<2xf32> {param = true}) -> tensor<f32> {
    %0 = matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %1 = add %0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
    %l = cross_entropy %1, %y : (tensor<4x2xf32>, tensor<4xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
)";

const char* const kTracedStep =
    R"(  func @step(%x: tensor<4x3xf32>, %y: tensor<4xi32>, %w: tensor<3x2xf32> {param = true}, %b: tensor<2xf32> {param = true}, %lr: tensor<f32> {state = true}) -> (tensor<f32>, tensor<3x2xf32> {updates = %w}, tensor<2xf32> {updates = %b}) {
    %l, %dw, %db = gradient %x, %y, %w, %b {func = @loss, wrt = [2, 3]} : (tensor<4x3xf32>, tensor<4xi32>, tensor<3x2xf32>, tensor<2xf32>) -> (tensor<f32>, tensor<3x2xf32>, tensor<2xf32>)
    %w1 = sgd %w, %dw, %lr : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
    %b1 = sgd %b, %db, %lr : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    return %l, %w1, %b1 : (tensor<f32>, tensor<3x2xf32>, tensor<2xf32>)
  }
)";

const char* const kScaledStep =
    R"(  func @step(%x: tensor<4x3xf32>, %y: tensor<4xi32>, %w: tensor<3x2xf32> {param = true}, %b: tensor<2xf32> {param = true}, %lr: tensor<f32> {state = true}, %scale: tensor<f32> {state = true}, %clean: tensor<i32> {state = true}) -> (tensor<f32>, tensor<i32>, tensor<3x2xf32> {updates = %w}, tensor<2xf32> {updates = %b}, tensor<f32> {updates = %scale}, tensor<i32> {updates = %clean}) {
    %l, %dws, %dbs = gradient %x, %y, %w, %b, %scale {func = @loss, seed = true, wrt = [2, 3]} : (tensor<4x3xf32>, tensor<4xi32>, tensor<3x2xf32>, tensor<2xf32>, tensor<f32>) -> (tensor<f32>, tensor<3x2xf32>, tensor<2xf32>)
    %inv = reciprocal %scale : tensor<f32>
    %dw = mul %dws, %inv : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
    %db = mul %dbs, %inv : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %ok = all_finite %dw, %db : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<bool>
    %w1 = sgd %w, %dw, %lr, %ok : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<f32>, tensor<bool>) -> tensor<3x2xf32>
    %b1 = sgd %b, %db, %lr, %ok : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<bool>) -> tensor<2xf32>
    %v = verdict %ok : tensor<bool> -> tensor<i32>
    %scale1, %clean1 = scale_update %scale, %clean, %v {backoff = 0.5, ceiling = 16777216.0, floor = 6.103515625e-05, growth = 2.0, interval = 2000} : (tensor<f32>, tensor<i32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
    return %l, %v, %w1, %b1, %scale1, %clean1 : (tensor<f32>, tensor<i32>, tensor<3x2xf32>, tensor<2xf32>, tensor<f32>, tensor<i32>)
  }
)";

const char* const kFused = R"(module @k attributes {rounding = "excess", stage = "planned"} {
  func @f(%x: tensor<8x16xf16>, %w: tensor<16xf16> {param = true}) -> (tensor<8x16xf16>, tensor<8xf32>) {
    %0, %s = kernel @k0 (%a = %x, %b = %w) {family = "rows", word = 3} plan {grain = 4, vector = 8} : (tensor<8x16xf16>, tensor<16xf16>) -> (tensor<8x16xf16>, tensor<8xf32>) {
      %1 = mul %a, %b : (tensor<8x16xf16>, tensor<16xf16>) -> tensor<8x16xf16>
      %2 = cast %1 : tensor<8x16xf16> -> tensor<8x16xf32>
      %s = sum %2 {axes = [1]} : tensor<8x16xf32> -> tensor<8xf32>
      yield %1, %s : (tensor<8x16xf16>, tensor<8xf32>)
    }
    %3 = kernel @k1 (%a = %0) {family = "elementwise"} : tensor<8x16xf16> {
      %y = relu %a : tensor<8x16xf16>
      yield %y : tensor<8x16xf16>
    }
    return %3, %s : (tensor<8x16xf16>, tensor<8xf32>)
  }
}
)";

std::string module_of(const std::string& functions, const std::string& stage = "traced") {
  return "module @m attributes {stage = \"" + stage + "\"} {\n" + functions + "}\n";
}

}  // namespace

TEST_CASE("printed modules read back to the same text") {
  round_trip(kMlp);
  round_trip(module_of(std::string(kLoss) + kTracedStep));
  round_trip(module_of(std::string(kLoss) + kScaledStep));
  round_trip(kFused);
  round_trip("module @empty attributes {stage = \"primitive\"} {\n}\n");
  round_trip(module_of("  func @nothing() -> () {\n    return : ()\n  }\n"));
}

TEST_CASE("functions stand in any order") {
  round_trip(module_of(std::string(kTracedStep) + kLoss));
  // A chain of functions that each differentiate the next one is read without recursion.
  std::string chain;
  constexpr int kDepth = 2000;
  for (int i = 0; i < kDepth; ++i) {
    std::string id = std::to_string(i);
    chain += "  func @f" + id + "(%x: tensor<f32>) -> tensor<f32> {\n";
    chain += i + 1 < kDepth
                 ? "    %l, %g = gradient %x {func = @f" + std::to_string(i + 1) +
                       ", wrt = [0]} : tensor<f32>\n    return %g : tensor<f32>\n  }\n"
                 : "    %l = square %x : tensor<f32>\n    return %l : tensor<f32>\n  }\n";
  }
  CHECK(print(*parse(module_of(chain))) == module_of(chain));
}

TEST_CASE("short forms are accepted and printed in full") {
  auto module = parse(R"(// a comment
module @m {  // no stage: traced
  func @f(%x: tensor<4xf32> {param}, %s: tensor <2xi64> {state , mirror_of = %x}) -> (tensor<4xf32> {updates = %x}) {
    %1 = add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
    %k = relu %1 {scope = "a\/b\u00e9\ud83d\ude00", } : (tensor<4xf32>)
    return %k : (tensor<4xf32>)
  }
})");
  CHECK(print(*module) == R"(module @m attributes {stage = "traced"} {
  func @f(%x: tensor<4xf32> {param = true}, %s: tensor<2xi64> {mirror_of = %x, state = true}) -> tensor<4xf32> {updates = %x} {
    %0 = add %x, %x : tensor<4xf32>
    %k = relu %0 {scope = "a/bé😀"} : tensor<4xf32>
    return %k : tensor<4xf32>
  }
}
)");
}

TEST_CASE("a brace after result types opens attributes or the body") {
  for (const char* attrs : {"{updates = %x}", "{updates = %x, fresh}", "{fresh, updates = %x}"}) {
    auto module =
        parse(std::string("module @m { func @f(%x: tensor<f32> {state}) -> tensor<f32> ") + attrs +
              " { return %x : tensor<f32> } }");
    CHECK(module->function("f")->updated_parameter(0) == module->function("f")->parameter(0));
  }
  auto module = parse(
      "module @m { func @f(%x: tensor<f32> {state}) -> tensor<f32> attributes {inline} { return %x "
      ": "
      "tensor<f32> } }");
  CHECK(module->function("f")->attrs().get_bool("inline"));
  CHECK(module->function("f")->result_attrs(0).empty());
}

TEST_CASE("constants keep the bits of their type") {
  round_trip(
      body("    %c = constant {value = 0.1} : tensor<4xf32>\n"
           "    %d = constant {value = 3.4028235e+38} : tensor<4xf32>\n"
           "    %e = constant {value = 1e-45} : tensor<f32>\n"
           "    %h = constant {value = 0.1} : tensor<4xf16>\n"
           "    %i = constant {value = 6e-08} : tensor<4xf16>\n"
           "    %j = constant {value = -0.0} : tensor<4xbf16>\n"
           "    %k = constant {value = 0x7E00} : tensor<4xf16>\n"
           "    %m = constant {value = 0xFF800000} : tensor<f32>\n"
           "    %n = constant {value = 0x7FF0000000000001} : tensor<f64>\n"
           "    %o = constant {value = 5e-324} : tensor<f64>\n"
           "    %p = constant {value = [1.0, 0x7F80, 2.5]} : tensor<3xbf16>\n"
           "    %q = constant {value = -9223372036854775808} : tensor<i64>\n"
           "    %r = constant {value = [true, false]} : tensor<2xbool>\n"
           "    %s = constant {value = 255} : tensor<u8>\n"
           "    return %c : tensor<4xf32>\n"));
  // Finite bits are the number that they stand for; numbers are rounded once to the type.
  auto module =
      parse(body("%c = constant {value = 0x3F800000} : tensor<4xf32>\n"
                 "%d = constant {value = 70000.0} : tensor<4xf16>\n"
                 "return %c : tensor<4xf32>"));
  const Op& first = *module->function("f")->body().front();
  CHECK(first.attrs().find("value")->as<double>() == 1.0);
  CHECK(first.next()->attrs().find("value")->as<Bits>().bits == 0x7C00);
}

TEST_CASE("every f16 and bf16 value prints to a decimal that reads back to it") {
  for (DType dtype : {DType::F16, DType::BF16}) {
    std::string ops;
    for (uint32_t bits = 0; bits < 0x10000; bits += 37) {
      float value = dtype == DType::F16 ? f16_to_f32(static_cast<uint16_t>(bits))
                                        : bf16_to_f32(static_cast<uint16_t>(bits));
      if (!std::isfinite(value)) continue;
      char hex[8];
      std::snprintf(hex, sizeof hex, "%04X", bits);
      ops += std::string("%") + std::to_string(bits) + " = constant {value = 0x" + hex +
             "} : tensor<" + to_string(dtype) + ">\n";
    }
    auto module = parse(body(ops + "return %x : tensor<4xf32>"));
    auto again = parse(print(*module));
    const Op* b = again->function("f")->body().front();
    int compared = 0;
    for (const Op& a : module->function("f")->body()) {
      if (a.kind() == OpKind::Constant) ++compared;
      CHECK((a.kind() != OpKind::Constant || a.attrs() == b->attrs()));
      b = b->next();
    }
    CHECK(compared > 1500);
  }
}

TEST_CASE("float attributes are f64, infinities and NaN as bits") {
  round_trip(
      body("    %c = cross_entropy %m, %n {ignore_index = -1, label_smoothing = 0.1, reduce = "
           "\"none\"} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<4xf32>\n"
           "    return %c : tensor<4xf32>\n",
           "%m: tensor<4x3xf32>, %n: tensor<4xi32>"));
  Attrs attrs = parse_attrs_text("{a = 0x7FF0000000000000, b = [1, -2.5e-3, \"x\", f16, @s], c}");
  CHECK(print(attrs) == "{a = 0x7FF0000000000000, b = [1, -0.0025, \"x\", f16, @s], c = true}");
  CHECK(print(parse_attrs_text("{}")) == "");
}

TEST_CASE("strings come back from their escapes") {
  Attrs attrs;
  attrs.set("s", std::string("tab\t quote\" back\\ line\n bell\a nul") + '\0' + "é€");
  CHECK(print(attrs) == "{s = \"tab\\t quote\\\" back\\\\ line\\n bell\\u0007 nul\\u0000é€\"}");
  CHECK(parse_attrs_text(print(attrs)) == attrs);
}

TEST_CASE("ops know where they were written") {
  auto module =
      parse(body("%a = add %x, %y : tensor<4xf32>\n\nreturn %a : tensor<4xf32>"), "net.mz");
  const Op& add = *module->function("f")->body().front();
  CHECK(to_string(add.location()) == "net.mz:3");
  CHECK(to_string(add.next()->location()) == "net.mz:5");
  CHECK(std::string(add.origin().name) == "add");
  auto located =
      parse(body("%a = mul %x, %y : tensor<4xf32> loc(\"net.cpp\":12 from relu)\n"
                 "return %a : tensor<4xf32>"));
  const Op& mul = *located->function("f")->body().front();
  CHECK(to_string(mul.location()) == "net.cpp:12");
  CHECK(std::string(mul.origin().name) == "relu");
  CHECK(mul.origin().location == mul.location());
  CHECK(!mul.next()->location().known());
}

TEST_CASE("gradients of forward values are kept as references") {
  round_trip(
      body("    %a = relu %x : tensor<4xf32>\n"
           "    %0 = mul0 %y, %a {grad_of = %a, role = \"backward\"} : tensor<4xf32>\n"
           "    return %0 : tensor<4xf32>\n"));
}

TEST_CASE("the accumulator of a product is printed where it differs from the operands") {
  auto module = parse(
      "module @m { func @f(%a: tensor<2x2xf16>) -> tensor<2x2xf32> {\n"
      "  %p = matmul %a, %a : tensor<2x2xf16>\n"
      "  %q = matmul %p, %a {acc = f32} : (tensor<2x2xf16>, tensor<2x2xf16>) -> tensor<2x2xf32>\n"
      "  %r = matmul %q, %q {acc = f32} : tensor<2x2xf32>\n"
      "  return %r : tensor<2x2xf32> } }");
  std::string text = print(*module);
  CHECK(text.find("%p = matmul %a, %a {acc = f32} : tensor<2x2xf16>") != std::string::npos);
  CHECK(text.find("%r = matmul %q, %q : tensor<2x2xf32>") != std::string::npos);
  CHECK(!module->function("f")->body().front()->attrs().has("acc"));
  CHECK(print(*parse(text)) == text);
}

TEST_CASE("resources are asked for once and shared with copies") {
  std::string text = body(
      "    %c = constant {value = resource(\"c0\")} : tensor<4xf32>\n"
      "    return %c : tensor<4xf32>\n");
  round_trip(text);
  int asked = 0;
  ParseOptions options;
  options.resource = [&](std::string_view name, const Type& type) {
    ++asked;
    CHECK(name == "c0");
    return std::make_shared<const ResourceData>(ResourceData{type, std::vector<std::byte>(16)});
  };
  auto module = parse(text, "<text>", options);
  CHECK(asked == 1);
  CHECK(module->clone()->resource("c0") == module->resource("c0"));
  CHECK(module->resource("c1") == nullptr);
}

TEST_CASE("a chain of 100,000 ops is read and printed") {
  std::string ops;
  constexpr int kLength = 100000;
  ops += "    %0 = add %x, %y : tensor<4xf32>\n";
  for (int i = 1; i < kLength; ++i)
    ops +=
        "    %" + std::to_string(i) + " = add %" + std::to_string(i - 1) + ", %y : tensor<4xf32>\n";
  std::string text =
      body(ops + "    return %" + std::to_string(kLength - 1) + " : tensor<4xf32>\n");
  auto module = parse(text);
  CHECK(module->op_count() == kLength + 1);
  CHECK(print(*module) == text);
}
