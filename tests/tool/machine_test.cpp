// SPDX-License-Identifier: Apache-2.0
// `mezzo devices` and `mezzo cache`.
#include <mezzo/dsl/device.h>

#include <doctest/doctest.h>

#include <tool/command.h>

namespace mezzo::test {
namespace {

TEST_CASE("devices tells how the machine treats the 16-bit types") {
  Tool mezzo;
  Finished run = mezzo("devices");
  REQUIRE(run.status == 0);
  for (const char* part : {"cpu\n", "features  ", "f16       ", "bf16      ", "interp\n", "cuda"})
    CHECK(contains(run.out, part));
  // The same words as the language uses.
  const std::string line = describe_machine();
  const size_t f16 = line.find("f16: ") + 5, bf16 = line.find("; bf16: ");
  CHECK(contains(run.out, "f16       " + line.substr(f16, bf16 - f16) + "; "));
  CHECK(contains(run.out, "bf16      " + line.substr(bf16 + 8) + "; "));
  mezzo.environment = "MEZZO_THREADS=3";
  CHECK(contains(mezzo("devices").out, "threads   3 "));
  mezzo.environment = "MEZZO_THREADS=0";
  run = mezzo("devices");
  CHECK(run.status == 2);
  CHECK(run.out == "");
  CHECK(contains(run.err, "error: MEZZO_THREADS: '0' is not a number from 1 to 1024"));
}

TEST_CASE("devices says why there is no CUDA device") {
  Tool mezzo;
  mezzo.environment = "MEZZO_CUDA_LIBRARY=/nowhere/libcuda.so.1";
  const Finished run = mezzo("devices");
  CHECK(run.status == 0);
  CHECK(contains(run.out,
                 "cuda\n  the CUDA driver that MEZZO_CUDA_LIBRARY names cannot be opened: "
                 "/nowhere/libcuda.so.1: "));
  CHECK(contains(run.out, "\n  note: unset it to use the system's libcuda.so.1\n"));
}

TEST_CASE("cache lists what runs have stored, and clears it") {
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  CHECK(contains(mezzo("cache list").out, "0 kernels, 0 bytes in "));
  REQUIRE(mezzo("run m.mz --random-inputs=1").status == 0);
  Finished list = mezzo("cache list");
  CHECK(list.status == 0);
  CHECK(contains(list.out, " B  kernel of family elementwise: add -> tensor<4xf32>\n"));
  CHECK(contains(list.out, "1 kernel, "));
  CHECK(mezzo("cache").out == list.out);
  CHECK(contains(mezzo("cache clear").out, "1 kernel removed from "));
  CHECK(contains(mezzo("cache list").out, "0 kernels, "));
  CHECK(mezzo("cache empty").status == 2);
}

}  // namespace
}  // namespace mezzo::test
