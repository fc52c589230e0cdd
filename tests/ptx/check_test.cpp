// SPDX-License-Identifier: Apache-2.0
// Each check of the interpreter with a fault that it must find and name, and the same program put
// right, of which it must say nothing.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ptx/faults.h>

namespace mezzo::ptx::test {
namespace {

TEST_CASE(
    "global accesses outside of allocations name thread, address and the nearest allocation") {
  FaultRun run;
  run.block = {64, 1, 1};
  run.grid = {3, 1, 1};
  const std::string address =
      "mov.u32 %r0, %ctaid.x;\nmad.lo.u32 %r0, %r0, 64, %t;\n"
      "mad.wide.u32 %rd0, %r0, 4, %buf;\n";
  // 4096 words: thread 32 of block 2 is word 160; 160 + 3936 is the first one outside.
  run.expect(address + "ld.global.u32 %r1, [%rd0+15744]; // HERE\n", FaultKind::OutOfBounds,
             {"out of bounds", "block (2,0,0), thread (32,0,0)", "read of 4 bytes at 0x",
              "0 bytes behind the end of the allocation of 16384 bytes"});
  run.expect(address + "st.global.u32 [%rd0+15748], %t; // HERE\n", FaultKind::OutOfBounds,
             {"block (2,0,0), thread (31,0,0)", "write of 4 bytes"});
  run.expect_none(address + "st.global.u32 [%rd0+15616], %t;\n");
  run.expect(address + "red.global.add.u32 [%rd0+-4], 1; // HERE\n", FaultKind::OutOfBounds,
             {"block (0,0,0), thread (0,0,0)", "atomic access of 4 bytes"});
  // A vector whose last part is outside: misaligned or not, it is one access.
  run.block = {1, 1, 1};
  run.grid = {1, 1, 1};
  run.expect("ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%buf+16384]; // HERE\n", FaultKind::OutOfBounds,
             {"read of 16 bytes"});
  run.expect("mov.u64 %rd0, 64;\nld.u32 %r0, [%rd0]; // HERE\n", FaultKind::OutOfBounds, {"0x40"});
}

TEST_CASE("memory that was freed, or belongs to nobody between two allocations, is outside") {
  DeviceMemory memory(1 << 20);
  const Module module(
      program(".reg .b64 %a;\n.reg .b32 %r;\nld.param.u64 %a, [p0];\nld.global.u32 %r, [%a];\n", 1),
      memory);
  const Address a = memory.allocate(64).value(), b = memory.allocate(64).value();
  const auto run = [&](Address address) {
    module.kernel("k").launch(memory, {1}, {1}, 0, parameter_bytes({address}));
  };
  CHECK_NOTHROW(run(a));
  CHECK_THROWS_AS(run(a + 64), Fault);
  CHECK_NOTHROW(run(b));
  memory.free(a);
  CHECK_THROWS_AS(run(a), Fault);
}

TEST_CASE("misaligned accesses in every space") {
  FaultRun run;
  const std::string address = "mad.wide.u32 %rd0, %t, 8, %buf;\n";
  run.expect(address + "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd0]; // HERE\n",
             FaultKind::Misaligned,
             {"misaligned", "thread (1,0,0)", "access of 16 bytes to global address"});
  run.expect(address + "st.global.u64 [%rd0+4], %rd0; // HERE\n", FaultKind::Misaligned,
             {"thread (0,0,0)"});
  run.expect_none(address + "ld.global.v2.u32 {%r0,%r1}, [%rd0];\n");
  run.expect(
      ".shared .align 16 .b8 s[64];\nmov.u32 %r0, s;\nst.shared.u64 [%r0+4], %rd0; // HERE\n",
      FaultKind::Misaligned, {"shared address 0x4"});
  run.expect(".local .align 8 .b8 s[64];\nst.local.u32 [s+2], %t; // HERE\n", FaultKind::Misaligned,
             {"local address 0x2"});
  run.expect("ld.param.u32 %r0, [p0+2]; // HERE\n", FaultKind::Misaligned, {"parameter offset 2"});
}

TEST_CASE("shared, local and parameter accesses outside of what there is") {
  FaultRun run;
  run.expect(
      ".shared .align 16 .b8 s[64];\nmov.u32 %r0, s;\nmad.lo.u32 %r0, %t, 4, %r0;\nst.shared.u32 "
      "[%r0], %t; // HERE\n",
      FaultKind::OutOfBounds, {"thread (16,0,0)", "shared address 0x40, the block has 64 bytes"});
  run.expect(".local .align 8 .b8 s[16];\nst.local.u32 [s+16], %t; // HERE\n",
             FaultKind::OutOfBounds, {"local address 0x10"});
  run.expect("ld.param.u64 %rd0, [p0+8]; // HERE\n", FaultKind::OutOfBounds,
             {"parameter offset 8, the kernel has 8 bytes"});
  run.dynamic_shared = 32;
  run.block = {1, 1, 1};
  run.declarations = ".extern .shared .align 4 .b8 heap[];\n";
  run.expect("st.shared.u32 [heap+28], 1;\nst.shared.u32 [heap+32], 1; // HERE\n",
             FaultKind::OutOfBounds, {"shared address 0x20, the block has 32 bytes"});
}

TEST_CASE("races in shared memory: a missing barrier between warps") {
  FaultRun run;
  run.block = {64, 1, 1};
  const std::string store =
      ".shared .align 4 .b8 s[256];\nmov.u32 %r0, s;\nmad.lo.u32 %r1, %t, 4, %r0;\nxor.b32 %r2, "
      "%t, 32;\n"
      "mad.lo.u32 %r2, %r2, 4, %r0;\nst.shared.u32 [%r1], %t;\n";
  run.expect(store + "ld.shared.u32 %r3, [%r2]; // HERE\n", FaultKind::Uninitialized,
             {"reads shared memory that nobody has written"});  // the other warp has not come yet
  run.options.order = BlockOrder::Reversed;
  run.expect(store + "ld.shared.u32 %r3, [%r2]; // HERE\n", FaultKind::Uninitialized,
             {"thread (32,0,0)"});
  run.options = {};
  run.expect_none(store + "bar.sync 0;\nld.shared.u32 %r3, [%r2];\n");
  // The warp that runs first is a round ahead: what the other one sees is its new values.
  run.expect(store + "bar.sync 0;\nld.shared.u32 %r3, [%r2]; // HERE\nst.shared.u32 [%r1], %r3;\n",
             FaultKind::SharedRace,
             {"reads what thread 0 wrote without a barrier between", "thread (32,0,0)",
              "shared address 0x0"});
  run.expect_none(
      store + "bar.sync 0;\nld.shared.u32 %r3, [%r2];\nbar.sync 0;\nst.shared.u32 [%r1], %r3;\n");
  // The other one overwrites what the first one read.
  run.expect(store + "bar.sync 0;\nst.shared.u32 [%r1], 5; // HERE\nld.shared.u32 %r3, [%r2];\n",
             FaultKind::SharedRace,
             {"overwrites what thread 0 read without a barrier between", "thread (32,0,0)",
              "shared address 0x80"});
  // Two warps write one word.
  run.expect(store + "bar.sync 0;\nst.shared.u32 [s+8], %t; // HERE\n", FaultKind::SharedRace,
             {"overwrites what thread 0 wrote"});
}

TEST_CASE("races inside a warp: only bar.warp.sync and barriers order its lanes") {
  FaultRun run;
  const std::string store =
      ".shared .align 4 .b8 s[128];\nmov.u32 %r0, s;\nmad.lo.u32 %r1, %t, 4, %r0;\nxor.b32 %r2, "
      "%t, 1;\n"
      "mad.lo.u32 %r2, %r2, 4, %r0;\nst.shared.u32 [%r1], %t;\n";
  run.expect(store + "ld.shared.u32 %r3, [%r2]; // HERE\n", FaultKind::SharedRace,
             {"reads what thread 1 wrote", "thread (0,0,0)"});
  run.expect(store + "shfl.sync.bfly.b32 %r4, %t, 1, 31, -1;\nld.shared.u32 %r3, [%r2]; // HERE\n",
             FaultKind::SharedRace, {"reads what thread 1 wrote"});
  run.expect_none(store + "bar.warp.sync -1;\nld.shared.u32 %r3, [%r2];\n");
  run.expect_none(store + "bar.sync 0;\nld.shared.u32 %r3, [%r2];\n");
  run.expect(
      store + "bar.warp.sync -1;\nld.shared.u32 %r3, [%r2];\nst.shared.u32 [%r1], 1; // HERE\n",
      FaultKind::SharedRace, {"overwrites what thread 1 read"});
  // Rows for ldmatrix come from other lanes than those that get the elements.
  const std::string rows =
      ".shared .align 16 .b8 m[512];\nmov.u32 %r0, m;\nmad.lo.u32 %r1, %t, 16, %r0;\n"
      "st.shared.v4.u32 [%r1], {%t,%t,%t,%t};\n";
  run.expect(rows + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r1]; // HERE\n",
             FaultKind::SharedRace, {"reads what thread 0 wrote"});
  run.expect_none(rows +
                  "bar.warp.sync -1;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r1];\n");
}

TEST_CASE("races of single bytes, and of wide accesses that overlap narrow ones") {
  FaultRun run;
  const std::string bytes =
      ".shared .align 8 .b8 s[64];\nmov.u32 %r0, s;\nadd.u32 %r1, %r0, %t;\nst.shared.u8 [%r1], "
      "%t;\n";
  run.expect_none(bytes);  // neighbours in one word
  run.expect(
      bytes + "ld.shared.u64 %rd0, [s+8]; // HERE\n", FaultKind::SharedRace,
      {"access of 8 bytes to shared memory reads what thread 8 wrote", "shared address 0x8"});
  run.expect(bytes +
                 "bar.warp.sync -1;\nsetp.eq.u32 %p0, %t, 3;\n@%p0 st.shared.u8 [s+20], "
                 "1;\nld.shared.u64 %rd0, [s+16]; // HERE\n",
             FaultKind::SharedRace, {"reads what thread 3 wrote", "shared address 0x14"});
}

TEST_CASE("atomics do not race with each other, but with plain accesses") {
  FaultRun run;
  run.block = {64, 1, 1};
  const std::string start =
      ".shared .align 4 .b32 n;\nsetp.eq.u32 %p0, %t, 0;\n@%p0 st.shared.u32 [n], 0;\nbar.sync 0;\n"
      "atom.shared.add.u32 %r0, [n], 1;\n";
  run.expect_none(start + "bar.sync 0;\nld.shared.u32 %r1, [n];\n");
  run.expect(start + "ld.shared.u32 %r1, [n]; // HERE\n", FaultKind::SharedRace,
             {"reads what thread 31 wrote"});
  run.expect_none(start + "ld.volatile.shared.u32 %r1, [n];\n");
}

TEST_CASE("shared memory that nobody has written is not read") {
  FaultRun run;
  run.block = {16, 2, 1};
  run.expect(
      ".shared .align 4 .b8 s[128];\nsetp.lt.u32 %p0, %t, 8;\nmov.u32 %r0, s;\nmad.lo.u32 %r0, %t, "
      "4, %r0;\n"
      "mov.u32 %r1, %tid.y;\nmad.lo.u32 %r0, %r1, 64, %r0;\n@%p0 st.shared.u32 [%r0], 1;\nbar.sync "
      "0;\nld.shared.u32 %r2, [%r0]; // HERE\n",
      FaultKind::Uninitialized,
      {"reads shared memory that nobody has written", "thread (8,0,0)", "shared address 0x20"});
}

TEST_CASE("two blocks write other bytes to one address") {
  FaultRun run;
  run.grid = {4, 1, 1};
  run.block = {1, 1, 1};
  const std::string block = "mov.u32 %r0, %ctaid.x;\n";
  run.expect(block + "st.global.u32 [%buf+8], %r0; // HERE\n", FaultKind::GlobalRace,
             {"writes other bytes to 0x", "than block 0 of this launch", "block (1,0,0)"});
  run.expect(block + "st.global.v4.u32 [%buf+16], {1, 2, 3, %r0}; // HERE\n", FaultKind::GlobalRace,
             {"block (1,0,0)"});
  run.expect_none(block + "st.global.u32 [%buf+8], 5;\n");         // the same bytes
  run.expect_none(block + "red.global.add.u32 [%buf+8], %r0;\n");  // atomic
  run.expect_none(block + "mad.wide.u32 %rd0, %r0, 4, %buf;\nst.global.u32 [%rd0], %r0;\n");
  // A ticket, as kernels have it whose last block does something.
  run.expect_none(block +
                  "atom.acq_rel.gpu.global.add.u32 %r1, [%buf], "
                  "1;\nfence.acq_rel.gpu;\nst.global.u32 [%buf+8], %r0;\n");
}

TEST_CASE("a launch that does not fit is refused with what there is") {
  FaultRun run;
  run.block = {1025, 1, 1};
  run.expect("", FaultKind::LaunchLimits, {"block of 1025x1x1 threads"});
  run.block = {64, 4, 8};
  run.expect("", FaultKind::LaunchLimits, {"block of 64x4x8 threads"});
  run.block = {32, 1, 1};
  run.grid = {1, 70000, 1};
  run.expect("", FaultKind::LaunchLimits, {"grid of 1x70000x1 blocks"});
  run.grid = {0, 1, 1};
  run.expect("", FaultKind::LaunchLimits, {"grid of 0x1x1 blocks"});
  run.grid = {1, 1, 1};
  run.dynamic_shared = 200 << 10;
  run.expect("", FaultKind::LaunchLimits, {"204800 bytes of shared memory, sm_120 has 101376"});
  DeviceMemory memory(1 << 20);
  const Module module(
      ".version 8.0\n.target sm_80\n.address_size 64\n.entry a() .maxntid 128, 1, 1 { ret; "
      "}\n.entry b() .reqntid 32, 2 { ret; }\n"
      ".entry c(.param .u32 x, .param .u64 y) { ret; }",
      memory);
  CHECK_NOTHROW(module.kernel("a").launch(memory, {1}, {128}, 0, {}));
  CHECK_THROWS_WITH(
      module.kernel("a").launch(memory, {1}, {129}, 0, {}),
      "launch limits: kernel 'a': block of 129 threads, the kernel was compiled for 128");
  CHECK_NOTHROW(module.kernel("b").launch(memory, {1}, {32, 2}, 0, {}));
  CHECK_THROWS_WITH(
      module.kernel("b").launch(memory, {1}, {64}, 0, {}),
      "launch limits: kernel 'b': block of 64x1x1 threads, the kernel requires 32x2x1");
  CHECK(module.kernel("c").parameter_bytes() == 16);
  CHECK_THROWS_WITH(module.kernel("c").launch(memory, {1}, {1}, 0, std::vector<std::byte>(12)),
                    "launch limits: kernel 'c': 12 bytes of parameters, the kernel has 16");
}

TEST_CASE(
    "trap ends the kernel and names the thread; lines of the source are named where there are "
    "some") {
  FaultRun run;
  run.expect("setp.eq.u32 %p0, %t, 17;\n@%p0 trap; // HERE\n", FaultKind::Trap,
             {"thread (17,0,0)"});
  run.declarations = ".file 1 \"model.cu\"\n";
  run.expect(
      ".loc 1 42 7\nsetp.eq.u32 %p0, %t, 3;\n.loc 1 43 1, function_name $L, inlined_at 1 9 1\n@%p0 "
      "trap; // HERE\n",
      FaultKind::Trap, {"(model.cu:43)", "thread (3,0,0)"});
}

TEST_CASE("a kernel that never ends is stopped by its budget") {
  FaultRun run;
  run.options.budget = 10000;
  run.expect("LOOP:\nbra.uni LOOP;\n", FaultKind::Stuck,
             {"the budget of 10000 warp instructions is used up", "block (0,0,0)"});
  run.expect_none(
      "mov.u32 %r0, 0;\nLOOP:\nadd.u32 %r0, %r0, 1;\nsetp.lt.u32 %p0, %r0, 1000;\n@%p0 bra "
      "LOOP;\n");
}

}  // namespace
}  // namespace mezzo::ptx::test
