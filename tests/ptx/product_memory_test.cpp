// SPDX-License-Identifier: Apache-2.0
// The product's contexts, memory, copies and events over the fake driver.
#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_context.h>
#include <mezzo/runtime/cuda_memory.h>
#include <support/error_of.h>

#include <cstdint>
#include <cstring>
#include <ptx/driver_support.h>
#include <string>
#include <thread>
#include <vector>

namespace mezzo::test {
namespace {

using runtime::CudaContext;
using runtime::CudaEvent;
using runtime::DeviceBuffer;
using runtime::PinnedBuffer;

std::vector<float> read(const DeviceBuffer& buffer) {
  std::vector<float> values(buffer.bytes() / sizeof(float));
  buffer.download(values.data(), buffer.bytes());
  return values;
}

PROCESS_CASE("a process has one context a device, which any thread may use",
             "MEZZO_FAKE_DEVICES=2") {
  const auto first = runtime::cuda_context(0);
  CHECK(first->device_text() == "device 0 (Mezzo PTX interpreter sm_80)");
  CHECK(first->target().name == "sm_80");
  DeviceBuffer buffer = first->allocate(400, "numbers");
  const std::vector<float> values(100, 2.5);
  std::thread([&] {
    CHECK(runtime::cuda_context(0) == first);
    CHECK(runtime::cuda_context(1) != first);
    buffer.upload(values.data(), 400);
  }).join();
  CHECK(read(buffer) == values);
  CHECK(fake().count("cuDevicePrimaryCtxRetain") == 2);
  CHECK(fake().count("cuStreamCreate") == 2);
  // Nothing of ours stays current in a thread.
  runtime::cuda::Context current = nullptr;
  CHECK(fake().cuCtxGetCurrent(&current) == runtime::cuda::Success);
  CHECK(current == nullptr);
}

PROCESS_CASE("threads that use a device at a time do not mix up their copies") {
  const auto context = runtime::cuda_context(0);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      for (int turn = 0; turn < 20; ++turn) {
        const std::vector<float> values(64, static_cast<float>(number * 100 + turn));
        DeviceBuffer buffer = context->allocate(256, "numbers");
        buffer.upload(values.data(), 256);
        wrong[static_cast<size_t>(number)] += read(buffer) != values;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
  CHECK(context->memory_use().allocated_bytes == 0);
}

PROCESS_CASE("copies are put on the stream and wait for nothing where memory is pinned") {
  const auto context = runtime::cuda_context(0);
  DeviceBuffer a = context->allocate(64, "a"), b = context->allocate(64, "b");
  const PinnedBuffer in = context->allocate_pinned(64, "in"),
                     out = context->allocate_pinned(64, "out");
  std::memset(in.data(), 7, 64);
  std::memset(out.data(), 0, 64);
  CudaEvent copied(context);
  fake().reset_counts();
  context->copy_to_device(a.address(), in.data(), 64);
  context->copy_on_device(b.address(), a.address(), 64);
  context->fill(b.address(), 9, 16);
  context->copy_to_host(out.data(), b.address(), 64);
  copied.record();
  CHECK(fake().count("synchronising calls") == 0);
  CHECK(fake().count("bytes to host") == 0);
  CHECK_FALSE(copied.done());
  copied.wait();
  CHECK(copied.done());
  CHECK(fake().count("synchronising calls") == 1);
  const auto* bytes = static_cast<const unsigned char*>(out.data());
  CHECK(bytes[15] == 9);
  CHECK(bytes[16] == 7);
  CHECK(fake().count("bytes to device") == 64);
  CHECK(fake().count("bytes on device") == 64);
  CHECK(fake().count("bytes to host") == 64);
}

PROCESS_CASE("events with a clock tell the time of what lies between them") {
  const auto context = runtime::cuda_context(0);
  DeviceBuffer buffer = context->allocate(1 << 20, "a megabyte");
  CudaEvent start(context, true), end(context, true);
  start.record();
  context->fill(buffer.address(), 1, buffer.bytes());
  end.record();
  end.wait();
  CHECK(end.milliseconds_since(start) > 0);
  CudaEvent without(context);
  without.record();
  without.wait();
  check_parts(error_of<DeviceError>([&] { end.milliseconds_since(without); }),
              {"cuEventElapsedTime failed: CUDA_ERROR_INVALID_HANDLE (400)"});
}

PROCESS_CASE("memory is given back in the order of the stream") {
  const auto context = runtime::cuda_context(0);
  const PinnedBuffer out = context->allocate_pinned(64, "out");
  {
    const DeviceBuffer buffer = context->allocate(64, "short-lived");
    CHECK(buffer.address() % 256 == 0);
    CHECK(context->memory_use().allocated_bytes == 64);
    context->fill(buffer.address(), 3, 64);
    context->copy_to_host(out.data(), buffer.address(), 64);
  }
  CHECK(context->memory_use().allocated_bytes == 0);
  context->synchronize();
  CHECK(static_cast<const unsigned char*>(out.data())[63] == 3);
  CHECK(fake().count("cuMemFreeAsync") == 1);
  CHECK(fake().count("cuMemFree") == 0);
  const runtime::CudaMemoryUse use = context->memory_use();
  CHECK(use.free_bytes == use.total_bytes);
}

PROCESS_CASE("pinned memory is kept until the copies to it are done") {
  const auto context = runtime::cuda_context(0);
  const DeviceBuffer buffer = context->allocate(64, "a");
  {
    const PinnedBuffer out = context->allocate_pinned(64, "out");
    context->copy_to_host(out.data(), buffer.address(), 64);
  }
  CHECK(fake().count("cuMemFreeHost") == 1);
  CHECK(fake().count("bytes to host") == 64);
}

PROCESS_CASE("moved owners own once, and nothing is asked for no bytes") {
  const auto context = runtime::cuda_context(0);
  DeviceBuffer a = context->allocate(64, "a"), b = context->allocate(32, "b");
  const uint64_t address = a.address();
  b = std::move(a);
  CHECK(b.address() == address);
  CHECK(b.bytes() == 64);
  CHECK(context->memory_use().allocated_bytes == 64);
  b = DeviceBuffer();
  CHECK(context->memory_use().allocated_bytes == 0);
  PinnedBuffer p = context->allocate_pinned(64, "p"), q;
  q = std::move(p);
  CHECK(p.data() == nullptr);
  CHECK(q.data() != nullptr);
  CudaEvent event(context), other(context);
  other = std::move(event);
  other.record();
  fake().reset_counts();
  const DeviceBuffer none = context->allocate(0, "nothing");
  CHECK(none.address() == 0);
  none.download(nullptr, 0);
  context->copy_to_device(0, nullptr, 0);
  CHECK(context->allocate_pinned(0, "nothing").data() == nullptr);
  CHECK(fake().count("cuMemAllocFromPoolAsync") + fake().count("cuMemHostAlloc") == 0);
}

PROCESS_CASE("a copy beyond a buffer is refused before the driver sees it") {
  const auto context = runtime::cuda_context(0);
  DeviceBuffer buffer = context->allocate(64, "a");
  char bytes[64] = {};
  buffer.upload(bytes, 32, 32);
  check_parts(error_of<InternalError>([&] { buffer.upload(bytes, 33, 32); }),
              {"a copy of 33 bytes at 32 of a device buffer of 64"});
  check_parts(error_of<InternalError>([&] { buffer.download(bytes, 1, SIZE_MAX); }),
              {" of a device buffer of 64"});
}

PROCESS_CASE("a device without pools allocates with cuMemAlloc", "MEZZO_FAKE_POOLS=0") {
  const auto context = runtime::cuda_context(0);
  CHECK_FALSE(context->facts().memory_pools);
  {
    DeviceBuffer buffer = context->allocate(64, "a");
    const std::vector<float> values(16, 1);
    buffer.upload(values.data(), 64);
    CHECK(read(buffer) == values);
  }
  CHECK(fake().count("cuMemAlloc") == 1);
  CHECK(fake().count("cuMemFree") == 1);
  CHECK(fake().count("cuMemPoolCreate") == 0);
}

PROCESS_CASE("too little memory: what was asked, what there is, the largest tensors",
             "MEZZO_FAKE_MEMORY=1048576") {
  const auto context = runtime::cuda_context(0);
  std::vector<DeviceBuffer> kept;
  for (const auto& [kilobytes, what] : {std::pair{64, "parameter bias"},
                                        {256, "parameter weight"},
                                        {32, "input x"},
                                        {128, "activations of @step"},
                                        {1, "flag words of @step"},
                                        {2, "a constant of @step"},
                                        {3, "a result of @step"}})
    kept.push_back(context->allocate(static_cast<size_t>(kilobytes) << 10, what));
  CHECK(error_of<DeviceError>([&] { context->allocate(540 << 10, "workspace of @step"); }) ==
        "cuMemAllocFromPoolAsync failed: CUDA_ERROR_OUT_OF_MEMORY (2): 540.0 KiB for workspace of "
        "@step, and 538.0 KiB of 1.0 MiB are free on device 0 (Mezzo PTX interpreter sm_80)\n"
        "note: the largest of this program: 256.0 KiB for parameter weight; 128.0 KiB for "
        "activations of @step; 64.0 KiB for parameter bias; 32.0 KiB for input x; 3.0 KiB for a "
        "result of @step; and 2 more\n"
        "note: end other programs that use the device, or use a smaller batch, recomputation or a "
        "16-bit policy");
  // The device goes on.
  kept.erase(kept.begin());
  CHECK(context->allocate(540 << 10, "workspace of @step").bytes() == 540 << 10);
}

PROCESS_CASE("the driver refuses memory that seems to be free", "MEZZO_FAKE_OOM=2",
             "MEZZO_FAKE_MEMORY=1048576") {
  const auto context = runtime::cuda_context(0);
  const DeviceBuffer first = context->allocate(100, "parameter bias");
  CHECK(error_of<DeviceError>([&] { context->allocate(200, "parameter weight"); }) ==
        "cuMemAllocFromPoolAsync failed: CUDA_ERROR_OUT_OF_MEMORY (2): 200 bytes for parameter "
        "weight, and 1023.9 KiB of 1.0 MiB are free on device 0 (Mezzo PTX interpreter sm_80), but "
        "not in one piece\n"
        "note: the largest of this program: 100 bytes for parameter bias\n"
        "note: end other programs that use the device, or use a smaller batch, recomputation or a "
        "16-bit policy");
  // The pool was emptied and asked once more.
  CHECK(fake().count("cuMemPoolTrimTo") == 1);
  CHECK(fake().count("cuMemAllocFromPoolAsync") == 3);
}

PROCESS_CASE("too little memory for the first buffer, without pools", "MEZZO_FAKE_POOLS=0",
             "MEZZO_FAKE_MEMORY=65536") {
  CHECK(error_of<DeviceError>([] { runtime::cuda_context(0)->allocate(65537, "input x"); }) ==
        "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2): 64.0 KiB for input x, and 64.0 KiB of "
        "64.0 KiB are free on device 0 (Mezzo PTX interpreter sm_80)\n"
        "note: end other programs that use the device, or use a smaller batch, recomputation or a "
        "16-bit policy");
}

PROCESS_CASE("pinned memory that the host refuses", "MEZZO_FAKE_FAIL=cuMemHostAlloc=2") {
  CHECK(error_of<DeviceError>([] { runtime::cuda_context(0)->allocate_pinned(4096, "inputs"); }) ==
        "cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2): 4.0 KiB of pinned host memory for "
        "inputs were refused\n"
        "note: the host has too little memory that can be locked: end other programs, or raise the "
        "limits of the container");
}

PROCESS_CASE("a context that cannot be made leaves nothing behind",
             "MEZZO_FAKE_FAIL=cuMemPoolCreate=801") {
  for (int turn = 0; turn < 2; ++turn)
    CHECK(error_of<DeviceError>([] { runtime::cuda_context(0); }) ==
          "cuMemPoolCreate failed: CUDA_ERROR_NOT_SUPPORTED (801): this device or driver cannot do "
          "that");
  CHECK(fake().count("cuStreamDestroy") == 2);
  CHECK(fake().count("cuDevicePrimaryCtxRelease") == 2);
}

}  // namespace
}  // namespace mezzo::test
