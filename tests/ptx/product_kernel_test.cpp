// SPDX-License-Identifier: Apache-2.0
// The product's modules, launches and graphs over the fake driver, and what it says when images do
// not fit, launches are beyond the limits or kernels go wrong.
#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_context.h>
#include <mezzo/runtime/cuda_graph.h>
#include <mezzo/runtime/cuda_memory.h>
#include <mezzo/runtime/cuda_module.h>
#include <support/error_of.h>

#include <cstdint>
#include <memory>
#include <ptx/driver_support.h>
#include <string>
#include <thread>
#include <vector>

namespace mezzo::test {
namespace {

using runtime::CudaContext;
using runtime::CudaGraph;
using runtime::CudaKernel;
using runtime::CudaModule;
using runtime::DeviceBuffer;

constexpr const char* kDevice = "device 0 (Mezzo PTX interpreter sm_80)";

/// What the back end tells of a kernel: its op and line.
constexpr const char* kDescription = "@k3 of @step, elementwise: add (net.cpp:12)";

/// `kKernels` loaded on device 0, with three buffers of 100 numbers.
struct Loaded {
  explicit Loaded(size_t elements = 100) {
    const std::vector<float> ones(elements, 1);
    for (DeviceBuffer* buffer : {&a, &b, &out}) {
      *buffer = context->allocate(elements * sizeof(float), "numbers");
      buffer->upload(ones.data(), buffer->bytes());
    }
  }

  void run(uint32_t count, const CudaKernel& kernel) const {
    const uint64_t addresses[] = {a.address(), b.address(), out.address()};
    const void* parameters[] = {&addresses[0], &addresses[1], &addresses[2], &count};
    kernel.launch((count + 127) / 128, 128, 0, parameters);
  }
  void run(uint32_t count) const { run(count, add); }
  void poke_at(uint64_t address, const CudaKernel& kernel) const {
    const void* parameters[] = {&address};
    kernel.launch(1, 1, 0, parameters);
  }
  float first() const {
    float value = 0;
    out.download(&value, sizeof value);
    return value;
  }

  std::shared_ptr<CudaContext> context = runtime::cuda_context(0);
  CudaModule module{context, cubin_with(80, 8, kKernels), "kernels of @step"};
  CudaKernel add = module.function("add", kDescription);
  CudaKernel poke = module.function("poke");
  DeviceBuffer a, b, out;
};

PROCESS_CASE("a kernel runs with the parameters it was launched with") {
  const Loaded loaded;
  CHECK(loaded.add.name() == "add");
  CHECK(loaded.add.max_threads() == 1024);
  loaded.run(100);
  CHECK(loaded.first() == 2);
  fake().reset_counts();
  loaded.add.launch(0, 128, 0, {});  // no blocks: nothing to do
  CHECK(fake().count("cuLaunchKernel") == 0);
}

PROCESS_CASE("a kernel keeps its module loaded") {
  const auto context = runtime::cuda_context(0);
  auto module = std::make_unique<CudaModule>(context, kKernels, "kernels");
  CudaKernel poke = module->function("poke");
  module.reset();
  const DeviceBuffer buffer = context->allocate(4, "a");
  const uint64_t address = buffer.address();
  const void* parameters[] = {&address};
  poke.launch(1, 1, 0, parameters);
  context->synchronize();
  CHECK(fake().count("cuModuleUnload") == 0);
  poke = CudaKernel();
  CHECK(fake().count("cuModuleUnload") == 1);
}

PROCESS_CASE("a module has no kernel of that name") {
  const Loaded loaded;
  CHECK(error_of<DeviceError>([&] { loaded.module.function("multiply"); }) ==
        "cuModuleGetFunction failed: CUDA_ERROR_NOT_FOUND (500): kernels of @step has no kernel "
        "'multiply'");
}

/// What is said of an image that the driver refuses.
std::string refusal(const std::string& image) {
  return error_of<DeviceError>(
      [&] { CudaModule(runtime::cuda_context(0), image, "kernel @k3 of @step"); });
}

PROCESS_CASE("a cubin of another architecture in the cache", "MEZZO_FAKE_CC=90") {
  CHECK(refusal(cubin_with(80, 8, kKernels)) ==
        "cuModuleLoadDataEx failed: CUDA_ERROR_NO_BINARY_FOR_GPU (209): kernel @k3 of @step was "
        "compiled for sm_80, and device 0 (Mezzo PTX interpreter sm_90) is of architecture sm_90\n"
        "note: the cache may hold a kernel of another machine: `mezzo cache clear` removes all\n"
        "the cubin is for sm_80, the device is sm_90");
}

PROCESS_CASE("a cubin of a newer CUDA than the driver's", "MEZZO_FAKE_DRIVER=12080") {
  CHECK(refusal(cubin_with(80, 8, kKernels)) ==
        "cuModuleLoadDataEx failed: CUDA_ERROR_INVALID_IMAGE (200): the image of kernel @k3 of "
        "@step cannot be read\n"
        "note: the cache may hold a kernel of another machine: `mezzo cache clear` removes all\n"
        "a cubin of ABI version 8 needs a driver of CUDA 13.0, this one is of 12.8");
}

PROCESS_CASE("PTX that is newer than the driver", "MEZZO_FAKE_DRIVER=12040") {
  std::string ptx = kKernels;
  ptx.replace(ptx.find("7.0"), 3, "9.0");
  CHECK(refusal(ptx) ==
        "cuModuleLoadDataEx failed: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222): kernel @k3 of @step "
        "is PTX of version 9.0, which is newer than what the driver of CUDA 12.4 can read\n"
        "note: update the driver, or install an NVRTC of the driver's major version\n"
        "PTX of version 9.0, and the driver reads up to 8.4");
}

PROCESS_CASE("PTX that is none") {
  std::string ptx = kKernels;
  ptx.replace(ptx.find("add.rn.f32"), 10, "adder.f321");
  const std::string error = refusal(ptx);
  CHECK(
      error.starts_with("cuModuleLoadDataEx failed: CUDA_ERROR_INVALID_PTX (218): the driver's "
                        "compiler refuses the PTX of kernel @k3 of @step\n"));
  check_parts(error, {"adder.f321"});
}

PROCESS_CASE("the driver's compiler is not installed", "MEZZO_FAKE_FAIL=cuModuleLoadDataEx=221") {
  CHECK(refusal(kKernels) ==
        "cuModuleLoadDataEx failed: CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221): the driver's PTX "
        "compiler (libnvidia-ptxjitcompiler.so) is not installed\n"
        "note: install the whole driver; in a container, its compute libraries too");
}

PROCESS_CASE("launches beyond the limits are refused with the number and the limit") {
  const Loaded loaded;
  const auto refused = [&](runtime::CudaGrid blocks, int threads, int64_t shared) {
    const std::string error =
        error_of<DeviceError>([&] { loaded.add.launch(blocks, threads, shared, {}); });
    const std::string start =
        std::string("kernel 'add' (") + kDescription + ") cannot be launched on " + kDevice + ": ";
    CHECK(error.starts_with(start));
    return error.substr(std::min(error.size(), start.size()));
  };
  CHECK(refused(1, 1025, 0) == "1025 threads a block, and the device allows 1 to 1024");
  CHECK(refused(1, 0, 0) == "0 threads a block, and the device allows 1 to 1024");
  CHECK(refused(1, 128, 49153) ==
        "49153 bytes of shared memory at launch, and it was loaded for at most 0");
  CHECK(refused(int64_t{1} << 31, 128, 0) ==
        "2147483648 x 1 blocks, and the device allows 2147483647 x 65535");
  CHECK(refused({1, 65536}, 128, 0) ==
        "1 x 65536 blocks, and the device allows 2147483647 x 65535");
  check_parts(error_of<InternalError>([&] { loaded.add.launch(-1, 128, 0, {}); }),
              {"is launched with -1 x 1 blocks and 0 bytes of shared memory"});
  CHECK(fake().count("cuLaunchKernel") == 0);
}

PROCESS_CASE("a kernel that needs more shared memory than the device has", "MEZZO_FAKE_CC=75") {
  const auto context = runtime::cuda_context(0);
  const CudaModule module(context, kKernels, "kernels");
  CHECK(error_of<DeviceError>([&] { module.function("poke", kDescription, (64 << 10) + 1); }) ==
        std::string("kernel 'poke' (") + kDescription +
            ") needs 65537 bytes of shared memory a block, and device 0 (Mezzo PTX interpreter "
            "sm_75) has 65536");
  const DeviceBuffer buffer = context->allocate(4, "a");
  const uint64_t address = buffer.address();
  const void* parameters[] = {&address};
  module.function("poke", "", 64 << 10).launch(1, 1, 64 << 10, parameters);
  context->synchronize();
  CHECK(fake().count("kernel runs") == 1);
}

PROCESS_CASE("a launch that the driver alone refuses", "MEZZO_FAKE_FAIL=cuLaunchKernel=701") {
  const Loaded loaded;
  CHECK(error_of<DeviceError>([&] { loaded.run(100); }) ==
        std::string("cuLaunchKernel failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): kernel 'add' "
                    "(") +
            kDescription + ") was refused on " + kDevice +
            ": 1 x 1 blocks of 128 threads, 32 registers a thread, 0 bytes of shared memory a "
            "block\n"
            "note: please report it with the program and the device's name");
  loaded.context->synchronize();  // the device can be used
}

PROCESS_CASE("a kernel's fault names kernel, op and line, and ends all use of the device") {
  const Loaded loaded;
  loaded.run(101);  // one element too many
  const std::string fault = error_of<DeviceError>([&] { loaded.context->synchronize(); });
  CHECK(fault ==
        std::string("cuEventSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): a kernel read "
                    "or wrote memory that belongs to nobody; on ") +
            kDevice + ": kernel 'add' (" + kDescription +
            ")\n"
            "note: a kernel that Mezzo generated went wrong: please report it with the program; "
            "this process cannot use the device any more");
  const std::string later = std::string("CUDA ") + kDevice +
                            " cannot be used any more by this process, since " + fault +
                            "\nnote: start the program again";
  CHECK(loaded.context->fault() == later);
  CHECK(error_of<DeviceError>([&] { loaded.run(100); }) == later);
  CHECK(error_of<DeviceError>([&] { loaded.context->allocate(64, "more"); }) == later);
  CHECK(error_of<DeviceError>([&] { loaded.first(); }) == later);
  CHECK(error_of<DeviceError>([&] { CudaModule(loaded.context, kKernels, "more"); }) == later);
  CHECK(error_of<DeviceError>([&] { runtime::CudaEvent{loaded.context}; }) == later);
  // What the interpreter saw, for whoever writes kernels: the line of PTX and the place.
  check_parts(fake().last_fault(), {"add", "ld.global.f32"});
}

PROCESS_CASE("of several kernels under way any may have gone wrong") {
  const Loaded loaded;
  loaded.run(100);
  loaded.context->synchronize();  // done well, and so not suspected
  const CudaKernel second = loaded.module.function("add", "@k4 of @step, elementwise: mul");
  loaded.run(100, second);
  loaded.poke_at(8, loaded.poke);
  CHECK(error_of<DeviceError>([&] { loaded.context->synchronize(); }) ==
        std::string("cuEventSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): a kernel read "
                    "or wrote memory that belongs to nobody; on ") +
            kDevice +
            ": one of 2: kernel 'add' (@k4 of @step, elementwise: mul), kernel 'poke'\n"
            "note: a kernel that Mezzo generated went wrong: please report it with the program; "
            "this process cannot use the device any more\n"
            "note: CUDA_LAUNCH_BLOCKING=1 waits for every kernel and names the one");
}

PROCESS_CASE("CUDA_LAUNCH_BLOCKING names the kernel at its launch", "CUDA_LAUNCH_BLOCKING=1") {
  const Loaded loaded;
  CHECK(loaded.context->blocking());
  loaded.run(100);
  check_parts(error_of<DeviceError>([&] { loaded.poke_at(loaded.a.address() + 2, loaded.poke); }),
              {"cuEventSynchronize failed: CUDA_ERROR_MISALIGNED_ADDRESS (716): a kernel read or "
               "wrote at an address that is not a multiple of the access's size; on ",
               ": kernel 'poke'\nnote: "});
}

PROCESS_CASE("a fault that a wait of another thread meets is told once to each") {
  const Loaded loaded;
  runtime::CudaEvent event(loaded.context);
  loaded.run(101);
  event.record();
  std::string first;
  std::thread([&] { first = error_of<DeviceError>([&] { event.wait(); }); }).join();
  check_parts(first, {"cuEventSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)"});
  CHECK(error_of<DeviceError>([&] { event.wait(); }) == loaded.context->fault());
}

PROCESS_CASE("the device can be used again once all of the old context is gone") {
  {
    const Loaded loaded;
    loaded.run(101);
    check_parts(error_of<DeviceError>([&] { loaded.context->synchronize(); }), {"(700)"});
    runtime::release_cuda_context(0);
  }
  const Loaded loaded;
  CHECK(loaded.context->fault() == "");
  loaded.run(100);
  CHECK(loaded.first() == 2);
}

PROCESS_CASE("a recorded graph is one launch, without a wait") {
  const Loaded loaded;
  const CudaGraph graph(loaded.context, "@step", [&] {
    loaded.context->fill(loaded.b.address(), 0, loaded.b.bytes());
    loaded.run(100);
    loaded.context->copy_on_device(loaded.b.address(), loaded.out.address(), 400);
    loaded.run(100);
  });
  CHECK(graph.nodes() == 4);
  CHECK(loaded.first() == 1);  // nothing has run
  fake().reset_counts();
  for (int turn = 0; turn < 5; ++turn) graph.launch();
  CHECK(fake().count("cuGraphLaunch") == 5);
  CHECK(fake().count("cuLaunchKernel") == 0);
  CHECK(fake().count("synchronising calls") == 0);
  CHECK(loaded.first() == 2);
  CHECK(fake().count("kernel runs") == 10);
}

PROCESS_CASE("a graph keeps its kernels, and memory that was given back while recording") {
  const auto context = runtime::cuda_context(0);
  const DeviceBuffer buffer = context->allocate(4, "a");
  const uint64_t address = buffer.address();
  auto short_lived = std::make_unique<DeviceBuffer>(context->allocate(64, "b"));
  auto poke = std::make_unique<CudaKernel>(CudaModule(context, kKernels, "k").function("poke"));
  auto graph = std::make_unique<CudaGraph>(context, "@step", [&] {
    const void* parameters[] = {&address};
    poke->launch(1, 1, 0, parameters);
    short_lived.reset();
    poke.reset();
  });
  CHECK(context->memory_use().allocated_bytes == 4);
  CHECK(fake().count("cuMemFreeAsync") == 1);
  CHECK(fake().count("cuModuleUnload") == 0);
  graph->launch();
  uint32_t value = 0;
  buffer.download(&value, sizeof value);
  CHECK(value == 7);
  graph.reset();
  CHECK(fake().count("cuModuleUnload") == 1);
}

PROCESS_CASE("a recording that throws leaves the device usable") {
  const Loaded loaded;
  CHECK_THROWS_AS(CudaGraph(loaded.context, "@step",
                            [&] {
                              loaded.run(100);
                              throw std::runtime_error("no");
                            }),
                  std::runtime_error);
  check_parts(error_of<InternalError>([&] {
                CudaGraph(loaded.context, "@step",
                          [&] { CudaGraph(loaded.context, "@inner", [] {}); });
              }),
              {"graph '@inner' is recorded while another one is"});
  check_parts(error_of<InternalError>([&] {
                CudaGraph(loaded.context, "@step", [&] { loaded.context->allocate(4, "a"); });
              }),
              {"device memory is asked for while a graph is recorded"});
  check_parts(error_of<InternalError>([&] {
                CudaGraph(loaded.context, "@step", [&] { loaded.context->synchronize(); });
              }),
              {"the stream is waited for while a graph is recorded"});
  loaded.run(100);
  CHECK(loaded.first() == 2);
}

PROCESS_CASE("one thread waits for the stream while another one records graphs") {
  const Loaded loaded;
  std::thread waits([&] {
    for (int turn = 0; turn < 200; ++turn) {
      loaded.run(100);
      loaded.context->synchronize();
    }
  });
  for (int turn = 0; turn < 200; ++turn) {
    const CudaGraph graph(loaded.context, "@step", [&] { loaded.run(100); });
    CHECK(graph.nodes() == 1);
    graph.launch();
  }
  waits.join();
  CHECK(loaded.first() == 2);
  CHECK(fake().count("kernel runs") == 400);
}

PROCESS_CASE("a fault in a graph names the graph and its kernels") {
  const Loaded loaded;
  const CudaGraph graph(loaded.context, "@step", [&] {
    loaded.run(100);
    loaded.run(100);
    loaded.poke_at(8, loaded.poke);
  });
  graph.launch();
  const std::string error = error_of<DeviceError>([&] { loaded.context->synchronize(); });
  check_parts(error, {"CUDA_ERROR_ILLEGAL_ADDRESS (700)",
                      "graph '@step' of kernel 'add' (@k3 of @step, elementwise: add "
                      "(net.cpp:12)), kernel 'poke'\nnote: "});
}

}  // namespace
}  // namespace mezzo::test
