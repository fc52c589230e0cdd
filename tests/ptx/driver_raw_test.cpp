// SPDX-License-Identifier: Apache-2.0
// The fake driver by its own interface: contexts, memory, lazy streams, events.
#include <csignal>
#include <cstring>
#include <ptx/driver_support.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace mezzo::test {
namespace {

using namespace runtime::cuda;

/// Whether a process that reads at a device's address lives on.
bool host_can_read(DevicePointer address) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would tell at length
    const char byte = *reinterpret_cast<const volatile char*>(address);
    _exit(byte == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE((WIFEXITED(status) || WTERMSIG(status) == SIGSEGV));
  return WIFEXITED(status);
}

PROCESS_CASE("nothing works before cuInit, and little without a context") {
  int count = 0;
  CHECK(fake().cuDeviceGetCount(&count) == NotInitialized);
  CHECK(fake().cuInit(1) == InvalidValue);
  CHECK(fake().cuInit(0) == Success);
  CHECK(fake().cuDeviceGetCount(&count) == Success);
  CHECK(count == 1);
  Device device = -1;
  CHECK(fake().cuDeviceGet(&device, 1) == InvalidDevice);
  CHECK(fake().cuDeviceGet(&device, 0) == Success);
  DevicePointer address = 0;
  CHECK(fake().cuMemAlloc_v2(&address, 64) == InvalidContext);
  Stream stream = nullptr;
  CHECK(fake().cuStreamCreate(&stream, 0) == InvalidContext);
  Context context = nullptr;
  CHECK(fake().cuCtxPopCurrent_v2(&context) == InvalidContext);
  CHECK(fake().cuCtxPushCurrent_v2(reinterpret_cast<Context>(&device)) == InvalidContext);
}

PROCESS_CASE("a primary context is one for all, and what was made in it goes with its last owner") {
  CHECK(fake().cuInit(0) == Success);
  Context first = nullptr, second = nullptr;
  CHECK(fake().cuDevicePrimaryCtxRetain(&first, 0) == Success);
  CHECK(fake().cuDevicePrimaryCtxRetain(&second, 0) == Success);
  CHECK(first == second);
  CHECK(fake().cuCtxSetCurrent(first) == Success);
  Stream stream = nullptr;
  CHECK(fake().cuStreamCreate(&stream, StreamNonBlocking) == Success);
  CHECK(fake().cuDevicePrimaryCtxRelease_v2(0) == Success);
  CHECK(fake().cuStreamSynchronize(stream) == Success);
  CHECK(fake().cuDevicePrimaryCtxRelease_v2(0) == Success);
  CHECK(fake().cuStreamSynchronize(stream) == InvalidContext);
  CHECK(fake().cuDevicePrimaryCtxRelease_v2(0) == InvalidContext);
  CHECK(fake().cuDevicePrimaryCtxRetain(&first, 0) == Success);
  CHECK(fake().cuCtxSetCurrent(first) == Success);
  CHECK(fake().cuStreamSynchronize(stream) == InvalidHandle);
}

PROCESS_CASE("functions are found by name and version, as a driver's are") {
  void* found = nullptr;
  int status = -1;
  CHECK(fake().cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, &status) == Success);
  CHECK(found == reinterpret_cast<void*>(fake().cuMemAlloc_v2));
  CHECK(status == 0);
  CHECK(fake().cuGetProcAddress_v2("cuGetProcAddress", &found, 12000, 0, &status) == Success);
  CHECK(found == reinterpret_cast<void*>(fake().cuGetProcAddress_v2));
  CHECK(fake().cuGetProcAddress_v2("cuMemAlloc_v2", &found, 12000, 0, &status) == NotFound);
  CHECK(found == nullptr);
  CHECK(status == 1);
  CHECK(fake().cuGetProcAddress_v2("cuMemAlloc", &found, 3000, 0, &status) == NotFound);
  CHECK(status == 2);
  const void* table = &status;
  const Uuid id = {};
  CHECK(fake().cuGetExportTable(&table, &id) != Success);
  CHECK(table == nullptr);
  const char* text = nullptr;
  CHECK(fake().cuGetErrorName(IllegalAddress, &text) == Success);
  CHECK(std::string(text) == "CUDA_ERROR_ILLEGAL_ADDRESS");
  CHECK(fake().cuGetErrorString(NoDevice, &text) == Success);
  CHECK(std::string(text) == "no CUDA-capable device is detected");
  CHECK(fake().cuGetErrorName(static_cast<Result>(12345), &text) == InvalidValue);
}

PROCESS_CASE("device memory is poisoned, checked and out of the host's reach",
             "MEZZO_FAKE_MEMORY=1000000") {
  const FakeContext context;
  const DevicePointer a = context.allocate(1000);
  CHECK(a % 512 == 0);
  CHECK_FALSE(host_can_read(a));
  unsigned char bytes[1000] = {};
  CHECK(fake().cuMemcpyDtoH_v2(bytes, a, sizeof bytes) == Success);
  for (const unsigned char byte : bytes) REQUIRE(byte == 0xCD);
  CHECK(fake().cuMemcpyDtoH_v2(bytes, a + 1, sizeof bytes) == InvalidValue);
  CHECK(fake().cuMemcpyHtoD_v2(a - 1, bytes, 8) == InvalidValue);
  size_t free = 0, total = 0;
  CHECK(fake().cuMemGetInfo_v2(&free, &total) == Success);
  CHECK(total == 1000000);
  CHECK(free == 999000);
  DevicePointer b = 0;
  CHECK(fake().cuMemAlloc_v2(&b, 999001) == OutOfMemory);
  CHECK(fake().cuMemAlloc_v2(&b, 0) == InvalidValue);
  CHECK(fake().cuMemFree_v2(a + 8) == InvalidValue);
  CHECK(fake().cuMemFree_v2(a) == Success);
  CHECK(fake().cuMemFree_v2(a) == InvalidValue);
  CHECK(fake().cuMemAlloc_v2(&b, 999001) == Success);
}

PROCESS_CASE("the n-th allocation fails on request, and so does asking again for the same",
             "MEZZO_FAKE_OOM=2") {
  const FakeContext context;
  DevicePointer address = 0;
  CHECK(fake().cuMemAlloc_v2(&address, 64) == Success);
  CHECK(fake().cuMemAlloc_v2(&address, 64) == OutOfMemory);
  CHECK(fake().cuMemAlloc_v2(&address, 64) == OutOfMemory);
  CHECK(fake().cuMemAlloc_v2(&address, 32) == Success);
  CHECK(fake().cuMemAlloc_v2(&address, 64) == Success);
}

PROCESS_CASE("a pool's memory is freed where the stream comes to it") {
  const FakeContext context;
  const Stream stream = context.stream();
  PoolProperties properties;
  Pool pool = nullptr;
  CHECK(fake().cuMemPoolCreate(&pool, &properties) == Success);
  uint64_t threshold = ~uint64_t{0}, value = 0;
  CHECK(fake().cuMemPoolSetAttribute(pool, PoolReleaseThreshold, &threshold) == Success);
  CHECK(fake().cuMemPoolGetAttribute(pool, PoolReleaseThreshold, &value) == Success);
  CHECK(value == threshold);
  DevicePointer a = 0;
  CHECK(fake().cuMemAllocFromPoolAsync(&a, 400, pool, stream) == Success);
  CHECK(fake().cuMemPoolGetAttribute(pool, PoolUsedBytes, &value) == Success);
  CHECK(value == 400);
  std::vector<float> numbers(100, 3), back(100);
  CHECK(fake().cuMemcpyHtoDAsync_v2(a, numbers.data(), 400, stream) == Success);
  CHECK(fake().cuMemcpyDtoHAsync_v2(back.data(), a, 400, stream) == Success);
  CHECK(fake().cuMemFreeAsync(a, stream) == Success);
  CHECK(fake().cuMemPoolGetAttribute(pool, PoolUsedBytes, &value) == Success);
  CHECK(value == 400);
  CHECK(fake().cuStreamSynchronize(stream) == Success);
  CHECK(back == numbers);
  CHECK(fake().cuMemPoolGetAttribute(pool, PoolUsedBytes, &value) == Success);
  CHECK(value == 0);
  CHECK(fake().cuMemcpyDtoHAsync_v2(back.data(), a, 400, stream) == InvalidValue);
}

PROCESS_CASE("using memory behind its freeing in the stream is a fault") {
  const FakeContext context;
  const Stream stream = context.stream();
  PoolProperties properties;
  Pool pool = nullptr;
  DevicePointer a = 0;
  CHECK(fake().cuMemPoolCreate(&pool, &properties) == Success);
  CHECK(fake().cuMemAllocFromPoolAsync(&a, 400, pool, stream) == Success);
  CHECK(fake().cuMemFreeAsync(a, stream) == Success);
  std::vector<float> back(100);
  CHECK(fake().cuMemcpyDtoHAsync_v2(back.data(), a, 400, stream) == Success);
  CHECK(fake().cuStreamSynchronize(stream) == IllegalAddress);
  check_parts(fake().last_fault(), {"cuMemcpyDtoH of 400 bytes", "no live allocation holds them"});
  CHECK(fake().cuStreamSynchronize(stream) == IllegalAddress);
}

PROCESS_CASE("a device without pools has none", "MEZZO_FAKE_POOLS=0") {
  const FakeContext context;
  int value = -1;
  CHECK(fake().cuDeviceGetAttribute(&value, MemoryPoolsSupported, 0) == Success);
  CHECK(value == 0);
  PoolProperties properties;
  Pool pool = nullptr;
  CHECK(fake().cuMemPoolCreate(&pool, &properties) == NotSupported);
}

PROCESS_CASE("nothing runs before somebody waits for it") {
  const FakeContext context;
  const Stream stream = context.stream();
  const DevicePointer a = context.allocate(400);
  std::vector<float> numbers(100, 1), back(100, 0);
  CHECK(fake().cuMemcpyHtoDAsync_v2(a, numbers.data(), 400, stream) == Success);
  CHECK(fake().cuMemcpyDtoHAsync_v2(back.data(), a, 400, stream) == Success);
  CHECK(back == std::vector<float>(100, 0));
  numbers.assign(100, 2);  // what is copied is what stands there when the copy runs
  CHECK(fake().cuStreamSynchronize(stream) == Success);
  CHECK(back == std::vector<float>(100, 2));
}

PROCESS_CASE("a loop of queries comes to an end") {
  const FakeContext context;
  const Stream stream = context.stream();
  const Event event = context.event();
  const DevicePointer a = context.allocate(400);
  CHECK(fake().cuMemsetD32Async(a, 5, 100, stream) == Success);
  CHECK(fake().cuMemsetD8Async(a, 6, 4, stream) == Success);
  CHECK(fake().cuEventRecord(event, stream) == Success);
  int turns = 0;
  while (fake().cuEventQuery(event) == NotReady) ++turns;
  CHECK(turns == 2);
  CHECK(fake().cuStreamQuery(stream) == Success);
  CHECK(fake().cuEventQuery(event) == Success);
}

/// A producer on one stream and a consumer on another, with or without a wait between them.
std::vector<float> across_streams(bool with_wait) {
  const FakeContext context;
  const Stream producer = context.stream(), consumer = context.stream();
  const Event event = context.event();
  const Function add = context.kernel(kKernels, "add");
  const DevicePointer a = context.upload(std::vector<float>(100, 1));
  const DevicePointer sum = context.upload(std::vector<float>(100, 0));
  const DevicePointer out = context.allocate(400);
  CHECK(launch_add(add, a, a, sum, 100, producer) == Success);
  CHECK(fake().cuEventRecord(event, producer) == Success);
  if (with_wait) CHECK(fake().cuStreamWaitEvent(consumer, event, 0) == Success);
  CHECK(launch_add(add, sum, a, out, 100, consumer) == Success);
  CHECK(fake().cuStreamSynchronize(consumer) == Success);
  return context.download(out, 100);
}

PROCESS_CASE("a wait that was forgotten between two streams gives a wrong result") {
  CHECK(across_streams(true) == std::vector<float>(100, 3));
  CHECK(across_streams(false) == std::vector<float>(100, 1));
}

PROCESS_CASE("a wait is for what the event marked when the wait was put on the stream") {
  const FakeContext context;
  const Stream first = context.stream(), second = context.stream();
  const Event event = context.event();
  const DevicePointer a = context.allocate(4);
  unsigned char seen = 0;
  CHECK(fake().cuMemsetD8Async(a, 1, 4, first) == Success);
  CHECK(fake().cuEventRecord(event, first) == Success);
  CHECK(fake().cuStreamWaitEvent(second, event, 0) == Success);
  CHECK(fake().cuMemsetD8Async(a, 2, 4, first) == Success);
  CHECK(fake().cuEventRecord(event, first) == Success);
  CHECK(fake().cuMemcpyDtoHAsync_v2(&seen, a, 1, second) == Success);
  CHECK(fake().cuStreamSynchronize(second) == Success);
  CHECK(seen == 1);
  CHECK(fake().cuEventSynchronize(event) == Success);
  CHECK(fake().cuMemcpyDtoH_v2(&seen, a, 1) == Success);
  CHECK(seen == 2);
}

PROCESS_CASE("the legacy stream and blocking streams wait for each other, others do not") {
  const FakeContext context;
  const Stream blocking = context.stream(0), free = context.stream();
  const DevicePointer a = context.allocate(4);
  unsigned char seen = 0;
  CHECK(fake().cuMemsetD8Async(a, 1, 4, blocking) == Success);
  CHECK(fake().cuMemcpyDtoH_v2(&seen, a, 1) == Success);
  CHECK(seen == 1);
  CHECK(fake().cuMemsetD8Async(a, 2, 4, free) == Success);
  CHECK(fake().cuMemcpyDtoH_v2(&seen, a, 1) == Success);
  CHECK(seen == 1);
  CHECK(fake().cuCtxSynchronize() == Success);
  CHECK(fake().cuMemcpyDtoH_v2(&seen, a, 1) == Success);
  CHECK(seen == 2);
}

PROCESS_CASE("events tell the time between them") {
  const FakeContext context;
  const Stream stream = context.stream();
  const Event start = context.event(), end = context.event();
  float milliseconds = -1;
  CHECK(fake().cuEventRecord(start, stream) == Success);
  CHECK(fake().cuEventRecord(end, stream) == Success);
  CHECK(fake().cuEventElapsedTime(&milliseconds, start, end) == NotReady);
  CHECK(fake().cuEventSynchronize(end) == Success);
  CHECK(fake().cuEventElapsedTime(&milliseconds, start, end) == Success);
  CHECK(milliseconds >= 0);
  CHECK(fake().cuEventDestroy_v2(end) == Success);
  CHECK(fake().cuEventDestroy_v2(end) == InvalidHandle);
}

PROCESS_CASE("the counters tell calls, waits and bytes") {
  const FakeContext context;
  const Stream stream = context.stream();
  const DevicePointer a = context.allocate(64);
  void* pinned = nullptr;
  CHECK(fake().cuMemHostAlloc(&pinned, 64, 0) == Success);
  std::memset(pinned, 1, 64);
  unsigned char pageable[64] = {};
  fake().reset_counts();
  CHECK(fake().cuMemcpyHtoDAsync_v2(a, pinned, 64, stream) == Success);
  CHECK(fake().count("synchronising calls") == 0);
  // What is not pinned may make the host wait.
  CHECK(fake().cuMemcpyDtoHAsync_v2(pageable, a, 32, stream) == Success);
  CHECK(fake().count("synchronising calls") == 1);
  CHECK(fake().cuStreamSynchronize(stream) == Success);
  CHECK(fake().count("synchronising calls") == 2);
  CHECK(fake().count("bytes to device") == 64);
  CHECK(fake().count("bytes to host") == 32);
  CHECK(fake().count("cuMemcpyHtoDAsync") == 1);
  CHECK(fake().count("cuMemFree") == 0);
  CHECK(fake().cuMemFreeHost(pinned) == Success);
  CHECK(fake().cuMemFreeHost(pinned) == InvalidValue);
}

}  // namespace
}  // namespace mezzo::test
