// SPDX-License-Identifier: Apache-2.0
// Targets by name: what each level adds, what a key's text tells apart, and the error for an
// unknown name.
#include <mezzo/ir/target.h>

#include <mezzo/ir/error.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace mezzo::ir;

TEST_CASE("each level of x86-64 adds to the one before") {
  const Target v2 = target_by_name("x86-64-v2");
  const Target v3 = target_by_name("x86-64-v3");
  const Target v4 = target_by_name("x86-64-v4");
  CHECK(v2.vector_bytes == 16);
  CHECK_FALSE(v2.fma);
  CHECK(v3.lanes(4) == 8);
  CHECK(v3.has("f16c"));
  CHECK_FALSE(v3.has("avx512f"));
  CHECK(v4.lanes(2) == 32);
  CHECK(v4.vector_registers == 32);
  CHECK_FALSE(v4.avx512bf16);
  for (const Target& target : {v2, v3, v4})
    CHECK(std::is_sorted(target.features.begin(), target.features.end()));
  for (const std::string& feature : v2.features) CHECK(v3.has(feature));
  for (const std::string& feature : v3.features) CHECK(v4.has(feature));
}

TEST_CASE("architectures of NVIDIA carry their limits") {
  const Target hopper = target_by_name("sm_90");
  CHECK(hopper.kind == Target::Kind::Cuda);
  CHECK(hopper.compute_capability == 90);
  CHECK(hopper.shared_bytes == 227 * 1024);
  CHECK(target_by_name("sm_75").shared_bytes == 64 * 1024);
  CHECK(target_by_name("sm_121").compute_capability == 121);
}

TEST_CASE("the text of a target differs when a fact differs") {
  Target target = target_by_name("x86-64-v3");
  const std::string text = to_string(target);
  CHECK(text == to_string(target_by_name("x86-64-v3")));
  target.l2_bytes *= 2;
  CHECK(to_string(target) != text);
  CHECK(to_string(target_by_name("sm_90")) == "sm_90 compute=90 shared=232448 multiprocessors=132");
}

TEST_CASE("an unknown target is an error that lists the known ones") {
  CHECK_THROWS_WITH_AS(
      target_by_name("x86-64-v5"),
      "error: unknown target 'x86-64-v5'; did you mean 'x86-64-v2'?\nnote: known targets: "
      "native, x86-64-v2, x86-64-v3, x86-64-v4, sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, "
      "sm_103, "
      "sm_110, sm_120, sm_121",
      mezzo::UserError);
  CHECK_THROWS_AS(target_by_name(""), mezzo::UserError);
  CHECK_THROWS_WITH_AS(
      target_by_name("native"),
      "error: target 'native' is not resolved: these are facts that only the back end can ask the "
      "machine for\nnote: name a target, or let compile() or `mezzo` resolve it",
      mezzo::UserError);
}
