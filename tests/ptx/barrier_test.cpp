// SPDX-License-Identifier: Apache-2.0
// Barriers of blocks and warps, asynchronous copies: what they do, and what is told of those that
// are used wrongly.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ptx/faults.h>

namespace mezzo::ptx::test {
namespace {

/// Runs `body` with a second buffer as %out (`p1`) and returns it. `op`: what it is about; "" where
/// another machine may do otherwise.
std::vector<uint32_t> run_block(const std::string& op, const std::string& body, uint32_t threads,
                                const Options& options = {}) {
  std::vector<uint32_t> in(4096);
  for (uint32_t i = 0; i < 4096; ++i) in[i] = 3 * i + 1;
  MicroLaunch launch{.op = op};
  launch.body =
      ".reg .b32 %t, %r<10>;\n.reg .b64 %buf, %out, %rd<10>;\n.reg .pred %p<4>;\nld.param.u64 "
      "%buf, [p0];\n"
      "ld.param.u64 %out, [p1];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %out, %t, 4, %out;\n" +
      body;
  launch.block = {threads, 1, 1};
  launch.buffers = {bytes_of(in), bytes_of(std::vector<uint32_t>(threads))};
  launch.options = options;
  if (!op.empty()) launch.results = {{.count = threads}};
  const std::vector<std::byte> out = run_micro(launch)[1];
  const std::span<const uint32_t> elements = elements_of<uint32_t>(out);
  return {elements.begin(), elements.end()};
}

const std::vector<Options>& all_options() {
  static const std::vector<Options> list = [] {
    std::vector<Options> result(1);
    for (const BlockOrder order :
         {BlockOrder::Reversed, BlockOrder::Random, BlockOrder::RoundRobin}) {
      result.emplace_back().order = order;
    }
    result.emplace_back().hostile_divergence = true;
    return result;
  }();
  return list;
}

TEST_CASE("bar.red counts and joins over all threads, also where warps are not full") {
  for (const Options& options : all_options()) {
    const auto out = run_block(
        "bar.red",
        "setp.lt.u32 %p0, %t, 37;\nbar.red.popc.u32 %r0, 0, %p0;\nbarrier.cta.red.and.aligned.pred "
        "%p1, 0, !%p0;\n"
        "barrier.red.or.pred %p2, 1, %p0;\nselp.u32 %r1, 1000, 0, %p1;\nselp.u32 %r2, 10000, 0, "
        "%p2;\n"
        "add.u32 %r0, %r0, %r1;\nadd.u32 %r0, %r0, %r2;\nst.global.u32 [%out], %r0;\n",
        80, options);
    for (const uint32_t value : out) REQUIRE(value == 10037);
  }
}

TEST_CASE("warps hand values on through named barriers of some of them") {
  // Warp 0 makes rounds of values; warp 1 takes them; warp 2 never comes.
  const std::string body = R"(
    .shared .align 4 .b8 s[128];
    mov.u32 %r0, s;
    and.b32 %r1, %t, 31;
    mad.lo.u32 %r1, %r1, 4, %r0;
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
    setp.ge.u32 %p0, %t, 64;
    @%p0 bra DONE;
    setp.ge.u32 %p0, %t, 32;
    @%p0 bra TAKE;
MAKE:
    add.u32 %r4, %t, %r2;
    st.shared.u32 [%r1], %r4;
    bar.arrive 1, 64;
    bar.sync 2, 64;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 5;
    @%p1 bra MAKE;
    bra DONE;
TAKE:
    bar.sync 1, 64;
    ld.shared.u32 %r4, [%r1];
    add.u32 %r3, %r3, %r4;
    bar.arrive 2, 64;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 5;
    @%p1 bra TAKE;
DONE:
    st.global.u32 [%out], %r3;
)";
  for (const Options& options : all_options()) {
    const auto out = run_block("bar.arrive, bar.sync of some warps", body, 96, options);
    for (uint32_t t = 0; t < 96; ++t)
      REQUIRE(out[t] == (t >= 32 && t < 64 ? 5 * (t - 32) + 10 : 0));
  }
  // Without the way back the maker is a round ahead of the taker.
  FaultRun run;
  run.block = {96, 1, 1};
  std::string broken = body;
  broken.replace(broken.find("    bar.sync 2, 64;\n"), 20, "");
  broken.replace(broken.find("    bar.arrive 2, 64;\n"), 22, "");
  broken.replace(broken.find("    st.global.u32 [%out], %r3;\n"), 31, "");
  const std::optional<Fault> fault = run.run(broken);
  REQUIRE(fault);
  const bool named = fault->kind == FaultKind::SharedRace || fault->kind == FaultKind::Stuck;
  CHECK_MESSAGE(named, std::string(fault->what()));
}

TEST_CASE("many warps read, one writes: each of them has to be waited for") {
  // Three warps read a word; two of them tell the writer so through barriers of their own.
  const auto text = [](const char* second) {
    return fmt::format(R"(
    .shared .align 4 .b32 s;
    setp.eq.u32 %p0, %t, 0;
    @%p0 st.shared.u32 [s], 1;
    bar.sync 0;
    shr.u32 %r1, %t, 5;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra WRITE;
    ld.shared.u32 %r2, [s];
    setp.eq.u32 %p2, %r1, 1;
    @%p2 bar.arrive 1, 64;
    @!%p2 bar.arrive 2, 64;
    bra DONE;
WRITE:
    bar.sync 1, 64;
    {}
    @%p0 st.shared.u32 [s], 2; // HERE
DONE:
)",
                       second);
  };
  FaultRun run;
  run.block = {96, 1, 1};
  run.options.order = BlockOrder::Reversed;
  run.expect_none(text("bar.sync 2, 64;"));
  run.expect(text(""), FaultKind::SharedRace,
             {"overwrites what other threads read", "thread (0,0,0)"});
}

TEST_CASE("threads that have exited are not waited for") {
  for (const Options& options : all_options()) {
    const auto out = run_block(
        "bar.sync after exit",
        ".shared .align 4 .b8 s[512];\nmov.u32 %r0, s;\nmad.lo.u32 %r1, %t, 4, %r0;\nst.shared.u32 "
        "[%r1], %t;\n"
        "st.global.u32 [%out], 7;\nsetp.ge.u32 %p0, %t, 32;\n@%p0 exit;\nbar.sync "
        "0;\nld.shared.u32 %r2, [%r1+128];\n"
        "st.global.u32 [%out], %r2;\n",
        64, options);
    for (uint32_t t = 0; t < 64; ++t) REQUIRE(out[t] == (t < 32 ? t + 32 : 7));
  }
}

TEST_CASE("barriers that not all lanes of a warp come to") {
  FaultRun run;
  run.expect("setp.lt.u32 %p0, %t, 8;\n@%p0 bar.sync 0;\nbar.sync 1; // HERE\n",
             FaultKind::DivergedBarrier, {"lanes of the warp wait at barriers"});
  run.expect(
      "setp.lt.u32 %p0, %t, 8;\n@%p0 bra A;\nbar.sync 0;\nbra B;\nA:\nbar.sync 0; // HERE\nB:\n",
      FaultKind::DivergedBarrier, {"lanes of the warp wait at another barrier instruction"});
  run.expect_none(
      "setp.lt.u32 %p0, %t, 8;\n@%p0 bra A;\nbarrier.sync 0;\nbra B;\nA:\nbarrier.sync 0;\nB:\n");
  run.expect("mov.u32 %r0, 16;\nbar.sync %r0; // HERE\n", FaultKind::OutOfBounds,
             {"barrier 16, a block has 16"});
  run.expect("mov.u32 %r0, %t;\nbar.sync %r0; // HERE\n", FaultKind::DivergedBarrier,
             {"name different barriers"});
  run.expect("bar.sync 0, 48; // HERE\n", FaultKind::DivergedBarrier, {"a barrier of 48 threads"});
  run.block = {64, 1, 1};
  run.expect("setp.lt.u32 %p0, %t, 32;\n@%p0 bar.sync 0; // HERE\n@!%p0 bar.sync 1;\n",
             FaultKind::Stuck, {"32 of 64 threads come to barrier 0"});
  run.expect("setp.lt.u32 %p0, %t, 32;\n@%p0 bar.sync 0, 64;\n@!%p0 bar.sync 0, 32; // HERE\n",
             FaultKind::DivergedBarrier, {"waits for 32 threads, others for 64"});
}

TEST_CASE(".sync instructions that lanes of their mask do not come to, or that are not in it") {
  FaultRun run;
  run.expect("setp.lt.u32 %p0, %t, 8;\n@%p0 shfl.sync.bfly.b32 %r0, %t, 1, 31, -1; // HERE\n",
             FaultKind::DivergedBarrier, {"only lanes 0x000000ff come, 0xffffffff are wanted"});
  run.expect_none("setp.lt.u32 %p0, %t, 8;\n@%p0 shfl.sync.bfly.b32 %r0, %t, 1, 31, 255;\n");
  run.expect("bar.warp.sync 0xFFFF; // HERE\n", FaultKind::DivergedBarrier,
             {"thread (16,0,0)", "the lane is not in its own member mask 0x0000ffff"});
  run.expect(
      "setp.lt.u32 %p0, %t, 8;\n@%p0 mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6}, {%r0,%r1,%r2,%r3}; // HERE\n",
      FaultKind::DivergedBarrier, {"only lanes 0x000000ff come"});
  // Both sides of a branch come to the same instruction, one after the other.
  run.options.hostile_divergence = true;
  run.expect_none(
      "setp.lt.u32 %p0, %t, 8;\nmov.u32 %r1, 1;\n@%p0 bra A;\nmov.u32 %r1, "
      "2;\nA:\nvote.sync.any.pred %p1, %p0, -1;\n");
}

// ---- cp.async ----

const std::string kCopy =
    ".shared .align 16 .b8 s[2048];\nmov.u32 %r0, s;\nmad.lo.u32 %r1, %t, 16, %r0;\n"
    "mad.wide.u32 %rd0, %t, 16, %buf;\n";

TEST_CASE(
    "cp.async copies 4, 8 and 16 bytes, parts with zeros behind, and nothing where it is told so") {
  const auto out = run_block("cp.async of 4 and 8 bytes",
                             kCopy +
                                 "cp.async.ca.shared.global [%r1], [%rd0], "
                                 "4;\ncp.async.ca.shared.global [%r1+8], [%rd0+8], 8;\n"
                                 "cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.u32 "
                                 "%r2, [%r1];\nld.shared.u32 %r3, [%r1+12];\n"
                                 "add.u32 %r2, %r2, %r3;\nst.global.u32 [%out], %r2;\n",
                             32);
  for (uint32_t t = 0; t < 32; ++t) CHECK(out[t] == (12 * t + 1) + (12 * t + 10));
  const auto parts = run_block(
      "cp.async with a size, with a predicate",
      kCopy +
          "and.b32 %r5, %t, 16;\ncp.async.cg.shared.global.L2::128B [%r1], [%rd0], 16, %r5;\n"
          "setp.lt.u32 %p0, %t, 4;\ncp.async.ca.shared::cta.global [%r1+1024], [%rd0], 4, %p0;\n"
          "cp.async.wait_all;\nld.shared.v4.u32 {%r2,%r3,%r4,%r6}, [%r1];\nld.shared.u32 %r7, "
          "[%r1+1024];\n"
          "add.u32 %r2, %r2, %r3;\nadd.u32 %r2, %r2, %r6;\nadd.u32 %r2, %r2, %r7;\nst.global.u32 "
          "[%out], %r2;\n",
      32);
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t whole = t & 16 ? (12 * t + 1) + (12 * t + 4) + (12 * t + 10) : 0;
    CHECK(parts[t] == whole + (t < 4 ? 0 : 12 * t + 1));
  }
}

TEST_CASE("a copy lands with its group and not before; the source is read when it lands") {
  const std::string two =
      kCopy +
      "cp.async.cg.shared.global [%r1], [%rd0], 16;\ncp.async.commit_group;\n"
      "cp.async.cg.shared.global [%r1+512], [%rd0+512], 16;\ncp.async.commit_group;\n";
  FaultRun run;
  run.expect_none(two + "cp.async.wait_group 1;\nld.shared.u32 %r2, [%r1];\n");
  run.expect_none(two + "cp.async.wait_group 0;\nld.shared.u32 %r2, [%r1+512];\n");
  run.expect(two + "cp.async.wait_group 1;\nld.shared.u32 %r2, [%r1+512]; // HERE\n",
             FaultKind::Uninitialized,
             {"touches the target of a cp.async of thread 0 that nobody waited for",
              "shared address 0x200"});
  run.expect(two + "cp.async.wait_group 2;\nld.shared.u32 %r2, [%r1]; // HERE\n",
             FaultKind::Uninitialized, {"cp.async of thread 0"});
  run.expect(two + "st.shared.u32 [%r1], 1; // HERE\n", FaultKind::Uninitialized,
             {"cp.async of thread 0"});
  // Without a commit, only wait_all brings it.
  const std::string open = kCopy + "cp.async.cg.shared.global [%r1], [%rd0], 16;\n";
  run.expect(open + "cp.async.wait_group 0;\nld.shared.u32 %r2, [%r1]; // HERE\n",
             FaultKind::Uninitialized, {"cp.async of thread 0"});
  run.expect_none(open + "cp.async.wait_all;\nld.shared.u32 %r2, [%r1];\n");
  // Lanes count their groups by themselves.
  run.expect("setp.lt.u32 %p0, %t, 4;\n" + two +
                 "@%p0 cp.async.commit_group;\ncp.async.wait_group 1;\nld.shared.u32 %r2, "
                 "[%r1+512]; // HERE\n",
             FaultKind::Uninitialized, {"thread (4,0,0)", "cp.async of thread 4"});
  const auto late =
      run_block("",
                open +
                    "cp.async.commit_group;\nst.global.u32 [%rd0], 5;\ncp.async.wait_group "
                    "0;\nld.shared.u32 %r2, [%r1];\nst.global.u32 [%out], %r2;\n",
                32);
  for (const uint32_t value : late) CHECK(value == 5);
}

TEST_CASE("what a copy brought belongs to its thread until a barrier") {
  FaultRun run;
  run.block = {64, 1, 1};
  const std::string copied = kCopy +
                             "xor.b32 %r2, %t, 32;\nmad.lo.u32 %r2, %r2, 16, "
                             "%r0;\ncp.async.cg.shared.global [%r1], [%rd0], 16;\n"
                             "cp.async.commit_group;\n";
  run.expect_none(copied + "cp.async.wait_group 0;\nbar.sync 0;\nld.shared.u32 %r3, [%r2];\n");
  run.expect(copied + "bar.sync 0;\ncp.async.wait_group 0;\nld.shared.u32 %r3, [%r2]; // HERE\n",
             FaultKind::Uninitialized, {"thread (0,0,0)", "cp.async of thread 32"});
  // The stage is filled again while another warp reads it: the second warp fills what the first one
  // read, or the second one reads what the first one has filled.
  const std::string read =
      copied + "cp.async.wait_group 0;\nbar.sync 0;\nld.shared.u32 %r3, [%r2];";
  const std::string again = "cp.async.cg.shared.global [%r1], [%rd0], 16;";
  run.expect(read + "\nsetp.ge.u32 %p0, %t, 32;\n@%p0 " + again + " // HERE\n",
             FaultKind::SharedRace, {"overwrites what thread 0 read"});
  run.expect(read + " // HERE\n" + again + "\ncp.async.wait_all;\nbar.sync 0;\n",
             FaultKind::SharedRace, {"thread (32,0,0)", "reads what thread 0 wrote"});
  run.expect(read + " // HERE\n" + again + "\nbar.sync 0;\n", FaultKind::Uninitialized,
             {"thread (32,0,0)", "cp.async of thread 0"});
  run.expect_none(read + "\nbar.sync 0;\n" + again + "\ncp.async.wait_all;\n");
  run.expect(kCopy + "cp.async.cg.shared.global [%r1+2048], [%rd0], 16; // HERE\n",
             FaultKind::OutOfBounds, {"shared address 0x800"});
  run.expect(kCopy + "cp.async.cg.shared.global [%r1], [%rd0+15872], 16; // HERE\n",
             FaultKind::OutOfBounds, {"thread (32,0,0)", "read of 16 bytes"});
  run.expect(kCopy + "cp.async.cg.shared.global [%r1], [%rd0+8], 16; // HERE\n",
             FaultKind::Misaligned, {"global address"});
  run.expect_none(kCopy +
                  "mov.u32 %r5, 0;\ncp.async.cg.shared.global [%r1], [%rd0+15872], 16, "
                  "%r5;\ncp.async.wait_all;\n");
}

}  // namespace
}  // namespace mezzo::ptx::test
