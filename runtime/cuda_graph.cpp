// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cuda_graph.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mezzo::runtime {

namespace {

/// `graph 'step' of kernel 'a', kernel 'b' and 7 more`.
std::string work_text(const std::string& name, const std::vector<CudaWorkName>& kernels) {
  constexpr size_t kNamed = 8;
  std::vector<CudaWorkName> named;
  for (const CudaWorkName& kernel : kernels)
    if (std::find(named.begin(), named.end(), kernel) == named.end()) named.push_back(kernel);
  std::string text = fmt::format("graph '{}'", name);
  for (size_t i = 0; i < std::min(named.size(), kNamed); ++i)
    text += (i == 0 ? " of " : ", ") + *named[i];
  if (named.size() > kNamed) text += fmt::format(" and {} more", named.size() - kNamed);
  return text;
}

}  // namespace

CudaGraph::CudaGraph(std::shared_ptr<CudaContext> context, const std::string& name,
                     ir::FunctionRef<void()> work)
    : context_(std::move(context)) {
  CudaContext& device = *context_;
  const cuda::Driver& driver = device.driver();
  const CudaContext::Use use(device);
  MEZZO_CHECK(!device.recording_, "graph '" + name + "' is recorded while another one is");
  CudaContext::Recording recording;
  device.check(driver.cuStreamBeginCapture(device.stream(), cuda::CaptureThreadLocal),
               "cuStreamBeginCapture");
  device.recording_ = &recording;
  cuda::Graph graph = nullptr;
  const auto end = [&] {
    device.recording_ = nullptr;
    const cuda::Result code = driver.cuStreamEndCapture(device.stream(), &graph);
    for (const cuda::DevicePointer address : std::exchange(device.released_while_recording_, {}))
      device.release_now(address);
    for (void* memory : std::exchange(device.pinned_released_while_recording_, {}))
      device.release_pinned_now(memory);
    return code;
  };
  try {
    work();
  } catch (...) {
    end();
    if (graph) driver.cuGraphDestroy(graph);
    throw;
  }
  device.check(end(), "cuStreamEndCapture");
  cuda::Result code = driver.cuGraphGetNodes(graph, nullptr, &nodes_);
  const char* call = "cuGraphGetNodes";
  if (code == cuda::Success) {
    call = "cuGraphInstantiateWithFlags";
    code = driver.cuGraphInstantiateWithFlags(&exec_, graph, 0);
  }
  driver.cuGraphDestroy(graph);
  device.check(code, call);
  name_ = std::make_shared<const std::string>(work_text(name, recording.work));
  kernels_ = std::move(recording.kernels);
}

CudaGraph::CudaGraph(CudaGraph&& other) noexcept
    : context_(std::move(other.context_)),
      exec_(std::exchange(other.exec_, nullptr)),
      nodes_(std::exchange(other.nodes_, 0)),
      name_(std::move(other.name_)),
      kernels_(std::move(other.kernels_)) {}

CudaGraph& CudaGraph::operator=(CudaGraph&& other) noexcept {
  if (this == &other) return *this;
  release();
  context_ = std::move(other.context_);
  exec_ = std::exchange(other.exec_, nullptr);
  nodes_ = std::exchange(other.nodes_, 0);
  name_ = std::move(other.name_);
  kernels_ = std::move(other.kernels_);
  return *this;
}

void CudaGraph::release() noexcept {
  // A graph that still runs is freed by the driver when it has ended; its kernels are unloaded
  // here, which waits.
  if (exec_) context_->destroy([this] { context_->driver().cuGraphExecDestroy(exec_); });
  exec_ = nullptr;
  kernels_.clear();
  context_.reset();
}

void CudaGraph::launch() const {
  const CudaContext::Use use(*context_);
  context_->check(context_->driver().cuGraphLaunch(exec_, context_->stream()), "cuGraphLaunch");
  context_->launched(name_);
}

}  // namespace mezzo::runtime
