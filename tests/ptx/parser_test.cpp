// SPDX-License-Identifier: Apache-2.0
// Reading PTX: scopes, literals, declarations; texts that are refused, with line and statement.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ptx/faults.h>

namespace mezzo::ptx::test {
namespace {

uint32_t value_of(const std::string& body, const std::string& declarations = "") {
  DeviceMemory memory(1 << 20);
  Buffer<uint32_t> out(memory, 1);
  const Module module(
      program(".reg .b64 %out;\nld.param.u64 %out, [p0];\n" + body, 1, declarations), memory);
  module.kernel("k").launch(memory, {1}, {1}, 0, parameter_bytes({out.address}));
  return out[0];
}

TEST_CASE("registers, labels and variables belong to the braces that declare them") {
  CHECK(value_of(R"(
    .reg .b32 %x, %y;
    mov.u32 %x, 1;
    { .reg .b64 %x; mov.u64 %x, 0x100000002; cvt.u32.u64 %y, %x; }
    { .reg .b16 %x; .reg .b16 t<3>; mov.u16 %x, 5; mov.u16 t2, %x; { .reg .b32 %x; cvt.u32.u16 %x, t2; add.u32 %y, %y, %x; } }
    add.u32 %x, %x, %y;
    st.global.u32 [%out], %x;)") == 8);
  CHECK(value_of(R"(
    .reg .b32 %x;
    .reg .pred %p;
    mov.u32 %x, 0;
LOOP:
    { setp.gt.u32 %p, %x, 4;
      @%p bra LOOP2;
      add.u32 %x, %x, 10;
      bra.uni NEXT;
LOOP2: add.u32 %x, %x, 100;
NEXT: }
    { add.u32 %x, %x, 1;
      setp.lt.u32 %p, %x, 120;
      @!%p bra NEXT;
      bra.uni LOOP;
NEXT: }
    st.global.u32 [%out], %x;)") == 213);
  CHECK(value_of(R"(
    { .shared .align 4 .b32 s; st.shared.u32 [s], 3; }
    { .shared .align 4 .b32 s; .reg .b32 %a; st.shared.u32 [s], 4; ld.shared.u32 %a, [s]; st.global.u32 [%out], %a; })") ==
        4);
}

TEST_CASE("literals of every base and sign, negative displacements, several statements a line") {
  CHECK(value_of(".reg .b32 %x; mov.u32 %x, 0xFFu; add.u32 %x, %x, 010; add.u32 %x, %x, 0b101U; "
                 "add.s32 %x, %x, -3; st.global.u32 [%out], %x;") == 265);
  CHECK(value_of(".reg .b64 %a; add.u64 %a, %out, 64; st.global.u32 [%a+-64], 17;") == 17);
  CHECK(value_of(".reg .b64 %a; add.u64 %a, %out, 64; st.global.u32 [%a-64], 18;") == 18);
  CHECK(value_of("/* a comment\n over lines */ .reg .b32 %x; // and one\nmov.u32 %x, "
                 "WARP_SZ;\nst.global.u32 [%out], %x;") == 32);
  CHECK(value_of(".reg .b32 %x; mov.u32 %x, words+4; st.global.u32 [%out], %x;",
                 ".shared .align 16 .b8 words[16];") == 4);
}

TEST_CASE("what a module says of itself") {
  DeviceMemory memory(1 << 20);
  const Module module(R"(//
.version 9.0
.target sm_100a, debug
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 8 .b8 state[24];
.visible .entry first(.param .u32 a, .param .u64 .ptr .global .align 16 b, .param .align 4 .b8 c[6], .param .f64 d)
.maxntid 64, 2, 1
.minnctapersm 2
{ .shared .align 8 .b8 s[40]; .reg .b32 %r; ld.shared.u32 %r, [s]; ret; }
.weak .entry second() { ret; }
)",
                      memory);
  CHECK(module.version() == 90);
  CHECK(module.target() == 100);
  CHECK(module.kernel_names() == std::vector<std::string>{"first", "second"});
  const Kernel first = module.kernel("first");
  REQUIRE(first.parameters().size() == 4);
  const uint32_t offsets[] = {0, 8, 16, 24}, bytes[] = {4, 8, 6, 8};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(first.parameters()[i].offset == offsets[i]);
    CHECK(first.parameters()[i].bytes == bytes[i]);
  }
  CHECK(first.parameter_bytes() == 32);
  CHECK(first.static_shared_bytes() == 40);
  CHECK(first.max_threads() == 128);
  CHECK(module.variable("state").bytes == 24);
  CHECK(memory.holds(module.variable("state").address, 24));
  CHECK(module.variable("none").address == 0);
  CHECK_THROWS_WITH_AS(module.kernel("third"),
                       "no kernel 'third' in the module, there is: first, second",
                       std::out_of_range);
}

TEST_CASE("a module's variables are freed with it") {
  DeviceMemory memory(1 << 20);
  {
    const Module module(program("", 0, ".global .align 8 .b8 state[24];"), memory);
    CHECK(memory.used() == 24);
  }
  CHECK(memory.used() == 0);
  DeviceMemory small(10);
  CHECK_THROWS_AS(Module(program("", 0, ".global .align 8 .b8 state[24];"), small), std::bad_alloc);
}

void check_refused(const std::string& body, const std::string& what,
                   const std::string& declarations = "") {
  INFO(body);
  DeviceMemory memory(1 << 20);
  const std::string text =
      program(".reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .b16 %rs<4>;\n.reg .pred %p<4>;\n" + body,
              1, declarations);
  std::string got;
  try {
    const Module module(text, memory);
  } catch (const ParseError& error) {
    got = error.what();
  }
  REQUIRE(!got.empty());
  const size_t line = static_cast<size_t>(marked_line(text));
  CHECK_MESSAGE(got.find(what) != std::string::npos, got << " does not say '" << what << "'");
  if (line)
    CHECK_MESSAGE(got.find(fmt::format("ptx line {}: ", line)) == 0,
                  got << " instead of line " << line);
}

TEST_CASE("what is not known is refused with its line and text") {
  check_refused(
      "frobnicate.b32 %r0, %r1; // HERE",
      "the instruction 'frobnicate.b32' is not known in `frobnicate.b32 %r0, %r1; // HERE`");
  check_refused("add.u32 %r0, %r1, %r2;\nadd.wild.u32 %r0, %r1, %r2; // HERE",
                "the modifier '.wild' is not known here");
  check_refused("add.u32 %r0, %r1, %rd2; // HERE", "'%rd2' has 64 bits where 32 are expected");
  check_refused("add.u64 %r0, %rd1, %rd2; // HERE", "'%r0' has 32 bits where 64 are expected");
  check_refused("add.u32 %r0, %r1, %r9; // HERE", "the register '%r9' is not known");
  check_refused("{ .reg .b32 %in; }\nmov.u32 %in, 1; // HERE", "the register '%in' is not known");
  check_refused("add.u32 %r0, %r1; // HERE", "2 operands where 3 are expected");
  check_refused("mov.u32 5, %r1; // HERE", "'5' cannot be written to");
  check_refused("mov.u32 %tid.x, %r1; // HERE", "'%tid.x' cannot be written to");
  check_refused("setp.eq.u32 %r0, %r1, %r2; // HERE", "'%r0' is not a predicate");
  check_refused("@%r1 mov.u32 %r0, 1; // HERE", "'%r1' is not a predicate");
  check_refused("setp.quite.u32 %p0, %r1, %r2; // HERE", "a comparison expected");
  check_refused("fma.f32 %r0, %r1, %r2, %r3; // HERE", "a rounding expected");
  check_refused("cvt.f32.s32 %r0, %r1; // HERE", "a rounding expected");
  check_refused("cvt.s32.f32 %r0, %r1; // HERE", "a rounding to integers expected");
  check_refused("ex2.f32 %r0, %r1; // HERE", ".approx expected");
  check_refused("shfl.up.b32 %r0, %r1, 1, 0; // HERE", ".sync expected");
  check_refused(
      "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd0,%rd1}, {%rd2}, {%rd3}, {%rd0,%rd1}; "
      "// HERE",
      "this shape of mma is not known");
  check_refused(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0,%r1,%r2}, {%r0,%r1}, {%r2}, "
      "{%r0,%r1,%r2,%r3}; // HERE",
      "4 registers expected");
  check_refused("cp.async.cg.shared.global [%r0], [%rd0], 8; // HERE", "a copy of 8 bytes");
  check_refused("ld.global.v2.u32 {%r0,%r1,%r2}, [%rd0]; // HERE", "3 registers for 2 parts");
  check_refused("ld.global.v8.u64 {%rd0,%rd1,%rd2,%rd3,%rd0,%rd1,%rd2,%rd3}, [%rd0]; // HERE",
                "an access of 64 bytes");
  check_refused("ld.global.u32 %r0, [%rs0]; // HERE", "cannot hold an address");
  check_refused("ld.shared.u32 %r0, [g]; // HERE", "the variable lies in another address space",
                ".global .u32 g;");
  check_refused("st.param.u64 [p0], %rd0; // HERE", "a store to the kernel's parameters");
  check_refused("bra NOWHERE; // HERE", "the label 'NOWHERE' is not known");
  check_refused("brx.idx %r0, none; // HERE", "the table 'none' is not known");
  check_refused("call.uni nobody, (); // HERE", "the function 'nobody' has no body here");
  check_refused("mov.u32 %r0, 0f123; // HERE", "'0f123' is not a number");
  check_refused("lop3.b32 %r0, %r1, %r2, %r3, 256; // HERE", "a table of 8 bits expected");
  check_refused(".reg .q32 %z; // HERE", "registers of type '.q32' are not known");
  check_refused(".wonder 3; // HERE", "the directive '.wonder' is not known here");
  check_refused("", "the directive '.alias' is not known", ".alias a, b; // HERE");
  check_refused("{ mov.u32 %r0, 1;", "'}' expected, found the end of the text");
}

TEST_CASE("a module without version, or of something else") {
  DeviceMemory memory(1 << 20);
  CHECK_THROWS_WITH_AS(Module(".target sm_80\n", memory), "ptx line 2: no '.version' in ``",
                       ParseError);
  CHECK_THROWS_AS(Module("not ptx", memory), ParseError);
  CHECK_THROWS_AS(Module(".version 8.0\n.target compute_80\n", memory), ParseError);
  CHECK_THROWS_AS(Module(".version 8.0\n.target sm_80\n.address_size 32\n", memory), ParseError);
}

TEST_CASE("a function that calls itself is refused") {
  check_refused("call.uni again, (); // not here", "'again' calls itself",
                ".func again() { call.uni again, (); // HERE\n ret; }");
}

}  // namespace
}  // namespace mezzo::ptx::test
