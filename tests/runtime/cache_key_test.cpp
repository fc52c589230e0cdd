// SPDX-License-Identifier: Apache-2.0
// What must change the key of a kernel and what must not.
#include <mezzo/runtime/cache_key.h>

#include <mezzo/ir/parser.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace mezzo::test {
namespace {

using runtime::KeyContext;

struct Kernel {
  const char* shape = "8x16";
  const char* type = "f32";
  const char* name = "k0";
  const char* inner = "a";
  const char* constant = "1.5";
  const char* constant_loc = "";
  const char* op = "exp";
  const char* first = "{word = 3}";
  const char* second = "{word = 4}";
  const char* random = "{stream = 2}";
  const char* plan = "{grain = 128, tasks = 1, vector = 8}";
  const char* places = "[0]";
  const char* loc = "";
};

std::unique_ptr<ir::Module> module_of(const Kernel& kernel) {
  std::string type = fmt::format("tensor<{}x{}>", kernel.shape, kernel.type);
  std::string scalar = fmt::format("tensor<{}>", kernel.type);
  return ir::parse(fmt::format(
      R"(module @m attributes {{rounding = "as-written", stage = "planned"}} {{
  func @f(%x: {0}, %rng: tensor<2xi64>) -> {0} attributes {{arena = 4096}} {{
    %y = kernel @{1} (%{2} = %x, %rng = %rng) {{family = "elementwise", places = {3}}} plan {4} : ({0}, tensor<2xi64>) -> {0} {{
      %c = constant {{value = {5}}} : {6}{12}
      %1 = {7} %{2} {8} : {0}{9}
      %2 = mul %1, %c {10} : ({0}, {6}) -> {0}
      %3 = random_uniform %rng {11} : tensor<2xi64> -> {0}
      %4 = add %2, %3 : {0}
      yield %4 : {0}
    }}
    return %y : {0}
  }}
}}
)",
      type, kernel.name, kernel.inner, kernel.places, kernel.plan, kernel.constant, scalar,
      kernel.op, kernel.first, kernel.loc, kernel.second, kernel.random, kernel.constant_loc));
}

KeyContext context() {
  return {"as-written", ir::target_by_name("x86-64-v3"), "generator", "19.1.7", false};
}

std::string key(const Kernel& kernel, const KeyContext& context = test::context()) {
  std::unique_ptr<ir::Module> module = module_of(kernel);
  for (const ir::Op& op : module->functions()[0]->body())
    if (op.kind() == ir::OpKind::Kernel) return runtime::kernel_key(op, context);
  return "";
}

TEST_CASE("a key is 32 hexadecimal digits and the same for the same kernel") {
  CHECK(key({}).size() == 32);
  CHECK(key({}).find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(key({}) == key({}));
}

TEST_CASE("names, places, locations and the numbers of words and streams are not in the key") {
  CHECK(key({.name = "other"}) == key({}));
  CHECK(key({.inner = "input"}) == key({}));
  CHECK(key({.places = "[1024]"}) == key({}));
  CHECK(key({.places = "[@result0]"}) == key({}));
  CHECK(key({.loc = " loc(\"net.cpp\":12 from exp)"}) == key({}));
  CHECK(key({.first = "{word = 70}", .second = "{word = 9}"}) == key({}));
  CHECK(key({.random = "{stream = 5}"}) == key({}));
}

TEST_CASE("the number of a constant is not in the key, nor is where it comes from") {
  CHECK(key({.constant = "1.25"}) == key({}));
  CHECK(key({.constant_loc = " loc(\"net.cpp\":12)"}) == key({}));
  CHECK(key({.constant_loc = " loc(\"net.cpp\":12 from adam)"}) == key({}));
}

TEST_CASE("layer, role and what else no code depends on is not in the key") {
  CHECK(key({.first = "{role = \"backward\", scope = \"hidden1\", word = 3}"}) == key({}));
  CHECK(key({.first = "{policy = \"float32\", replica = 1, word = 3}"}) == key({}));
}

TEST_CASE("which operations have a word, and which share one, is in the key") {
  CHECK(key({.first = ""}) != key({}));
  CHECK(key({.second = ""}) != key({}));
  CHECK(key({.first = ""}) != key({.second = ""}));
  CHECK(key({.second = "{word = 3}"}) != key({}));
}

TEST_CASE("shape, element type, operation and plan are in the key") {
  CHECK(key({.shape = "8x17"}) != key({}));
  CHECK(key({.shape = "16x8"}) != key({}));
  CHECK(key({.type = "f64"}) != key({}));
  CHECK(key({.op = "expm1"}) != key({}));
  CHECK(key({.plan = "{grain = 64, tasks = 2, vector = 8}"}) != key({}));
}

TEST_CASE("rounding, target, generator, LLVM and sanitizer are in the key") {
  auto changed = [](auto change) {
    KeyContext other = context();
    change(other);
    return key({}, other);
  };
  CHECK(changed([](KeyContext&) {}) == key({}));
  CHECK(changed([](KeyContext& c) { c.rounding = "excess"; }) != key({}));
  CHECK(changed([](KeyContext& c) { c.target = ir::target_by_name("x86-64-v4"); }) != key({}));
  CHECK(changed([](KeyContext& c) { c.target.l2_bytes *= 2; }) != key({}));
  CHECK(changed([](KeyContext& c) { c.generator = "other"; }) != key({}));
  CHECK(changed([](KeyContext& c) { c.compiler = "19.1.8"; }) != key({}));
  CHECK(changed([](KeyContext& c) { c.sanitized = true; }) != key({}));
}

TEST_CASE("the facts of this library fill a context") {
  KeyContext here = KeyContext::here("excess", ir::target_by_name("x86-64-v3"));
  CHECK(here.generator.size() == 64);
  CHECK(here.compiler.starts_with("llvm 19.1"));
}

}  // namespace
}  // namespace mezzo::test
