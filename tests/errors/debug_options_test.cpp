// SPDX-License-Identifier: Apache-2.0
// The words of MEZZO_DEBUG, and the texts of its errors to the letter.
#include <mezzo/ir/debug_options.h>

#include <mezzo/ir/error.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace mezzo::ir;

namespace {

const std::vector<std::string> kPasses = {"autocast", "cse", "fuse"};

DebugOptions parse(std::string_view text) { return parse_debug_options(text, kPasses); }

}  // namespace

TEST_CASE("every word of MEZZO_DEBUG sets its option") {
  CHECK(parse("") == DebugOptions{});
  const DebugOptions options = parse(
      "dump=autocast,dump=ptx,launch,time,cache,numerics,verify=roundtrip,skip=cse,skip=fuse,"
      "stop-after=7,to=/tmp/a=b,locs");
  CHECK(options.dump == std::vector<std::string>{"autocast", "ptx"});
  CHECK(options.launch);
  CHECK(options.time);
  CHECK(options.cache);
  CHECK(options.numerics);
  CHECK(options.verify_roundtrip);
  CHECK(options.skips("cse"));
  CHECK(options.skips("fuse"));
  CHECK_FALSE(options.skips("autocast"));
  CHECK(options.stop_after == 7);
  CHECK(options.to == "/tmp/a=b");
  CHECK(options.locs);
  CHECK(parse("stop-after=0").stop_after == 0);
  CHECK_FALSE(parse("time").stop_after.has_value());
  CHECK(parse(",time,") == parse("time"));
  CHECK(parse(" time, launch ,dump=cse") == parse("time,launch,dump=cse"));
}

TEST_CASE("dump chooses passes by name, all of them, or those that changed something") {
  CHECK(parse("dump=fuse").dumps_after("fuse", false));
  CHECK_FALSE(parse("dump=fuse").dumps_after("cse", true));
  CHECK(parse("dump=all").dumps_after("cse", false));
  CHECK(parse("dump=changed").dumps_after("cse", true));
  CHECK_FALSE(parse("dump=changed").dumps_after("cse", false));
  CHECK(parse("dump=plan").dumps("plan"));
  CHECK_FALSE(parse("dump=all").dumps("plan"));
}

TEST_CASE("an unknown word is an error that lists the known ones") {
  CHECK_THROWS_WITH_AS(
      parse("time,lanch"),
      "error: MEZZO_DEBUG: unknown word 'lanch'; did you mean 'launch'?\nnote: known words: "
      "dump=NAME, launch, time, cache, numerics, verify=roundtrip, skip=PASS, stop-after=N, "
      "to=FOLDER, locs",
      mezzo::UserError);
  CHECK_THROWS_WITH_AS(
      parse("1"),
      "error: MEZZO_DEBUG: unknown word '1'\nnote: known words: dump=NAME, launch, time, cache, "
      "numerics, verify=roundtrip, skip=PASS, stop-after=N, to=FOLDER, locs",
      mezzo::UserError);
}

TEST_CASE("an unknown dump or pass is an error that lists the known ones") {
  CHECK_THROWS_WITH_AS(
      parse("dump=autocats"),
      "error: MEZZO_DEBUG: unknown dump 'autocats'; did you mean 'autocast'?\nnote: known names: "
      "all, changed, pipeline, cuda, ptx, llvm, asm, plan, autocast, cse, fuse",
      mezzo::UserError);
  CHECK_THROWS_WITH_AS(parse("skip=all"),
                       "error: MEZZO_DEBUG: unknown pass to skip 'all'\nnote: known names: "
                       "autocast, cse, fuse",
                       mezzo::UserError);
  CHECK_THROWS_WITH_AS(parse("verify=round-trip"),
                       "error: MEZZO_DEBUG: unknown verification 'round-trip'; did you mean "
                       "'roundtrip'?\nnote: known names: roundtrip",
                       mezzo::UserError);
}

TEST_CASE("a dump of machine code that nothing here can make is refused, not ignored") {
  CHECK_THROWS_WITH_AS(
      parse("dump=sass"),
      "error: MEZZO_DEBUG: not supported yet: 'dump=sass'\nnote: `nvdisasm` of the CUDA toolkit "
      "prints a .cubin of `mezzo build`; known dumps of code: cuda, ptx, llvm, asm",
      mezzo::UserError);
}

TEST_CASE("words are told apart by who can answer them") {
  const DebugOptions all = parse(
      "dump=autocast,dump=all,dump=changed,dump=pipeline,dump=cuda,dump=ptx,dump=llvm,dump=asm,"
      "dump=plan,launch,time,cache,numerics,verify=roundtrip,skip=cse,stop-after=3,to=/tmp,locs");
  const auto outside = [&](std::vector<DebugArea> areas) { return all.words_outside(areas); };
  using Words = std::vector<std::string>;
  CHECK(outside({DebugArea::Passes, DebugArea::CpuCode, DebugArea::CudaCode, DebugArea::Executable,
                 DebugArea::Runs}) == Words{});
  CHECK(outside({DebugArea::Passes, DebugArea::CudaCode}) ==
        Words{"dump=llvm", "dump=asm", "dump=plan", "launch", "cache", "numerics"});
  CHECK(outside({DebugArea::CpuCode, DebugArea::Executable, DebugArea::Runs}) ==
        Words{"dump=autocast", "dump=all", "dump=changed", "dump=pipeline", "dump=cuda", "dump=ptx",
              "time", "verify=roundtrip", "skip=cse", "stop-after=3", "locs"});
  CHECK(parse("to=/tmp").words_outside({}) == Words{});
}

TEST_CASE("a word that serves others is a warning without one of them") {
  using Words = std::vector<std::string>;
  CHECK(parse("to=/tmp,launch").unserved() ==
        Words{"'to=/tmp' has nothing to write: dump=NAME and time are written there"});
  CHECK(parse("locs,dump=pipeline").unserved() ==
        Words{"'locs' has no module to be printed in: add dump=all, dump=changed or dump= with the "
              "name of a pass; `mezzo opt --locs` prints them in its result"});
  CHECK(parse("locs,to=/tmp").unserved().size() == 2);
  for (const char* dump : {"all", "changed", "cse"})
    CHECK(parse(std::string("locs,to=/tmp,dump=") + dump).unserved().empty());
}

TEST_CASE("a missing, superfluous or malformed value is an error that says what belongs there") {
  CHECK_THROWS_WITH_AS(parse("dump"), "error: MEZZO_DEBUG: 'dump' needs a value, as in 'dump=NAME'",
                       mezzo::UserError);
  CHECK_THROWS_WITH_AS(parse("to="), "error: MEZZO_DEBUG: 'to' needs a value, as in 'to=FOLDER'",
                       mezzo::UserError);
  CHECK_THROWS_WITH_AS(parse("launch=1"),
                       "error: MEZZO_DEBUG: 'launch=1' has a value, 'launch' stands alone",
                       mezzo::UserError);
  for (const char* bad : {"seven", "-1", "7x", "99999999999"})
    CHECK_THROWS_WITH_AS(parse(std::string("stop-after=") + bad),
                         ("error: MEZZO_DEBUG: 'stop-after=" + std::string(bad) +
                          "' needs a number of passes, 0 or more")
                             .c_str(),
                         mezzo::UserError);
}
