// SPDX-License-Identifier: Apache-2.0
// Graphs of the fake driver: recorded from streams, made node by node, wrong ones.
#include <ptx/driver_support.h>

#include <cstring>
#include <string>
#include <thread>

namespace mezzo::test {
namespace {

using namespace runtime::cuda;

GraphExec instantiate(Graph graph) {
  GraphExec exec = nullptr;
  CHECK(fake().cuGraphInstantiateWithFlags(&exec, graph, 0) == Success);
  CHECK(fake().cuGraphDestroy(graph) == Success);
  return exec;
}

PROCESS_CASE("a recorded graph runs when it is launched, as often as that") {
  const FakeContext context;
  const Stream stream = context.stream();
  const Function add = context.kernel(kKernels, "add");
  const DevicePointer a = context.upload(std::vector<float>(100, 1));
  const DevicePointer sum = context.upload(std::vector<float>(100, 0));
  CHECK(fake().cuStreamBeginCapture_v2(stream, CaptureThreadLocal) == Success);
  CHECK(launch_add(add, sum, a, sum, 100, stream) == Success);
  CHECK(launch_add(add, sum, a, sum, 100, stream) == Success);
  Graph graph = nullptr;
  CHECK(fake().cuStreamEndCapture(stream, &graph) == Success);
  size_t nodes = 0;
  CHECK(fake().cuGraphGetNodes(graph, nullptr, &nodes) == Success);
  CHECK(nodes == 2);
  const GraphExec exec = instantiate(graph);
  CHECK(context.download(sum, 100) == std::vector<float>(100, 0));
  fake().reset_counts();
  for (int i = 0; i < 3; ++i) CHECK(fake().cuGraphLaunch(exec, stream) == Success);
  CHECK(fake().count("kernel runs") == 0);
  CHECK(fake().count("synchronising calls since graph launch") == 0);
  CHECK(fake().cuStreamSynchronize(stream) == Success);
  CHECK(fake().count("synchronising calls since graph launch") == 1);
  CHECK(fake().count("graph launches") == 3);
  CHECK(fake().count("kernel runs") == 6);
  CHECK(fake().count("cuLaunchKernel") == 0);
  CHECK(context.download(sum, 100) == std::vector<float>(100, 6));
  CHECK(fake().cuGraphLaunch(exec, stream) == Success);
  CHECK(fake().cuGraphExecDestroy(exec) == Success);  // what was launched still runs
  CHECK(fake().cuStreamSynchronize(stream) == Success);
  CHECK(context.download(sum, 100) == std::vector<float>(100, 8));
}

/// A recording over two streams that compute `out = (a + a) + a`, with or without the wait that
/// brings the second one's kernel behind the first one's.
std::vector<float> forked(bool with_wait) {
  const FakeContext context;
  const Stream first = context.stream(), second = context.stream();
  const Event fork = context.event(), produced = context.event(), join = context.event();
  const Function add = context.kernel(kKernels, "add");
  const DevicePointer a = context.upload(std::vector<float>(100, 1));
  const DevicePointer sum = context.upload(std::vector<float>(100, 0));
  const DevicePointer out = context.allocate(400);
  CHECK(fake().cuStreamBeginCapture_v2(first, CaptureThreadLocal) == Success);
  CHECK(fake().cuEventRecord(fork, first) == Success);
  CHECK(fake().cuStreamWaitEvent(second, fork, 0) == Success);
  CHECK(launch_add(add, a, a, sum, 100, first) == Success);
  CHECK(fake().cuEventRecord(produced, first) == Success);
  if (with_wait) CHECK(fake().cuStreamWaitEvent(second, produced, 0) == Success);
  CHECK(launch_add(add, sum, a, out, 100, second) == Success);
  CHECK(fake().cuEventRecord(join, second) == Success);
  CHECK(fake().cuStreamWaitEvent(first, join, 0) == Success);
  Graph graph = nullptr;
  CHECK(fake().cuStreamEndCapture(first, &graph) == Success);
  const GraphExec exec = instantiate(graph);
  CHECK(fake().cuGraphLaunch(exec, first) == Success);
  CHECK(fake().cuStreamSynchronize(first) == Success);
  return context.download(out, 100);
}

PROCESS_CASE("a dependence that was forgotten in a recording gives a wrong result") {
  CHECK(forked(true) == std::vector<float>(100, 3));
  CHECK(forked(false) == std::vector<float>(100, 1));
}

PROCESS_CASE("a recording that is left open or broken makes no graph") {
  const FakeContext context;
  const Stream first = context.stream(), second = context.stream();
  const Event event = context.event();
  const DevicePointer a = context.allocate(64);
  Graph graph = nullptr;
  CHECK(fake().cuStreamEndCapture(first, &graph) == IllegalState);
  CHECK(fake().cuStreamBeginCapture_v2(nullptr, CaptureGlobal) == StreamCaptureUnsupported);

  // The second stream does work that the first one does not wait for.
  CHECK(fake().cuStreamBeginCapture_v2(first, CaptureThreadLocal) == Success);
  CHECK(fake().cuStreamBeginCapture_v2(first, CaptureThreadLocal) == IllegalState);
  CHECK(fake().cuEventRecord(event, first) == Success);
  CHECK(fake().cuStreamWaitEvent(second, event, 0) == Success);
  CHECK(fake().cuMemsetD8Async(a, 1, 64, second) == Success);
  CHECK(fake().cuStreamEndCapture(second, &graph) == StreamCaptureUnmatched);
  CHECK(fake().cuStreamEndCapture(first, &graph) == StreamCaptureUnjoined);
  CHECK(graph == nullptr);
  CHECK(fake().cuStreamSynchronize(second) == Success);  // it has left the recording

  // Waiting for a stream that records.
  CHECK(fake().cuStreamBeginCapture_v2(first, CaptureThreadLocal) == Success);
  CHECK(fake().cuStreamSynchronize(first) == StreamCaptureUnsupported);
  CHECK(fake().cuMemsetD8Async(a, 1, 64, first) == StreamCaptureInvalidated);
  CHECK(fake().cuStreamEndCapture(first, &graph) == StreamCaptureInvalidated);

  // A call that is no work of a stream: refused to the thread that records, not to others.
  CHECK(fake().cuStreamBeginCapture_v2(first, CaptureThreadLocal) == Success);
  std::thread([&] {
    const FakeContext other;
    DevicePointer b = 0;
    CHECK(fake().cuMemAlloc_v2(&b, 64) == Success);
  }).join();
  CHECK(fake().cuMemsetD8Async(a, 1, 64, first) == Success);
  DevicePointer b = 0;
  CHECK(fake().cuMemAlloc_v2(&b, 64) == StreamCaptureUnsupported);
  CHECK(fake().cuStreamEndCapture(first, &graph) == StreamCaptureInvalidated);

  // An event from before the recording.
  CHECK(fake().cuEventRecord(event, second) == Success);
  CHECK(fake().cuStreamBeginCapture_v2(first, CaptureThreadLocal) == Success);
  CHECK(fake().cuStreamWaitEvent(first, event, 0) == StreamCaptureInvalidated);
  CHECK(fake().cuStreamEndCapture(first, &graph) == StreamCaptureInvalidated);
}

/// Node by node: fill `a` with 1.0, then `sum = a + a`, copied to the host.
PROCESS_CASE("a graph made node by node runs in the order of its edges") {
  const FakeContext context;
  const Stream stream = context.stream();
  const Function add = context.kernel(kKernels, "add");
  DevicePointer a = context.allocate(400), sum = context.allocate(400);
  uint32_t count = 100;
  std::vector<float> out(100, 0);
  Graph graph = nullptr;
  GraphNode filled = nullptr, added = nullptr, copied = nullptr, end = nullptr;
  CHECK(fake().cuGraphCreate(&graph, 0) == Success);
  const float one = 1;
  MemsetNodeParameters fill{a, 0, 0, 4, 100, 1};
  std::memcpy(&fill.value, &one, sizeof one);
  CHECK(fake().cuGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill, nullptr) == Success);
  void* values[] = {&a, &a, &sum, &count};
  KernelNodeParameters kernel = {};
  kernel.function = add;
  kernel.grid[0] = kernel.grid[1] = kernel.grid[2] = 1;
  kernel.block[0] = 128;
  kernel.block[1] = kernel.block[2] = 1;
  kernel.parameters = values;
  CHECK(fake().cuGraphAddKernelNode_v2(&added, graph, &filled, 1, &kernel) == Success);
  MemcpyNodeParameters copy = {};
  copy.from.type = MemoryDevice;
  copy.from.device = sum;
  copy.to.type = MemoryHost;
  copy.to.host = out.data();
  copy.width_bytes = 400;
  copy.height = copy.depth = 1;
  CHECK(fake().cuGraphAddMemcpyNode(&copied, graph, &added, 1, &copy, nullptr) == Success);
  copy.height = 2;
  CHECK(fake().cuGraphAddMemcpyNode(&end, graph, &added, 1, &copy, nullptr) == NotSupported);
  const GraphNode unknown = reinterpret_cast<GraphNode>(&count);
  CHECK(fake().cuGraphAddEmptyNode(&end, graph, &unknown, 1) == InvalidValue);
  CHECK(fake().cuGraphAddEmptyNode(&end, graph, &copied, 1) == Success);
  size_t nodes = 0;
  CHECK(fake().cuGraphGetNodes(graph, nullptr, &nodes) == Success);
  CHECK(nodes == 4);
  const GraphExec exec = instantiate(graph);
  count = 0;  // parameters were copied
  CHECK(fake().cuGraphLaunch(exec, stream) == Success);
  CHECK(fake().cuStreamSynchronize(stream) == Success);
  CHECK(out == std::vector<float>(100, 2));
}

}  // namespace
}  // namespace mezzo::test
