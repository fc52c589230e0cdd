// SPDX-License-Identifier: Apache-2.0
// `mezzo` with CUDA devices, over the fake driver: what a user sees where it works and in every
// situation where it does not.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/runtime/kernel_cache.h>
#include <support/skip.h>

#include <doctest/doctest.h>

#include <sstream>
#include <tool/command.h>
#include <vector>

namespace mezzo::test {
namespace {

constexpr const char* kFake = "MEZZO_CUDA_LIBRARY=" MEZZO_FAKECUDA " ";
constexpr const char* kRun = "run m.mz --random-inputs=1 --device=cuda";

/// Two kernels with 32 KiB between them.
constexpr const char* kTwoKernels = R"(module @net {
  func @f(%x: tensor<128x64xf32>) -> tensor<64x128xf32> {
    %0 = softmax %x {axis = 1} : tensor<128x64xf32> loc("net.cpp":4)
    %1 = reshape %0 {shape = [64, 128]} : tensor<128x64xf32> -> tensor<64x128xf32> loc("net.cpp":5)
    %y = softmax %1 {axis = 1} : tensor<64x128xf32> loc("net.cpp":6)
    return %y : tensor<64x128xf32>
  }
}
)";

/// `mezzo` over the fake driver, with a program m.mz.
struct CudaTool : Tool {
  explicit CudaTool(const std::string& variables = "", std::string_view program = kDouble) {
    environment = kFake + variables;
    write("m.mz", program);
  }
};

/// Standard error of a run on the CUDA device that fails, without the fake driver's own lines.
std::string error_of_run(const std::string& variables, std::string_view program = kDouble) {
  const Finished run = CudaTool(variables, program)(kRun);
  CHECK(run.status == 2);
  CHECK(run.out == "");
  std::string text;
  std::istringstream lines(run.err);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("fake CUDA driver: ")) text += line + "\n";
  return text;
}

std::string library_note() {
  return "note: the library is MEZZO_CUDA_LIBRARY = " MEZZO_FAKECUDA "\n";
}

bool has_nvrtc() {
  std::string reason;
  const bool found = codegen::nvrtc_available(&reason);
  if (!found) skip_case(reason);
  return found;
}

TEST_CASE("a GPU without bf16 computes it all the same, and says that it is emulated") {
  if (!has_nvrtc()) return;
  constexpr const char* kProduct = R"(module @m {
  func @f(%x: tensor<64x48xf32>, %y: tensor<48x32xf32>) -> tensor<64x32xf32> {
    %0 = matmul %x, %y : (tensor<64x48xf32>, tensor<48x32xf32>) -> tensor<64x32xf32>
    return %0 : tensor<64x32xf32>
  }
}
)";
  const std::string run = std::string(kRun) + " --policy=mixed_bfloat16";
  const Finished old = CudaTool("MEZZO_FAKE_CC=75", kProduct)(run),
                 recent = CudaTool("MEZZO_FAKE_CC=80", kProduct)(run);
  REQUIRE(old.status == 0);
  REQUIRE(recent.status == 0);
  CHECK(contains(old.err,
                 "device 0 (Mezzo PTX interpreter sm_75) is of sm_75, which has no bf16: it is "
                 "emulated, and products of bf16 do not run on tensor cores; mixed_float16 uses "
                 "them"));
  CHECK(recent.err == "");
  CHECK(old.out == recent.out);
}

/// The message of a run of `program` planned for sm_80, with `from` in its text changed to `to`.
std::string error_of_plan(const char* program, const std::string& from, const std::string& to,
                          const std::string& variables = "MEZZO_FAKE_CC=80") {
  CudaTool mezzo(variables, program);
  std::string text = mezzo("opt m.mz --pipeline=infer --target=sm_80").out;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  mezzo.write("m.mz", text.replace(at, from.size(), to));
  const Finished run = mezzo(kRun);
  CHECK(run.status == (run.err.empty() ? 0 : 2));
  return run.err;
}

TEST_CASE("a plan for a GPU that was read fits kernel and GPU, or is refused with the reason") {
  if (!has_nvrtc()) return;
  constexpr const char* kColumns = R"(module @m {
  func @f(%x: tensor<3000x64xf32>) -> tensor<64xf32> {
    %0 = sum %x {axes = [0]} : tensor<3000x64xf32> -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}
)";
  constexpr const char* kRows = R"(module @m {
  func @f(%x: tensor<3x200000xf32>) -> tensor<3xf32> {
    %0 = sum %x {axes = [1]} : tensor<3x200000xf32> -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
)";
  constexpr const char* kBoth = R"(module @m {
  func @f(%x: tensor<3000x64xf32>) -> (tensor<3000xf32>, tensor<64xf32>) {
    %0 = max %x {axes = [1]} : tensor<3000x64xf32> -> tensor<3000xf32>
    %1 = sum %x {axes = [0]} : tensor<3000x64xf32> -> tensor<64xf32>
    return %0, %1 : (tensor<3000xf32>, tensor<64xf32>)
  }
}
)";
  constexpr const char* kElements = R"(module @m {
  func @f(%x: tensor<3000x64xf32>) -> tensor<3000x64xf32> {
    %0 = exp %x : tensor<3000x64xf32>
    return %0 : tensor<3000x64xf32>
  }
}
)";
  constexpr const char* kScan = R"(module @m {
  func @f(%x: tensor<3000x64xf32>) -> tensor<3000x64xf32> {
    %0 = cumsum %x {axis = 0} : tensor<3000x64xf32>
    return %0 : tensor<3000x64xf32>
  }
}
)";
  constexpr const char* kLine = R"(module @m {
  func @f(%x: tensor<3x1002xf32>) -> tensor<3x1002xf32> {
    %0 = cumsum %x {axis = 1} : tensor<3x1002xf32>
    return %0 : tensor<3x1002xf32>
  }
}
)";
  constexpr const char* kSort = R"(module @m {
  func @f(%x: tensor<3x5000xf32>) -> tensor<3x5000xf32> {
    %0 = sort %x {axis = 1} : tensor<3x5000xf32>
    return %0 : tensor<3x5000xf32>
  }
}
)";
  CHECK(error_of_plan(kColumns, "threads = 256", "threads = 256") == "");
  CHECK(error_of_plan(kScan, "grain = 32", "grain = 16") == "");
  CHECK(error_of_plan(kSort, "grain = 2048", "grain = 512") == "");
  // A block of warps that take the rows in turn, or one that takes them one by one.
  CHECK(error_of_plan(kBoth, "threads = 128", "threads = 128") == "");
  CHECK(error_of_plan(kBoth, "at_once = 4", "at_once = 1") == "");
  CHECK(error_of_plan(kRows, "threads = 256", "threads = 256") == "");
  const std::string advice =
      "; the target is 'sm_80'\n"
      "note: plan it again: `mezzo opt` from an earlier stage, --target=sm_80\n";
  CHECK(contains(error_of_plan(kColumns, "threads = 256", "threads = 96"),
                 "kernel @k0 of @f: plan: 96 threads in rows of 16 are 6 rows, which must be a "
                 "power of two" +
                     advice));
  CHECK(contains(error_of_plan(kColumns, "grain = 64", "grain = 2"),
                 "plan: 'grain' 2 does not divide into vectors of 4 for 256 threads" + advice));
  CHECK(contains(
      error_of_plan(kColumns, "slices = ", "slices = 99999"),
      "plan: 'slices' must lie in [1, 188] for 3000 rows and 16 rows of threads, not 99999"));
  CHECK(contains(error_of_plan(kRows, "grain = 1", "grain = 3"),
                 "plan: 'grain' must be 1 (a row a block) or 8 (a row a warp), not 3" + advice));
  CHECK(contains(error_of_plan(kElements, "grain = 1024", "grain = 512"),
                 "plan: 'grain' must be 1024, what 256 threads handle at once, not 512" + advice));
  CHECK(contains(error_of_plan(kRows, "slices = 48", "slices = 4000000000"),
                 "plan: 'slices' must be at most 781 for rows of 200000 and 256 threads, not "
                 "4000000000" +
                     advice));
  CHECK(contains(
      error_of_plan(kBoth, "at_once = 4", "at_once = 2"),
      "plan: 'at_once' must be 1 or the warps of a block, a power of two, not 2 of 4" + advice));
  CHECK(contains(error_of_plan(kBoth, "grain = ", "grain = 9"),
                 "plan: 'grain' must lie in [1, 256], not 9"));
  CHECK(contains(error_of_plan(kScan, "grain = 32", "grain = 5"),
                 "plan: 'grain' must divide 256 threads, not 5" + advice));
  CHECK(contains(error_of_plan(kScan, "vector = 1", "vector = 2"),
                 "plan: 'vector' must be 1 where 64 lines lie side by side, not 2" + advice));
  CHECK(contains(error_of_plan(kLine, "vector = 2", "vector = 4"),
                 "plan: 'vector' 4 does not divide an axis of 1002" + advice));
  CHECK(contains(error_of_plan(kScan, "slices = ", "slices = 9999"),
                 "plan: 'slices' must be at most 3000, not 9999"));
  CHECK(contains(error_of_plan(kSort, "grain = 2048", "grain = 96"),
                 "plan: 'grain' must be a power of two in [2, 2048], not 96" + advice));
  CHECK(contains(error_of_plan(kRows, "vector = 4", "vector = 64"),
                 "plan: 'vector' must lie in [1, 16], not 64" + advice));
  CHECK(
      contains(error_of_plan(kRows, "threads = 256", "threads = 256", "MEZZO_FAKE_CC=90"),
               "the module is planned for sm_80, and device 0 (Mezzo PTX interpreter sm_90) runs "
               "sm_90\nnote: plan it again: `mezzo opt` from an earlier stage, --target=sm_90\n"));
}

TEST_CASE("auto takes the processor where nothing can be compiled for the GPU, and says so") {
  const CudaTool mezzo("MEZZO_NVRTC_LIBRARY=/nowhere/libnvrtc.so.13");
  const Finished run = mezzo("run m.mz --random-inputs=1 --device=auto");
  CHECK(run.status == 0);
  CHECK(contains(run.err, "device auto: the processor, since "));
  CHECK(contains(run.err, "/nowhere/libnvrtc.so.13"));
}

TEST_CASE("devices lists CUDA devices with what they can do") {
  const Finished run = CudaTool("MEZZO_FAKE_DEVICES=2 MEZZO_FAKE_CC=75")("devices");
  REQUIRE(run.status == 0);
  const auto device = [](const std::string& number) {
    return "cuda:" + number +
           "\n"
           "  name      Mezzo PTX interpreter sm_75\n"
           "  target    sm_75, 4 multiprocessors\n"
           "  memory    2.0 GiB; 64 kB of shared memory a block\n"
           "  driver    of CUDA 13.0\n"
           "  f16       native\n"
           "  bf16      ";
  };
  CHECK(contains(run.out, device("0")));
  CHECK(contains(run.out, device("1")));
}

TEST_CASE("devices and runs say in the same words why there is no device") {
  struct Situation {
    const char* variables;
    std::string text;
  };
  const std::vector<Situation> situations = {
      {"MEZZO_FAKE_INIT=34",
       "cuInit failed: CUDA_ERROR_STUB_LIBRARY (34): the library that was opened is the toolkit's "
       "stub for linking, not a driver\n"
       "note: take the folder `stubs` out of LD_LIBRARY_PATH; the driver installs libcuda.so.1\n"},
      {"MEZZO_FAKE_DEVICES=0",
       "cuInit failed: CUDA_ERROR_NO_DEVICE (100): the NVIDIA driver is present but shows no CUDA "
       "device\n"
       "note: a container must be given the device (docker run --gpus=all), and "
       "CUDA_VISIBLE_DEVICES must not hide it\n"},
      {"MEZZO_FAKE_INIT=803",
       "cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): the driver's library and its "
       "kernel module are of different versions\n"
       "note: reboot, or unload and load the kernel module (nvidia), so that both are of one "
       "version\n"},
      {"MEZZO_FAKE_DRIVER=11080",
       "the NVIDIA driver is too old: it supports CUDA 11.8, and Mezzo needs 12.0 or newer\n"
       "note: update the driver\n"},
  };
  for (const Situation& situation : situations) {
    CAPTURE(situation.variables);
    const std::string text = situation.text + library_note();
    CHECK(error_of_run(situation.variables) == "error: " + text);
    std::string indented = "cuda\n";
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) indented += "  " + line + "\n";
    const Finished devices = CudaTool(situation.variables)("devices");
    CHECK(devices.status == 0);
    CHECK(devices.out.ends_with(indented));
  }
}

TEST_CASE("a device that is not there is refused with how many there are") {
  const Finished run = CudaTool()("run m.mz --random-inputs=1 --device=cuda:1");
  CHECK(run.status == 2);
  CHECK(run.err ==
        "error: there is no CUDA device 1: this machine shows 1 device\n"
        "note: devices are numbered from 0; `mezzo devices` lists them\n");
}

TEST_CASE("a run falls back to the processor only when asked, and says so") {
  const CudaTool mezzo("MEZZO_FAKE_INIT=999");
  const Finished fallen = mezzo("run m.mz --random-inputs=1 --device=auto");
  CHECK(fallen.status == 0);
  CHECK(fallen.err ==
        "device auto: the processor, since cuInit failed: CUDA_ERROR_UNKNOWN (999): the driver "
        "does not say what went wrong\n"
        "note: the kernel's log (dmesg, lines with NVRM or Xid) may; reload the kernel module "
        "(nvidia) or reboot\n" +
            library_note());
  CHECK(mezzo("run m.mz --random-inputs=1 --device=cpu").out == fallen.out);
  CHECK(mezzo(kRun).status == 2);
  if (!has_nvrtc()) return;
  const Finished taken = CudaTool()("run m.mz --random-inputs=1 --device=auto");
  CHECK(taken.out == fallen.out);
  CHECK(taken.err == "");
}

TEST_CASE("NVRTC that is missing or newer than the driver is an error of the run") {
  CHECK(error_of_run("MEZZO_NVRTC_LIBRARY=/nowhere/libnvrtc.so") ==
        "error: the CUDA compiler NVRTC was not found: looked for MEZZO_NVRTC_LIBRARY = "
        "/nowhere/libnvrtc.so (/nowhere/libnvrtc.so: cannot open shared object file: No such file "
        "or directory)\n"
        "note: install it (package cuda-nvrtc of the CUDA toolkit, 12.0 or newer) or set "
        "MEZZO_NVRTC_LIBRARY to the path of libnvrtc.so\n");
  CHECK(
      error_of_run(
          "MEZZO_FAKE_DRIVER=12040 MEZZO_STUB_NVRTC=13.1 MEZZO_NVRTC_LIBRARY=" MEZZO_STUB_NVRTC) ==
      "error: the CUDA compiler NVRTC is newer than the driver: " MEZZO_STUB_NVRTC
      " is 13.1, and a driver of CUDA 12 loads what NVRTC 12 or older makes (looked for "
      "MEZZO_NVRTC_LIBRARY = " MEZZO_STUB_NVRTC
      ")\n"
      "note: update the NVIDIA driver, or install NVRTC 12 (package cuda-nvrtc of the CUDA "
      "toolkit 12) or set MEZZO_NVRTC_LIBRARY to the path of its libnvrtc.so\n");
}

TEST_CASE("the same numbers come from the processor and from every architecture") {
  if (!has_nvrtc()) return;
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  const Finished cpu = mezzo("run m.mz --random-inputs=1");
  for (const char* capability : {"75", "80", "86", "89", "90", "100", "120"}) {
    CAPTURE(capability);
    const Finished cuda = CudaTool(std::string("MEZZO_FAKE_CC=") + capability)(kRun);
    CHECK(cuda.status == 0);
    CHECK(cuda.err == "");
    CHECK(cuda.out == cpu.out);
  }
}

TEST_CASE("a cached kernel of another architecture is told and compiled anew") {
  if (!has_nvrtc()) return;
  const CudaTool mezzo("MEZZO_FAKE_CC=80"), other("MEZZO_FAKE_CC=90");
  const Finished first = mezzo(kRun);
  REQUIRE(first.status == 0);
  REQUIRE(other(kRun).status == 0);
  runtime::DiskCache cache(mezzo.path("cache")), foreign(other.path("cache"));
  REQUIRE(cache.entries().size() == 1);
  REQUIRE(foreign.entries().size() == 1);
  const std::string key = cache.entries()[0].key;
  cache.store(key, *foreign.find(foreign.entries()[0].key), cache.entries()[0].manifest);
  const Finished run = mezzo(kRun);
  CHECK(run.status == 0);
  CHECK(run.out == first.out);
  CHECK(contains(
      run.err,
      "warning: kernel cache: entry " + key +
          ": the entry cannot be loaded: cuModuleLoadDataEx failed: CUDA_ERROR_NO_BINARY_FOR_GPU "
          "(209): @k0 of @f, elementwise: add (m.mz:3) was compiled for sm_90, and device 0 (Mezzo "
          "PTX interpreter sm_80) is of architecture sm_80; it is compiled anew\n"));
  CHECK(mezzo(kRun).err == "");
}

TEST_CASE("what serves the processor alone is told beside a GPU") {
  const Finished threads = CudaTool()(std::string(kRun) + " --threads=2");
  CHECK(threads.status == 2);
  CHECK(threads.err ==
        "error: --threads=2: it counts threads of the processor, not of a GPU\n"
        "note: leave it out, or run with --device=cpu\n");
  if (!has_nvrtc()) return;
  const Finished dump = CudaTool("MEZZO_DEBUG=dump=asm ")(kRun);
  CHECK(dump.status == 0);
  CHECK(dump.err ==
        "warning: MEZZO_DEBUG: 'dump=asm' shows nothing here: kernels are compiled for a GPU, and "
        "--device=cpu runs on the processor\n");
}

TEST_CASE("too little memory names what was asked, what there is and the largest tensors") {
  if (!has_nvrtc()) return;
  CHECK(error_of_run("MEZZO_FAKE_MEMORY=100000", kTwoKernels) ==
        "error: cuMemAllocFromPoolAsync failed: CUDA_ERROR_OUT_OF_MEMORY (2): 32.0 KiB for result "
        "0 of @f, and 1.6 KiB of 97.7 KiB are free on device 0 (Mezzo PTX interpreter sm_80)\n"
        "note: the largest of this program: 32.0 KiB for activations of @f (tensor<128x64xf32> of "
        "div at net.cpp:4); 32.0 KiB for input %x (tensor<128x64xf32>) of @f; 32.0 KiB for result "
        "0 (tensor<64x128xf32>) of @f; 16 bytes for flag words of @f\n"
        "note: end other programs that use the device, or use a smaller batch, recomputation or a "
        "16-bit policy\n");
  CHECK(error_of_run("MEZZO_FAKE_OOM=1", kTwoKernels)
            .starts_with("error: cuMemAllocFromPoolAsync failed: CUDA_ERROR_OUT_OF_MEMORY (2): "
                         "32.0 KiB for activations of @f (tensor<128x64xf32> of div at "
                         "net.cpp:4), and 2.0 GiB of 2.0 GiB are free on device 0 (Mezzo PTX "
                         "interpreter sm_80), but not in one piece\n"));
}

TEST_CASE("a kernel's fault names the kernel, its ops and their lines") {
  if (!has_nvrtc()) return;
  // The first kernel is stopped in its first instructions.
  const std::string variables = "MEZZO_FAKE_BUDGET=50";
  const std::string start =
      "error: cuEventSynchronize failed: CUDA_ERROR_LAUNCH_TIMEOUT (702): a kernel ran longer "
      "than the device allows; on device 0 (Mezzo PTX interpreter sm_80): ";
  const std::string graph = error_of_run(variables, kTwoKernels);
  CHECK(graph.starts_with(start + "graph '@f' of kernel 'rows_"));
  CHECK(contains(graph, "' (@k0 of @f, rows: max (net.cpp:4), "));
  CHECK(contains(graph, "' (@k1 of @f, rows: max (net.cpp:6), "));
  // One at a time, the one that did it.
  const std::string one = error_of_run(variables + " CUDA_LAUNCH_BLOCKING=1", kTwoKernels);
  CHECK(one.starts_with(start + "kernel 'rows_"));
  CHECK(contains(one, "' (@k0 of @f, rows: max (net.cpp:4), "));
  CHECK_FALSE(contains(one, "@k1"));
  // The fake driver's own line, for whoever writes kernels.
  CHECK(contains(CudaTool(variables, kTwoKernels)(kRun).err,
                 "fake CUDA driver: stuck: kernel 'rows_"));
}

TEST_CASE("a launch that the device refuses is told with its sizes") {
  if (!has_nvrtc()) return;
  const std::string error = error_of_run("MEZZO_FAKE_FAIL=cuLaunchKernel=701");
  CHECK(
      error.starts_with("error: cuLaunchKernel failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): "
                        "kernel 'elementwise_"));
  CHECK(contains(error,
                 "' (@k0 of @f, elementwise: add (m.mz:3)) was refused on device 0 (Mezzo "
                 "PTX interpreter sm_80): 1 x 1 blocks of "));
  CHECK(
      error.ends_with(" of shared memory a block\n"
                      "note: please report it with the program and the device's name\n"));
}

}  // namespace
}  // namespace mezzo::test
