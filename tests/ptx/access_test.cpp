// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics: widths, vectors, spaces, addresses.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ptx/micro.h>

namespace mezzo::ptx::test {
namespace {

/// Launches of bodies over two buffers of 64-bit words, whose addresses are the parameters.
struct Bench {
  std::vector<uint64_t> in = std::vector<uint64_t>(1024), out = std::vector<uint64_t>(1024);
  Bench() {
    for (size_t i = 0; i < in.size(); ++i) in[i] = 0x0123456789ABCDEF * (i + 1) ^ i << 60;
  }
  /// `op` is what it is about; "" where another machine may do otherwise.
  void run(const std::string& op, const std::string& body, uint32_t threads = 32,
           const std::string& declarations = "", uint32_t dynamic_shared = 0) {
    const std::string start =
        ".reg .b32 %t, %r<20>;\n.reg .b64 %in, %out, %rd<20>;\n.reg .b16 %rs<20>;\n"
        ".reg .pred %p<9>;\n"
        "ld.param.u64 %in, [p0];\nld.param.u64 %out, [p1];\nmov.u32 %t, %tid.x;\n";
    MicroLaunch launch{.op = op, .body = start + body, .declarations = declarations};
    launch.block = {threads, 1, 1};
    launch.dynamic_shared = dynamic_shared;
    launch.buffers = {bytes_of(in), bytes_of(out)};
    if (!op.empty()) launch.results = {{.stride = 8, .count = out.size(), .width = 8}};
    const std::vector<std::vector<std::byte>> after = run_micro(launch);
    std::ranges::copy(elements_of<uint64_t>(after[0]), in.begin());
    std::ranges::copy(elements_of<uint64_t>(after[1]), out.begin());
  }
};

TEST_CASE("a load extends to its register, a store cuts") {
  const struct {
    const char* type;
    int bytes;
    bool is_signed;
  } types[] = {{"u8", 1, false},  {"s8", 1, true},   {"b8", 1, false},  {"u16", 2, false},
               {"s16", 2, true},  {"u32", 4, false}, {"s32", 4, true},  {"u64", 8, false},
               {"b32", 4, false}, {"f32", 4, false}, {"f64", 8, false}, {"b64", 8, false}};
  for (const auto& type : types) {
    for (const int wide : {2, 4, 8}) {
      if (wide < type.bytes) continue;
      INFO(type.type << " in " << wide);
      Bench bench;
      const std::string name = wide == 2 ? "%rs1" : wide == 4 ? "%r1" : "%rd3";
      bench.run(fmt::format("ld.global.{} into {} bytes", type.type, wide),
                fmt::format("mad.wide.u32 %rd1, %t, {0}, %in;\nmad.wide.u32 %rd2, %t, 8, %out;\n"
                            "ld.global.{1} {2}, [%rd1+{3}];\nst.global.b{4} [%rd2], {2};\n",
                            type.bytes, type.type, name, 4 * type.bytes, 8 * wide));
      const auto* from = reinterpret_cast<const std::byte*>(bench.in.data());
      for (int t = 0; t < 32; ++t) {
        uint64_t wanted = 0;
        std::memcpy(&wanted, from + (t + 4) * type.bytes, static_cast<size_t>(type.bytes));
        if (type.is_signed && wanted >> (8 * type.bytes - 1))
          wanted |= ~uint64_t{0} << (8 * type.bytes);
        if (wide < 8) wanted &= (uint64_t{1} << (8 * wide)) - 1;
        REQUIRE(bench.out[static_cast<size_t>(t)] == wanted);
      }
      bench.run(fmt::format("st.global.{} of {} bytes", type.type, wide),
                fmt::format("mad.wide.u32 %rd1, %t, 8, %in;\nmad.wide.u32 %rd2, %t, {0}, %out;\n"
                            "ld.global.b{1} {2}, [%rd1];\nst.global.{3} [%rd2+2048], {2};\n",
                            type.bytes, 8 * wide, name, type.type));
      const auto* to = reinterpret_cast<const std::byte*>(bench.out.data()) + 2048;
      for (int t = 0; t < 32; ++t)
        REQUIRE(std::memcmp(to + t * type.bytes, from + 8 * t, static_cast<size_t>(type.bytes)) ==
                0);
    }
  }
}

TEST_CASE("vectors of two, four and eight parts, up to 32 bytes, whatever the cache is told") {
  const char* accesses[][2] = {
      {"ld.global.v2.u32 {%r1,%r2}", "st.global.v2.u32 [%rd2], {%r1,%r2}"},
      {"ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1,%r2,%r3,%r4}",
       "st.global.cs.v4.b32 [%rd2], {%r1,%r2,%r3,%r4}"},
      {"ld.global.nc.v2.u64 {%rd3,%rd4}", "st.global.wt.v2.u64 [%rd2], {%rd3,%rd4}"},
      {"ld.weak.global.ca.v4.u16 {%rs1,%rs2,%rs3,%rs4}",
       "st.weak.global.wb.v4.u16 [%rd2], {%rs1,%rs2,%rs3,%rs4}"},
      {"ld.global.nc.L1::evict_last.L2::256B.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}",
       "st.global.L1::evict_first.v8.b32 [%rd2], {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}"},
      {"ld.global.cg.v4.b64 {%rd3,%rd4,%rd5,%rd6}",
       "st.global.v4.f64 [%rd2], {%rd3,%rd4,%rd5,%rd6}"},
      {"ld.global.v4.u8 {%r1,%r2,%r3,%r4}", "st.global.v4.u8 [%rd2], {%r1,%r2,%r3,%r4}"},
      {"ld.relaxed.gpu.global.v2.f64 {%rd3,%rd4}", "st.volatile.global.v2.f64 [%rd2], {%rd3,%rd4}"},
  };
  const int bytes[] = {8, 16, 16, 8, 32, 32, 4, 16};
  for (size_t i = 0; i < std::size(accesses); ++i) {
    INFO(accesses[i][0]);
    Bench bench;
    bench.run(fmt::format("{}; {}", accesses[i][0], accesses[i][1]),
              fmt::format("mad.wide.u32 %rd1, %t, {0}, %in;\nmad.wide.u32 %rd2, %t, {0}, %out;\n"
                          "{1}, [%rd1];\n{2};\n",
                          bytes[i], accesses[i][0], accesses[i][1]));
    const auto size = static_cast<size_t>(32 * bytes[i]);
    CHECK(std::memcmp(bench.in.data(), bench.out.data(), size) == 0);
    CHECK(bench.out[size / 8] == 0);
  }
  Bench bench;  // parts that nobody wants, and a policy
  bench.run(
      "createpolicy.fractional.L2::evict_last, prefetch.global.L2",
      "createpolicy.fractional.L2::evict_last.b64 %rd5, 0f3F800000;\n"
      "mad.wide.u32 %rd1, %t, 16, %in;\nmad.wide.u32 %rd2, %t, 8, %out;\n"
      "ld.global.L2::cache_hint.v4.u32 {_,%r1,_,%r2}, [%rd1], %rd5;\n"
      "st.global.L2::cache_hint.v2.u32 [%rd2], {%r1,%r2}, %rd5;\nprefetch.global.L2 [%rd1];\n");
  CHECK(bench.out[3] == (bench.in[6] >> 32 | bench.in[7] >> 32 << 32));
}

TEST_CASE(
    "spaces: shared by name, by register of 32 bits and by generic address; local; parameters") {
  Bench bench;
  bench.run(
      "cvta, isspacep, ld.local, ld.shared",
      ".shared .align 16 .b8 words[512];\n.shared .b32 after;\n"
      ".local .align 8 .b8 own[64];\n"
      "mad.wide.u32 %rd1, %t, 8, %in;\nmad.wide.u32 %rd2, %t, 8, %out;\nld.global.u64 %rd3, "
      "[%rd1];\n"
      // shared, offset in 32 bits
      "mov.u32 %r1, words;\nmad.lo.u32 %r2, %t, 8, %r1;\nst.shared.u64 [%r2+256], %rd3;\n"
      "bar.warp.sync -1;\n"
      // the same through a generic address
      "mov.u64 %rd4, words;\ncvta.shared.u64 %rd5, %rd4;\nmad.wide.u32 %rd6, %t, 8, %rd5;\n"
      "ld.u64 %rd7, [%rd6+256];\nst.global.u64 [%rd2], %rd7;\n"
      // local through a generic address
      "mov.u64 %rd8, own;\ncvta.local.u64 %rd9, %rd8;\nst.u64 [%rd9+8], %rd3;\n"
      "ld.local.u64 %rd10, [own+8];\nadd.u64 %rd10, %rd10, 1;\nst.global.u64 [%rd2+256], %rd10;\n"
      // where addresses lie
      "isspacep.shared %p1, %rd6;\nisspacep.local %p2, %rd9;\nisspacep.global %p3, %rd2;\n"
      "isspacep.global %p4, %rd6;\nisspacep.shared %p5, %rd2;\n"
      "and.pred %p1, %p1, %p2;\nand.pred %p1, %p1, %p3;\nor.pred %p4, %p4, %p5;\n"
      "not.pred %p4, %p4;\nand.pred %p1, %p1, %p4;\nselp.u64 %rd11, 1, 0, %p1;\n"
      "st.global.u64 [%rd2+512], %rd11;\n"
      "cvta.to.shared.u64 %rd12, %rd6;\ncvt.u32.u64 %r3, %rd12;\nld.shared.u32 %r4, [%r3+256];\n"
      "cvt.u64.u32 %rd13, %r4;\nst.global.u64 [%rd2+768], %rd13;\n"
      "st.shared.u32 [after], 5;\nbar.warp.sync -1;\nld.shared.u32 %r5, [after];\n"
      "cvt.u64.u32 %rd14, %r5;\nst.global.u64 [%rd2+1024], %rd14;\n"
      "ld.param.u32 %r6, [p1+4];\nld.param.u32 %r7, [p1];\nmov.b64 %rd15, {%r7, %r6};\n"
      "sub.u64 %rd15, %rd15, %out;\nadd.u64 %rd15, %rd15, 9;\nst.global.u64 [%rd2+1280], %rd15;\n",
      1);
  CHECK(bench.out[0] == bench.in[0]);
  CHECK(bench.out[32] == bench.in[0] + 1);
  CHECK(bench.out[64] == 1);
  CHECK(bench.out[96] == (bench.in[0] & 0xFFFFFFFF));
  CHECK(bench.out[128] == 5);
  CHECK(bench.out[160] == 9);
}

TEST_CASE(
    "variables of a module: constants, global ones with what they hold at the start, dynamic "
    "shared") {
  Bench bench;
  const std::string declarations =
      ".const .align 4 .u32 table[4] = {7, 0x10, 0b11, 9};\n"
      ".global .align 8 .u64 counter = 40;\n.global .align 8 .u64 where = generic(counter);\n"
      ".global .align 4 .f32 half = 0f3F000000;\n.global .b8 bytes[5] = {1, 2, 255};\n"
      ".extern .shared .align 16 .b8 heap[];\n";
  bench.run(
      "ld.const, variables with a start value, dynamic shared memory",
      "ld.const.u32 %r1, [table+4];\nld.global.u64 %rd1, [counter];\nld.global.u64 %rd2, [where];\n"
      "ld.u64 %rd3, [%rd2];\nld.global.u32 %r2, [half];\nld.global.u8 %r3, [bytes+2];\n"
      "ld.global.u8 %r4, [bytes+4];\n"
      "cvt.u64.u32 %rd4, %r1;\nst.global.u64 [%out], %rd4;\nst.global.u64 [%out+8], %rd1;\n"
      "st.global.u64 [%out+16], %rd3;\nst.global.u32 [%out+24], %r2;\nst.global.u32 [%out+32], "
      "%r3;\n"
      "st.global.u32 [%out+40], %r4;\n"
      "mov.u32 %r5, heap;\nst.shared.u32 [%r5+96], 77;\nld.shared.u32 %r6, [heap+96];\n"
      "st.global.u32 [%out+48], %r6;\nmov.u32 %r7, %dynamic_smem_size;\nst.global.u32 [%out+56], "
      "%r7;\n"
      "add.u64 %rd1, %rd1, 1;\nst.global.u64 [counter], %rd1;\n",
      1, declarations, 128);
  CHECK(bench.out[0] == 16);
  CHECK(bench.out[1] == 40);
  CHECK(bench.out[2] == 40);
  CHECK(bench.out[3] == 0x3F000000);
  CHECK(bench.out[4] == 255);
  CHECK(bench.out[5] == 0);
  CHECK(bench.out[6] == 77);
  CHECK(bench.out[7] == 128);
}

TEST_CASE("special registers tell each thread where it is") {
  const char* names[] = {"tid.x",       "tid.y",       "tid.z",       "ntid.x",      "ntid.y",
                         "ntid.z",      "ctaid.x",     "ctaid.y",     "ctaid.z",     "nctaid.x",
                         "nctaid.y",    "nctaid.z",    "laneid",      "warpid",      "nwarpid",
                         "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"};
  constexpr size_t kNames = std::size(names);
  std::string body =
      ".reg .b32 %r<8>;\n.reg .b64 %out;\nld.param.u64 %out, [p0];\n"
      "mov.u32 %r1, %ctaid.z;\nmov.u32 %r2, %ctaid.y;\nmad.lo.u32 %r1, %r1, 2, %r2;\n"
      "mov.u32 %r2, %ctaid.x;\nmad.lo.u32 %r1, %r1, 2, %r2;\n"
      "mov.u32 %r2, %tid.z;\nmad.lo.u32 %r1, %r1, 2, %r2;\n"
      "mov.u32 %r2, %tid.y;\nmad.lo.u32 %r1, %r1, 4, %r2;\n"
      "mov.u32 %r2, %tid.x;\nmad.lo.u32 %r1, %r1, 8, %r2;\n"
      "mad.wide.u32 %out, %r1, 80, %out;\n";
  for (size_t i = 0; i < kNames; ++i)
    body += fmt::format("mov.u32 %r2, %{};\nst.global.u32 [%out+{}], %r2;\n", names[i], 4 * i);
  MicroLaunch launch{.op = "special registers", .body = std::move(body)};
  launch.grid = {2, 2, 3};
  launch.block = {8, 4, 2};
  launch.buffers = {bytes_of(std::vector<uint32_t>(12 * 64 * kNames))};
  launch.results = {{.buffer = 0, .count = 12 * 64 * kNames}};
  // Where a warp runs, and how many places there are for warps, is the machine's own.
  for (size_t i = 0; i < 12 * 64 * kNames; ++i)
    if (std::string(names[i % kNames]).find("warpid") != std::string::npos)
      launch.results[0].open.push_back(i);
  const std::vector<std::vector<std::byte>> after = run_micro(launch);
  const std::span<const uint32_t> out = elements_of<uint32_t>(after[0]);
  size_t at = 0;
  for (uint32_t b = 0; b < 12; ++b) {
    for (uint32_t t = 0; t < 64; ++t) {
      const uint32_t lane = t % 32, bit = 1u << lane;
      const uint32_t wanted[kNames] = {t % 8,
                                       t / 8 % 4,
                                       t / 32,
                                       8,
                                       4,
                                       2,
                                       b % 2,
                                       b / 2 % 2,
                                       b / 4,
                                       2,
                                       2,
                                       3,
                                       lane,
                                       t / 32,
                                       2,
                                       bit,
                                       bit - 1,
                                       bit | (bit - 1),
                                       ~(bit | (bit - 1)),
                                       ~(bit - 1)};
      for (size_t i = 0; i < kNames; ++i) {
        INFO(names[i]);
        REQUIRE(out[at++] == wanted[i]);
      }
    }
  }
}

// ---- atomics ----

struct AtomicCase {
  const char* text;  // after `atom.` or `red.`, without the space
  char width, kind;
  uint64_t start;
  uint64_t (*apply)(uint64_t old, uint64_t value);
};

uint64_t half_sum(uint64_t a, uint64_t b, Half half) {
  return narrow(static_cast<long double>(widen(a & 0xFFFF, half)) + widen(b & 0xFFFF, half), half);
}

const AtomicCase kAtomics[] = {
    {"add.u32", '4', 'i', 5, [](uint64_t o, uint64_t v) { return o + v; }},
    {"add.s32", '4', 'i', 5, [](uint64_t o, uint64_t v) { return o + v; }},
    {"add.u64", '8', 'i', 5, [](uint64_t o, uint64_t v) { return o + v; }},
    {"add.f32", '4', 'f', 0x3F800000, [](uint64_t o, uint64_t v) { return bits(f32(o) + f32(v)); }},
    {"add.f64", '8', 'd', 0, [](uint64_t o, uint64_t v) { return bits(f64(o) + f64(v)); }},
    {"add.noftz.f16", '2', 'h', 0x3C00,
     [](uint64_t o, uint64_t v) { return half_sum(o, v, Half::F16); }},
    {"add.noftz.bf16x2", '4', 'B', 0x3F803F80,
     [](uint64_t o, uint64_t v) {
       return half_sum(o, v, Half::Bf16) | half_sum(o >> 16, v >> 16, Half::Bf16) << 16;
     }},
    {"min.u32", '4', 'i', 1 << 20, [](uint64_t o, uint64_t v) { return std::min(o, v); }},
    {"max.u64", '8', 'i', 9, [](uint64_t o, uint64_t v) { return std::max(o, v); }},
    {"min.s32", '4', 'i', 9,
     [](uint64_t o, uint64_t v) -> uint64_t {
       return static_cast<uint32_t>(std::min(static_cast<int32_t>(o), static_cast<int32_t>(v)));
     }},
    {"max.s64", '8', 'i', 9,
     [](uint64_t o, uint64_t v) {
       return static_cast<uint64_t>(std::max(static_cast<int64_t>(o), static_cast<int64_t>(v)));
     }},
    {"and.b32", '4', 'i', ~0u, [](uint64_t o, uint64_t v) { return o & v; }},
    {"or.b64", '8', 'i', 0, [](uint64_t o, uint64_t v) { return o | v; }},
    {"xor.b32", '4', 'i', 77, [](uint64_t o, uint64_t v) { return o ^ v; }},
    {"exch.b32", '4', 'i', 77, [](uint64_t, uint64_t v) { return v; }},
    {"inc.u32", '4', 'i', 3, [](uint64_t o, uint64_t v) { return o >= v ? 0 : o + 1; }},
    {"dec.u32", '4', 'i', 3, [](uint64_t o, uint64_t v) { return o == 0 || o > v ? v : o - 1; }},
};

/// `alone`: each lane has a cell of its own; else all have one, and take turns in an order that
/// machines choose.
void check_atomic(const AtomicCase& each, bool shared, bool result, bool alone) {
  INFO(each.text << (shared ? " shared" : " global") << (result ? " atom" : " red"));
  Bench bench;
  const int bits = 8 * (each.width - '0');
  const std::vector<Column> values =
      operands(std::string(1, each.kind), std::string(1, each.width));
  for (size_t t = 0; t < 32; ++t) {
    uint64_t value = values[0][values[0].size() - 32 + t];
    // NaN has more than one text, and subnormal sums are flushed in device memory.
    if (each.kind == 'f') value = test::bits(std::sin(static_cast<float>(t)));
    if (each.kind == 'd') value = test::bits(std::cos(static_cast<double>(t)));
    if (each.kind == 'h') value = narrow(std::sin(static_cast<double>(t)), Half::F16);
    if (each.kind == 'B') value = narrow(std::sin(static_cast<double>(t)), Half::Bf16) * 0x10001;
    bench.in[t] = value;
  }
  const size_t cells = alone ? 32 : 1;
  for (size_t i = 0; i < cells; ++i) bench.out[32 + i] = each.start;
  const std::string reg = each.width == '2' ? "%rs" : each.width == '4' ? "%r" : "%rd";
  const std::string op =
      fmt::format("{}.{}.{}", result ? "atom" : "red", shared ? "shared" : "global", each.text);
  std::string body = fmt::format(
      ".shared .align 8 .b8 cells[256];\nmad.wide.u32 %rd1, %t, 8, %in;\n"
      "mad.wide.u32 %rd2, %t, 8, %out;\nmul.lo.u32 %r2, %t, {};\ncvt.u64.u32 %rd4, %r2;\n"
      "add.u64 %rd4, %rd4, %out;\nmov.u32 %r3, cells;\nadd.u32 %r3, %r3, %r2;\n"
      "setp.lt.u32 %p1, %t, {};\nld.global.b{} {}7, [%rd1];\n",
      alone ? 8 : 0, cells, bits, reg);
  if (shared)
    body += "ld.global.b64 %rd3, [%rd4+256];\n@%p1 st.shared.b64 [%r3], %rd3;\nbar.warp.sync -1;\n";
  body += fmt::format("{} {}[{}], {}7;\n", op, result ? reg + "8, " : "",
                      shared ? "%r3" : "%rd4+256", reg);
  if (shared)
    body +=
        "bar.warp.sync -1;\n@%p1 ld.shared.b64 %rd3, [%r3];\n@%p1 st.global.b64 [%rd4+256], "
        "%rd3;\n";
  if (result) body += fmt::format("st.global.b{} [%rd2], {}8;\n", bits, reg);
  bench.run(alone ? op : "", body);
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  uint64_t state = each.start & mask;
  for (size_t t = 0; t < 32; ++t) {
    if (alone) state = each.start & mask;
    if (result) REQUIRE(bench.out[t] == state);
    state = each.apply(state, bench.in[t] & mask) & mask;
    if (alone) CHECK((bench.out[32 + t] & mask) == state);
  }
  CHECK((bench.out[31 + cells] & mask) == state);
}

TEST_CASE("atomics return what was there and leave what follows, lane after lane") {
  for (const AtomicCase& each : kAtomics)
    for (const bool shared : {false, true})
      for (const bool result : {false, true}) {
        // What is taken out without being looked at is a store: there is no such `red`.
        if (!result && each.text == std::string_view("exch.b32")) continue;
        for (const bool alone : {false, true}) check_atomic(each, shared, result, alone);
      }
}

TEST_CASE("compare and swap of 16, 32 and 64 bits; one lane of a warp wins") {
  for (const int bits : {16, 32, 64}) {
    INFO(bits);
    Bench bench;
    bench.out[100] = 1000;
    const std::string reg = bits == 16 ? "%rs" : bits == 32 ? "%r" : "%rd";
    // One lane wins, which one is the machine's choice.
    bench.run("",
              fmt::format(
                  "mad.wide.u32 %rd1, %t, 8, %out;\nmov.b{0} {1}4, 1000;\ncvt.u{0}.u32 {1}5, %t;\n"
                  "atom.acq_rel.gpu.global.cas.b{0} {1}6, [%out+800], {1}4, {1}5;\n"
                  "st.global.b{0} [%rd1], {1}6;\n",
                  bits, reg));
    CHECK(bench.out[100] == 0);
    CHECK(bench.out[0] == 1000);
    for (size_t t = 1; t < 32; ++t) CHECK(bench.out[t] == 0);
  }
}

}  // namespace
}  // namespace mezzo::ptx::test
