// SPDX-License-Identifier: Apache-2.0
// Launches: order of blocks, host threads, blocks that wait for each other, counters.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ptx/faults.h>

namespace mezzo::ptx::test {
namespace {

/// The order in which 50 blocks take a ticket.
std::vector<uint32_t> tickets(const Options& options) {
  DeviceMemory memory(1 << 20);
  Buffer<uint32_t> out(memory, 51);
  out[50] = 0;
  const Module module(program(".reg .b32 %b, %n;\n.reg .b64 %out, %to;\nld.param.u64 %out, "
                              "[p0];\nmov.u32 %b, %ctaid.x;\n"
                              "atom.global.add.u32 %n, [%out+200], 1;\nmad.wide.u32 %to, %n, 4, "
                              "%out;\nst.global.u32 [%to], %b;\n",
                              1),
                      memory);
  module.kernel("k").launch(memory, {50}, {1}, 0, parameter_bytes({out.address}), options);
  return {out.host().begin(), out.host().begin() + 50};
}

TEST_CASE("blocks run forward, reversed, shuffled by a seed, or in turn") {
  std::vector<uint32_t> forward(50);
  std::iota(forward.begin(), forward.end(), 0u);
  CHECK(tickets({}) == forward);
  Options options;
  options.order = BlockOrder::Reversed;
  CHECK(tickets(options) == std::vector<uint32_t>(forward.rbegin(), forward.rend()));
  options.order = BlockOrder::Random;
  const std::vector<uint32_t> one = tickets(options);
  CHECK(one == tickets(options));
  options.seed = 2;
  const std::vector<uint32_t> two = tickets(options);
  CHECK(one != two);
  CHECK(one != forward);
  CHECK(std::is_permutation(one.begin(), one.end(), forward.begin()));
  CHECK(std::is_permutation(two.begin(), two.end(), forward.begin()));
  options.order = BlockOrder::RoundRobin;
  CHECK(tickets(options) == forward);
}

TEST_CASE("blocks that wait for a later one need to run in turn") {
  // Block b waits until block b + 1 has stored, the last one starts.
  const std::string body = R"(
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %nctaid.x;
    mad.wide.u32 %rd0, %r0, 4, %buf;
    sub.u32 %r1, %r1, 1;
    setp.eq.u32 %p0, %r0, %r1;
    @%p0 bra GO;
WAIT:
    ld.acquire.gpu.global.u32 %r2, [%rd0+4];
    setp.ne.u32 %p1, %r2, 77;
    @%p1 bra WAIT;
GO:
    st.release.gpu.global.u32 [%rd0], 77;
)";
  FaultRun run;
  run.grid = {20, 1, 1};
  run.block = {1, 1, 1};
  run.options.budget = 1 << 20;
  run.expect(body, FaultKind::Stuck, {"the budget of 1048576 warp instructions is used up"});
  run.options.order = BlockOrder::RoundRobin;
  run.expect_none(body);
}

TEST_CASE("several host threads give the same bytes, and the fault of one is reported") {
  DeviceMemory memory(16 << 20);
  Buffer<uint32_t> out(memory, 64 * 256);
  Buffer<uint32_t> sum(memory, 1);
  const std::string body =
      ".reg .b32 %b, %t, %n, %i;\n.reg .b64 %out, %sum;\n.reg .pred %p;\nld.param.u64 %out, "
      "[p0];\nld.param.u64 %sum, [p1];\n"
      "mov.u32 %b, %ctaid.x;\nmov.u32 %t, %tid.x;\nmad.lo.u32 %n, %b, 256, %t;\nmad.wide.u32 %out, "
      "%n, 4, %out;\n"
      "mov.u32 %i, 0;\nL: mad.lo.u32 %n, %n, 1664525, 1013904223;\nadd.u32 %i, %i, 1;\nsetp.lt.u32 "
      "%p, %i, 100;\n@%p bra L;\n"
      "st.global.u32 [%out], %n;\nred.global.add.u32 [%sum], %n;\n";
  const Module module(program(body, 2), memory);
  std::vector<uint32_t> first;
  for (const int threads : {1, 2, 4}) {
    std::fill(out.host().begin(), out.host().end(), 0u);
    sum[0] = 0;
    Options options;
    options.threads = threads;
    const Counters counters = module.kernel("k").launch(
        memory, {64}, {256}, 0, parameter_bytes({out.address, sum.address}), options);
    CHECK(counters.warp_instructions == 64 * 8 * (7 + 4 * 100 + 3));
    const std::vector<uint32_t> got(out.host().begin(), out.host().end());
    CHECK(sum[0] == std::accumulate(got.begin(), got.end(), 0u));
    if (first.empty()) first = got;
    CHECK(got == first);
  }
  Options options;
  options.threads = 3;
  CHECK_THROWS_AS(module.kernel("k").launch(memory, {65}, {256}, 0,
                                            parameter_bytes({out.address, sum.address}), options),
                  Fault);
}

// ---- counters ----

Counters count(const std::string& body, uint32_t threads = 32, uint32_t blocks = 1) {
  DeviceMemory memory(1 << 20);
  Buffer<uint32_t> buffer(memory, 8192);
  const Module module(program(".reg .b32 %t, %r<10>;\n.reg .b64 %buf, %rd<10>;\n.reg .pred "
                              "%p<4>;\nld.param.u64 %buf, [p0];\nmov.u32 %t, %tid.x;\n" +
                                  body,
                              1),
                      memory);
  Options options;
  options.count = true;
  return module.kernel("k").launch(memory, {blocks}, {threads}, 0,
                                   parameter_bytes({buffer.address}), options);
}

const LineCounters& line_of(const Counters& counters, const std::string& part) {
  for (const LineCounters& line : counters.lines)
    if (line.text.find(part) != std::string::npos) return line;
  FAIL("no line with " << part);
  return counters.lines[0];
}

TEST_CASE("executions and lanes of each line, warp instructions and barriers of the launch") {
  const Counters counters = count(
      "setp.lt.u32 %p0, %t, 40;\n@%p0 bra SOME;\nmov.u32 %r1, 1;\nbra JOIN;\nSOME:\nmov.u32 %r2, "
      "2;\nmov.u32 %r3, 3;\nJOIN:\nbar.sync 0;\n@%p0 mov.u32 %r4, 4;\n",
      64, 3);
  CHECK(counters.kernel == "k");
  CHECK(counters.barriers == 3);
  CHECK(line_of(counters, "setp").executions == 6);
  CHECK(line_of(counters, "setp").lanes == 192);
  CHECK(line_of(counters, "%r1, 1").executions == 3);  // the second warp of each block
  CHECK(line_of(counters, "%r1, 1").lanes == 3 * 24);
  CHECK(line_of(counters, "%r3, 3").executions == 6);
  CHECK(line_of(counters, "%r3, 3").lanes == 3 * 40);
  CHECK(line_of(counters, "%r4, 4").executions == 6);
  CHECK(line_of(counters, "%r4, 4").lanes == 3 * 40);
  uint64_t all = 0;
  int last = 0;
  for (const LineCounters& line : counters.lines) {
    all += line.executions;
    CHECK(line.line > last);
    last = line.line;
  }
  CHECK(all == counters.warp_instructions);
}

TEST_CASE("sectors of global accesses against the fewest that could be") {
  const struct {
    const char* name;
    std::string body;
    uint64_t sectors, ideal;
  } cases[] = {
      {"neighbours", "mad.wide.u32 %rd0, %t, 4, %buf;\nld.global.u32 %r1, [%rd0];\n", 4, 4},
      {"a word in every sector", "mad.wide.u32 %rd0, %t, 32, %buf;\nld.global.u32 %r1, [%rd0];\n",
       32, 4},
      {"every second word", "mad.wide.u32 %rd0, %t, 8, %buf;\nld.global.u32 %r1, [%rd0];\n", 8, 4},
      {"begins inside of a sector",
       "mad.wide.u32 %rd0, %t, 4, %buf;\nld.global.u32 %r1, [%rd0+4];\n", 5, 4},
      {"one word for all", "ld.global.u32 %r1, [%buf];\n", 1, 4},
      {"bytes", "cvt.u64.u32 %rd0, %t;\nadd.u64 %rd0, %rd0, %buf;\nld.global.u8 %r1, [%rd0];\n", 1,
       1},
      {"five lanes",
       "mad.wide.u32 %rd0, %t, 4, %buf;\nsetp.lt.u32 %p0, %t, 5;\n@%p0 ld.global.u32 %r1, "
       "[%rd0];\n",
       1, 1},
      {"vectors", "mad.wide.u32 %rd0, %t, 16, %buf;\nld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0];\n",
       16, 16},
  };
  for (const auto& each : cases) {
    INFO(each.name);
    const Counters counters = count(each.body);
    CHECK(line_of(counters, "ld.global").sectors == each.sectors);
    CHECK(line_of(counters, "ld.global").ideal_sectors == each.ideal);
    CHECK(line_of(counters, "ld.global").wavefronts == 0);
  }
  CHECK(
      line_of(count("mad.wide.u32 %rd0, %t, 128, %buf;\nst.global.u32 [%rd0], %t;\n"), "st.global")
          .sectors == 32);
}

TEST_CASE("wavefronts of shared accesses: conflicts of banks, words that lanes share") {
  const std::string start = ".shared .align 16 .b8 s[16384];\nmov.u32 %r0, s;\n";
  const struct {
    const char* name;
    std::string body;
    uint64_t wavefronts, ideal;
  } cases[] = {
      {"neighbours", "mad.lo.u32 %r1, %t, 4, %r0;\nst.shared.u32 [%r1], %t;\n", 1, 1},
      {"every second word", "mad.lo.u32 %r1, %t, 8, %r0;\nst.shared.u32 [%r1], %t;\n", 2, 1},
      {"rows of 32 words", "mad.lo.u32 %r1, %t, 128, %r0;\nst.shared.u32 [%r1], %t;\n", 32, 1},
      {"rows of 33 words", "mad.lo.u32 %r1, %t, 132, %r0;\nst.shared.u32 [%r1], %t;\n", 1, 1},
      {"pairs", "mad.lo.u32 %r1, %t, 8, %r0;\nst.shared.v2.u32 [%r1], {%t,%t};\n", 2, 2},
      {"fours", "mad.lo.u32 %r1, %t, 16, %r0;\nst.shared.v4.u32 [%r1], {%t,%t,%t,%t};\n", 4, 4},
      {"fours in rows of 128 bytes",
       "mad.lo.u32 %r1, %t, 128, %r0;\nst.shared.v4.u32 [%r1], {%t,%t,%t,%t};\n", 32, 4},
  };
  for (const auto& each : cases) {
    INFO(each.name);
    const Counters counters = count(start + each.body);
    CHECK(line_of(counters, "st.shared").wavefronts == each.wavefronts);
    CHECK(line_of(counters, "st.shared").ideal_wavefronts == each.ideal);
    CHECK(line_of(counters, "st.shared").sectors == 0);
  }
  const Counters one = count(start +
                             "setp.eq.u32 %p0, %t, 0;\n@%p0 st.shared.u32 [s], 1;\nbar.warp.sync "
                             "-1;\nld.shared.u32 %r2, [s];\n");
  CHECK(line_of(one, "ld.shared").wavefronts == 1);
  const std::string rows =
      start +
      "mad.lo.u32 %r1, %t, {}, %r0;\nst.shared.v4.u32 [%r1], {{%t,%t,%t,%t}};\nbar.warp.sync -1;\n"
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r2,%r3,%r4,%r5}}, [%r1];\n";
  CHECK(line_of(count(fmt::format(fmt::runtime(rows), 144)), "ldmatrix").wavefronts ==
        4);  // padded
  CHECK(line_of(count(fmt::format(fmt::runtime(rows), 128)), "ldmatrix").wavefronts == 32);
  CHECK(line_of(count(fmt::format(fmt::runtime(rows), 128)), "ldmatrix").ideal_wavefronts == 4);
}

}  // namespace
}  // namespace mezzo::ptx::test
