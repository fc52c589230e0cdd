// SPDX-License-Identifier: Apache-2.0
// Element types of mixed operands, and literals that 16 bits cannot hold.
#include <mezzo/dsl/trace.h>
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <cstdint>

using namespace mezzo;

namespace {

/// A trace with one open function.
struct Open {
  detail::Trace trace{"test"};
  Open() { trace.begin_function("f"); }
  Tensor input(DType dtype) { return trace.input(ir::Type(dtype, {3}), "x"); }
};

}  // namespace

TEST_CASE("element types of two tensors meet in the wider one") {
  Open open;
  struct Row {
    DType a, b, result;
  };
  for (Row row : {Row{f16, f16, f16}, Row{f16, bf16, f32}, Row{f16, f32, f32}, Row{f32, f64, f64},
                  Row{i32, f16, f16}, Row{u8, i32, i32}, Row{i32, i64, i64}, Row{boolean, f32, f32},
                  Row{boolean, i32, i32}}) {
    CAPTURE(ir::to_string(row.a));
    CAPTURE(ir::to_string(row.b));
    CHECK((open.input(row.a) + open.input(row.b)).dtype() == row.result);
    CHECK((open.input(row.b) * open.input(row.a)).dtype() == row.result);
  }
}

TEST_CASE("a literal takes the type of its tensor") {
  Open open;
  CHECK((open.input(f16) * 2).dtype() == f16);
  CHECK((open.input(bf16) * 0.1).dtype() == bf16);
  CHECK((open.input(f64) + 1.0f).dtype() == f64);
  CHECK((open.input(i32) + 1).dtype() == i32);
  CHECK((1 - open.input(i64)).dtype() == i64);
  CHECK((open.input(i32) * 0.5).dtype() == f32);
  CHECK(open.trace.findings.empty());
}

TEST_CASE("a literal that 16 bits cannot hold moves the operation to f32, with a finding") {
  Open open;
  struct Row {
    DType dtype;
    double literal;
    const char* text;
  };
  for (Row row : {Row{f16, 1e-8, "becomes 0"}, Row{f16, 1e8, "becomes infinite"},
                  Row{f16, -1e9, "becomes infinite"}, Row{bf16, 0.999, "becomes 1"}}) {
    open.trace.findings.clear();
    int line = __LINE__ + 1;
    Tensor y = open.input(row.dtype) * row.literal;
    CHECK(y.dtype() == f32);
    REQUIRE(open.trace.findings.size() == 1);
    CHECK(open.trace.findings[0].name == "literal-leaves-type");
    CHECK(open.trace.findings[0].location.line == line);
    CHECK(open.trace.findings[0].text.find(row.text) != std::string::npos);
  }
  open.trace.findings.clear();
  CHECK((open.input(bf16) * 1e-8).dtype() == bf16);
  CHECK((open.input(bf16) * 1e8).dtype() == bf16);
  CHECK((open.input(f16) * 0.999).dtype() == f16);
  CHECK((open.input(f16) * 0.0).dtype() == f16);
  CHECK(open.trace.findings.empty());
}

TEST_CASE("keep_f32 casts 16-bit operands up and marks its operations") {
  Open open;
  Tensor x = open.input(f16);
  Tensor y = keep_f32([&] { return exp(x) * 1e8; });
  CHECK(y.dtype() == f32);
  CHECK(open.trace.findings.empty());
  for (const ir::Op& op : open.trace.function()->body())
    CHECK(op.attrs().get_string("policy") == "float32");
  Tensor z = with_policy(Policy::mixed_bfloat16(), [&] { return x + x; });
  CHECK(z.dtype() == f16);
  CHECK(open.trace.function()->body().back()->attrs().get_string("policy") == "mixed_bfloat16");
  (void)(x + x);
  CHECK_FALSE(open.trace.function()->body().back()->attrs().has("policy"));
}

TEST_CASE("every elementwise row of the op table is a function of the DSL") {
  Open open;
  Tensor x = open.input(f32), b = open.input(boolean), n = open.input(i32);
  CHECK(gelu(x).dtype() == f32);
  CHECK(isfinite(x).dtype() == boolean);
  CHECK(logical_and(b, b).dtype() == boolean);
  CHECK(bitwise_and(n, 3).dtype() == i32);
  CHECK(add_n({x, x, x}).dtype() == f32);
  CHECK(cast(x, f16).dtype() == f16);
  CHECK(open.trace.function()->body().back()->bool_attr("user"));
}

TEST_CASE("a checkpoint region numbers its operations") {
  Open open;
  Tensor x = open.input(f32);
  checkpoint([&] { return relu(x); });
  CHECK(open.trace.function()->body().back()->int_attr("checkpoint") == 1);
  checkpoint([&] { return relu(x); });
  CHECK(open.trace.function()->body().back()->int_attr("checkpoint") == 2);
}

TEST_CASE("integers beyond 2^53 keep every bit") {
  auto f = jit(
      [](Tensor x) {
        return std::pair(x + 9007199254740993, full({1}, INT64_MAX, i64) - 9223372036854775806);
      },
      {.device = Device::interpreter()});
  std::vector<Array> out = f(Array(ir::Type(i64, {1})));
  CHECK(out[0].as_integer(0) == 9007199254740993);
  CHECK(out[1].as_integer(0) == 1);
}
