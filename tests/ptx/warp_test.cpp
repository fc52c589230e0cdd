// SPDX-License-Identifier: Apache-2.0
// Instructions of whole warps: shuffles, votes, matches, reductions, matrix registers. Each is run
// with all lanes and by groups of them, and compared lane by lane.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ptx/micro.h>
#include <random>

namespace mezzo::ptx::test {
namespace {

using Lanes = std::array<uint32_t, 32>;

Lanes random_lanes(uint64_t seed, uint32_t most = ~0u) {
  std::mt19937_64 engine(seed);
  Lanes lanes;
  for (uint32_t& lane : lanes) lane = static_cast<uint32_t>(engine()) & most;
  return lanes;
}

/// `text` has %a, %b, the member mask %m and the results %d, %q. Lanes outside of `members` do
/// not run it and keep 99. `open`: lanes whose value PTX does not define.
struct Result {
  Lanes value, predicate;
};
Result run_warp(const std::string& text, uint32_t members, const Lanes& a, const Lanes& b = {},
                const std::vector<size_t>& open = {}) {
  std::vector<uint32_t> in(a.begin(), a.end());
  in.insert(in.end(), b.begin(), b.end());
  MicroLaunch launch{.op = text};
  launch.buffers = {bytes_of(in), bytes_of(std::vector<uint32_t>(64))};
  launch.results = {{.count = 64, .open = open}};
  launch.body = fmt::format(
      ".reg .b32 %a, %b, %d, %m, %t, %x;\n.reg .b64 %in, %out;\n.reg .pred %p, %q, %z;\n"
      "ld.param.u64 %in, [p0];\nld.param.u64 %out, [p1];\nmov.u32 %t, %laneid;\n"
      "mad.wide.u32 %in, %t, 4, %in;\nmad.wide.u32 %out, %t, 4, %out;\n"
      "ld.global.u32 %a, [%in];\nld.global.u32 %b, [%in+128];\n"
      "mov.u32 %d, 99;\nsetp.ne.u32 %q, 0, 0;\nmov.u32 %m, {};\n"
      "shr.u32 %x, %m, %t;\nand.b32 %x, %x, 1;\nsetp.eq.u32 %p, %x, 0;\nsetp.ne.u32 %z, %a, 0;\n"
      "@%p bra AFTER;\n{}\nAFTER:\n"
      "st.global.u32 [%out], %d;\nselp.u32 %x, 1, 0, %q;\nst.global.u32 [%out+128], %x;\n",
      static_cast<int32_t>(members), text);
  const std::vector<std::vector<std::byte>> after = run_micro(launch);
  const std::span<const uint32_t> out = elements_of<uint32_t>(after[1]);
  Result result;
  for (size_t i = 0; i < 32; ++i) {
    result.value[i] = out[i];
    result.predicate[i] = out[32 + i];
  }
  return result;
}

constexpr uint32_t kMembers[] = {~0u, 0x0000FFFF, 0xAAAAAAAA, 0x80000001, 0x00F0F000};

TEST_CASE("shfl moves values inside segments") {
  const Lanes values = random_lanes(1);
  for (const uint32_t members : kMembers) {
    for (const int width : {32, 16, 8, 4, 2, 1}) {
      for (const int by : {0, 1, 3, 8, 16, 31}) {
        for (const std::string mode : {"up", "down", "bfly", "idx"}) {
          INFO(mode << " by " << by << " of " << width << " in " << members);
          std::array<int, 32> sources{};
          std::array<bool, 32> inside{};
          std::vector<size_t> open;
          for (int lane = 0; lane < 32; ++lane) {
            const auto at = static_cast<size_t>(lane);
            const int first = lane / width * width;
            int source = lane;
            if (mode == "up") inside[at] = lane - by >= first, source = lane - by;
            if (mode == "down") inside[at] = lane + by < first + width, source = lane + by;
            if (mode == "bfly") inside[at] = (lane ^ by) < first + width, source = lane ^ by;
            if (mode == "idx") inside[at] = true, source = first + by % width;
            sources[at] = inside[at] ? source : lane;
            if ((members >> lane & 1) && !(members >> sources[at] & 1)) open.push_back(at);
          }
          // As CUDA's __shfl functions build the operand.
          const uint32_t segment =
              static_cast<uint32_t>(32 - width) << 8 | (mode == "up" ? 0 : 0x1F);
          const Result got =
              run_warp(fmt::format("shfl.sync.{}.b32 %d|%q, %a, {}, {}, %m;", mode, by, segment),
                       members, values, {}, open);
          for (size_t at = 0; at < 32; ++at) {
            if (!(members >> at & 1)) {
              REQUIRE(got.value[at] == 99);
              continue;
            }
            REQUIRE(got.predicate[at] == inside[at]);
            if (members >> sources[at] & 1)
              REQUIRE(got.value[at] == values[static_cast<size_t>(sources[at])]);
            else
              REQUIRE(got.value[at] == ~0u);
          }
        }
      }
    }
  }
  // Each lane asks for another one.
  const Lanes from = random_lanes(2, 31);
  const Result got = run_warp("shfl.sync.idx.b32 %d, %a, %b, 31, %m;", ~0u, values, from);
  for (size_t i = 0; i < 32; ++i) CHECK(got.value[i] == values[from[i]]);
}

TEST_CASE("votes and the active mask") {
  for (const uint32_t members : kMembers) {
    for (const int pattern : {0, 1, 2, 3}) {
      Lanes a = random_lanes(static_cast<uint64_t>(pattern), 1);
      if (pattern == 1) a.fill(0);
      if (pattern == 2) a.fill(1);
      uint32_t votes = 0;
      for (int i = 0; i < 32; ++i) votes |= (a[static_cast<size_t>(i)] ? 1u : 0u) << i;
      votes &= members;
      const auto check = [&](const std::string& text, bool wanted) {
        INFO(text << " " << members);
        const Result got = run_warp(text, members, a);
        for (int i = 0; i < 32; ++i)
          REQUIRE(got.predicate[static_cast<size_t>(i)] == (members >> i & 1 ? wanted : false));
      };
      check("vote.sync.all.pred %q, %z, %m;", votes == members);
      check("vote.sync.any.pred %q, %z, %m;", votes != 0);
      check("vote.sync.uni.pred %q, %z, %m;", votes == 0 || votes == members);
      check("vote.sync.any.pred %q, !%z, %m;", votes != members);
      const Result ballot = run_warp("vote.sync.ballot.b32 %d, %z, %m;", members, a);
      const Result active = run_warp("activemask.b32 %d;", members, a);
      for (int i = 0; i < 32; ++i) {
        const bool in = members >> i & 1;
        REQUIRE(ballot.value[static_cast<size_t>(i)] == (in ? votes : 99));
        REQUIRE(active.value[static_cast<size_t>(i)] == (in ? members : 99));
      }
    }
    const Result elected = run_warp("elect.sync %d|%q, %m;", members, {});
    const auto leader = static_cast<uint32_t>(std::countr_zero(members));
    for (uint32_t i = 0; i < 32; ++i) {
      REQUIRE(elected.predicate[i] == (i == leader ? 1u : 0u));
      if (members >> i & 1) REQUIRE(elected.value[i] == leader);
    }
  }
}

TEST_CASE("match finds equal values") {
  for (const uint32_t members : kMembers) {
    for (const uint32_t most : {0u, 1u, 7u}) {
      const Lanes a = random_lanes(most + 3, most);
      const Result any = run_warp("match.any.sync.b32 %d, %a, %m;", members, a);
      const Result all = run_warp("match.all.sync.b32 %d|%q, %a, %m;", members, a);
      const Result wide = run_warp(
          "{ .reg .b64 %w; mov.b64 %w, {5, %a}; match.any.sync.b64 %d, %w, %m; }", members, a);
      uint32_t first = ~0u;
      bool same = true;
      for (int i = 0; i < 32; ++i) {
        if (!(members >> i & 1)) continue;
        if (first == ~0u) first = a[static_cast<size_t>(i)];
        same &= a[static_cast<size_t>(i)] == first;
      }
      for (int i = 0; i < 32; ++i) {
        if (!(members >> i & 1)) continue;
        const auto at = static_cast<size_t>(i);
        uint32_t equal = 0;
        for (int j = 0; j < 32; ++j)
          if ((members >> j & 1) && a[static_cast<size_t>(j)] == a[at]) equal |= 1u << j;
        REQUIRE(any.value[at] == equal);
        REQUIRE(wide.value[at] == equal);
        REQUIRE(all.value[at] == (same ? members : 0));
        REQUIRE(all.predicate[at] == same);
      }
    }
  }
}

TEST_CASE("redux adds, compares and joins over the members") {
  const Lanes a = random_lanes(9);
  const struct {
    const char* name;
    uint32_t (*join)(uint32_t, uint32_t);
  } cases[] = {
      {"add.u32", [](uint32_t x, uint32_t y) { return x + y; }},
      {"add.s32", [](uint32_t x, uint32_t y) { return x + y; }},
      {"min.u32", [](uint32_t x, uint32_t y) { return std::min(x, y); }},
      {"max.u32", [](uint32_t x, uint32_t y) { return std::max(x, y); }},
      {"min.s32",
       [](uint32_t x, uint32_t y) {
         return static_cast<int32_t>(x) < static_cast<int32_t>(y) ? x : y;
       }},
      {"max.s32",
       [](uint32_t x, uint32_t y) {
         return static_cast<int32_t>(x) < static_cast<int32_t>(y) ? y : x;
       }},
      {"and.b32", [](uint32_t x, uint32_t y) { return x & y; }},
      {"or.b32", [](uint32_t x, uint32_t y) { return x | y; }},
      {"xor.b32", [](uint32_t x, uint32_t y) { return x ^ y; }},
  };
  for (const uint32_t members : kMembers) {
    for (const auto& each : cases) {
      INFO(each.name << " " << members);
      const Result got = run_warp(fmt::format("redux.sync.{} %d, %a, %m;", each.name), members, a);
      uint32_t wanted = a[static_cast<size_t>(std::countr_zero(members))];
      for (int i = std::countr_zero(members) + 1; i < 32; ++i)
        if (members >> i & 1) wanted = each.join(wanted, a[static_cast<size_t>(i)]);
      for (int i = 0; i < 32; ++i)
        REQUIRE(got.value[static_cast<size_t>(i)] == (members >> i & 1 ? wanted : 99));
    }
  }
  Lanes floats;
  for (size_t i = 0; i < 32; ++i)
    floats[i] = std::bit_cast<uint32_t>(std::sin(static_cast<float>(i)));
  floats[7] = 0x7FC00000;
  const auto reduced = [&](const char* name) {
    return std::bit_cast<float>(
        run_warp(fmt::format("redux.sync.{}.f32 %d, %a, %m;", name), ~0u, floats).value[3]);
  };
  float least = 9, most = -9, smallest = 9;
  for (size_t i = 0; i < 32; ++i) {
    const float value = std::bit_cast<float>(floats[i]);
    if (std::isnan(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
    smallest = std::min(smallest, std::fabs(value));
  }
  CHECK(reduced("min") == least);
  CHECK(reduced("max") == most);
  CHECK(reduced("min.abs") == smallest);
  CHECK(std::isnan(reduced("max.NaN")));
}

TEST_CASE("lanes that take different ways meet again, and at .sync instructions") {
  // Each side of a branch counts its lanes; then all shuffle; a loop runs as often as its lane
  // says.
  DeviceMemory memory(1 << 20);
  Buffer<uint32_t> out(memory, 128);
  const std::string body = R"(
    .reg .b32 %t, %m, %n, %s, %i;
    .reg .b64 %out;
    .reg .pred %p;
    ld.param.u64 %out, [p0];
    mov.u32 %t, %laneid;
    mad.wide.u32 %out, %t, 4, %out;
    and.b32 %i, %t, 4;
    setp.eq.u32 %p, %i, 0;
    @%p bra LEFT;
    activemask.b32 %m;
    mov.u32 %n, 100;
    bra.uni JOIN;
LEFT:
    activemask.b32 %m;
    mov.u32 %n, 200;
JOIN:
    shfl.sync.bfly.b32 %s, %n, 4, 31, -1;
    st.global.u32 [%out], %m;
    st.global.u32 [%out+128], %s;
    mov.u32 %i, 0;
LOOP:
    add.u32 %i, %i, 3;
    setp.lt.u32 %p, %i, %t;
    @%p bra LOOP;
    activemask.b32 %m;
    st.global.u32 [%out+256], %i;
    st.global.u32 [%out+384], %m;
)";
  const Module module(program(body, 1), memory);
  for (const bool hostile : {false, true}) {
    Options options;
    options.hostile_divergence = hostile;
    module.kernel("k").launch(memory, {1}, {32}, 0, parameter_bytes({out.address}), options);
    for (uint32_t i = 0; i < 32; ++i) {
      CHECK(out[i] == (i & 4 ? 0xF0F0F0F0 : 0x0F0F0F0F));
      CHECK(out[32 + i] == (i & 4 ? 200 : 100));
      CHECK(out[64 + i] == (i == 0 ? 3 : (i + 2) / 3 * 3));
      // Kindly run, all meet behind the loop; by themselves, those that leave together stay so.
      if (!hostile) CHECK(out[96 + i] == ~0u);
      if (hostile) CHECK(out[96 + i] != ~0u);
    }
  }
}

TEST_CASE("branches through a table, and functions that are called") {
  MicroLaunch launch{.op = "brx.idx, call"};
  launch.buffers = {bytes_of(std::vector<uint32_t>(32))};
  launch.results = {{.buffer = 0, .count = 32}};
  launch.declarations = R"(
.func (.param .b32 result) twice (.param .b32 value, .param .align 8 .b8 pair[16])
{
  .reg .b32 %r<4>;
  .reg .pred %p;
  ld.param.u32 %r1, [value];
  ld.param.u32 %r2, [pair+8];
  setp.gt.u32 %p, %r1, 29;
  @%p bra BIG;
  mad.lo.u32 %r3, %r1, 2, %r2;
  st.param.b32 [result], %r3;
  ret;
BIG:
  st.param.b32 [result], 7;
  ret;
}
)";
  launch.body = R"(
    .reg .b32 %t, %k, %r;
    .reg .b64 %out;
    .reg .pred %p;
    ld.param.u64 %out, [p0];
    mov.u32 %t, %laneid;
    mad.wide.u32 %out, %t, 4, %out;
    and.b32 %k, %t, 3;
    mov.u32 %r, 0;
    table: .branchtargets A, B, C, A;
    brx.idx %k, table;
A:  add.u32 %r, %r, 10;
    bra.uni DONE;
B:  add.u32 %r, %r, 20;
    bra.uni DONE;
C:  add.u32 %r, %r, 30;
DONE:
    setp.ne.u32 %p, %t, 5;
    {
      .param .b32 in;
      .param .align 8 .b8 two[16];
      .param .b32 back;
      st.param.b32 [in], %t;
      st.param.b32 [two+8], %r;
      @%p call (back), twice, (in, two);
      ld.param.b32 %k, [back];
    }
    @%p mov.u32 %r, %k;
    st.global.u32 [%out], %r;
)";
  const std::vector<std::vector<std::byte>> after = run_micro(launch);
  const std::span<const uint32_t> out = elements_of<uint32_t>(after[0]);
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t from[] = {10, 20, 30, 10};
    const uint32_t wanted = i == 5 ? 20 : i > 29 ? 7 : 2 * i + from[i & 3];
    CHECK(out[i] == wanted);
  }
}

}  // namespace
}  // namespace mezzo::ptx::test
