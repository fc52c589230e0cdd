// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cuda_context.h>

#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_error.h>
#include <mezzo/runtime/cuda_memory.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace mezzo::runtime {

namespace {

// Names of work that a fault may be traced to; older work has mostly ended.
constexpr size_t kRememberedWork = 32;

bool launch_blocking() {
  const char* value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value && *value && std::strcmp(value, "0") != 0;
}

struct Registry {
  std::mutex mutex;
  std::map<int, std::shared_ptr<CudaContext>> contexts;
};

Registry& registry() {
  // Never freed: the driver takes contexts down itself when the process ends.
  static auto* result = new Registry;
  return *result;
}

}  // namespace

CudaContext::CudaContext(int ordinal)
    : driver_(cuda::driver()),
      facts_(cuda_device_facts(ordinal)),
      target_(cuda_target(facts_)),
      blocking_(launch_blocking()) {
  try {
    open();
  } catch (...) {
    close();
    throw;
  }
}

void CudaContext::open() {
  check_cuda(driver_.cuDeviceGet(&device_, facts_.ordinal), "cuDeviceGet");
  check_cuda(driver_.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  const Use use(*this);
  check(driver_.cuStreamCreate(&stream_, cuda::StreamNonBlocking), "cuStreamCreate");
  if (!facts_.memory_pools) return;
  cuda::PoolProperties properties;
  properties.location_id = device_;
  check(driver_.cuMemPoolCreate(&pool_, &properties), "cuMemPoolCreate");
  // Memory that was given back stays with the process: steps allocate the same again.
  uint64_t threshold = std::numeric_limits<uint64_t>::max();
  check(driver_.cuMemPoolSetAttribute(pool_, cuda::PoolReleaseThreshold, &threshold),
        "cuMemPoolSetAttribute");
}

CudaContext::~CudaContext() { close(); }

void CudaContext::close() noexcept {
  if (!context_) return;
  destroy([this] {
    if (stream_) {
      driver_.cuStreamSynchronize(stream_);
      driver_.cuStreamDestroy(stream_);
    }
    if (pool_) driver_.cuMemPoolDestroy(pool_);
  });
  driver_.cuDevicePrimaryCtxRelease(device_);
}

void CudaContext::destroy(ir::FunctionRef<void()> call) noexcept {
  if (driver_.cuCtxPushCurrent(context_) != cuda::Success) return;
  call();
  cuda::Context ours = nullptr;
  driver_.cuCtxPopCurrent(&ours);
}

std::string CudaContext::device_text() const {
  return fmt::format("device {} ({})", facts_.ordinal, facts_.name);
}

CudaContext::Use::Use(CudaContext& context, Kind kind) : context_(context), lock_(context.mutex_) {
  if (!context_.fault_.empty()) throw DeviceError(context_.fault_);
  if (kind == Kind::Waiting) lock_.unlock();
  context_.check(context_.driver_.cuCtxPushCurrent(context_.context_), "cuCtxPushCurrent");
}

CudaContext::Use::~Use() {
  cuda::Context ours = nullptr;
  context_.driver_.cuCtxPopCurrent(&ours);
}

std::string CudaContext::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void CudaContext::check(cuda::Result code, std::string_view call, std::string_view details) {
  if (code != cuda::Success) fail(code, call, details);
}

std::string CudaContext::suspects_text() const {
  if (unconfirmed_.empty()) return "work of another stream or program";
  if (unconfirmed_.size() == 1) return *unconfirmed_.front().work;
  std::string text = fmt::format("one of {}", unconfirmed_.size());
  for (const Launched& each : unconfirmed_)
    text += (&each == &unconfirmed_.front() ? ": " : ", ") + *each.work;
  return text;
}

void CudaContext::fail(cuda::Result code, std::string_view call, std::string_view details) {
  const std::lock_guard lock(mutex_);
  if (!is_sticky(code)) throw DeviceError(cuda_error_text(call, code, details));
  if (!fault_.empty()) throw DeviceError(fault_);
  std::string text = cuda_error_text(call, code);
  // The suspects stand with the sentence, before the note.
  text.insert(std::min(text.find("\nnote: "), text.size()),
              fmt::format("; on {}: {}", device_text(), suspects_text()));
  const bool several = unconfirmed_.size() > 1 ||
                       (!unconfirmed_.empty() && unconfirmed_.front().work->starts_with("graph "));
  if (several) text += "\nnote: CUDA_LAUNCH_BLOCKING=1 waits for every kernel and names the one";
  // Told whole to all that come later: the thread that met it first may belong to nobody.
  fault_ = fmt::format(
      "CUDA {} cannot be used any more by this process, since {}\nnote: start the program again",
      device_text(), text);
  throw DeviceError(text);
}

void CudaContext::launched(const CudaWorkName& work, std::shared_ptr<const void> kernel) {
  if (recording_) {
    recording_->work.push_back(work);
    recording_->kernels.push_back(std::move(kernel));
    return;
  }
  std::erase_if(unconfirmed_, [&](const Launched& each) { return each.work == work; });
  if (unconfirmed_.size() == kRememberedWork) unconfirmed_.erase(unconfirmed_.begin());
  unconfirmed_.push_back({work, ++launches_});
  if (blocking_) synchronize();
}

void CudaContext::synchronize() {
  // By an event: the stream itself may not be waited for while another thread records a graph.
  CudaEvent reached(shared_from_this());
  uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    MEZZO_CHECK(!recording_, "the stream is waited for while a graph is recorded");
    reached.record();
    last = launches_;
  }
  reached.wait();
  const std::lock_guard lock(mutex_);
  std::erase_if(unconfirmed_, [&](const Launched& each) { return each.number <= last; });
}

void CudaContext::copy_to_device(cuda::DevicePointer to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const Use use(*this);
  check(driver_.cuMemcpyHtoDAsync(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
}

void CudaContext::copy_to_host(void* to, cuda::DevicePointer from, size_t bytes) {
  if (bytes == 0) return;
  const Use use(*this);
  check(driver_.cuMemcpyDtoHAsync(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
}

void CudaContext::copy_on_device(cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes) {
  if (bytes == 0) return;
  const Use use(*this);
  check(driver_.cuMemcpyDtoDAsync(to, from, bytes, stream_), "cuMemcpyDtoDAsync");
}

void CudaContext::fill(cuda::DevicePointer to, uint8_t value, size_t bytes) {
  if (bytes == 0) return;
  const Use use(*this);
  check(driver_.cuMemsetD8Async(to, value, bytes, stream_), "cuMemsetD8Async");
}

std::shared_ptr<CudaContext> cuda_context(int ordinal) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<CudaContext>& context = all.contexts[ordinal];
  if (!context) {
    auto made = std::make_shared<CudaContext>(ordinal);
    codegen::limit_nvrtc_major(made->facts().driver_version / 1000);
    context = std::move(made);
  }
  return context;
}

void release_cuda_context(int ordinal) {
  Registry& all = registry();
  std::shared_ptr<CudaContext> last;  // closed outside the lock
  const std::lock_guard lock(all.mutex);
  const auto found = all.contexts.find(ordinal);
  if (found == all.contexts.end()) return;
  last = std::move(found->second);
  all.contexts.erase(found);
}

}  // namespace mezzo::runtime
