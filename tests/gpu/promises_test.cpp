// SPDX-License-Identifier: Apache-2.0
// What counts as the same result of an instruction, and which of the driver's messages mean that it
// is of another architecture: the conformance program must be able to fail.
#include <gpu/promises.h>

#include <doctest/doctest.h>

#include <gpu/micro_device.h>
#include <vector>

namespace mezzo::gpu {
namespace {

using ptx::test::bits;

double error_of(const char* text, uint64_t got, uint64_t wanted,
                std::vector<uint64_t> operands = {}) {
  return distance(got, wanted, promise_of(opcode_of(text), operands)).error;
}

TEST_CASE("an instruction's name is what stands before its operands, guarded or not") {
  CHECK(opcode_of("add.rn.f32 %d, %a, %b;") == "add.rn.f32");
  CHECK(opcode_of("@%guard shfl.sync.up.b32 %d|%q, %a, 3, 0, %m;") == "shfl.sync.up.b32");
  CHECK(opcode_of("cp.async") == "cp.async");
  CHECK(opcode_of("{ .reg .b32 %x; mov.b32 %x, 1; }") == "{ .reg .b32 %x; mov.b32 %x, 1; }");
}

TEST_CASE("exact results are equal bits, NaN of any bits") {
  CHECK(error_of("add.rn.f32", bits(1.0f), bits(1.0f)) == 0);
  CHECK(error_of("add.rn.f32", bits(1.0f) + 1, bits(1.0f)) > 1);
  CHECK(error_of("add.rn.f32", 0x80000000, 0) > 1);
  CHECK(error_of("add.rn.f32", 0x7FC00000, 0x7FFFFFFF) == 0);
  CHECK(error_of("add.rn.f32", 0x7F800000, 0x7FFFFFFF) > 1);
  // The same bits as an integer are a number.
  CHECK(error_of("add.u32", 0x7FC00000, 0x7FFFFFFF) > 1);
  CHECK(error_of("cvt.rni.s32.f32", 0x7FC00000, 0x7FFFFFFF) > 1);
  CHECK(error_of("cvt.rn.f16.f32", 0x7E00, 0x7FFF) == 0);
  CHECK(error_of("setp.lt.f32", 1, 0) > 1);
  // Pairs part by part.
  CHECK(error_of("fma.rn.f16x2", 0x7E003C00, 0x7FFF3C00) == 0);
  CHECK(error_of("fma.rn.f16x2", 0x7E003C00, 0x7FFF3C01) > 1);
  CHECK(error_of("fma.rn.f16x2", 0x3C017E00, 0x3C007FFF) > 1);
  CHECK(error_of("{ add.u32 %d, %a, %b; }", 0x7FC00000, 0x7FFFFFFF) > 1);
}

TEST_CASE("approximations are as near as the manual says and a unit") {
  const uint64_t one = bits(1.0f);
  CHECK(error_of("rcp.approx.f32", one + 2, one) <= 1);
  CHECK(error_of("rcp.approx.f32", one + 3, one) > 1);
  CHECK(error_of("ex2.approx.ftz.f32", one + 3, one) <= 1);
  CHECK(error_of("ex2.approx.ftz.f32", one + 4, one) > 1);
  // Close to its root a sine has an absolute bound, which grows with the angle.
  CHECK(error_of("sin.approx.f32", bits(0x1p-21f), bits(0x1p-30f), {bits(3.1415927f)}) <= 1);
  CHECK(error_of("sin.approx.f32", bits(0x1p-16f), bits(0x1p-30f), {bits(3.1415927f)}) > 1);
  CHECK(error_of("sin.approx.f32", bits(0x1p-16f), bits(0x1p-30f), {bits(314.0f)}) <= 1);
  CHECK(error_of("tanh.approx.f16", 0x3801, 0x3800) <= 1);
  CHECK(error_of("tanh.approx.f16", 0x3820, 0x3800) > 1);
  // The largest number and infinity are neighbours; a NaN is near nothing.
  CHECK(error_of("ex2.approx.f32", 0x7F7FFFFF, 0x7F800000) <= 1);
  CHECK(error_of("ex2.approx.f32", 0x7F000000, 0x7F800000) > 1);
  CHECK(error_of("ex2.approx.f32", 0x7FFFFFFF, one) > 1);
}

TEST_CASE("a sum without an order has its own slack") {
  const Promise promise = promise_of("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", {});
  CHECK(promise.exact());
  CHECK(distance(bits(1.5f), bits(1.0f), promise, 0.5).error <= 1);
  CHECK(distance(bits(1.5f), bits(1.0f), promise, 0.25).error > 1);
  CHECK(distance(bits(1.5f), bits(1.0f), promise, 0).error > 1);
}

TEST_CASE("some results are nobody's business") {
  CHECK(leaves_open("div.u32", std::vector<uint64_t>{7, 0}));
  CHECK_FALSE(leaves_open("div.u32", std::vector<uint64_t>{7, 1}));
  CHECK_FALSE(leaves_open("div.rn.f32", std::vector<uint64_t>{7, 0}));
  CHECK(leaves_open("cos.approx.f32", std::vector<uint64_t>{bits(1e6f)}));
  CHECK_FALSE(leaves_open("cos.approx.f32", std::vector<uint64_t>{bits(INFINITY)}));
  CHECK(leaves_open("div.approx.f32", std::vector<uint64_t>{bits(1.0f), bits(0x1p127f)}));
  CHECK_FALSE(leaves_open("div.full.f32", std::vector<uint64_t>{bits(1.0f), bits(0x1p127f)}));
}

TEST_CASE("PTX is written for the device and the driver") {
  CHECK(ptx_header(12000, 75) == ".version 8.0\n.target sm_75\n");
  CHECK(ptx_header(12040, 89) == ".version 8.4\n.target sm_89\n");
  CHECK(ptx_header(12050, 90) == ".version 8.5\n.target sm_90a\n");
  CHECK(ptx_header(12060, 90) == ".version 8.5\n.target sm_90a\n");
  CHECK(ptx_header(12080, 100) == ".version 8.7\n.target sm_100a\n");
  CHECK(ptx_header(13000, 120) == ".version 8.8\n.target sm_120a\n");
}

TEST_CASE("an architecture that lacks an instruction is told from a text that is wrong") {
  CHECK(
      means_not_here("ptxas application ptx input, line 31; error   : Feature 'f32x2' requires "
                     ".target sm_100 or higher"));
  CHECK(means_not_here("error : Feature '.b128' requires PTX ISA .version 8.3 or later"));
  CHECK(means_not_here("error : Instruction 'redux.f32' not supported on .target 'sm_120a'"));
  CHECK_FALSE(means_not_here("error : Illegal modifier '.sat' for instruction 'cvt'"));
  CHECK_FALSE(means_not_here("error : Arguments mismatch for instruction 'cvt'"));
}

}  // namespace
}  // namespace mezzo::gpu
