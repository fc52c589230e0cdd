// SPDX-License-Identifier: Apache-2.0
// What a user can do wrong outside of a module's text: files that are not what they should be,
// folders, full disks, words of MEZZO_DEBUG. Every case is answered in words with status 2, errors
// go to standard error, and a cache that cannot be written never costs the result.
#include <mezzo/runtime/npy.h>
#include <support/skip.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tool/command.h>
#include <unistd.h>

namespace mezzo::test {
namespace {

constexpr const char* kResult = "0 %y: tensor<4xf32> min ";

std::string with_type(const std::string& type) {
  std::string text = kDouble;
  for (size_t at = text.find("tensor<4xf32>"); at != std::string::npos;
       at = text.find("tensor<4xf32>", at + type.size()))
    text.replace(at, 13, type);
  return text;
}

/// The error of a command that is refused.
std::string refused(const Tool& mezzo, const std::string& arguments) {
  Finished run = mezzo(arguments);
  CAPTURE(arguments);
  CHECK(run.status == 2);
  CHECK(run.out == "");
  return run.err;
}

TEST_CASE("a module file that cannot be read is named with the reason") {
  Tool mezzo;
  std::filesystem::create_directory(mezzo.path("folder"));
  mezzo.write("empty.mz", "");
  mezzo.write("m.mz", kDouble);
  for (std::string command :
       {"opt ", "run --random-inputs=1 ", "grad --wrt=x ", "build --target=sm_90 -o out "}) {
    CHECK(refused(mezzo, command + "absent.mz") ==
          "error: absent.mz: cannot read: No such file or directory\n");
    CHECK(refused(mezzo, command + "folder") == "error: folder: cannot read: Is a directory\n");
    CHECK(refused(mezzo, command + "empty.mz") ==
          "empty.mz:1:1: error: expected 'module', not the end of the text\n\n^\n");
    CHECK(refused(mezzo, command + "m.mz/x") == "error: m.mz/x: cannot read: Not a directory\n");
  }
  REQUIRE(::mkfifo(mezzo.path("pipe.mz").c_str(), 0600) == 0);
  CHECK(refused(mezzo, "opt pipe.mz") ==
        "error: pipe.mz: cannot read: it is a pipe, not a file\n"
        "note: `-` reads the standard input\n");
  CHECK(refused(mezzo, "run --random-inputs=1 /dev/zero") ==
        "error: /dev/zero: cannot read: it is a device, not a file\n");
  if (::geteuid() == 0) return;  // root reads everything
  std::filesystem::permissions(mezzo.path("m.mz"), std::filesystem::perms::none);
  CHECK(refused(mezzo, "opt m.mz") == "error: m.mz: cannot read: Permission denied\n");
}

TEST_CASE("a binary file is answered with text that a terminal can show") {
  Tool mezzo;
  std::string bytes(
      "\x7f"
      "ELF\x02\x01\x01\0\0\0\x1b[31m\xff\xc3\xa9\t",
      19);
  mezzo.write("bin.mz", bytes + std::string(100000, '\x01'));
  const std::string error = refused(mezzo, "opt bin.mz");
  CHECK(error.size() < 600);
  CHECK(error.starts_with("bin.mz:1:1: error: unexpected byte 127\n?ELF" + std::string(7, '?') +
                          "[31m?\xc3\xa9\t?"));
  CHECK(contains(error, "?...\n^"));
  // A long line of text is shown around the place that is meant.
  mezzo.write("long.mz", "module @m { " + std::string(5000, ' ') + "fun " + std::string(5000, 'x'));
  const std::string long_error = refused(mezzo, "opt long.mz");
  CHECK(contains(long_error, "long.mz:1:5013: error: expected 'func' or '}', not 'fun'\n..."));
  CHECK(long_error.size() < 600);
  const size_t shown = long_error.find("fun xxx"), caret = long_error.find('^');
  const size_t line = long_error.rfind('\n', shown), under = long_error.rfind('\n', caret);
  CHECK(shown - line == caret - under);
}

TEST_CASE("absurd shapes are refused before any memory is asked for") {
  Tool mezzo;
  mezzo.write("m.mz", with_type("tensor<3037000500x3037000500xf32>"));
  CHECK(contains(refused(mezzo, "opt m.mz"),
                 "m.mz:2:15: error: shape 3037000500x3037000500 has more than 2^59 elements\n"));
  mezzo.write("m.mz", with_type("tensor<99999999999999999999xf32>"));
  CHECK(contains(refused(mezzo, "opt m.mz"),
                 "m.mz:2:15: error: '99999999999999999999' is no length of an axis\n"));
  // A shape that is legal, on a machine that is too small.
  mezzo.write("m.mz", with_type("tensor<576460752303423488xf64>"));
  CHECK(mezzo("opt m.mz --pipeline=infer").status == 0);
  for (const char* device : {"cpu", "interp"}) {
    const std::string error =
        refused(mezzo, std::string("run m.mz --random-inputs=1 --device=") + device);
    CHECK(contains(error,
                   "error: out of memory: 8589934592.0 GiB for the parameters and results of "
                   "@f, this machine has "));
    CHECK(contains(error, "note: smaller shapes"));
  }
  mezzo.write("m.mz", with_type("tensor<0x7xf32>"));
  CHECK(mezzo("run m.mz --random-inputs=1").status == 0);
}

TEST_CASE("arrays that are no arrays are refused with the file and both values") {
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  mezzo.write("text.npy", "hello");
  mezzo.write("empty.npy", "");
  std::filesystem::create_directory(mezzo.path("folder"));
  runtime::write_npy(mezzo.path("x.npy"), runtime::HostArray({ir::DType::F32, {4}}));
  const std::string whole = file_text(mezzo.path("x.npy"));
  mezzo.write("cut.npy", whole.substr(0, whole.size() - 3));
  const std::string run = "run m.mz --in x=";
  CHECK(mezzo(run + "x.npy").status == 0);
  CHECK(refused(mezzo, run + "text.npy") ==
        "error: text.npy: not a .npy file: it does not start with \\x93NUMPY (5 bytes)\n");
  CHECK(refused(mezzo, run + "empty.npy") ==
        "error: empty.npy: not a .npy file: it does not start with \\x93NUMPY (0 bytes)\n");
  CHECK(refused(mezzo, run + "folder") == "error: folder: cannot read: Is a directory\n");
  CHECK(contains(refused(mezzo, run + "cut.npy"), "error: cut.npy: truncated"));
}

TEST_CASE("results that cannot be written are an error, on a full device too") {
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  CHECK(refused(mezzo, "opt m.mz -o absent/out.mz") ==
        "error: absent/out.mz: cannot write: No such file or directory\n");
  CHECK(contains(refused(mezzo, "run m.mz --random-inputs=1 --out m.mz"),
                 "error: m.mz: cannot make the folder: "));
  for (const char* command :
       {"opt m.mz", "run m.mz --random-inputs=1", "ops", "devices", "cache"}) {
    CAPTURE(command);
    // In parentheses, since the last of two redirections is the one that counts.
    const std::string program = std::string(std::getenv("MEZZO_BIN")) + "/mezzo";
    mezzo("--help; ('" + program + "' " + command +
          " >/dev/full 2>full.txt; echo $? >status.txt); true");
    CHECK(file_text(mezzo.path("status.txt")) == "2\n");
    CHECK(contains(file_text(mezzo.path("full.txt")),
                   "error: standard output: cannot write: No space left on device\n"));
  }
}

TEST_CASE("numbers that are none are refused") {
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  CHECK(contains(refused(mezzo, "run m.mz --random-inputs=-1"),
                 "error: --random-inputs: '-1' is not a number from 0 to 9223372036854775807\n"));
  CHECK(contains(refused(mezzo, "run m.mz --random-inputs=1e3"), "'1e3' is not a number from 0"));
  CHECK(contains(refused(mezzo, "run m.mz --random-inputs=9223372036854775808"),
                 "'9223372036854775808' is not a number from 0"));
  CHECK(contains(refused(mezzo, "run m.mz --random-inputs=99999999999999999999999"),
                 "'99999999999999999999999' is not a number from 0"));
  CHECK(mezzo("run m.mz --random-inputs=9223372036854775807").status == 0);
  CHECK(contains(refused(mezzo, "run m.mz --random-inputs=1 --threads=0"), "error: --threads: "));
  mezzo.environment = "MEZZO_THREADS=many";
  CHECK(contains(refused(mezzo, "run m.mz --random-inputs=1"),
                 "error: MEZZO_THREADS: 'many' is not a number from 1 to 1024"));
}

TEST_CASE("a bad word of MEZZO_DEBUG is an error of every command") {
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  for (const char* command : {"opt m.mz", "run m.mz --random-inputs=1", "grad m.mz --wrt=x",
                              "build m.mz --target=sm_90 -o out", "ops", "devices", "cache list",
                              "cache clear", "run m.mz --random-inputs=1 --device=interp"}) {
    CAPTURE(command);
    mezzo.environment = "MEZZO_DEBUG=lunch";
    CHECK(refused(mezzo, command)
              .starts_with("error: MEZZO_DEBUG: unknown word 'lunch'; did you mean "
                           "'launch'?\nnote: known words: "
                           "dump=NAME, launch, "));
    mezzo.environment = "MEZZO_DEBUG=dump=sass";
    CHECK(contains(refused(mezzo, command), "error: MEZZO_DEBUG: not supported yet: 'dump=sass'"));
  }
}

TEST_CASE("a word of MEZZO_DEBUG that a command cannot answer is told") {
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  mezzo.environment = "MEZZO_DEBUG=launch,dump=llvm,dump=changed,numerics";
  Finished opt = mezzo("opt m.mz --passes=canonicalize");
  CHECK(opt.status == 0);
  CHECK(opt.err ==
        "warning: MEZZO_DEBUG: 'dump=llvm' shows nothing in `mezzo opt`\n"
        "warning: MEZZO_DEBUG: 'launch' shows nothing in `mezzo opt`\n"
        "warning: MEZZO_DEBUG: 'numerics' shows nothing in `mezzo opt`\n");
  mezzo.environment = "MEZZO_DEBUG=dump=ptx,cache";
  Finished run = mezzo("run m.mz --random-inputs=1");
  CHECK(run.status == 0);
  CHECK(contains(run.err,
                 "warning: MEZZO_DEBUG: 'dump=ptx' shows nothing here: kernels are "
                 "compiled for this processor"));
  CHECK_FALSE(contains(run.err, "'cache'"));
  mezzo.environment = "MEZZO_DEBUG=time";
  CHECK(mezzo("devices").err == "warning: MEZZO_DEBUG: 'time' shows nothing in `mezzo devices`\n");
  for (const char* words : {"to=out", "locs"}) {
    mezzo.environment = std::string("MEZZO_DEBUG=") + words;
    const std::string warning = std::string("warning: MEZZO_DEBUG: '") + words + "' has no";
    for (const char* command : {"opt m.mz --passes=cse", "run m.mz --random-inputs=1", "devices",
                                "run m.mz --random-inputs=1 --device=interp"}) {
      run = mezzo(command);
      CHECK(run.status == 0);
      CHECK(run.err.starts_with(warning));
      CHECK(run.err.find(warning, 1) == std::string::npos);
    }
    CHECK_FALSE(contains(mezzo("opt m.mz --passes=cse --print-after=all").err, warning));
  }
  mezzo.environment = "MEZZO_DEBUG=dump=llvm,to=m.mz";
  CHECK(contains(refused(mezzo, "run m.mz --random-inputs=1"),
                 "error: m.mz: cannot make the folder: "));
}

TEST_CASE("numerics names the operations that set flags and counts the results, on every device") {
  Tool mezzo;
  mezzo.write("m.mz", R"(module @m attributes {stage = "typed"} {
  func @f(%x: tensor<2xf32>) -> (tensor<2xf16>, tensor<2xf32>) {
    %y = cast %x {word = 1} : tensor<2xf32> -> tensor<2xf16>
    %z = log %x {word = 2} : tensor<2xf32>
    return %y, %z : (tensor<2xf16>, tensor<2xf32>)
  }
}
)");
  runtime::write_npy(mezzo.path("x.npy"),
                     runtime::HostArray({ir::DType::F32, {2}}, std::vector<double>{1e6, 0}));
  mezzo.environment = "MEZZO_DEBUG=numerics";
  for (const char* device : {"cpu", "interp"}) {
    Finished run = mezzo(std::string("run m.mz --in x=x.npy --device=") + device);
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    CHECK(run.err ==
          "numerics of @f: flag word 1: cast at m.mz:3, forward: non-finite, overflow\n"
          "numerics of @f: flag word 2: log at m.mz:4, forward: non-finite, pole\n"
          "numerics of @f: 0 %y: tensor<2xf16> min 0 max 0 mean 0 nan 0 inf 1 zero 1\n"
          "numerics of @f: 1 %z: tensor<2xf32> min 13.8155 max 13.8155 mean 13.8155 nan 0 inf 1 "
          "zero 0\n");
  }
}

TEST_CASE("a cache path that is a file is one warning, the result is there, and cache says why") {
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  mezzo.write("cache", "a file");
  Finished run = mezzo("run m.mz --random-inputs=1");
  CHECK(run.status == 0);
  CHECK(run.out.starts_with(kResult));
  CHECK(run.err == "warning: kernels are not kept on disk: " + mezzo.path("cache").string() +
                       ": Not a directory; set MEZZO_CACHE_DIR to a folder that can be written\n");
  for (const char* command : {"cache", "cache list", "cache clear"})
    CHECK(refused(mezzo, command) ==
          "error: " + mezzo.path("cache").string() +
              ": cannot read the cache: Not a directory\nnote: MEZZO_CACHE_DIR names another "
              "folder\n");
}

TEST_CASE("a cache on a full file system is one warning and the result is there") {
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  const std::filesystem::path cache = mezzo.path("cache");
  std::filesystem::create_directory(cache);
  if (::mount("none", cache.c_str(), "tmpfs", 0, "size=4k") != 0)
    return skip_case("cannot mount a small tmpfs");
  std::ofstream(cache / "filler") << std::string(4096, 'x');
  Finished run = mezzo("run m.mz --random-inputs=1");
  CHECK(::umount(cache.c_str()) == 0);
  CHECK(run.status == 0);
  CHECK(run.out.starts_with(kResult));
  CHECK(run.err.starts_with("warning: kernels are not kept on disk: "));
  CHECK(contains(run.err, ": cannot write: No space left on device; set MEZZO_CACHE_DIR"));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
}

TEST_CASE("a limit on the size of files costs the cache, not the result") {
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  // Enough for what the command prints, too little for a kernel.
  const rlimit small{1024, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  Finished run = mezzo("run m.mz --random-inputs=1");
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(run.status == 0);
  CHECK(run.out.starts_with(kResult));
  CHECK(run.err.starts_with("warning: kernels are not kept on disk: "));
  CHECK(contains(run.err, ": cannot write: File too large"));
}

TEST_CASE("a module that cannot be written leaves the file that was there") {
  Tool mezzo;
  std::string body;
  for (int i = 0; i < 40; ++i)
    body += "    %v" + std::to_string(i) + " = add %x, %x : tensor<4xf32>\n";
  mezzo.write("big.mz", "module @m {\n  func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n" + body +
                            "    return %v0 : tensor<4xf32>\n  }\n}\n");
  mezzo.write("out.mz", "what was there");
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{1024, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  Finished run = mezzo("opt big.mz -o out.mz");
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(run.status == 2);
  CHECK(run.err == "error: out.mz: cannot write: File too large\n");
  CHECK(file_text(mezzo.path("out.mz")) == "what was there");
  for (const auto& file : std::filesystem::directory_iterator(mezzo.path("")))
    CHECK(file.path().string().find(".tmp-") == std::string::npos);
}

TEST_CASE("a module replaces what a link leads to, keeps its permissions, and goes to devices") {
  namespace fs = std::filesystem;
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  mezzo.write("real.mz", "old");
  fs::permissions(mezzo.path("real.mz"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real.mz", mezzo.path("link.mz"));
  REQUIRE(mezzo("opt m.mz -o link.mz").status == 0);
  const std::string text = mezzo("opt m.mz").out;
  CHECK(fs::is_symlink(mezzo.path("link.mz")));
  CHECK(file_text(mezzo.path("real.mz")) == text);
  CHECK(fs::status(mezzo.path("real.mz")).permissions() ==
        (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(mezzo("opt m.mz -o /dev/stdout | cat").out == text);
  CHECK(refused(mezzo, "opt m.mz -o /dev/full") ==
        "error: /dev/full: cannot write: No space left on device\n");
  fs::create_symlink("new.mz", mezzo.path("ahead.mz"));
  REQUIRE(mezzo("opt m.mz -o ahead.mz").status == 0);
  CHECK(file_text(mezzo.path("new.mz")) == text);
  fs::create_symlink("loop.mz", mezzo.path("loop.mz"));
  CHECK(refused(mezzo, "opt m.mz -o loop.mz") ==
        "error: loop.mz: cannot write: Too many levels of symbolic links\n");
  fs::create_directory(mezzo.path("folder"));
  CHECK(refused(mezzo, "opt m.mz -o folder") == "error: folder: cannot write: Is a directory\n");
}

}  // namespace
}  // namespace mezzo::test
