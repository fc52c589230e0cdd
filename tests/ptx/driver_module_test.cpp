// SPDX-License-Identifier: Apache-2.0
// The fake driver by its own interface: images for this and other devices, limits of launches,
// faults of kernels.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_image.h>
#include <support/error_of.h>
#include <support/skip.h>
#include <support/temp_dir.h>

#include <fstream>
#include <iterator>
#include <ptx/driver_support.h>
#include <string>

namespace mezzo::test {
namespace {

using namespace runtime::cuda;

struct Loaded {
  Result code = Success;
  Module module = nullptr;
  std::string log;
};

Loaded load(const std::string& image) {
  Loaded loaded;
  char log[4096] = {};
  JitOption options[] = {JitErrorLogBuffer, JitErrorLogBufferBytes};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  loaded.code = fake().cuModuleLoadDataEx(&loaded.module, image.data(), 2, options, values);
  loaded.log = log;
  return loaded;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

int attribute(Function function, FunctionAttribute which) {
  int value = -1;
  CHECK(fake().cuFuncGetAttribute(&value, which, function) == Success);
  return value;
}

PROCESS_CASE("PTX loads where driver and device are new enough for it", "MEZZO_FAKE_CC=80",
             "MEZZO_FAKE_DRIVER=12040") {
  const FakeContext context;
  CHECK(load(kKernels).code == Success);
  CHECK(load(replaced(kKernels, ".version 7.0", ".version 8.4")).code == Success);
  Loaded loaded = load(replaced(kKernels, ".version 7.0", ".version 8.5"));
  CHECK(loaded.code == UnsupportedPtxVersion);
  CHECK(loaded.log == "PTX of version 8.5, and the driver reads up to 8.4");
  loaded = load(replaced(kKernels, ".target sm_75", ".target sm_86"));
  CHECK(loaded.code == NoBinaryForGpu);
  CHECK(loaded.log == "the PTX is for sm_86, the device is sm_80");
  loaded = load("neither nor");
  CHECK(loaded.code == InvalidPtx);
  CHECK(loaded.log == "the image is neither a cubin nor PTX");
  loaded = load(replaced(kKernels, "add.rn.f32", "add.up.f32"));
  CHECK(loaded.code == InvalidPtx);
  CHECK(loaded.log.find("add.up.f32") != std::string::npos);
}

PROCESS_CASE("a cubin runs on its architecture and on later ones of the same major number",
             "MEZZO_FAKE_CC=89") {
  const FakeContext context;
  for (const int architecture : {80, 86, 89})
    CHECK(load(cubin_with(architecture, 8, kKernels)).code == Success);
  CHECK(load(cubin_with(86, 7, kKernels)).code == Success);  // as CUDA 12 numbers it
  for (const int architecture : {75, 90, 100}) {
    const Loaded loaded = load(cubin_with(architecture, 8, kKernels));
    CHECK(loaded.code == NoBinaryForGpu);
    CHECK(loaded.log ==
          "the cubin is for sm_" + std::to_string(architecture) + ", the device is sm_89");
  }
  // Code for one architecture alone does not run on later ones.
  const std::string exact = replaced(kKernels, ".target sm_75", ".target sm_86a");
  CHECK(load(cubin_with(86, 8, exact)).code == NoBinaryForGpu);
}

PROCESS_CASE("a cubin of CUDA 13 does not load on a driver of CUDA 12", "MEZZO_FAKE_DRIVER=12080") {
  const FakeContext context;
  const Loaded loaded = load(cubin_with(80, 8, kKernels));
  CHECK(loaded.code == InvalidImage);
  CHECK(loaded.log == "a cubin of ABI version 8 needs a driver of CUDA 13.0, this one is of 12.8");
  CHECK(load(cubin_with(80, 7, kKernels)).code == Success);
}

PROCESS_CASE("a cubin without its PTX is refused with the reason") {
  const FakeContext context;
  std::string image = cubin_with(80, 8, kKernels);
  image.resize(runtime::elf_bytes(image));
  image.append(64, '\0');
  const Loaded loaded = load(image);
  CHECK(loaded.code == InvalidImage);
  CHECK(loaded.log ==
        "this driver runs PTX, and there is none behind the cubin; load the PTX itself");
}

TEST_CASE("an image is a cubin with the PTX of the same compile behind it") {
  const std::string image = cubin_with(90, 8, kKernels);
  CHECK(runtime::ptx_of_image(image) == kKernels);
  CHECK(runtime::architecture_of_image(image) == 90);
  CHECK(runtime::architecture_of_image(cubin_with(86, 7, kKernels)) == 86);
  const size_t bytes = runtime::elf_bytes(image);
  CHECK(bytes == 64 + 2 * 64 + 11);
  CHECK(image.find(runtime::kPtxTrailerMagic) == 208);
  // Cut anywhere, it is no longer one.
  CHECK(runtime::ptx_of_image(image.substr(0, image.size() - 1)).empty());
  CHECK(runtime::ptx_of_image(image.substr(0, bytes)).empty());
  CHECK(runtime::elf_bytes(image.substr(0, bytes - 1)) == 0);
  CHECK(runtime::elf_bytes(image.substr(0, 63)) == 0);
  CHECK(runtime::elf_bytes(kKernels) == 0);
  codegen::CudaBinary broken;
  broken.cubin = "none";
  check_parts(error_of<mezzo::InternalError>([&] { runtime::cuda_image(broken); }),
              {"a CUDA program was compiled to 4 bytes that are no ELF file"});
  CHECK(runtime::architecture_of_image(kKernels) == 0);
  CHECK(runtime::ptx_of_image("").empty());
}

PROCESS_CASE("a cubin of NVRTC loads, tells its registers and runs", "MEZZO_FAKE_CC=90") {
  std::string reason;
  if (!codegen::nvrtc_available(&reason)) return skip_case(reason);
  const codegen::CudaBinary binary = codegen::compile_cuda(
      "extern \"C\" __global__ void fill(float* out, float value) {\n"
      "  __shared__ float kept[64];\n"
      "  kept[threadIdx.x] = value;\n"
      "  __syncthreads();\n"
      "  out[threadIdx.x] = kept[63 - threadIdx.x];\n"
      "}\n",
      "sm_90");
  const FakeContext context;
  const Loaded loaded = load(runtime::cuda_image(binary));
  REQUIRE(loaded.code == Success);
  Function fill = nullptr;
  REQUIRE(fake().cuModuleGetFunction(&fill, loaded.module, "fill") == Success);
  CHECK(attribute(fill, FunctionRegisters) == binary.kernels.at(0).registers);
  CHECK(attribute(fill, FunctionLocalBytes) == binary.kernels.at(0).stack_bytes);
  CHECK(attribute(fill, FunctionSharedBytes) == 256);
  DevicePointer out = context.allocate(256);
  float value = 2.5;
  void* parameters[] = {&out, &value};
  const Stream stream = context.stream();
  CHECK(fake().cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, stream, parameters, nullptr) == Success);
  CHECK(fake().cuStreamSynchronize(stream) == Success);
  CHECK(context.download(out, 64) == std::vector<float>(64, 2.5));
}

PROCESS_CASE("functions and handles that are not there are refused") {
  const FakeContext context;
  const Loaded loaded = load(kKernels);
  REQUIRE(loaded.code == Success);
  Function function = nullptr, again = nullptr;
  CHECK(fake().cuModuleGetFunction(&function, loaded.module, "multiply") == NotFound);
  CHECK(fake().cuModuleGetFunction(&function, loaded.module, "add") == Success);
  CHECK(fake().cuModuleGetFunction(&again, loaded.module, "add") == Success);
  CHECK(again == function);
  CHECK(fake().cuModuleUnload(loaded.module) == Success);
  CHECK(fake().cuModuleUnload(loaded.module) == InvalidHandle);
  CHECK(launch_add(function, 0, 0, 0, 1, nullptr) == InvalidHandle);
}

PROCESS_CASE("a kernel of a graph whose module was unloaded is a fault") {
  const FakeContext context;
  const Stream stream = context.stream();
  const Loaded loaded = load(kKernels);
  const DevicePointer a = context.allocate(4);
  Function poke = nullptr;
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  CHECK(fake().cuModuleGetFunction(&poke, loaded.module, "poke") == Success);
  CHECK(fake().cuStreamBeginCapture_v2(stream, CaptureThreadLocal) == Success);
  CHECK(launch_poke(poke, a, stream) == Success);
  CHECK(fake().cuStreamEndCapture(stream, &graph) == Success);
  CHECK(fake().cuGraphInstantiateWithFlags(&exec, graph, 0) == Success);
  CHECK(fake().cuModuleUnload(loaded.module) == Success);
  CHECK(fake().cuGraphLaunch(exec, stream) == Success);
  CHECK(fake().cuStreamSynchronize(stream) == LaunchFailed);
  CHECK(std::string(fake().last_fault()) == "kernel poke runs after its module was unloaded");
}

PROCESS_CASE("launches beyond the limits are refused at once", "MEZZO_FAKE_CC=75") {
  const FakeContext context;
  const Function poke = context.kernel(kKernels, "poke");
  DevicePointer a = context.allocate(4);
  void* parameters[] = {&a};
  const auto launch = [&](unsigned blocks_y, unsigned threads, unsigned threads_z,
                          unsigned shared) {
    return fake().cuLaunchKernel(poke, 1, blocks_y, 1, threads, 1, threads_z, shared, nullptr,
                                 parameters, nullptr);
  };
  CHECK(launch(1, 1024, 1, 0) == Success);
  CHECK(launch(1, 1025, 1, 0) == InvalidValue);
  CHECK(launch(1, 0, 1, 0) == InvalidValue);
  CHECK(launch(1, 1, 65, 0) == InvalidValue);
  CHECK(launch(65536, 1, 1, 0) == InvalidValue);
  CHECK(launch(1, 1, 1, 48 << 10) == Success);
  CHECK(launch(1, 1, 1, (48 << 10) + 1) == InvalidValue);
  CHECK(fake().cuFuncSetAttribute(poke, FunctionMaxDynamicSharedBytes, (64 << 10) + 1) ==
        InvalidValue);
  CHECK(fake().cuFuncSetAttribute(poke, FunctionMaxDynamicSharedBytes, 64 << 10) == Success);
  CHECK(launch(1, 1, 1, 64 << 10) == Success);
  CHECK(launch(1, 1, 1, (64 << 10) + 1) == InvalidValue);
}

/// A warp's 32 numbers fill 4 sectors; of an array that starts in the middle of one, 5 are touched.
TEST_CASE("a report tells how well accesses coalesce") {
  constexpr const char* kName = "a report tells how well accesses coalesce";
  const TempDir folder;
  const std::string file = folder / "report.txt";
  if (in_own_process(kName, {"MEZZO_FAKE_REPORT=" + file})) {
    const FakeContext context;
    const Function add = context.kernel(kKernels, "add");
    const DevicePointer a = context.allocate(1024), b = context.allocate(1024);
    for (int turn = 0; turn < 2; ++turn)
      CHECK(launch_add(add, a, b + 16, a, 64, nullptr) == Success);
    CHECK(fake().cuCtxSynchronize() == Success);
    return;
  }
  std::ifstream in(file);
  const std::string report{std::istreambuf_iterator<char>(in), {}};
  CHECK(report ==
        "kernel add: launches 2, warp instructions 120, barriers 0\n"
        "  line 31 `ld.global.f32 %f1, [%rd5];`: 4 times, lanes 32.0 of 32, sectors 16 of 16 (1.00 "
        "times)\n"
        "  line 32 `ld.global.f32 %f2, [%rd6];`: 4 times, lanes 32.0 of 32, sectors 20 of 16 (1.25 "
        "times)\n"
        "  line 34 `st.global.f32 [%rd7], %f3;`: 4 times, lanes 32.0 of 32, sectors 16 of 16 (1.00 "
        "times)\n");
}

PROCESS_CASE("a store outside of all memory is sticky, with the line of PTX") {
  const FakeContext context;
  const Stream stream = context.stream();
  const Function poke = context.kernel(kKernels, "poke");
  const DevicePointer a = context.allocate(64);
  CHECK(launch_poke(poke, a + 60, stream) == Success);
  CHECK(fake().cuStreamSynchronize(stream) == Success);
  CHECK(std::string(fake().last_fault()).empty());
  CHECK(launch_poke(poke, a + 64, stream) == Success);
  CHECK(fake().cuStreamSynchronize(stream) == IllegalAddress);
  check_parts(fake().last_fault(), {"poke", "st.global.u32"});
  CHECK(fake().cuStreamSynchronize(stream) == IllegalAddress);
  DevicePointer b = 0;
  CHECK(fake().cuMemAlloc_v2(&b, 64) == IllegalAddress);
  CHECK(launch_poke(poke, a, stream) == IllegalAddress);
}

PROCESS_CASE("after the primary context is gone a fault is forgotten") {
  {
    const FakeContext context;
    const Function poke = context.kernel(kKernels, "poke");
    CHECK(launch_poke(poke, context.allocate(4) + 2, nullptr) == Success);
    CHECK(fake().cuCtxSynchronize() == MisalignedAddress);
  }
  const FakeContext context;
  CHECK(fake().cuCtxSynchronize() == Success);
}

}  // namespace
}  // namespace mezzo::test
